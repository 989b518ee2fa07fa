"""Judges of receipts, of what staff do, and of what was to be sent to operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mmo_sansio.messages.inputs import (
    BeginSubmission,
    CreatePayment,
    ProviderAccepted,
    ProviderNeverReceived,
    ProviderUnreachable,
    TransactionWoke,
)
from mmo_sansio.values.model import Flow, Source, Stage, Status, Transaction
from mmo_trio.storage.interface.admin_types import ProposalState
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.commits import StoredStage
from tests.simulation.world.faults import KILLED_AFTER_S, FaultPeriod
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.world import SimulatedWorld

BEGUN_WITHIN_S = 5.0
"""How long after its record a poll begins at most."""
CONVERSATION_S = 25.0
"""The longest conversation: while it lasts, a poll of its payment is left out."""
DECIDED_BEFORE_S = 2.0
"""How long before its record a poll may have been decided, which a process that drains does no
more."""
IN_DOUBT_S = 20.0
"""How far from its record a fault may be by which that was in doubt."""
REPORTS = (ProviderAccepted.__name__, ProviderNeverReceived.__name__, ProviderUnreachable.__name__)
"""What conversations report that have not ended a payment."""
ENDS_PROCESSES = (
    FaultKind.GATEWAY_KILLED,
    FaultKind.GATEWAY_LOSES_POWER,
    FaultKind.GATEWAY_SUSPENDED,
)


def is_deposit(transaction: Transaction) -> bool:
    """Return whether this is a deposit, which no merchant has asked for."""
    return transaction.order.flow is Flow.PUSH


def a_receipt_is_one_success(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S4: a receipt of an operator is that of one successful payment, deposits included, unless the
    suspense book names it."""
    successes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for reference, each in books.transactions.items():
        if each.status is Status.SUCCESS and each.progress.provider_reference is not None:
            successes[each.order.provider, each.progress.provider_reference].append(reference)
    noted = [
        (each.provider, each.content) for entries in books.suspense.values() for each in entries
    ]
    for (provider, receipt), references in successes.items():
        if len(references) > 1 and not any(
            by == provider and receipt in content for by, content in noted
        ):
            yield (
                f"{' and '.join(references)} are successes with the receipt {receipt} of {provider}"
            )


def staff_end_payments_once_and_on_evidence(
    world: SimulatedWorld, books: WorldBooks
) -> Iterator[str]:
    """S1, S5: no payment fails by hand against evidence on record, and a proposal is done if it is
    how the payment ended."""
    for reference in sorted(world.staff.against_evidence):
        each = books.transactions[reference]
        if each.status is Status.FAILED and each.progress.completion_source is Source.MANUAL:
            yield f"{reference} has failed by hand, and evidence of its success was on record"
    for proposal in books.proposals:
        code = books.transactions[proposal.gateway_reference].progress.error_code
        if proposal.state is ProposalState.DONE and proposal.error_code != code:
            yield (
                f"{proposal.gateway_reference} has ended with {code}, and a proposal of "
                f"{proposal.error_code} is done"
            )


def nothing_is_submitted_on_hold(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """Once a brand is on hold, no submission of it is recorded until the hold ends."""
    for reference, stages in world.commits.stages.items():
        for each in filter(_is_submission, stages):
            for hold in world.staff.holds:
                is_held = hold.brand == books.transactions[reference].order.brand
                if is_held and hold.began_s < each.at_s < hold.ended_s:
                    yield (
                        f"{reference} was submitted at {each.at_s:.3f}, on hold since "
                        f"{hold.began_s:.3f}"
                    )


def a_submission_on_record_is_begun(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S6: a process submits what is on record as submitted, or reports that it was never sent,
    unless it ended."""
    for reference, stages in world.commits.stages.items():
        begun_s = [
            at_s
            for at_s, is_submission in world.commits.conversations.get(reference, ())
            if is_submission
        ]
        begun_s += [
            each.at_s for each in stages if each.input_name == ProviderNeverReceived.__name__
        ]
        for each in filter(_is_submission, stages):
            if not any(at_s >= each.at_s for at_s in begun_s) and not _was_ended(world, each):
                yield f"{reference} is on record as submitted at {each.at_s:.3f}, and nobody did it"


def a_counted_poll_is_made(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S6: a process polls what is on record as polled, unless it ended or did not learn of the
    record. Where the report of an earlier conversation still waits for the store, that tells as
    much."""
    for reference, stages in world.commits.stages.items():
        begun_s = [at_s for at_s, _ in world.commits.conversations.get(reference, ())]
        reported_s = [each.at_s for each in stages if each.input_name in REPORTS]
        for each in stages:
            if each.input_name != TransactionWoke.__name__ or each.stage not in (
                Stage.SUBMITTING,
                Stage.AWAITING_RESULT,
            ):
                continue
            is_made = any(-CONVERSATION_S <= at_s - each.at_s <= BEGUN_WITHIN_S for at_s in begun_s)
            is_made |= any(0 <= at_s - each.at_s <= BEGUN_WITHIN_S for at_s in reported_s)
            if not is_made and not _was_ended(world, each) and not _was_in_doubt(world, each):
                yield f"{reference} is on record as polled at {each.at_s:.3f}, and nobody did it"


def an_ended_payment_is_polled(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S3, S5: an operator is asked, by whichever process, about a payment that has expired with a
    poll overdue, or of which more is told after its end."""
    for at_s, reference in world.commits.ended_polls:
        if not any(
            begun_s >= at_s for begun_s, _ in world.commits.conversations.get(reference, ())
        ):
            yield f"{reference} had ended, was to be polled at {at_s:.3f}, and nobody did it"


def _is_submission(entry: StoredStage) -> bool:
    return entry.stage == Stage.SUBMITTING and entry.input_name in (
        BeginSubmission.__name__,
        CreatePayment.__name__,
    )


def _was_ended(world: SimulatedWorld, entry: StoredStage) -> bool:
    """Return whether the process that made this entry may have ended, or begun to drain, before it
    did more: a commit that a drain has waited for may end with it, and one that is in doubt is
    asked about while the store fails."""
    begin_s = entry.at_s - DECIDED_BEFORE_S
    end_s = max((entry.at_s, *(each.ended_s for each in _store_faults(world, entry)))) + IN_DOUBT_S
    return any(
        (each.kind is FaultKind.GATEWAY_RESTARTED and each.meets(each.machine, begin_s, end_s))
        or (
            each.kind in ENDS_PROCESSES
            and each.meets(each.machine, begin_s - KILLED_AFTER_S, end_s)
        )
        for each in world.periods
    )


def _was_in_doubt(world: SimulatedWorld, entry: StoredStage) -> bool:
    return any(_store_faults(world, entry))


def _store_faults(world: SimulatedWorld, entry: StoredStage) -> Iterator[FaultPeriod]:
    """Yield the faults of the store near this entry, each of which may have left it in doubt."""
    begin_s, end_s = entry.at_s - IN_DOUBT_S, entry.at_s + IN_DOUBT_S
    return (
        each
        for each in world.periods
        if each.kind.startswith("store_") and each.meets(each.machine, begin_s, end_s)
    )
