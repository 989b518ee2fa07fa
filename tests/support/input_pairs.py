"""Makes the pairs of inputs of which one reads what the other writes, from `reads` and from what decisions write, and
says what excludes that two processes decide both as if the other was not there: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from attrs import Factory, define, evolve, frozen

from mmo_sansio.messages import changes
from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import PollProvider
from mmo_sansio.messages.replies import Ignored, Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.model import Stage
from tests.support.input_variants import NOW, Event, HoldBrand, Names, histories, variants


class RowKind(StrEnum):
    """Names the kinds of what decisions read."""

    PAYMENT = "payment"
    REFERENCE = "merchantReference"
    DEPOSIT = "deposit"
    CLAIM = "claim"
    INTENT = "intent"
    COUNTER = "counter"
    HOLD = "hold"


Row: TypeAlias = tuple[RowKind, str, str]
"""The kind and the key; the key of a payment has an empty second part."""

HELD_BRANDS: Final[Row] = (RowKind.HOLD, "", "")
"""The brands on hold: who reads of one reads of all."""


def rows_read(ledger: Ledger, input_: Input) -> frozenset[Row]:
    """Return what the decision about this input may look at."""
    found = ledger.working_set(reads(input_)).prefetched
    assert found is not None
    keys: Mapping[RowKind, Iterable[tuple[str, str]]] = {
        RowKind.PAYMENT: ((each, "") for each in found.transactions),
        RowKind.REFERENCE: found.references,
        RowKind.DEPOSIT: found.deposits,
        RowKind.CLAIM: found.claims,
        RowKind.INTENT: found.intents,
        RowKind.COUNTER: found.usage,
        RowKind.HOLD: (HELD_BRANDS[1:],) if found.held_brands else (),
    }
    return frozenset((kind, *key) for kind, every in keys.items() for key in every)


def rows_written(decision: Decision) -> frozenset[Row]:
    """Return what the decision changes of what decisions read."""
    intents = ((each.gateway_reference, each.kind) for each in decision.intents if not isinstance(each, PollProvider))
    scheduled = ((RowKind.INTENT, *key) for key in intents)
    return frozenset((*(row for each in decision.changes for row in _rows_of_change(each)), *scheduled))


def _rows_of_change(change: changes.Change) -> Iterator[Row]:
    match change:
        case changes.TransactionCreated(transaction) | changes.TransactionAdvanced(_, transaction):
            yield RowKind.PAYMENT, transaction.reference, ""
        case changes.ReferenceConsumed(brand, merchant_reference):
            yield RowKind.REFERENCE, brand, merchant_reference
        case changes.UsageChanged(brand, share):
            yield RowKind.COUNTER, brand, share.counter
        case changes.DepositRecorded(provider, receipt):
            yield RowKind.DEPOSIT, provider, receipt
        case changes.DepositClaimChanged():
            yield RowKind.CLAIM, *change.key
        case changes.IntentConcluded(key):
            yield RowKind.INTENT, *key
        case changes.CallbackRecorded() | changes.QrRecorded() | changes.BreakerSaved():
            pass
        case changes.SuspenseRecorded() | changes.JournalEntry():
            pass  # No decision looks at them.
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
        """Keep a reply. One to an input that is ignored may show the payment as it was when it was loaded."""
        self.replies[name] = evolve(reply, transaction=None) if isinstance(reply, Ignored) else reply


def play(history: str, names: Names, events: Events, *, is_apart: bool = False) -> Outcome:
    """Return the outcome of a history and of events, each decided after the one before or, where they are `is_apart`,
    as if that was not there."""
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
    return outcome


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

    @property
    def footprint(self) -> Footprint:
        """Return the kinds of what is read, and of what is written."""
        return kinds(self.reads), kinds(self.writes)


Footprint: TypeAlias = tuple[tuple[RowKind, ...], tuple[RowKind, ...]]


def kinds(rows: Iterable[Row]) -> tuple[RowKind, ...]:
    """Return the kinds of these rows, in the order of their definition."""
    found = {kind for kind, _, _ in rows}
    return tuple(each for each in RowKind if each in found)


GUARDS: Final[Mapping[RowKind, str]] = MappingProxyType(
    {
        RowKind.PAYMENT: "the payment's version",
        RowKind.REFERENCE: "the key of the use",
        RowKind.DEPOSIT: "the deposit's key",
        RowKind.CLAIM: "the claim's key or version",
        RowKind.INTENT: "the deletion of the intent",
        RowKind.COUNTER: "the sum of the counter",
        RowKind.HOLD: "the commit's own look at the hold",
    }
)
"""What lets the later of two commits fail that write the same row of this kind, or that a hold has overtaken."""

NOT_NEEDED: Final = "not needed"
"""Even if each is decided without the other, the outcome is that of a sequence."""

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
        """Tell whether the one submits a payment, which it must not do once the other, a hold, has ended."""
        if not isinstance(self.other.event, HoldBrand):
            return False
        payments = play(self.history, Names(0), {"one": self.one.event}).ledger.transactions.values()
        return any(each.progress.stage is Stage.SUBMITTING for each in payments)

    @property
    def exclusion(self) -> str:
        """Return what excludes that each is decided without the other."""
        one, other = self.one, self.other
        unread_intents = {each for each in one.writes - (one.reads & other.reads) if each[0] is RowKind.INTENT}
        if guards := kinds((one.writes & other.writes) - unread_intents):
            return ", ".join(GUARDS[each] for each in guards)
        if self.is_submission_and_hold:
            return GUARDS[RowKind.HOLD]
        names, events = Names(0), {"one": one.event, "other": other.event}
        is_harmless = play(self.history, names, events, is_apart=True) in sequences(self.history, names, events)
        return NOT_NEEDED if is_harmless else NOTHING


def pairs() -> Sequence[Pair]:
    """Return every pair, after each history."""
    found: list[Pair] = []
    for history in histories(Names(0)):
        ones, others = _accesses(history, 1), _accesses(history, 2)
        every = (Pair(history, one, other) for nth, one in enumerate(ones) for other in others[nth:])
        found += (each for each in every if each.common)
    return found


def representatives(every: Sequence[Pair]) -> Sequence[Pair]:
    """Return the first of all pairs that read and write the same kinds, and are excluded by the same."""
    chosen: dict[object, Pair] = {}
    for each in every:
        footprints = frozenset((each.one.footprint, each.other.footprint))
        chosen.setdefault((footprints, kinds(each.common), each.exclusion), each)
    return list(chosen.values())


def _accesses(history: str, turn: int) -> Sequence[Access]:
    """Return the accesses of the variants that write something which any input reads."""
    names = Names(0)
    ledger = play(history, names, {}).ledger
    every = [_access(ledger, name, event) for name, event in variants(names, turn).items()]
    read = frozenset[Row]().union(*(each.reads for each in every))
    return [evolve(each, writes=each.writes & read) for each in every if each.writes & read]


def _access(ledger: Ledger, variant: str, event: Event) -> Access:
    if isinstance(event, HoldBrand):
        return Access(variant, event, frozenset(), frozenset((HELD_BRANDS,)))
    return Access(variant, event, rows_read(ledger, event), rows_written(decide(ledger, event, now=NOW)))
