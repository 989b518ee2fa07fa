"""What must hold of the world once it has been healed and has come to rest, one named function
each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeGuard

from mmo_sansio.messages.changes import TransactionAdvanced, TransactionCreated
from mmo_sansio.messages.inputs import (
    CreatePayment,
    DepositNotified,
    Input,
    ProviderSucceeded,
    ResolveManually,
)
from mmo_sansio.messages.replies import Accepted, Applied
from mmo_sansio.payments.decide import reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, merge_reads
from mmo_sansio.values import clock
from mmo_sansio.values.model import Flow, Stage

if TYPE_CHECKING:
    from tests.sansio.simulation.world import Simulation

WINDOW = 15 * clock.MINUTE


def check_rest(world: Simulation) -> None:
    """Everything that holds when the world has been healed and has come to rest."""
    what_was_accepted_is_there_for_ever(world)
    everything_has_ended(world)
    every_result_was_called_back(world)
    the_journal_tells_the_state(world)
    no_money_appears_or_vanishes(world)
    brands_are_kept_apart(world)
    deposits_are_taken_once(world)
    a_receipt_settles_one_thing(world)
    any_batches_end_in_the_same_ledger(world)


def what_was_accepted_is_there_for_ever(world: Simulation) -> None:
    """1: by its reference, and by the merchant's the newest, with the same order as was
    answered."""
    newest: dict[tuple[str, str], str] = {}
    for given, _, decision in world.history:
        if isinstance(decision.reply, Accepted):
            order = decision.reply.order
            assert isinstance(given, CreatePayment)
            found = world.ledger.transactions.get(order.gateway_reference)
            assert found is not None, "something accepted is gone"
            assert found.order == order, "an order changed"
            newest[order.brand, given.draft.merchant_reference] = order.gateway_reference
    known = {key: use.gateway_reference for key, use in world.ledger.references.items()}
    assert known == newest, "a look-up by merchantReference finds another"


def everything_has_ended(world: Simulation) -> None:
    """20, 21."""
    for each in world.ledger.transactions.values():
        assert each.progress.stage.is_terminal, "something is pending for ever"


def every_result_was_called_back(world: Simulation) -> None:
    """22, 8: each end has one recorded outcome, and nothing is left to do."""
    recorded = Counter(each.gateway_reference for each in world.recorded)
    for each in world.ledger.transactions.values():
        expected = 1 if each.order.result_url is not None else 0
        assert recorded[each.reference] == expected, "a callback has no outcome"
    assert world.ledger.intents == {}, "something is left to do for ever"


def the_journal_tells_the_state(world: Simulation) -> None:
    """Each payment's lines lead from one stage to the next and end where it is."""
    for each in world.ledger.transactions.values():
        stage: str | None = None
        for line in world.journal[each.reference]:
            if line.stage_after is not None:
                assert line.stage_before == stage, "the journal has a gap"
                stage = line.stage_after
        assert stage == each.progress.stage, "the journal tells another story"


def no_money_appears_or_vanishes(world: Simulation) -> None:
    """15: requested and final sums are those of what was accepted, received and confirmed."""
    asked = confirmed = 0
    for given, _, decision in world.history:
        for change in decision.changes:
            match given, change:
                case CreatePayment(), TransactionCreated():
                    asked += int(given.draft.amount * 100)
                case DepositNotified(), TransactionCreated():
                    asked += given.amount.minor
                    confirmed += given.amount.minor
                case ProviderSucceeded() | ResolveManually(), TransactionAdvanced(before, after):
                    if after.progress.stage is Stage.SUCCEEDED is not before.progress.stage:
                        confirmed += (given.final or before.order.requested).minor
                case _:
                    pass
    rows = tuple(world.rows())
    assert sum(each.order.requested.minor for each in rows) == asked, "requested amounts differ"
    finals = [each.progress.final.minor for each in rows if each.progress.final]
    assert sum(finals) == confirmed, "final amounts differ"


def brands_are_kept_apart(world: Simulation) -> None:
    """16: what is recorded about a payment names its own brand."""
    transactions = world.ledger.transactions
    for each in world.recorded:
        assert each.brand == transactions[each.gateway_reference].order.brand
    for reference, lines in world.journal.items():
        if reference in transactions:
            brand = transactions[reference].order.brand
            assert {line.brand for line in lines} == {brand}, "a line names another brand"


def deposits_are_taken_once(world: Simulation) -> None:
    """S4: one transaction for each deposit, known by the provider's own id."""
    pushes = [each for each in world.rows() if each.order.flow is Flow.PUSH]
    keys = [(each.order.provider, each.progress.provider_reference) for each in pushes]
    assert len(set(keys)) == len(keys), "one deposit became two"
    assert set(keys) == set(world.ledger.deposits), "a deposit isn't known by its id"


def a_receipt_settles_one_thing(world: Simulation) -> None:
    """S4: neither two payments that staff have ended have one receipt, nor a deposit and such a
    payment."""
    by_hand = [
        given for given, _, decision in world.history if _is_success_by_hand(given, decision)
    ]
    named = [
        (each.provider, each.provider_reference)
        for each in by_hand
        if each.provider_reference is not None
    ]
    assert len(set(named)) == len(named), "a receipt has ended two payments"
    assert world.ledger.deposits.keys().isdisjoint(named), (
        "a receipt has ended a payment and is a deposit"
    )


def _is_success_by_hand(given: Input, decision: Decision) -> TypeGuard[ResolveManually]:
    return (
        isinstance(given, ResolveManually)
        and given.error_code is None
        and isinstance(decision.reply, Applied)
    )


def any_batches_end_in_the_same_ledger(world: Simulation) -> None:
    """Law 5, for some seeds, as it takes the time of another run."""
    if world.random.random() > 0.1:
        return
    durable, rest = Ledger(), world.history
    while rest:
        size = world.random.randrange(1, 20)
        batch, rest = rest[:size], rest[size:]
        expected = merge_reads(reads(given) for given, _, _ in batch)
        working = durable.working_set(expected)
        made = []
        for given, now, _ in batch:
            decision = world.law(working, given, now=now)
            working.apply(decision.changes, decision.intents)
            made.append(decision)
        for decision in made:
            durable.apply(decision.changes, decision.intents)
    assert durable == world.ledger, "batches end in another ledger"
