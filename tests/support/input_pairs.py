"""Makes the pairs of inputs of which one reads what the other writes, from `reads` and from what
decisions write, and says what excludes that two processes decide both as if the other was not
there: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from attrs import Factory, define, evolve, fields, frozen

from mmo_sansio.messages import changes
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import Ignored, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.model import Stage
from tests.support.input_variants import NOW, Event, HoldBrand, Names, histories, variants


class RowKind(StrEnum):
    """Names the kinds of what decisions read, as `Reads` does."""

    TRANSACTION = "transactions"
    REFERENCE = "references"
    DEPOSIT = "deposits"
    INTENT = "intents"
    CLAIM = "claims"
    USAGE = "usage"
    REVERSALS = "reversals"
    HOLD = "held_brands"


Row: TypeAlias = tuple[RowKind, Hashable]
"""The kind and the key."""

HELD_BRANDS: Final[Row] = (RowKind.HOLD, None)
"""The brands on hold: who reads of one reads of all."""


def rows_read(ledger: Ledger, input_: Input) -> Iterator[Row]:
    """Yield what the decision about this input may look at."""
    found = ledger.working_set(reads(input_)).prefetched
    for each in fields(Reads):
        keys = getattr(found, each.name)
        yield from (
            (RowKind(each.name), key)
            for key in (keys if isinstance(keys, frozenset) else [None] * keys)
        )


def rows_written(decision: Decision) -> Iterator[Row]:
    """Yield what the decision changes of what decisions read."""
    for intent in decision.intents:
        if not isinstance(intent, PollProvider):
            yield RowKind.INTENT, (intent.gateway_reference, intent.kind)
    for change in decision.changes:
        match change:
            case changes.TransactionCreated(transaction) | changes.TransactionAdvanced(
                _, transaction
            ):
                yield RowKind.TRANSACTION, transaction.reference
            case changes.ReferenceConsumed(brand, merchant_reference):
                yield RowKind.REFERENCE, (brand, merchant_reference)
            case changes.UsageChanged(brand, share):
                yield RowKind.USAGE, (brand, share.counter)
            case changes.DepositRecorded(provider, receipt):
                yield RowKind.DEPOSIT, (provider, receipt)
            case changes.DepositClaimChanged():
                yield RowKind.CLAIM, change.key
            case changes.ReversalChanged(after=reversal):
                yield RowKind.REVERSALS, reversal.payment
            case changes.IntentConcluded(key):
                yield RowKind.INTENT, key
            case changes.CallbackRecorded() | changes.QrRecorded() | changes.BreakerSaved():
                pass
            case changes.SuspenseRecorded() | changes.JournalEntry():
                pass  # No decision looks at them.
            case changes.SuspenseClosed() | changes.SuspenseReopened():
                pass  # Nor at these.
            case _:
                assert_never(change)


HELD: Final = Ignored("The brand is on hold.")
"""Stands for the answer to staff."""

Events: TypeAlias = dict[str, Event]
"""What is played, by name, in its order."""


@define
class Outcome:
    """Holds what is stored after all that was played, and the replies."""

    ledger: Ledger = Factory(Ledger)
    suspense: Counter[tuple[str, str]] = Factory(Counter)
    """How often each content came for each reason."""
    replies: dict[str, Reply] = Factory(dict)

    def add(self, decision: Decision) -> None:
        """Apply a decision."""
        self.ledger.apply(decision.changes, decision.intents)
        found = (each for each in decision.changes if isinstance(each, changes.SuspenseRecorded))
        self.suspense.update((each.reason.value, each.content) for each in found)

    def note(self, name: str, reply: Reply) -> None:
        """Keep a reply. One to an input that is ignored may show the payment as it was when it was
        loaded."""
        self.replies[name] = (
            evolve(reply, transaction=None) if isinstance(reply, Ignored) else reply
        )


def play(history: str, names: Names, events: Events, *, is_apart: bool = False) -> Outcome:
    """Return the outcome of a history and of events, each decided after the one before or, where
    they are `is_apart`, as if that was not there."""
    outcome = Outcome()
    for input_, at in histories(names)[history]:
        outcome.add(decide(outcome.ledger, input_, now=at))
    loaded = outcome.ledger.working_set(names.everything) if is_apart else outcome.ledger
    for name, event in events.items():
        if isinstance(event, HoldBrand):
            outcome.ledger.held_brands |= {event.brand}
            outcome.note(name, HELD)
        else:
            decision = decide(loaded, event, now=NOW)
            outcome.add(decision)
            outcome.note(name, decision.reply)
    sort_hints(outcome.ledger)
    return outcome


def sort_hints(ledger: Ledger) -> None:
    """Sort the lines of what questions were told: they come in the order of the commits, which has
    no meaning."""
    for key, intent in ledger.intents.items():
        if isinstance(intent, PollEnded) and intent.hint is not None:
            lines = sorted(intent.hint.split("\n"))
            ledger.intents[key] = evolve(intent, hint="\n".join(lines))


def sequences(history: str, names: Names, events: Events) -> Sequence[Outcome]:
    """Return the outcome of events in their order, and of those in the other order."""
    return [play(history, names, each) for each in (events, dict(reversed(events.items())))]


@frozen
class Access:
    """Says what one variant reads and writes after a history."""

    variant: str
    event: Event
    reads: frozenset[Row]
    writes: frozenset[Row]
    claim_changes: frozenset[tuple[bool, bool]] = frozenset()
    """Whether each change of a claim adds it, and whether it removes it."""

    @property
    def footprint(self) -> Footprint:
        """Return the kinds of what is read, and of what is written."""
        return kinds(self.reads), kinds(self.writes)


Footprint: TypeAlias = tuple[tuple[RowKind, ...], tuple[RowKind, ...]]


def kinds(rows: Iterable[Row]) -> tuple[RowKind, ...]:
    """Return the kinds of these rows, in the order of their definition."""
    found = {kind for kind, _ in rows}
    return tuple(each for each in RowKind if each in found)


GUARDS: Final[Mapping[RowKind, str]] = {
    RowKind.TRANSACTION: "the transaction's version",
    RowKind.REFERENCE: "the key of the reference's use",
    RowKind.DEPOSIT: "the deposit's key",
    RowKind.CLAIM: "the claim's key or version",
    RowKind.INTENT: "the intent's deletion",
    RowKind.USAGE: "the counter's sum",
    RowKind.REVERSALS: "the version of the payment's reversals",
    RowKind.HOLD: "the commit's own look at the hold",
}
"""What lets the later of two commits fail that write the same row of this kind, or that a hold has
overtaken."""

NOT_NEEDED: Final = "not needed"
"""The pair is harmless."""

NOTHING: Final = "NOTHING"
"""An error in the rules: the outcome may be that of no sequence."""


@frozen
class Pair:
    """Holds two accesses after the same history, of which one reads what the other writes."""

    history: str
    one: Access
    other: Access

    @property
    def id(self) -> str:
        """Return the name of the pair."""
        return f"{self.history}: {self.one.variant} | {self.other.variant}"

    @property
    def common(self) -> frozenset[Row]:
        """Return what one reads and the other writes."""
        return (self.one.reads & self.other.writes) | (self.other.reads & self.one.writes)

    @property
    def is_submission_and_hold(self) -> bool:
        """Tell whether the one submits a payment, which it must not do once the other, a hold, has
        ended."""
        if not isinstance(self.other.event, HoldBrand):
            return False
        payments = play(
            self.history, Names(0), {"one": self.one.event}
        ).ledger.transactions.values()
        return any(each.progress.stage is Stage.SUBMITTING for each in payments)

    @property
    def is_harmless(self) -> bool:
        """Tell whether the outcome is that of a sequence even if each is decided without the
        other."""
        names, events = Names(0), {"one": self.one.event, "other": self.other.event}
        try:
            apart = play(self.history, names, events, is_apart=True)
        except AssertionError:  # The ledger finds out, like a store.
            return False
        return apart in sequences(self.history, names, events)

    @property
    def exclusion(self) -> str:
        """Return what excludes that each is decided without the other."""
        one, other = self.one, self.other
        unread_intents = {
            each for each in one.writes - (one.reads & other.reads) if each[0] is RowKind.INTENT
        }
        if guards := kinds((one.writes & other.writes) - unread_intents):
            return ", ".join(GUARDS[each] for each in guards)
        if self.is_submission_and_hold:
            return GUARDS[RowKind.HOLD]
        return NOT_NEEDED if self.is_harmless else NOTHING


def pairs() -> Sequence[Pair]:
    """Return every pair, after each history."""
    found: list[Pair] = []
    for history in histories(Names(0)):
        ones, others = _accesses(history, 1), _accesses(history, 2)
        every = (
            Pair(history, one, other) for nth, one in enumerate(ones) for other in others[nth:]
        )
        found += (each for each in every if each.common)
    return found


def representatives(every: Sequence[Pair]) -> Sequence[Pair]:
    """Return the first of all pairs that read and write the same kinds in the same way, with the
    same exclusion and harm."""
    chosen: dict[object, Pair] = {}
    for each in every:
        forms = frozenset(
            (access.footprint, access.claim_changes) for access in (each.one, each.other)
        )
        chosen.setdefault((forms, kinds(each.common), each.exclusion, each.is_harmless), each)
    return list(chosen.values())


def _accesses(history: str, turn: int) -> Sequence[Access]:
    """Return the accesses of the variants that write something which any input reads."""
    names, every = Names(0), list[Access]()
    ledger = play(history, names, {}).ledger
    for variant, event in variants(names, turn).items():
        if isinstance(event, HoldBrand):
            every.append(Access(variant, event, frozenset(), frozenset((HELD_BRANDS,))))
        else:
            decision = decide(ledger, event, now=NOW)
            claims = [
                each for each in decision.changes if isinstance(each, changes.DepositClaimChanged)
            ]
            claim_changes = frozenset((each.before is None, each.after is None) for each in claims)
            rows = frozenset(rows_read(ledger, event)), frozenset(rows_written(decision))
            every.append(Access(variant, event, *rows, claim_changes))
    read = frozenset[Row]().union(*(each.reads for each in every))
    return [evolve(each, writes=each.writes & read) for each in every if each.writes & read]
