"""Judges of an operator's statement against the books, to the unit: what somebody has paid unasked,
what was forged, and the merchant's own accounts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.values.model import Flow, Source, Status, Transaction, Type
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.operator import PaymentEnding, WorldOperator
from tests.simulation.world.world import SimulatedWorld

UNTRUE: Final = frozenset({SuspenseReason.UNCONFIRMED_DEPOSIT, SuspenseReason.UNMATCHED_DEPOSIT})
"""Reasons of entries about money that no operator's book has."""
_NO_MONEY: Final = ("failed", "reversed", "not_reversed")


def what_is_paid_unasked_is_in_the_books(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S4, S5: whatever somebody pays of his own accord is the success of one payment or deposit, or
    stands in the suspense book, to the unit; what no operator's book has is no success."""
    for operator in world.operators.values():
        paid = {each["receipt"]: each for each in operator.unasked if each["result"] == "success"}
        # A prompt may be confirmed as a deposit, too.
        made = {each["receipt"] for each in operator.payments if each["result"] == "success"}
        successes = _successes_by_receipt(operator, books)
        noted = _noted_amounts(operator, books)
        for receipt, row in paid.items():
            amount = Decimal(row["amount"])
            booked = [_final(each) for each in successes[receipt]]
            if booked and booked != [amount]:
                yield f"{receipt} of {amount} is {len(booked)} successes, of {booked}"
            if not booked and amount not in noted[receipt]:
                yield f"{receipt} of {amount} was paid unasked, and is not in the books"

        for receipt, found in successes.items():
            for each in found:
                is_made = receipt in paid or receipt in made
                if each.order.flow in (Flow.PUSH, Flow.QR) and not is_made:
                    yield f"{each.reference} is a success with {receipt}, which was never paid"


def what_is_told_as_failed_was_not_paid(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S2, S6: nobody is told as failed what was paid, but where an operator has said so itself, or
    staff have; an expiry says that nothing is known."""
    for operator in world.operators.values():
        for about, _ in _asked_successes(operator, books):
            is_told = about.progress.completion_source not in (Source.EXPIRY, Source.MANUAL)
            endings = map(operator.endings.get, operator.kind.names(about.reference))
            is_denied = operator.has_told_wrongly or PaymentEnding.DENIED in endings
            if about.status is Status.FAILED and is_told and not is_denied:
                yield f"{about.reference} is told as failed, and was paid"


def what_was_forged_is_no_money(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S4: an entry of the suspense book about a receipt that no operator's book has says that it is
    not confirmed."""
    for operator in world.operators.values():
        known = {each["receipt"] for each in (*operator.payments, *operator.unasked)}
        for entry, content in _entries(operator, books):
            receipt = content.get("providerReference")
            is_own_report = content["result"] in ("success", *_NO_MONEY)
            if receipt is None or receipt in known or is_own_report or entry.reason in UNTRUE:
                continue
            yield f"the suspense book has {receipt}, which was never paid, as {entry.reason}"


def what_is_paid_beside_a_prompt_is_its_payers(
    world: SimulatedWorld, books: WorldBooks
) -> Iterator[str]:
    """S4, S5: a payment by the menu counts for a prompt only where the gateway could not know
    better: nothing was heard of the prompt, or it was paid from the same telephone. The prompt's
    own receipt stands in the suspense book if it was ever told to a gateway that keeps on disk what
    its store lacks: one with a shared store has no place for that here."""
    for operator in world.operators.values():
        by_menu = {each["receipt"]: each for each in operator.unasked}
        told = b""
        if not world.plan.is_store_shared:
            told = b"".join(each.body for each in operator.accepted)

        for about, row in _asked_successes(operator, books):
            counted = by_menu.get(about.progress.provider_reference or "")
            if about.status is not Status.SUCCESS or counted is None:
                continue

            is_payers = counted["account"] == row["account"]
            if about.progress.completion_source is Source.POLL and not is_payers:
                yield f"{counted['receipt']} counts for {about.reference}, and is another's"

            noted = any(row["receipt"] in entry.content for entry, _ in _entries(operator, books))
            if row["receipt"].encode() in told and not noted:
                yield f"{row['receipt']} has paid {about.reference} besides, and nobody sees it"


def the_merchants_accounts_have_moved_by_that(
    world: SimulatedWorld, books: WorldBooks
) -> Iterator[str]:
    """S6: the merchant's own accounts with an operator have moved by what its book says of the
    payments on record, and by nothing else."""
    for operator in world.operators.values():
        if not operator.opening:
            continue
        accounts, expected = operator.kind.accounts, defaultdict[str, Decimal](Decimal)
        for about, row in _asked_successes(operator, books):
            sign = 1 if about.order.type is Type.PAYIN else -1
            expected[accounts[about.order.type]] += sign * Decimal(row["amount"])
        for row in operator.unasked:
            if row["result"] == "success":
                expected[accounts[Type.PAYIN]] += Decimal(row["amount"])
        for row in operator.sent_back:
            expected[accounts[operator.kind.pays_back_by]] -= Decimal(row["amount"])

        balances = operator.balances()
        for account in sorted(set(accounts.values())):
            moved = balances[account] - operator.opening[account]
            if moved != expected[account]:
                yield f"{operator.name}'s {account} has moved by {moved}, not {expected[account]}"


def _asked_successes(
    operator: WorldOperator, books: WorldBooks
) -> Iterator[tuple[Transaction, Mapping[str, Any]]]:
    """Yield the payments that the operator was asked for and has made, with its rows."""
    named = {
        name: each
        for reference, each in books.transactions.items()
        if each.order.provider == operator.name
        for name in operator.kind.names(reference)
    }
    for row in operator.payments:
        about = named.get(row["reference"])
        if row["result"] == "success" and about is not None:
            yield about, row


def _successes_by_receipt(
    operator: WorldOperator, books: WorldBooks
) -> defaultdict[str, list[Transaction]]:
    found: defaultdict[str, list[Transaction]] = defaultdict(list)
    for each in books.transactions.values():
        if each.order.provider == operator.name and each.status is Status.SUCCESS:
            found[each.progress.provider_reference or ""].append(each)
    return found


def _noted_amounts(operator: WorldOperator, books: WorldBooks) -> defaultdict[str, set[Decimal]]:
    """Return the amounts that the suspense book has under each receipt."""
    noted: defaultdict[str, set[Decimal]] = defaultdict(set)
    for _, content in _entries(operator, books):
        if content.get("providerReference") and content["result"] not in _NO_MONEY:
            amount = Decimal((content["amount"] or "0").partition(" ")[0])
            noted[content["providerReference"]].add(amount)
    return noted


def _entries(
    operator: WorldOperator, books: WorldBooks
) -> Sequence[tuple[SuspenseEntry, Mapping[str, Any]]]:
    entries = (each for found in books.suspense.values() for each in found)
    return [(each, json.loads(each.content)) for each in entries if each.provider == operator.name]


def _final(transaction: Transaction) -> Decimal:
    assert transaction.progress.final is not None
    return Decimal(transaction.progress.final.text)
