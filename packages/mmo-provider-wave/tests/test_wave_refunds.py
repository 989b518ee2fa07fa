"""Refunds of Wave's checkouts: whole, made once, and told as made only by Wave itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mmo_provider_wave.refunds import PAGES_MAX
from wave_samples import (
    CREATED_AT,
    INSUFFICIENT_FUNDS,
    REFUSED_KEY,
    SESSION,
    SESSION_ID,
    Answer,
    a_payment,
    a_session,
    an_account,
    answering,
    ok,
    results,
)

from mmo_sansio import DAY, MINUTE, Moment, Transaction, later
from mmo_sansio.providers import (
    ExchangeFailed,
    HttpRequest,
    HttpResponse,
    Reversal,
    ReversalFailed,
    ReversalNeverReceived,
    ReversalReport,
    ReversalSucceeded,
    ReversalUnreachable,
    Span,
    Stage,
    drive,
)
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.reversals import ReversalState

NOW = Moment(time=START, utc=CREATED_AT)
LATE = Moment(later(START, Span(15 * MINUTE)), later(CREATED_AT, Span(15 * MINUTE)))
LOST = ExchangeFailed("The connection broke.", may_have_arrived=True)
UNSENT = ExchangeFailed("No connection.", may_have_arrived=False)
PAID = a_session("complete", "succeeded", transaction_id="T1")
FOUND = {"GET /search": ok(results(PAID))}
REFUND_OF_T1 = b'{"transaction_id":"T1","amount":"-1000","is_reversal":true}'


def a_paid_payment() -> Transaction:
    order = a_payment().order
    return a_payment(stage=Stage.SUCCEEDED, provider_reference="T1", final=order.requested)


def a_reversal(**members: Any) -> Reversal:
    payment = a_payment()
    chosen = {
        "state": ReversalState.SENT,
        "sent_at": START,
        "submissions": 1,
        "wake_at": None,
        **members,
    }
    return Reversal(
        payment=REFERENCE,
        number=1,
        brand=payment.order.brand,
        provider=payment.order.provider,
        amount=payment.order.requested,
        reason="Paid twice.",
        asked_by="amina",
        asked_at=START,
        **chosen,
    )


def reversed_with(answers: Mapping[str, Any], sent: list[HttpRequest]) -> ReversalReport:
    conversation = an_account().reverse(a_reversal(), a_paid_payment(), now=NOW)
    return drive(conversation, answering(answers, sent))


def asked_with(
    answers: Mapping[str, Any],
    now: Moment = NOW,
    sent: list[HttpRequest] | None = None,
    **members: Any,
) -> ReversalReport:
    conversation = an_account().poll_reversal(a_reversal(**members), a_paid_payment(), now=now)
    return drive(conversation, answering(answers, sent))


def listing(*items: bytes, cursor: str | None = None) -> HttpResponse:
    more = b'{"has_next_page":true,"end_cursor":"%b"}' % (cursor or "").encode()
    pages = b'{"has_next_page":false}' if cursor is None else more
    return ok(b'{"page_info":%b,"items":[%b]}' % (pages, b",".join(items)))


def test_the_session_is_found_by_our_reference_and_refunded() -> None:
    sent: list[HttpRequest] = []
    report = reversed_with({**FOUND, "POST /refund": ok(b"")}, sent)
    assert isinstance(report, ReversalSucceeded)
    assert [each.target.removeprefix(b"https://api.wave.com/v1/checkout") for each in sent] == [
        f"/sessions/search?client_reference={REFERENCE}".encode(),
        f"/sessions/{SESSION_ID}/refund".encode(),
    ]


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        HttpResponse(500),
        HttpResponse(502, (), b"<html>"),
        ok(b"<html>We are away"),
        ok(b"{}"),
    ],
)
def test_one_without_an_answer_is_unknown(answer: Answer) -> None:
    assert isinstance(reversed_with({**FOUND, "POST /refund": answer}, []), ReversalUnreachable)


@pytest.mark.parametrize("answer", [UNSENT, HttpResponse(429), HttpResponse(401, (), REFUSED_KEY)])
def test_one_that_was_not_taken_was_never_received(answer: Answer) -> None:
    assert isinstance(reversed_with({**FOUND, "POST /refund": answer}, []), ReversalNeverReceived)


@pytest.mark.parametrize("answer", [LOST, HttpResponse(500), HttpResponse(401, (), REFUSED_KEY)])
def test_nothing_is_refunded_while_the_session_is_not_found(answer: Answer) -> None:
    sent: list[HttpRequest] = []
    assert isinstance(reversed_with({"GET /search": answer}, sent), ReversalNeverReceived)
    assert [each.method for each in sent] == ["GET"]


def test_what_may_have_been_given_back_is_asked_for_again_and_not_called_unpaid() -> None:
    given_back = a_session("complete", "cancelled", transaction_id="T_46HS5COOWE")
    answers = {"GET /search": ok(results(given_back)), "POST /refund": ok(b"")}
    assert isinstance(reversed_with(answers, []), ReversalSucceeded)


@pytest.mark.parametrize(
    "found",
    [results(), results(SESSION), results(a_session("complete", "cancelled"))],
)
def test_what_was_not_paid_is_not_refunded(found: bytes) -> None:
    sent: list[HttpRequest] = []
    assert isinstance(reversed_with({"GET /search": ok(found)}, sent), ReversalFailed)
    assert [each.method for each in sent] == ["GET"]


@pytest.mark.parametrize(
    ("status", "body", "lacks_float"),
    [
        (400, b'{"code":"checkout-refund-failed","message":"Words."}', False),
        (409, b'{"code":"checkout-refund-failed","message":"Words."}', False),
        (422, INSUFFICIENT_FUNDS, True),
    ],
)
def test_a_refusal_of_wave_fails(status: int, body: bytes, lacks_float: bool) -> None:
    report = reversed_with({**FOUND, "POST /refund": HttpResponse(status, (), body)}, [])
    assert isinstance(report, ReversalFailed)
    assert report.lacks_float is lacks_float
    assert report.native_code


class TestQuestions:
    def test_the_list_of_the_day_tells_that_it_was_made(self) -> None:
        sent: list[HttpRequest] = []
        report = asked_with({"GET /transactions": listing(REFUND_OF_T1)}, sent=sent)
        assert isinstance(report, ReversalSucceeded)
        assert sent[0].target == b"https://api.wave.com/v1/transactions?date=2026-01-15"

    def test_all_pages_of_both_days_are_read(self) -> None:
        sent: list[HttpRequest] = []
        pages = [listing(cursor="c1"), listing(), listing(REFUND_OF_T1)]
        next_day = Moment(later(START, DAY), later(CREATED_AT, DAY))
        report = asked_with({"GET /transactions": pages}, next_day, sent)
        assert isinstance(report, ReversalSucceeded)
        assert [each.target.partition(b"?")[2] for each in sent] == [
            b"date=2026-01-15",
            b"date=2026-01-15&after=c1",
            b"date=2026-01-16",
        ]

    @pytest.mark.parametrize(
        "item",
        [
            b'{"transaction_id":"T1","is_reversal":false}',
            b'{"transaction_id":"T1"}',
            b'{"transaction_id":"T2","is_reversal":true}',
        ],
    )
    def test_nothing_else_is_taken_for_the_refund(self, item: bytes) -> None:
        report = asked_with({"GET /transactions": listing(item)})
        assert isinstance(report, ReversalUnreachable)

    @pytest.mark.spec("S6")
    def test_one_that_is_not_listed_is_asked_for_again_as_wave_makes_no_second(self) -> None:
        nothing = {"GET /transactions": listing()}
        assert isinstance(asked_with(nothing), ReversalUnreachable)
        assert isinstance(asked_with(nothing, LATE), ReversalNeverReceived)

    @pytest.mark.spec("S6")
    @pytest.mark.parametrize(
        "members",
        [
            {"is_restored": True},
            {"native_code": "checkout-refund-failed"},
            {"state": ReversalState.FAILED},
        ],
    )
    def test_where_it_may_not_be_only_a_person_can_tell(self, members: dict[str, Any]) -> None:
        report = asked_with({"GET /transactions": listing()}, LATE, **members)
        assert isinstance(report, ReversalUnreachable)

    @pytest.mark.parametrize(
        "answer",
        [LOST, UNSENT, HttpResponse(500), ok(b"{}"), listing(cursor=""), listing(cursor="a b")],
    )
    def test_a_list_that_can_not_be_read_says_nothing(self, answer: Answer) -> None:
        assert isinstance(asked_with({"GET /transactions": answer}, LATE), ReversalUnreachable)

    def test_a_list_without_an_end_is_not_read_for_ever(self) -> None:
        sent: list[HttpRequest] = []
        report = asked_with({"GET /transactions": listing(cursor="c")}, LATE, sent)
        assert isinstance(report, ReversalUnreachable)
        assert len(sent) == PAGES_MAX
