"""Describes what happened to a payment, line by line, for a person who reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from attrs import evolve, field, frozen

from mmo_sansio.messages.changes import JournalEntry
from mmo_sansio.values.clock import Instant, format_with_microseconds
from mmo_sansio.values.model import Order, Stage
from mmo_trio.admin.explanation import DELIVERY_TEXTS, PaymentHistory
from mmo_trio.storage.interface.admin_types import SuspenseEntry

# The stages of a payment before its end in words, by which console and command line name them.
STAGE_TEXTS: Mapping[str, str] = {
    Stage.CREATED: "not sent yet",
    Stage.AWAITING_CUSTOMER: "waits for the payer",
    Stage.SUBMITTING: "on its way to the provider",
    Stage.AWAITING_RESULT: "waits for the result",
}


@frozen
class TimelineEntry:
    """Describes one event of a payment, or equal ones that followed each other."""

    at: Instant
    """The time of the first."""
    actor: str
    title: str
    """The event in words, to be read after its actor."""
    kind: str = ""
    """The name of the input that the event was; empty for what the gateway concludes itself."""
    stages: tuple[str, str] | None = None
    """The stage before, `nothing` for a new payment, and after it, or a reversal's states; None
    where it stays."""
    members: Mapping[str, str] = field(factory=dict)
    """What is known about the event, by name."""
    times: int = 1
    last_at: Instant | None = None
    """The time of the last; None when there is one."""

    @property
    def stage_after(self) -> str | None:
        """Return the stage that the event has led to; None where it stays."""
        if self.stages is None:
            return None
        return self.stages[1]

    @property
    def description(self) -> str:
        """Return the event with its stages and members, on one line."""
        words = [self.title]
        if self.stages is not None:
            stages = [STAGE_TEXTS.get(stage, stage.replace("_", " ")) for stage in self.stages]
            words.append(f"[{' → '.join(stages)}]")

        # The title says how a delivery went.
        members = [
            f"{name} {value}"
            for name, value in self.members.items()
            if name != "outcome" or value not in DELIVERY_TEXTS
        ]
        if members:
            words.append(f"({', '.join(members)})")

        return " ".join(words)

    @property
    def text(self) -> str:
        """Return the description and, of several events, how many there were."""
        if self.last_at is None:
            return self.description
        return (
            f"{self.description}; {self.times} times, the last at "
            f"{format_with_microseconds(self.last_at)}"
        )


def timeline(history: PaymentHistory, *, with_free_text: bool = True) -> list[TimelineEntry]:
    """Return the journal's lines and the suspense entries of a payment, in order of time. Equal
    answers to repeated polls are one entry.

    Without free text, the words of operators and of staff, which may contain anything, are left
    out."""
    lines = [
        entry
        for without_answered_tick in _without_answered_ticks(history.journal)
        for entry in _journal_entries(
            without_answered_tick, history.transaction.order, with_free_text=with_free_text
        )
    ]
    # An entry that a line of the journal has written stands there already.
    lines += [
        TimelineEntry(
            entry.first_at, f"provider:{entry.provider}", _suspense_text(entry), "SuspenseRecorded"
        )
        for entry in history.suspense
        if not any(line.at == entry.first_at for line in history.journal)
    ]
    return list(_folded(sorted(lines, key=lambda line: line.at)))


def _without_answered_ticks(journal: Sequence[JournalEntry]) -> Iterator[JournalEntry]:
    """Yield the lines of a journal, but not that it was time to poll where the next line is the
    answer."""
    # A poll that was answered is told by its answer; one without an answer shows that it was due.
    for line, following in zip(journal, [*journal[1:], None], strict=True):
        is_tick = (
            line.input_name in ("TransactionWoke", "ReversalWoke")
            and line.stage_before == line.stage_after
        )
        if not (is_tick and following is not None and following.actor.startswith("provider:")):
            yield line


def _journal_entries(
    line: JournalEntry, order: Order, *, with_free_text: bool
) -> Iterator[TimelineEntry]:
    """Yield the entry of a line of the journal; a request that was accepted has a second one, with
    its route, and a third where its submission was recorded with it."""
    members = {}
    for name, value in json.loads(line.detail).items():
        if value in (None, ""):
            continue
        members[name] = HIDDEN_TEXT
        if with_free_text or name in _PLAIN_MEMBERS:
            members[name] = str(value)

    stages = None
    if line.stage_after and line.stage_after != line.stage_before:
        stages = (line.stage_before or "nothing", line.stage_after)

    yield TimelineEntry(
        line.at,
        line.actor,
        _input_text(line),
        line.input_name,
        stages,
        members,
    )

    # What the gateway decided within the same commit has no line of its own in the journal.
    if line.input_name == "CreatePayment" and line.stage_after is not None:
        yield TimelineEntry(
            line.at,
            "gateway",
            f"found the request valid: {order.method} in {order.country} may take {order.requested}"
            f" ({order.flow}/{order.type}), and routed it to {order.provider_title} "
            f"({order.provider})",
        )
        if line.stage_after == Stage.SUBMITTING:
            yield TimelineEntry(
                line.at, "gateway", _INPUT_TEXTS["BeginSubmission"], "BeginSubmission"
            )


def _folded(lines: Sequence[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Yield one entry for equal ones that follow each other."""
    for _, equal in groupby(lines, key=lambda line: (line.actor, line.description)):
        first, *others = equal
        if others:
            yield evolve(first, times=1 + len(others), last_at=others[-1].at)
        else:
            yield first


# What each input is, to be read after its actor. One that is missing here has its own name.
_INPUT_TEXTS = {
    "CreatePayment": "asked for the payment",
    "ConfirmPage": "pressed the button of the hosted page",
    "PayerReturned": "came back from the operator's page; that proves nothing, so the provider is "
    "asked",
    "BeginSubmission": "is about to send the payment to its provider",
    "ProviderAccepted": "has the payment and has not decided yet",
    "ProviderSucceeded": "says that the money moved",
    "ProviderFailed": "says that the money will not move",
    "ProviderUnreachable": "gave no usable answer; it may or may not have the payment",
    "ProviderNeverReceived": "never received the payment; it may be sent again",
    "ProviderCannotTell": "can't be polled about the payment",
    "ProviderHinted": "sent a hint about the payment, so it is polled",
    "DepositNotified": "reported a deposit",
    "DepositClaimWoke": "reached a time to ask about a deposit that names the payment",
    "DepositAnswered": "answered a question about a deposit that names the payment",
    "TransactionWoke": "reached a time to act",
    "CallbackConcluded": "callback",
    "QrConcluded": "QR code",
    "EndedPollConcluded": "polled the provider after the end of the payment",
    "ResolveManually": "completed it by hand",
    "RequestReversal": "asked for money back",
    "DecideReversal": "decided about the reversal",
    "ReversalWoke": "reached a time to send the reversal, or to ask after it",
    "ReversalAccepted": "has the reversal and has not decided yet",
    "ReversalSucceeded": "says that the money was moved back",
    "ReversalFailed": "says that the money will not be moved back",
    "ReversalUnreachable": "gave no usable answer; it may or may not have the reversal",
    "ReversalNeverReceived": "never received the reversal",
    "ReversalCannotTell": "can't be asked about the reversal",
    "ReversalHinted": "named the reversal; that proves nothing, so the provider is asked",
    "ResolveReversal": "ended the reversal by hand",
    "MarkReversalRestored": "restored the store from a backup, so the reversal may have been sent"
    " and isn't sent again",
    "MarkRestored": "restored the store from a backup, so the payment may have been sent and isn't"
    " sent again",
    "CorrectTimes": "corrected its times, which a wrong clock had written",
}


# Stands for free text that is left out.
HIDDEN_TEXT = "hidden from your role"

# The members of a journal line's detail that are no free text; what is not listed here counts as
# free text.
_PLAIN_MEMBERS = frozenset(
    (
        *("amount", "durationMs", "errorCode", "finalAmount", "method", "nativeCode", "operation"),
        *(
            "isApproved",
            "host",
            "outcome",
            "payerAction",
            "providerReference",
            "reversal",
            "source",
            "status",
            "suspense",
            "withheld",
        ),
    )
)


def _input_text(line: JournalEntry) -> str:
    # The same input has other words where it did something else than usual.
    if line.input_name == "TransactionWoke" and line.stage_after == Stage.SUCCEEDED:
        return (
            "ended it by the receipt that the provider had reported, as no question about it "
            "was answered"
        )

    if line.input_name == "ProviderFailed" and line.stage_after in (
        Stage.SUBMITTING,
        Stage.AWAITING_RESULT,
    ):
        return "says that the money will not move, and had reported a receipt: it is asked again"

    if line.input_name == "ProviderHinted" and "suspense" in json.loads(line.detail):
        return "reported a result, now in the suspense book"

    if line.input_name in ("CallbackConcluded", "QrConcluded"):
        return (
            f"{_INPUT_TEXTS[line.input_name]}: {DELIVERY_TEXTS[json.loads(line.detail)['outcome']]}"
        )

    if line.input_name == "BeginSubmission" and line.stage_after == Stage.FAILED:
        return "did not send the payment to its provider"

    return _INPUT_TEXTS.get(line.input_name, line.input_name)


def _suspense_text(entry: SuspenseEntry) -> str:
    again = ""
    if entry.times > 1:
        again = f", {entry.times} times"
    return f"reported a result, now in the suspense book: {entry.reason}{again}"
