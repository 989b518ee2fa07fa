"""The requests of a pay-roll keep a pace, and are held back and slower after an answer 429."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from mmo_merchant.clients.async_client import AsyncMerchantClient
from mmo_merchant.payroll.journal import open_journal
from mmo_merchant.payroll.payment_run import HOLD_MAX_S, SLOWER, Pace, PayrollClient
from mmo_sansio.http.messages import HttpRequest, HttpResponse


def test_requests_have_an_interval_and_none_is_saved_up() -> None:
    pace = Pace(0.5)
    assert [pace.take_turn(10.0), pace.take_turn(10.0), pace.take_turn(10.1)] == pytest.approx(
        [0.0, 0.5, 0.9]
    )
    assert [pace.take_turn(20.0), pace.take_turn(20.0)] == pytest.approx([0.0, 0.5])


@pytest.mark.spec("P4")
def test_a_429_holds_all_requests_and_slows_them_down() -> None:
    pace = Pace(0.5)
    for retry_after_s in (3.0, 2.0):
        pace.hold(10.0, retry_after_s)
    assert pace.interval_s == pytest.approx(0.5 * SLOWER**2)
    assert [pace.take_turn(11.0), pace.take_turn(11.0)] == pytest.approx(
        [2.0, 2.0 + pace.interval_s]
    )
    pace.hold(20.0, 3_600.0)
    assert pace.take_turn(20.0) == HOLD_MAX_S


@pytest.mark.spec("P4")
@pytest.mark.parametrize(("retry_after", "held_s"), [(b"3", 3.0), (b"soon", 1.0)])
async def test_the_request_after_an_answer_429_waits_as_long_as_it_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    retry_after: bytes,
    held_s: float,
) -> None:
    pauses: list[float] = []

    async def answer(*_: object) -> HttpResponse:
        return HttpResponse(429, ((b"retry-after", retry_after),))

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(AsyncMerchantClient, "send", answer)
    with open_journal(tmp_path / "journal", "https://gateway.example", ()) as journal:
        client = PayrollClient(
            "https://gateway.example", "key", journal=journal, pace=Pace(0.0), sleep=sleep
        )
        for _ in range(2):
            await client.send(HttpRequest("GET", b"/gateway/mmo/v2/records"))
    assert pauses == [0.0, held_s]
