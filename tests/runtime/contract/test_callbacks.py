"""Calling the merchant back: once, in time, where it may, and whoever else is slow (clauses K1 to
K7)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.hostile_receivers import (
    Behaviour,
    ReceiverConnection,
    answers,
    resets_after_the_request,
)
from tests.support.merchants import ACME, ACME_KEY, ZENITH, ZENITH_KEY, developer
from tests.support.receivers import (
    NO_CONTENT,
    answers_status,
    calls_to,
    receiver,
    url_of,
    wait_for_requests,
)
from tests.support.sandbox_gateway import Running, Serve
from tests.support.storages import Storage, storages

SOON = {"MMO_LIMITS_CALLBACK_TIMEOUT": "1s"}


async def _outcome(sandbox: Running, url: str, **changes: Any) -> dict[str, Any]:
    """The record of one payment's callback to this URL."""
    accepted = await sandbox.merchant.accepted(resultUrl=url, **changes)
    await sandbox.advance("200ms")  # What the sandbox takes for a payment.
    return await sandbox.outcome_of(accepted["gatewayReference"])


async def _outcomes(sandbox: Running, url: str, count: int) -> list[str]:
    """The recorded outcomes of that many payments, one after the other."""
    return [(await _outcome(sandbox, url))["outcome"] for _ in range(count)]


async def _logged_body(storage: Storage, reference: str) -> bytes:
    """What the delivery record has of the answer's body."""
    async with storage.open_for_admin() as store:
        (recorded,) = await store.admin.callbacks(gateway_reference=reference)
        return recorded.attempt.body


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Does this with the first connection, that with the second, the last with all others."""
    visits = 0

    async def behave(visit: ReceiverConnection) -> None:
        nonlocal visits
        visits += 1
        await behaviours[min(visits, len(behaviours)) - 1](visit)

    return behave


def answers_after(event: trio.Event) -> Behaviour:
    """Takes the request, and answers once the event is set."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await event.wait()
        await visit.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    return behave


# K1


@pytest.mark.spec("K1", "A4")
@pytest.mark.parametrize("scenario", ["success", "cancelled"])
async def test_a_result_is_posted_as_json_with_the_brands_key(
    sandbox: Running, tmp_path: Path, scenario: str
) -> None:
    async with receiver(tmp_path) as found:
        url = url_of(found) + "?order=a%2Fb"
        accepted = await sandbox.merchant.accepted(resultUrl=url, scenario=scenario)
        await wait_for_requests(found)
        (call,) = calls_to(found)
        assert call.line == "POST /callback?order=a%2Fb HTTP/1.1"
        assert call.headers["content-type"] == "application/json"
        assert call.headers["x-api-key"] == sandbox.merchant.key
        assert call.headers["host"] == f"localhost:{found.port}"
        assert call.transaction["gatewayReference"] == accepted["gatewayReference"]
        assert call.transaction["status"] == ("success" if scenario == "success" else "failed")


@pytest.mark.spec("K1")
async def test_there_is_no_callback_while_pending(sandbox: Running) -> None:
    for operation in ("direct/payin", "web/payin"):
        await sandbox.merchant.accepted(operation, scenario="never")
    await sandbox.advance("10m")
    done = await sandbox.merchant.accepted()
    await sandbox.callback_for(done["gatewayReference"])
    assert [each.gateway_reference for each in sandbox.received] == [done["gatewayReference"]]


@pytest.mark.spec("K1", "S1", "T4")
async def test_a_look_up_from_inside_the_callback_sees_the_terminal_state(
    sandbox: Running, tmp_path: Path
) -> None:
    seen: list[bytes] = []

    async def looks_up(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        request = await visit.read_request()
        reference = request.partition(b'"gatewayReference":"')[2][:26].decode()
        answer = await sandbox.merchant.get(f"status/{reference}")
        seen.append(answer.body)
        await visit.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with receiver(tmp_path, looks_up) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert shown["outcome"] == "delivered"
        assert seen == [calls_to(found)[0].body]
        assert calls_to(found)[0].transaction["status"] == "success"


# K2, K3


@pytest.mark.spec("K2", "K3")
@pytest.mark.parametrize(
    ("behave", "outcome", "status"),
    [
        pytest.param(answers_status("202 Any"), "delivered", 202, id="2xx"),
        pytest.param(answers_status("503 Any", "Retry-After: 1"), "non_2xx", 503, id="later"),
        pytest.param(
            answers_status("307 Moved", "Location: /elsewhere"), "non_2xx", 307, id="redirect"
        ),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\nContent-"), "timeout", None, id="half a head"),
        pytest.param(resets_after_the_request, "transport_error", None, id="reset"),
    ],
)
async def test_what_the_receiver_does_is_recorded_and_nothing_is_sent_again(
    serve: Serve, tmp_path: Path, behave: Behaviour, outcome: str, status: int | None
) -> None:
    async with receiver(tmp_path, behave) as found, serve(environment=SOON) as sandbox:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == (outcome, status)
        assert (await sandbox.merchant.status(shown["gatewayReference"]))["status"] == "success"
        await sandbox.advance("4d")
        assert found.connections == 1


@pytest.mark.spec("K3")
async def test_there_is_one_attempt_through_time_and_restarts(serve: Serve, tmp_path: Path) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        async with serve() as sandbox:
            shown = await _outcome(sandbox, url_of(found))
            assert shown["outcome"] == "non_2xx"
        async with serve() as sandbox:
            await sandbox.advance("4d")
            # Another payment's callback shows that the worker is at work.
            await _outcome(sandbox, sandbox.merchant.result_url)
            assert len(await sandbox.seen("callbacks")) == 2
        assert found.connections == 1


# K4


@pytest.mark.spec("K4")
async def test_the_answers_body_is_logged_as_it_is(sandbox: Running, tmp_path: Path) -> None:
    body = b'{"not json": \xff\x00'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    assert len(body) == 15
    async with receiver(tmp_path, answers(answer + body)) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert shown["outcome"] == "delivered"
        assert await _logged_body(storages.of(tmp_path), shown["gatewayReference"]) == body


# K5


@pytest.mark.spec("K5")
async def test_five_failures_open_the_breaker_and_nothing_is_sent_while_it_is_open(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        assert await _outcomes(sandbox, url_of(found), 6) == ["non_2xx"] * 5 + ["breaker_open"]
        shown = (await sandbox.seen("callbacks"))[-1]
        assert (shown["outcome"], shown["status"]) == ("breaker_open", None)
        ended = await sandbox.merchant.status(shown["gatewayReference"])
        assert ended["status"] == "success"
        # What was stopped is not sent later either (K3).
        await sandbox.advance("10m")
        assert found.connections == 5


@pytest.mark.spec("K5")
async def test_after_30_seconds_one_probe_that_succeeds_closes_it(
    sandbox: Running, tmp_path: Path
) -> None:
    behave = in_turn(*[answers_status("500 Oh dear")] * 5, NO_CONTENT)
    async with receiver(tmp_path, behave) as found:
        await _outcomes(sandbox, url_of(found), 5)
        await sandbox.advance("20s")
        assert await _outcomes(sandbox, url_of(found), 1) == ["breaker_open"]
        await sandbox.advance("10s")
        assert await _outcomes(sandbox, url_of(found), 3) == ["delivered"] * 3


# K6


@pytest.mark.spec("K6")
async def test_a_merchant_that_hangs_delays_no_other_and_holds_16_places_at_most(
    serve: Serve, tmp_path: Path
) -> None:
    released = trio.Event()
    async with (
        receiver(tmp_path, answers_after(released)) as hanging,
        receiver(tmp_path) as quick,
        serve(brands=ACME + ZENITH) as sandbox,
    ):
        acme = developer(sandbox, ACME_KEY, result_url=url_of(hanging))
        zenith = developer(sandbox, ZENITH_KEY, result_url=url_of(quick))
        held = [(await acme.accepted())["gatewayReference"] for _ in range(20)]
        await wait_for_requests(hanging, 16)
        prompt = [(await zenith.accepted())["gatewayReference"] for _ in range(3)]
        for reference in prompt:
            shown = await sandbox.outcome_of(reference)
            assert shown["outcome"] == "delivered"
        assert hanging.connections == 16
        released.set()
        for reference in held:
            shown = await sandbox.outcome_of(reference)
            assert shown["outcome"] == "delivered"
        recorded = [each["gatewayReference"] for each in await sandbox.seen("callbacks")]
        assert set(recorded[:3]) == set(prompt)


# K7


@pytest.mark.spec("K7", "K2")
async def test_a_name_that_leads_to_a_private_address_is_not_dialled(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = _names(monkeypatch, {"shop.merchant.example": ["127.0.0.1"]})
    async with (
        receiver(tmp_path) as found,
        serve(environment={"MMO_EGRESS_ALLOW_PRIVATE": "false"}) as sandbox,
    ):
        shown = await _outcome(sandbox, f"https://shop.merchant.example:{found.port}/callback")
        assert (shown["outcome"], shown["status"]) == ("egress_refused", None)
        assert found.connections == 0
        assert looked_up == ["shop.merchant.example"]


def _names(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[str]]) -> list[str]:
    """The system's resolver knows these names, too; which of them it was asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *further: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in answers:
            return real(host, port, *further, **named)
        asked.append(name)
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (address, port or 0)) for address in answers[name]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked
