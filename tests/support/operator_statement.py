"""Compares the operator's statement with the gateway's: each payment and deposit, to the unit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_sansio.providers.common.operations import operation_key
from mmo_sansio.values.clock import HOUR
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Source, Stage, Transaction, Type
from tests.support.operator_world import World

_OTHER_MONEY = frozenset(
    {
        SuspenseReason.AMOUNT_DIFFERS,
        SuspenseReason.SETTLED_LESS,
        SuspenseReason.SETTLED_MORE,
        SuspenseReason.CONFLICTING_DEPOSIT,
    }
)
"""Reasons of entries about a payment that are not its own late success."""
_UNTRUE = frozenset({SuspenseReason.UNCONFIRMED_DEPOSIT, SuspenseReason.UNMATCHED_DEPOSIT})
"""Reasons of entries about money that the operator's book does not have."""


def check(world: World) -> None:
    """The operator's book is the gateway's successes and its suspense book; AssertionError says
    where it isn't."""
    paid, late = paid_by_operator(world), late_successes(world)
    every = world.transactions.values()
    for each in every:
        progress = each.progress
        world.tally[f"{each.order.type} {each.order.flow} {progress.stage}"] += 1
        if (
            progress.error_code is ErrorCode.TRANSACTION_EXPIRED
            and progress.submitted_at is not None
        ):
            world.tally["expired"] += 1
            _check_stood_before_a_person(world, each)
            if cannot_be_asked(world, each):
                world.tally["left to a person"] += 1
                late.setdefault(each.reference, paid.get(each.reference, Decimal(0)))
            else:
                asked_at = world.asked_at[each.reference]
                assert each.order.expires_at - asked_at <= HOUR, (
                    f"{each.reference} wasn't asked about"
                )
        _check_payment(world, each, paid.get(each.reference), late.get(each.reference) or None)
    _check_deposits(world)
    _check_beside(world)
    payments = [each for each in every if each.order.flow is not Flow.PUSH]
    succeeded = [each for each in payments if each.progress.stage is Stage.SUCCEEDED]
    assert sum(map(final, succeeded)) + sum(late.values()) == sum(paid.values())
    _check_balances(world, paid)


def paid_by_operator(world: World) -> dict[str, Decimal]:
    """What the operator's book says was paid, once for each gatewayReference; without what came as
    a deposit of somebody's own accord or of another amount."""
    paid: dict[str, Decimal] = {}
    for each in world.book:
        if each["result"] != "success":
            continue
        about = named(world, each["reference"])
        if about is None or _is_own_accord(each, about) or _is_beside(each, about):
            continue
        assert about.reference not in paid, f"{about.reference} of seed {world.seed} was paid twice"
        paid[about.reference] = Decimal(each["amount"])
    return paid


def named(world: World, known_as: str) -> Transaction | None:
    """The payment that the operator knows by this name: the gatewayReference, or its ending where
    it is cut."""
    found = [each for name, each in world.transactions.items() if name.endswith(known_as)]
    return found[0] if len(found) == 1 else None


def late_successes(world: World) -> dict[str, Decimal]:
    """What stands in the suspense book as paid, of payments that the gateway doesn't report as
    paid."""
    late = {}
    payments = [each for each in world.book if each["result"] == "success"]
    known = {
        (about.reference, each["receipt"])
        for each in payments
        if (about := named(world, each["reference"]))
    }
    for each in world.suspense:
        content = json.loads(each.content)
        if (
            each.gateway_reference is None
            or content.get("result") != "success"
            or each.reason in _OTHER_MONEY
        ):
            continue
        if each.reason is SuspenseReason.UNPROVED_SUCCESS:
            # It names no receipt, and is not money: what was paid has an entry besides.
            assert content["providerReference"] is None, each.content
            continue
        if (each.gateway_reference, content["providerReference"]) not in known:
            world.tally["forged receipts in the suspense book"] += 1
            continue
        about = world.transactions[each.gateway_reference]
        if about.progress.stage is not Stage.SUCCEEDED:
            amount = content["amount"] or str(about.order.requested)
            late[about.reference] = Decimal(amount.partition(" ")[0])
    return late


def cannot_be_asked(world: World, about: Transaction) -> bool:
    """Whether the operator can't be asked about this payment: it knows it by a name of its own,
    which it has never told, or tells nothing at all. A person has to compare such a one with the
    operator's statement."""
    operation = world.provider.operations[operation_key(about)]
    is_unnamed = about.progress.provider_reference is None and about.progress.hint is None
    return not operation.can_be_polled or (
        operation.not_found_is_final_after is None and is_unnamed
    )


def final(about: Transaction) -> Decimal:
    """Return the amount that the gateway reports as settled."""
    assert about.progress.final is not None
    return Decimal(about.progress.final.text)


def _is_own_accord(payment: Mapping[str, str], about: Transaction | None) -> bool:
    """Whether somebody paid without a request of ours: a deposit, another amount than a QR code's,
    or past a prompt."""
    if payment["kind"] != "c2b":
        return False
    if about is None:
        return True
    if about.order.flow is not Flow.QR:
        return about.progress.provider_reference != payment["receipt"]
    return Decimal(payment["amount"]) != Decimal(about.order.requested.text)


def _is_beside(payment: Mapping[str, str], about: Transaction | None) -> bool:
    """Whether it is a prompt in whose place its payer's payment by the menu counts: that names the
    payment, and of the prompt the gateway had heard nothing, or no receipt."""
    if about is None or payment["kind"] != "stk_push":
        return False
    return (
        about.progress.stage is Stage.SUCCEEDED
        and about.progress.completion_source in (Source.WEBHOOK, Source.POLL)
        and about.progress.provider_reference != payment["receipt"]
        and about.progress.receipt_awaited_since is None
    )


def _check_stood_before_a_person(world: World, about: Transaction) -> None:
    """Check that `mmo tx list --stuck` showed the payment from the first unknown hour to its
    end."""
    begun = about.progress.submitted_at
    assert begun is not None
    since = [each for each in world.looked if begun + STUCK_AFTER <= each < about.order.expires_at]
    assert since, f"nobody looked for {about.reference}"
    assert set(since) <= set(world.stuck[about.reference]), f"{about.reference} wasn't seen"


def _check_payment(
    world: World, about: Transaction, paid: Decimal | None, late: Decimal | None
) -> None:
    progress = about.progress
    where = f"{about.reference} of seed {world.seed}"
    if about.order.flow is Flow.PUSH:
        return
    assert world.callbacks[about.reference], f"nobody was told of {where}"
    match progress.stage:
        case Stage.SUCCEEDED:
            assert paid == final(about), where
            assert late is None, where
        case Stage.FAILED if progress.completion_source is Source.EXPIRY:
            assert paid == late, f"{where} was paid and is not in the suspense book"
        case Stage.FAILED if late is not None and world.operator.contradiction is not None:
            assert paid == late, (
                where
            )  # The operator's own answer said so, before its report with the receipt.
        case Stage.FAILED:
            assert paid is None, f"{where} is reported failed, and was paid"
            assert late is None, where
        case stage:
            raise AssertionError(f"{where} rests in {stage}")


def _check_deposits(world: World) -> None:
    """Every payment of somebody's own accord is one transaction or stands in the suspense book, to
    the unit; what was forged is neither, and no receipt settles two things."""
    paid = {each["receipt"]: each for each in world.book if each["result"] == "success"}
    received = {
        receipt: Decimal(each["amount"])
        for receipt, each in paid.items()
        if _is_own_accord(each, named(world, each["reference"]))
    }
    booked: dict[str, Decimal] = {}
    for each in world.transactions.values():
        receipt = each.progress.provider_reference
        if (
            each.order.flow not in (Flow.PUSH, Flow.QR)
            or each.progress.stage is not Stage.SUCCEEDED
        ):
            continue
        assert receipt is not None
        assert receipt in paid, f"{receipt} of seed {world.seed} was never paid"
        assert receipt not in booked, f"deposit {receipt} of seed {world.seed} counts twice"
        booked[receipt] = final(each)
        world.tally["deposits"] += each.order.flow is Flow.PUSH
    stands: dict[str, Decimal] = {}
    for entry in world.suspense:
        content = json.loads(entry.content)
        receipt = content.get("providerReference")
        if receipt is None or content["result"] in ("failed", "reversed", "not_reversed"):
            continue
        if receipt not in paid:
            is_known = (
                content["result"] == "success"
            )  # An operator's own result, by another name of its own.
            assert is_known or entry.reason in _UNTRUE, (
                f"{receipt} of seed {world.seed}: {entry.reason}"
            )
            world.tally["forgeries in the suspense book"] += not is_known
            continue
        amount = Decimal((content["amount"] or "0").partition(" ")[0])
        if receipt in received and receipt not in booked and amount == received[receipt]:
            stands[receipt] = amount
            world.tally["deposits in the suspense book"] += entry.gateway_reference is None
            world.tally["payments past the prompt in the suspense book"] += (
                entry.gateway_reference is not None
            )
    assert {
        **stands,
        **{each: booked[each] for each in booked.keys() & received.keys()},
    } == received, f"what was paid of own accord in seed {world.seed} is not in the books"


def _check_beside(world: World) -> None:
    """The receipt of a payment by the menu counts for a prompt only where the gateway could not
    know better: nothing was heard of the prompt, or it was paid from the same telephone. The
    prompt's own stands in the suspense book if it was ever told."""
    by_menu = {each["receipt"]: each for each in world.book if each["kind"] == "c2b"}
    for each in world.book:
        about = named(world, each["reference"])
        if each["result"] != "success" or about is None or not _is_beside(each, about):
            continue
        taken = by_menu[about.progress.provider_reference or ""]
        where = f"{each['receipt']} of seed {world.seed}"
        assert taken["reference"] == each["reference"], where
        if about.progress.completion_source is Source.POLL:
            assert taken["account"] == each["account"], f"{where} was paid by another"
        told = [entry for entry in world.suspense if each["receipt"] in entry.content]
        assert told or each["receipt"] not in world.heard, f"{where} is not in the suspense book"
        world.tally["paid by prompt and menu"] += 1


def _check_balances(world: World, paid: Mapping[str, Decimal]) -> None:
    """The merchant's accounts have moved by what was paid, and by nothing else."""
    expected = {each: world.opening[each] for each in world.operator.accounts.values()}
    for about, amount in paid.items():
        type = world.transactions[about].order.type
        expected[world.operator.accounts[type]] += amount if type is Type.PAYIN else -amount
    for each in world.book:
        asked_for = named(world, each["reference"])
        if each["result"] == "success" and (
            _is_own_accord(each, asked_for) or _is_beside(each, asked_for)
        ):
            expected[world.operator.accounts[Type.PAYIN]] += Decimal(each["amount"])
    for each in world.went_back:
        expected[world.operator.accounts[world.operator.pays_back_by]] -= Decimal(each["amount"])
    assert world.balances().items() >= expected.items()
