"""Plays every report at every state of a payment and of a reversal, as the answer to each request
or question that there may have been, and says in words what becomes of it: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import evolve, frozen

from mmo_sansio.messages import inputs, reversals
from mmo_sansio.messages.changes import ReversalChanged, SuspenseRecorded, TransactionAdvanced
from mmo_sansio.messages.intents import PollEnded
from mmo_sansio.payments.answers import Answer
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.testing import (
    REFERENCE,
    START,
    a_transaction,
    accepted,
    failed,
    hinted,
    ledger_with,
    never_received,
    succeeded,
    unreachable,
)
from mmo_sansio.values.clock import HOUR, Instant, Span, later
from mmo_sansio.values.model import ProviderData, Source, Stage, Transaction
from mmo_sansio.values.reversals import Reversal, ReversalState
from tests.support.reversals import a_reversal

NOW: Final = later(START, HOUR)
DUE: Final = later(NOW, Span(HOUR // 2))
"""When the next question is due: a report that names an hour postpones it."""

OLD, SENT, ASKED, LATEST = 2, 5, 7, 9
"""The versions at which an earlier request, the latest one, and two questions were recorded."""

VERSIONS: Final[Mapping[Answer, int | None]] = {
    Answer.OLDER: OLD,
    Answer.REQUEST: SENT,
    Answer.OVERTAKEN: ASKED,
    Answer.QUESTION: LATEST,
    Answer.NOTIFICATION: None,
}

Report: TypeAlias = (
    inputs.ProviderReport
    | inputs.ProviderHinted
    | reversals.ReversalReport
    | reversals.ReversalHinted
)


@frozen
class Cell:
    """Is a report at a state, as one kind of answer, and what comes of it."""

    state: str
    report: str
    answer: Answer
    outcome: str

    @property
    def id(self) -> str:
        return f"{self.state}, {self.report}, {self.answer}"


def payment_cells() -> Iterator[Cell]:
    """Yield the cells of payments, state by state."""
    for name, before in _payments().items():
        for answer, report in _reports(_payment_reports):
            decision = decide(ledger_with(before), report, now=NOW)
            yield Cell(name, type(report).__name__, answer, _payment_outcome(before, decision))


def reversal_cells() -> Iterator[Cell]:
    """Yield the cells of reversals, state by state."""
    for name, before in _reversals().items():
        ledger = ledger_with(a_transaction(Stage.SUCCEEDED))
        ledger.reversals[REFERENCE] = (before,)
        for answer, report in _reports(_reversal_reports):
            decision = decide(ledger, report, now=NOW)
            yield Cell(name, type(report).__name__, answer, _reversal_outcome(before, decision))


def _payments() -> Mapping[str, Transaction]:
    """Return a payment that was submitted twice in each stage; what is created is to be sent
    again."""
    pending = {
        stage.value: a_transaction(
            stage,
            version=LATEST,
            sent_version=SENT,
            submissions=2,
            polls=1,
            wake_at=DUE,
            provider_data=ProviderData("test", "Test Money"),
        )
        for stage in (Stage.CREATED, Stage.SUBMITTING, Stage.AWAITING_RESULT)
    }
    ended = {
        stage.value: a_transaction(stage, version=LATEST, sent_version=SENT, submissions=2)
        for stage in (Stage.SUCCEEDED, Stage.FAILED)
    }
    every = {**pending, **ended}
    return {name.replace("_", " "): payment for name, payment in every.items()}


def _reversals() -> Mapping[str, Reversal]:
    """Return a reversal that was sent twice in each state; what is approved is to be sent again."""
    sent = a_reversal(
        a_transaction(Stage.SUCCEEDED),
        provider="test",
        version=LATEST,
        sent_version=SENT,
        submissions=2,
        polls=1,
        wake_at=DUE,
    )
    ended = evolve(sent, wake_at=None)
    by_hand = evolve(ended, source=Source.MANUAL)
    return {
        "approved": evolve(sent, state=ReversalState.APPROVED),
        "sent (unanswered)": evolve(sent, polls=0),
        "sent (accepted)": evolve(sent, is_accepted=True),
        "unknown": evolve(sent, state=ReversalState.UNKNOWN),
        "unknown (not asked about)": evolve(ended, state=ReversalState.UNKNOWN),
        "succeeded": evolve(ended, state=ReversalState.SUCCEEDED),
        "succeeded (by hand)": evolve(by_hand, state=ReversalState.SUCCEEDED),
        "succeeded (by hand, asked about)": evolve(
            by_hand, state=ReversalState.SUCCEEDED, wake_at=DUE
        ),
        "failed": evolve(ended, state=ReversalState.FAILED),
        "failed (asked about)": evolve(sent, state=ReversalState.FAILED),
        "moved after all": evolve(ended, state=ReversalState.MOVED_AFTER_ALL),
        "moved after all (by hand)": evolve(by_hand, state=ReversalState.MOVED_AFTER_ALL),
        "moved after all (by hand, asked about)": evolve(
            by_hand, state=ReversalState.MOVED_AFTER_ALL, wake_at=DUE
        ),
    }


def _reports(made: Callable[[int | None], Sequence[Report]]) -> Iterator[tuple[Answer, Report]]:
    """Yield each kind of report as each kind of answer, kind by kind."""
    every = [(answer, report) for answer, version in VERSIONS.items() for report in made(version)]
    for kind in map(type, made(OLD)):
        yield from ((answer, report) for answer, report in every if type(report) is kind)


def _payment_reports(version: int | None) -> tuple[Report, ...]:
    """Return one report of each kind. No notification says that nothing was received: it has to
    name a version."""
    return (
        accepted(poll_after=HOUR, version=version),
        succeeded(version=version),
        failed(version=version),
        unreachable(poll_after=HOUR, version=version),
        *([] if version is None else [never_received(version=version)]),
        inputs.ProviderCannotTell(REFERENCE, "test", version),
        hinted(content="told", version=version),
    )


def _reversal_reports(version: int | None) -> tuple[Report, ...]:
    about = (f"{REFERENCE}-1", "test")
    return (
        reversals.ReversalAccepted(*about, Source.POLL, poll_after=HOUR, version=version),
        reversals.ReversalSucceeded(*about, Source.POLL, version=version),
        reversals.ReversalFailed(*about, Source.POLL, "Refused.", version=version),
        reversals.ReversalUnreachable(*about, "No answer.", poll_after=HOUR, version=version),
        *([] if version is None else [reversals.ReversalNeverReceived(*about, version)]),
        reversals.ReversalCannotTell(*about, version),
        reversals.ReversalHinted(*about, version),
    )


def _payment_outcome(before: Transaction, decision: Decision) -> str:
    moved = [each.after for each in decision.changes if isinstance(each, TransactionAdvanced)]
    words = ["asked about"] * any(isinstance(each, PollEnded) for each in decision.intents)
    for after in moved:
        stage = after.progress.stage
        if stage is Stage.CREATED:
            words.append("sent again")
        elif stage is not before.progress.stage:
            words.append(stage.value.replace("_", " "))
        elif after.progress.wake_at == before.order.expires_at:
            words.append("asked no more")
        else:
            words.append(_when_asked(before.progress.wake_at, after.progress.wake_at))
    return _with_suspense(words, decision)


def _reversal_outcome(before: Reversal, decision: Decision) -> str:
    words: list[str] = []
    for after in (each.after for each in decision.changes if isinstance(each, ReversalChanged)):
        if after.state is ReversalState.APPROVED:
            words.append("sent again")
        elif after.state is not before.state and after.state is not ReversalState.SENT:
            words.append(after.state.words)
        if after.is_accepted and not before.is_accepted:
            words.append("accepted")
        if after.wake_at is not None and after.state is not ReversalState.APPROVED:
            words.append(_when_asked(before.wake_at, after.wake_at))
        elif before.wake_at is not None and after.wake_at is None:
            # An end is followed by no question anyway.
            is_end = after.state.has_ended and not before.state.has_ended
            words += ["asked no more"] * (not is_end)
    return _with_suspense(words, decision)


def _when_asked(before: Instant | None, after: Instant | None) -> str:
    assert after is not None
    if before is None or after < before:
        return "asked sooner"
    return "asked later" if after > before else "asked when due"


def _with_suspense(words: list[str], decision: Decision) -> str:
    is_noted = any(isinstance(each, SuspenseRecorded) for each in decision.changes)
    return ", ".join((*words, *["suspense book"] * is_noted)) or "nothing"
