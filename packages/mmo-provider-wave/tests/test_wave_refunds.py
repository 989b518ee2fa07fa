"""Refunds of Wave's checkouts: whole, made once, and told as made only by Wave itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from mmo_provider_wave.refunds import PAGES_MAX
from tests.support.reversals import a_reversal
from wave_samples import (
    CREATED_AT,
    SESSION,
    SESSION_ID,
    a_payment,
    a_session,
    an_account,
    answering,
    ok,
    results,
)

from mmo_sansio import DAY, MINUTE, Moment, Transaction, later
from mmo_sansio.providers import (
    HttpRequest,
    HttpResponse,
    ReversalFailed,
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
PAID = a_session("complete", "succeeded", transaction_id="T1")
FOUND = {"GET /search": ok(results(PAID))}
REFUND_OF_T1 = b'{"transaction_id":"T1","amount":"-1000","is_reversal":true}'


def a_paid_payment() -> Transaction:
    order = a_payment().order
    return a_payment(stage=Stage.SUCCEEDED, provider_reference="T1", final=order.requested)


def reversed_with(answers: Mapping[str, Any], sent: list[HttpRequest]) -> ReversalReport:
    payment = a_paid_payment()
    conversation = an_account().reverse(a_reversal(payment), payment, now=NOW)
    return drive(conversation, answering(answers, sent))


def asked_with(
    answers: Mapping[str, Any],
    now: Moment = NOW,
    sent: list[HttpRequest] | None = None,
    **members: Any,
) -> ReversalReport:
    payment = a_paid_payment()
    reversal = a_reversal(payment, **members)
    conversation = an_account().poll_reversal(reversal, payment, now=now)
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


class TestQuestions:
    def test_the_list_of_the_day_is_read(self) -> None:
        sent: list[HttpRequest] = []
        asked_with({"GET /transactions": listing(REFUND_OF_T1)}, sent=sent)
        assert sent[0].target == b"https://api.wave.com/v1/transactions?date=2026-01-15"

    def test_a_list_without_an_end_is_not_read_for_ever(self) -> None:
        sent: list[HttpRequest] = []
        asked_with({"GET /transactions": listing(cursor="c")}, sent=sent)
        assert len(sent) == PAGES_MAX

    @pytest.mark.spec("S6")
    def test_one_that_was_ended_by_hand_is_not_asked_for_again(self) -> None:
        late = Moment(later(START, Span(15 * MINUTE)), later(CREATED_AT, Span(15 * MINUTE)))
        nothing = {"GET /transactions": listing()}
        report = asked_with(nothing, late, state=ReversalState.FAILED)
        assert isinstance(report, ReversalUnreachable)

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
