"""The operator's statement beside the gateway's: what each says was paid, to the unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

from operator_world import World

from mmo_sansio.clock import HOUR
from mmo_sansio.model import Source, Stage, Transaction, Type
from mmo_sansio.providers.operations import key_of


def check(world: World) -> None:
    """The operator's book is the gateway's successes and its suspense book; AssertionError says where it isn't."""
    paid, late = paid_by_operator(world), late_successes(world)
    every = world.gateway.ledger.transactions.values()
    for each in every:
        if each.progress.completion_source is Source.EXPIRY:
            world.tally["expired"] += 1
            if cannot_be_asked(world, each):
                world.tally["left to a person"] += 1
                late.setdefault(each.reference, paid.get(each.reference, Decimal(0)))
            else:
                asked_at = world.asked_at[each.reference]
                assert each.order.expires_at - asked_at <= HOUR, (
                    f"{each.reference} wasn't asked about"
                )
        _check_payment(world, each, paid.get(each.reference), late.get(each.reference) or None)
    succeeded = [each for each in every if each.progress.stage is Stage.SUCCEEDED]
    assert sum(map(final, succeeded)) + sum(late.values()) == sum(paid.values())
    _check_balances(world, paid)


def paid_by_operator(world: World) -> dict[str, Decimal]:
    """What the operator's book says was paid, once for each gatewayReference."""
    paid: dict[str, Decimal] = {}
    for each in world.line.simulator.book()["payments"]:
        if each["result"] == "success":
            known_as = each["reference"]  # The gatewayReference, or its ending where it is cut.
            (about,) = (
                name for name in world.gateway.ledger.transactions if name.endswith(known_as)
            )
            assert about not in paid, f"{about} of seed {world.seed} was paid twice"
            paid[about] = Decimal(each["amount"])
    return paid


def late_successes(world: World) -> dict[str, Decimal]:
    """What stands in the suspense book as paid, of payments that the gateway doesn't report as paid."""
    late = {}
    for each in world.gateway.suspense:
        told = json.loads(each.told)
        if each.gateway_reference is None or told["result"] != "success":
            continue
        about = world.gateway.transaction(each.gateway_reference)
        if about.progress.stage is not Stage.SUCCEEDED:
            amount = told["amount"] or str(about.order.requested)
            late[about.reference] = Decimal(amount.partition(" ")[0])
    return late


def cannot_be_asked(world: World, about: Transaction) -> bool:
    """Whether the operator can't be asked about this payment: it knows it by a name of its own, which it has never
    told, or tells nothing at all. A person has to compare such a one with the operator's statement."""
    operation = world.line.provider.operations[key_of(about)]
    is_unnamed = about.progress.provider_reference is None and about.progress.hint is None
    return not operation.can_be_asked or (operation.not_found_is_final_after is None and is_unnamed)


def final(about: Transaction) -> Decimal:
    """What the gateway says was settled."""
    assert about.progress.final is not None
    return Decimal(about.progress.final.text)


def _check_payment(
    world: World, about: Transaction, paid: Decimal | None, late: Decimal | None
) -> None:
    progress = about.progress
    where = f"{about.reference} of seed {world.seed}"
    match progress.stage:
        case Stage.SUCCEEDED:
            assert paid == final(about), where
            assert late is None, where
        case Stage.FAILED if progress.completion_source is Source.EXPIRY:
            assert paid == late, f"{where} was paid and is not in the suspense book"
        case Stage.FAILED:
            assert paid is None, f"{where} is reported failed, and was paid"
            assert late is None, where
        case stage:
            raise AssertionError(f"{where} rests in {stage}")


def _check_balances(world: World, paid: Mapping[str, Decimal]) -> None:
    """The merchant's accounts have moved by what was paid, and by nothing else."""
    expected = {each: world.opening[each] for each in world.operator.accounts.values()}
    for about, amount in paid.items():
        type = world.gateway.transaction(about).order.type
        expected[world.operator.accounts[type]] += amount if type is Type.PAYIN else -amount
    assert world.balances().items() >= expected.items()
