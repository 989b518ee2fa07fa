"""Judges of money that staff ask back: it goes back once, no more of it than was paid, and the
books of gateway and operator agree about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from mmo_sansio.messages.reversals import ReversalReport
from mmo_sansio.values.model import Source, Transaction
from mmo_sansio.values.money import parse_number, to_money
from mmo_sansio.values.reversals import Reversal, ReversalState, reversed_minor
from tests.simulation.money_judges import is_deposit
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.operator import PaymentEnding, WorldOperator, reversal_name
from tests.simulation.world.world import SimulatedWorld

ANSWERS: Final = tuple(each.__name__ for each in get_args(ReversalReport))
"""What conversations about reversals report."""
AGAINST_A_REQUEST: Final = (ReversalState.FAILED, ReversalState.APPROVED)
"""What a report makes of a reversal that says of a request that it moves no money."""


def money_goes_back_once(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S5, S6: an operator is asked once for each reversal, unless it denies that it was, and each
    of them ends."""
    for reference, payment in books.transactions.items():
        operator = world.operators[payment.order.provider]
        known, forgotten = _reversals(world, books, reference)
        yield from (
            f"{each.id} is still {each.state}" for each in known if not each.state.has_ended
        )
        ids = {each.id for each in (*known, *forgotten)}
        names = ids | _names_of_what_goes_back(payment, known)
        requests = sum(operator.reversal_requests[each] for each in names)
        denials = sum(operator.denials[name] for each in ids for name in operator.kind.names(each))
        sent = sum(map(_may_have_been_sent, (*known, *forgotten)))
        if requests > sent + denials:
            yield f"{operator.name} was asked {requests} times for {sent} reversals of {reference}"


def no_more_goes_back_than_was_paid(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S6: by the book of its operator, no more of a payment goes back than was paid."""
    for reference, payment in books.transactions.items():
        operator = world.operators[payment.order.provider]
        known, _ = _reversals(world, books, reference)
        names = operator.kind.names(reference)
        paid = _sum(
            (
                row
                for row in operator.payments
                if row["result"] == "success"
                and (
                    row["receipt"] == payment.progress.provider_reference
                    if is_deposit(payment)
                    else row["reference"] in names
                )
            ),
            payment,
        )
        back = _sum(_rows_back(operator, payment, known), payment)
        if back > paid:
            yield f"{back} of {reference} have gone back, and {paid} were paid"


def what_has_gone_back_is_on_record(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S5, S6: what has gone back by the operator's book, to the unit, is what the reversals on
    record have moved, but where results contradict each other, which staff see."""
    for reference, payment in books.transactions.items():
        operator = world.operators[payment.order.provider]
        known, forgotten = _reversals(world, books, reference)
        rows = _rows_back(operator, payment, known)
        if operator.kind.names_reversals:
            ids = {each.id for each in (*known, *forgotten)}
            yield from (f"{row} went back unasked" for row in rows if row["reference"] not in ids)

        for each in known:
            if _is_doubted(each, operator, books):
                continue
            own, others = rows, [other for other in (*known, *forgotten) if other is not each]
            if operator.kind.names_reversals:
                own = [row for row in rows if row["reference"] == each.id]
                others = [other for other in others if other.id == each.id]
            back = _sum(own, payment)
            if each.state.has_moved and back != each.amount.minor:
                yield f"{each.id} of {each.amount} is {each.state}, and {back} went back"
            is_anothers = any(
                _may_have_been_sent(other)
                and (other.is_counted or _is_doubted(other, operator, books))
                for other in others
            )
            if each.state is ReversalState.FAILED and back and not is_anothers:
                yield f"{each.id} has failed, and {back} went back"


def nothing_is_asked_back_that_is_not_left(
    world: SimulatedWorld, books: WorldBooks
) -> Iterator[str]:
    """S6: no reversal is asked for, approved or sent while the reversals on record of its payment
    have moved back, or may move back, more than was paid."""
    for change in world.commits.reversals:
        before, after, back = change.before, change.after, reversed_minor(change.known)
        is_step = (
            before is None
            or (before.state is ReversalState.REQUESTED and after.state is ReversalState.APPROVED)
            or after.submissions > before.submissions
        )
        if is_step and back > change.paid.minor:
            yield (
                f"{after.id} is {after.state} since {change.at_s:.3f}, and with it {back} of "
                f"{change.paid} may go back"
            )


def a_report_counts_for_what_it_answers(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S6: each answer to a process names the request or the question that it answers, and what
    answers an earlier request neither fails a reversal nor lets it be sent again."""
    for change in world.commits.reversals:
        before, after, version = change.before, change.after, change.version
        what = f"{change.input_name} of {after.id} at {change.at_s:.3f}"
        if before is None:
            continue
        if change.input_name in ANSWERS and version is None and change.source != Source.WEBHOOK:
            yield f"{what} names nothing that it answers"
        is_older = version is not None and version < before.sent_version
        if is_older and after.state != before.state and after.state in AGAINST_A_REQUEST:
            yield f"{what} answers an earlier request, and makes it {after.state}"


def _reversals(
    world: SimulatedWorld, books: WorldBooks, payment: str
) -> tuple[Sequence[Reversal], Sequence[Reversal]]:
    """Return the reversals of a payment that are on record, and those that a restored backup did
    not have."""
    known = books.ledger.reversals.get(payment, ())
    return known, world.commits.forgotten_reversals.get(payment, ())


def _names_of_what_goes_back(payment: Transaction, known: Iterable[Reversal]) -> set[str]:
    """Return by what an operator may name the payment whose money goes back."""
    receipts = {each.receipt for each in known} | {payment.progress.provider_reference}
    return {payment.reference, *(each for each in receipts if each)}


def _rows_back(
    operator: WorldOperator, payment: Transaction, known: Iterable[Reversal]
) -> Sequence[Mapping[str, Any]]:
    """Return what the operator's book has of the payment's money as gone back."""
    names = _names_of_what_goes_back(payment, known)
    return [row for row in operator.sent_back if row["reference"].partition("-")[0] in names]


def _may_have_been_sent(reversal: Reversal) -> bool:
    """Return whether it is on record as sent, or may have been sent before a restore."""
    return reversal.submissions > 0 or reversal.is_restored


def _sum(rows: Iterable[Mapping[str, Any]], payment: Transaction) -> int:
    """Return the sum of these rows of an operator's book, in minor units."""
    return sum(
        to_money(parse_number(each["amount"]), payment.order.requested.currency).minor
        for each in rows
    )


def _is_doubted(reversal: Reversal, operator: WorldOperator, books: WorldBooks) -> bool:
    """Return whether results of this reversal contradict each other, which staff see, or its
    operator denies it."""
    is_denied = operator.endings.get(reversal_name(reversal.id)) is PaymentEnding.DENIED
    is_lie = reversal.state is ReversalState.MOVED_AFTER_ALL and operator.has_told_wrongly
    return is_lie or is_denied or _is_contradicted_success(reversal, books)


def _is_contradicted_success(reversal: Reversal, books: WorldBooks) -> bool:
    """Return whether the suspense book says that this reversal has not succeeded after all."""
    entries = books.suspense.get(reversal.payment, ())
    return reversal.state is ReversalState.SUCCEEDED and any(
        reversal.id in each.content for each in entries
    )
