"""Builds reversals as they are on record when an operator is asked, and holds conversations about
them."""

from __future__ import annotations

import json
from typing import Any

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.providers.common.interface import ExchangeFailed, ReversalConversation, drive
from mmo_sansio.testing import START
from mmo_sansio.values.model import Transaction
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
