"""An account signs in once for all tasks, keeps the rate limit, and discloses no secret."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
import structlog
import trio
from attrs import Factory, define
from structlog.testing import capture_logs
from trio.testing import MockClock

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.values import clock
from mmo_sansio.values.clock import MINUTE, Instant, Moment, MonotonicInstant, later
from mmo_trio.workers.providers.account import ProviderAccount, rate_limit
from tests.support.provider_double import TOKEN_LIFE, ScriptedProvider

PAY = HttpRequest("POST", b"https://operator.example/pay")
CANARY = "canary-7d1c"


def now() -> Instant:
    return Instant(int(trio.current_time() * clock.SECOND))


def moment() -> Moment:
    return Moment.at(now())


def monotonic() -> MonotonicInstant:
    return MonotonicInstant(now())


@define(eq=False)
class Operator:
    """Issues tokens with the canary and a number, and accepts only the newest."""

    tokens: int = 0
    valid_from: int = 1
    sent: list[tuple[str, str | None]] = Factory(list)
    """Path and authorization of each request."""
    answer: Callable[[], HttpResponse] = lambda: HttpResponse(200)
    takes_s: float = 0.0

    async def ask(self, request: HttpRequest) -> HttpResponse:
        authorization = (request.value(b"authorization") or b"").decode() or None
        path = request.target.decode().removeprefix("https://operator.example")
        self.sent.append((path, authorization))
        await trio.sleep(self.takes_s)
        if path == "/token":
            self.tokens += 1
            return HttpResponse(200, (), f"{CANARY}-{self.tokens}".encode())
        if authorization and int(authorization.rpartition("-")[2]) < self.valid_from:
            return HttpResponse(401)
        return self.answer()


@pytest.fixture
def operator() -> Operator:
    return Operator()


@pytest.fixture
def account(operator: Operator) -> ProviderAccount:
    return ProviderAccount(ScriptedProvider(), operator.ask, moment, monotonic)


async def test_many_sign_in_once(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    operator.takes_s = 1
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(account.exchange, PAY)
    assert operator.tokens == 1
    assert [auth for path, auth in operator.sent if path == "/pay"] == [f"Bearer {CANARY}-1"] * 20


async def test_a_token_is_renewed_before_its_end(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    await account.exchange(PAY)
    await trio.sleep((TOKEN_LIFE - MINUTE) / clock.SECOND - 1)
    await account.exchange(PAY)
    assert operator.tokens == 1
    await trio.sleep(1)
    await account.exchange(PAY)
    assert operator.tokens == 2


@pytest.mark.spec("S6")
async def test_a_refused_token_costs_a_new_one_and_the_request_goes_once_more(
    operator: Operator, account: ProviderAccount
) -> None:
    await account.exchange(PAY)
    operator.valid_from = 2
    assert (await account.exchange(PAY)).status == 200
    operator.valid_from = 99
    assert (await account.exchange(PAY)).status == 401
    assert [path for path, _ in operator.sent] == [
        "/token", "/pay", "/pay", "/token", "/pay", "/pay", "/token", "/pay",
    ]  # fmt: skip


async def test_what_needs_no_token_gets_none(operator: Operator, account: ProviderAccount) -> None:
    await account.exchange(HttpRequest("GET", b"https://operator.example/free"))
    assert operator.sent == [("/free", None)]


@pytest.mark.spec("S6")
async def test_without_a_token_nothing_was_sent_and_others_do_not_try_at_once(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    async def refuse(request: HttpRequest) -> HttpResponse:
        operator.sent.append(("/token", None))
        await trio.lowlevel.checkpoint()
        return HttpResponse(400, (), CANARY.encode())

    account.send_request = refuse
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(ExchangeFailed, match="refused") as caught:
                await account.exchange(PAY)
            assert not caught.value.may_have_arrived
    assert len(operator.sent) == 1
    assert [each["event"] for each in logs] == ["sign_in_rejected"]


@pytest.mark.spec("S6")
async def test_a_sign_in_that_hangs_ends_before_its_conversation_and_says_that_nothing_left(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    operator.takes_s = 3600
    for conversation_s in (5, 20):
        with (
            trio.fail_after(conversation_s),
            pytest.raises(ExchangeFailed, match="too long") as caught,
        ):
            await account.exchange(PAY)
        assert not caught.value.may_have_arrived


async def test_the_pace_is_kept_and_who_would_come_too_late_is_not_sent(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    account.rate_limit = rate_limit(60)
    await account.exchange(PAY)
    times = []
    for _ in range(10):
        await account.exchange(PAY)
        times.append(round(trio.current_time()))
    assert times == [0] * 4 + [1, 2, 3, 4, 5, 6]
    for _ in range(20):
        account.rate_limit.spend(MonotonicInstant(now()))
    with trio.fail_after(15), pytest.raises(ExchangeFailed, match="rate limit") as caught:
        await account.exchange(PAY)
    assert not caught.value.may_have_arrived
    assert trio.current_time() < 10


def busy(status: int, wait: bytes) -> HttpResponse:
    return HttpResponse(status, ((b"retry-after", wait),))


async def test_a_date_that_the_provider_names_is_of_wall_time(
    operator: Operator, autojump_clock: MockClock
) -> None:
    """The gateway's own time may be apart from it."""
    operator.answer = lambda: busy(503, b"Thu, 01 Jan 1970 00:00:20 GMT")

    def apart() -> Moment:
        return Moment(time=later(now(), clock.DAY), utc=now())

    account = ProviderAccount(ScriptedProvider(), operator.ask, apart, monotonic)
    await account.exchange(PAY)
    with trio.fail_after(15), pytest.raises(ExchangeFailed, match="longer wait"):
        await account.exchange(PAY)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_wait_that_the_provider_asks_for_is_obeyed(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock, status: int
) -> None:
    operator.answer = lambda: busy(status, b"20")
    await account.exchange(PAY)
    operator.answer = lambda: HttpResponse(200)
    await trio.sleep(5)
    with trio.fail_after(15), pytest.raises(ExchangeFailed, match="longer wait") as caught:
        await account.exchange(PAY)
    assert not caught.value.may_have_arrived
    assert trio.current_time() == 5
    assert account.counts["not_sent"] == 1
    with trio.fail_after(20):
        assert (await account.exchange(PAY)).status == 200
    assert trio.current_time() == 20


async def test_a_wait_may_be_told_as_a_date(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    operator.answer = lambda: busy(429, b"Thu, 01 Jan 1970 00:00:30 GMT")
    await account.exchange(PAY)
    await account.exchange(PAY)
    assert trio.current_time() == 30


async def test_who_waits_for_its_turn_keeps_the_pace_afterwards(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock
) -> None:
    account.rate_limit = rate_limit(60)
    operator.answer = lambda: busy(429, b"20") if trio.current_time() < 20 else HttpResponse(200)
    await account.exchange(PAY)
    sent = len(operator.sent)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(account.exchange, PAY)
        await trio.sleep(21.5)
        assert len(operator.sent) - sent < 10


@pytest.mark.parametrize("wait", [b"300", b""])
async def test_questions_that_come_too_often_hold_back_no_submission(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock, wait: bytes
) -> None:
    operator.answer = lambda: busy(429, wait)
    for _ in range(20):
        with trio.move_on_after(20), suppress(ExchangeFailed):
            await account.ask(PAY)
    assert account.breaker.state == "closed"
    operator.answer = lambda: HttpResponse(200)
    began = trio.current_time()
    assert (await account.exchange(PAY)).status == 200
    assert trio.current_time() == began


async def test_a_provider_that_is_out_of_order_is_left_in_peace_by_questions_too(
    operator: Operator, account: ProviderAccount
) -> None:
    operator.answer = lambda: HttpResponse(503)
    for _ in range(10):
        with suppress(ExchangeFailed):
            await account.ask(PAY)
    assert account.breaker.state == "open"


@pytest.mark.parametrize(("status", "wait"), [(429, b"300"), (503, b"300"), (504, b"")])
async def test_questions_about_payees_hold_back_neither_payments_nor_other_questions(
    operator: Operator,
    account: ProviderAccount,
    autojump_clock: MockClock,
    status: int,
    wait: bytes,
) -> None:
    operator.answer = lambda: busy(status, wait)
    for _ in range(20):
        with trio.move_on_after(20), suppress(ExchangeFailed):
            await account.ask_about_payee(PAY)
    assert account.breaker.state == "closed"
    operator.answer = lambda: HttpResponse(200)
    began = trio.current_time()
    assert (await account.exchange(PAY)).status == 200
    assert (await account.ask(PAY)).status == 200
    assert trio.current_time() == began


async def test_a_provider_that_fails_is_not_asked_about_payees_either(
    operator: Operator, account: ProviderAccount
) -> None:
    operator.answer = lambda: HttpResponse(503)
    while account.breaker.state == "closed":
        await account.exchange(PAY)
    sent = len(operator.sent)
    with pytest.raises(ExchangeFailed, match="too often"):
        await account.ask_about_payee(PAY)
    assert len(operator.sent) == sent


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_provider_that_fails_is_left_in_peace(
    operator: Operator, account: ProviderAccount, autojump_clock: MockClock, status: int
) -> None:
    operator.answer = lambda: HttpResponse(status)
    while account.breaker.state == "closed":
        assert (await account.exchange(PAY)).status == status
    sent = len(operator.sent)
    with pytest.raises(ExchangeFailed, match="too often") as caught:
        await account.exchange(PAY)
    assert not caught.value.may_have_arrived
    assert len(operator.sent) == sent
    operator.answer = lambda: HttpResponse(200)
    await trio.sleep(30)
    assert (await account.exchange(PAY)).status == 200
    counts = account.counts
    assert (account.breaker.state, counts["not_sent"], counts["sign_ins"]) == ("closed", 1, 1)
    assert counts["unavailable"] == sent - 1  # All but the sign-in.
    assert (counts["exchanges"], counts["failed"], counts["sign_ins_failed"]) == (sent + 1, 0, 0)


async def test_an_error_about_one_payment_says_nothing_about_the_provider(
    operator: Operator, account: ProviderAccount
) -> None:
    operator.answer = lambda: HttpResponse(500)
    for _ in range(50):
        await account.exchange(PAY)
    assert account.breaker.state == "closed"


async def test_no_token_is_shown(
    operator: Operator, account: ProviderAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    await account.exchange(PAY)
    operator.answer = lambda: HttpResponse(503)
    reasons = []
    for _ in range(10):
        try:
            await account.exchange(PAY)
        except ExchangeFailed as failure:
            reasons.append(failure.reason)
    assert CANARY not in "".join(reasons)
    assert reasons
    assert CANARY not in repr(account)
    assert CANARY not in "".join(capsys.readouterr())
