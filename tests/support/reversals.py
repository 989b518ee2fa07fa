"""Builds reversals as they are on record when an operator is asked, holds conversations about them,
and compares them with an operator's book."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.providers.common.interface import ExchangeFailed, ReversalConversation, drive
from mmo_sansio.testing import START
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState

LOST = ExchangeFailed("The connection was reset.", may_have_arrived=True)
UNSENT = ExchangeFailed("Connection refused.", may_have_arrived=False)


def a_reversal(payment: Transaction, **members: Any) -> Reversal:
    """The payment's first reversal, of all that it has moved, as it was recorded as sent at
    START."""
    standard: dict[str, Any] = {
        "payment": payment.reference,
        "number": 1,
        "brand": payment.order.brand,
        "provider": payment.order.provider,
        "amount": payment.order.requested,
        "reason": "paid twice",
        "asked_by": "amina",
        "asked_at": START,
        "state": ReversalState.SENT,
        "wake_at": None,
        "sent_at": START,
        "submissions": 1,
    }
    return Reversal(**{**standard, **members})


def reversal_report(
    conversation: ReversalConversation, *given: HttpResponse | ExchangeFailed
) -> tuple[ReversalReport, list[HttpRequest]]:
    """Return a conversation's report and its requests; every answer must be used."""
    answers, requests = list(given), []

    def exchange(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        answer = answers.pop(0)
        if isinstance(answer, ExchangeFailed):
            raise answer
        return answer

    report = drive(conversation, exchange)
    assert answers == []
    return report, requests


def json_answer(status: int, document: object = None) -> HttpResponse:
    """An answer in JSON; None: without a body."""
    return HttpResponse(status, (), b"" if document is None else json.dumps(document).encode())


def check_back(payment: Transaction, known: Sequence[Reversal], back: Money) -> None:
    """Compare what the operator's book says went back of a payment with its reversals: those that
    have succeeded, and of those of which only a person knows more, any."""
    succeeded = sum(each.amount.minor for each in known if each.state is ReversalState.SUCCEEDED)
    unsure = (ReversalState.UNKNOWN, ReversalState.MOVED_AFTER_ALL)
    open_ = [each for each in known if each.state in unsure]
    sums = {succeeded}
    for each in open_:
        sums |= {one + each.amount.minor for one in sums}
    assert back.minor <= payment.order.requested.minor, (
        f"{payment.reference}: more went back than was paid"
    )
    assert back.minor in sums, (
        f"{payment.reference}: {back} went back, {succeeded} is on record, {known}"
    )
    assert not [
        each for each in known if each.state in (ReversalState.APPROVED, ReversalState.REQUESTED)
    ]
