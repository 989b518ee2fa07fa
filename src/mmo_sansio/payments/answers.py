"""Says which of our requests and questions a report answers: one that is older than the latest
request says nothing about that (clause S6), and one that says nothing about the payment answers no
question about it (clause S5)."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from mmo_sansio.messages import inputs
from mmo_sansio.values.model import Progress
from mmo_sansio.values.reversals import Reversal


class Answer(StrEnum):
    """Lists what a report may answer."""

    NOTIFICATION = "notification"
    """Nothing: the provider tells it by itself, of the payment or reversal as a whole."""
    REQUEST = "request"
    """The latest request."""
    QUESTION = "question"
    """A question about that; nothing was learnt since it was asked."""
    OVERTAKEN = "overtaken"
    """A question about that; more was learnt since it was asked."""
    OLDER = "older"
    """An earlier request, or a question about one."""


def what_is_answered(version: int | None, about: Progress | Reversal) -> Answer:
    """Return what a report answers that names this version of a payment's progress or a
    reversal."""
    if version is None:
        return Answer.NOTIFICATION
    if version == about.sent_version:
        return Answer.REQUEST
    # Since then another request has left, of which this says nothing (S6).
    if version < about.sent_version:
        return Answer.OLDER
    if version == about.version:
        return Answer.QUESTION

    return Answer.OVERTAKEN


def answers_ended_poll(report: inputs.ProviderReport, hint: str | None) -> bool:
    """Tell whether nothing is left to ask about a payment that has ended.

    A question that a hint has caused is answered by a result only: the provider itself has said
    that there is one. Without a hint almost any word about the payment is an answer."""
    match report:
        case inputs.ProviderSucceeded() | inputs.ProviderFailed():
            return True
        case inputs.ProviderUnreachable():
            # A success that cannot be used as it is, or a denial that nobody has contradicted.
            is_named = report.evidence is not None
            return is_named or (report.denies_payment and hint is None)
        case inputs.ProviderAccepted():
            # A provider that notifies of nothing is asked on, as nobody else would tell.
            return hint is None and not report.is_told_when_asked
        case inputs.ProviderNeverReceived() | inputs.ProviderCannotTell():
            return hint is None
        case _:
            assert_never(report)
