"""Judges of a world that has come to its end. Each sees only what the outside saw and what the
books say, and names every violation in a sentence."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import evolve

from mmo_sansio.messages.inputs import ProviderCannotTell, ProviderHinted, ProviderNeverReceived
from mmo_sansio.payments.stuck import STUCK_AFTER
from mmo_sansio.values.clock import DAY, HOUR, SECOND, from_datetime
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Flow, Stage, Status, Transaction, Type
from tests.simulation.breaker_judge import one_breaker_holds_over_all_processes
from tests.simulation.callback_judges import (
    callbacks_go_through_one_process,
    each_end_is_called_back_once,
    only_the_owner_calls_back,
)
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.money_judges import (
    a_counted_poll_is_made,
    a_receipt_is_one_success,
    a_submission_on_record_is_begun,
    an_ended_payment_is_polled,
    is_deposit,
    nothing_is_submitted_on_hold,
    staff_end_payments_once_and_on_evidence,
)
from tests.simulation.reversal_judges import (
    a_report_counts_for_what_it_answers,
    money_goes_back_once,
    no_more_goes_back_than_was_paid,
    nothing_is_asked_back_that_is_not_left,
    what_has_gone_back_is_on_record,
)
from tests.simulation.statement_judges import (
    the_merchants_accounts_have_moved_by_that,
    what_is_paid_beside_a_prompt_is_its_payers,
    what_is_paid_unasked_is_in_the_books,
    what_is_told_as_failed_was_not_paid,
    what_was_forged_is_no_money,
)
from tests.simulation.world.books import WorldBooks
from tests.simulation.world.commits import StoredStage, described_reversal
from tests.simulation.world.faults import FaultPeriod
from tests.simulation.world.merchant import ReportedPayment
from tests.simulation.world.operator import LATE_MAX_S, PaymentEnding, WorldOperator
from tests.simulation.world.operator_kinds import MPESA
from tests.simulation.world.plan import FaultKind
from tests.simulation.world.store import CLOCK_DIFFERENCE_MAX
from tests.simulation.world.world import SimulatedWorld

LIFE_MAX = 3 * DAY
"""The longest life of a payment, in microseconds."""
LATE_S = 300.0
"""How late an expiry may be noticed while gateways are down or at work."""
EARLY_S = 60.0
"""How much earlier than others a store's clock may be, after some failovers."""
TAKEN_UP_S = 15_000.0 + LATE_MAX_S
"""How long after the last fault a payment may take: the longest interval between polls is an hour,
M-Pesa may be asked for another hour before a pay-out is submitted again that it does not know, and
some operators take their time."""
CLOCK_TRUSTED_AFTER_S = 120.0
"""How long after a clock was set right it is trusted at the latest."""
FIRST_START_S = 60.0
"""When every gateway has started for the first time."""
DISTURBED_BEFORE_S, DISTURBED_AFTER_S = 600.0, 600.0
"""A payment counts as undisturbed when no fault lasts within so many seconds before and after its
creation."""
UNDISTURBED_S = 60.0
"""The longest that an undisturbed payment takes."""

ABSENT = "absent"
_LEFT_OPEN = (
    PaymentEnding.NEVER,
    PaymentEnding.DENIED,
    PaymentEnding.UNDOCUMENTED,
    PaymentEnding.AFTER_EXPIRY,
)
"""Endings by which an operator does not say at once what has come of a payment."""

Judge = Callable[[SimulatedWorld, WorldBooks], Iterator[str]]


def no_answered_create_is_lost(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """P5, C12: whoever was answered finds the payment, under the reference that the answer gave."""
    for merchant in world.merchants:
        for reference in merchant.lost:
            yield f"{merchant.brand} was answered for {reference}, and then it was not found"
        for reference, started in merchant.started.items():
            found = books.transactions.get(started.gateway_reference)
            if (
                found is None
                or found.order.merchant_reference != reference
                or found.order.brand != merchant.brand
            ):
                yield f"{merchant.brand} was answered for {reference}, which is not in the books"


def a_reference_is_one_payment(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """C12: however often a merchant repeats a creation, it makes one payment."""
    payments = (each.order for each in books.transactions.values() if not is_deposit(each))
    uses = Counter((each.brand, each.merchant_reference) for each in payments)
    for (brand, reference), count in uses.items():
        if count > 1:
            yield f"{reference} of {brand} is {count} payments"


def money_is_asked_for_once(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S6: an operator has at most one submission of each payment in its book."""
    for operator in world.operators.values():
        rows = Counter(each["reference"] for each in operator.payments)
        known: set[str] = set()
        for reference, ours in _payments_with(operator, books).items():
            names = operator.kind.names(reference)
            known |= names
            if sum(rows[each] for each in names) > 1:
                yield f"{operator.name} was asked more than once to move the money of {reference}"
            count = sum(operator.submissions[each] for each in names)
            denials = sum(operator.denials[each] for each in names)
            if count > 1 + denials and not _rejects_repetitions(ours):
                yield (
                    f"{reference} was submitted {count} times to {operator.name}, which denied it "
                    f"{denials} times"
                )
        for name in sorted(rows.keys() - known):
            yield (
                f"{operator.name} was asked to move the money of {name}, which is not in the books"
            )


def _rejects_repetitions(transaction: Transaction) -> bool:
    """Return whether this is a pay-out of M-Pesa: it knows an id that it has had before, and tells
    by a notification what it does not know."""
    return transaction.order.provider == MPESA and transaction.order.type is Type.PAYOUT


def _ending(world: SimulatedWorld, transaction: Transaction) -> PaymentEnding:
    """Return how the operator has decided that this payment ends."""
    operator = world.operators[transaction.order.provider]
    found = (
        operator.endings.get(each) for each in sorted(operator.kind.names(transaction.reference))
    )
    return next((each for each in found if each is not None), PaymentEnding.AT_ONCE)


def _payments_with(operator: WorldOperator, books: WorldBooks) -> dict[str, Transaction]:
    return {
        name: each
        for name, each in books.transactions.items()
        if each.order.provider == operator.name
    }


def the_operators_book_equals_ours(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S4, S5: what an operator has moved is a success, or in the suspense book; nothing else is a
    success."""
    for operator in world.operators.values():
        rows = {each["reference"]: each for each in operator.payments}
        unasked = {each["receipt"]: each for each in operator.unasked}
        for reference, ours in _payments_with(operator, books).items():
            theirs = next(
                (rows[each] for each in sorted(operator.kind.names(reference)) if each in rows),
                None,
            )
            receipt = ours.progress.provider_reference
            if is_deposit(ours):
                theirs = next((each for each in rows.values() if each["receipt"] == receipt), None)
            theirs = unasked.get(receipt or "", theirs)
            moved = theirs is not None and theirs["result"] == "success"
            if ours.status is Status.SUCCESS:
                if theirs is None or not moved:
                    yield f"{reference} is a success, and {operator.name} has moved nothing"
                elif ours.progress.final is None or ours.progress.final.text != theirs["amount"]:
                    yield (
                        f"{reference} is a success of {ours.progress.final}, and "
                        f"{theirs['amount']} was moved"
                    )
            elif moved and reference not in books.suspense and not _may_stay_unknown(world, ours):
                yield (
                    f"{operator.name} has moved the money of {reference}, which is "
                    f"{ours.progress.stage}"
                )


def _cannot_be_asked_about(transaction: Transaction) -> bool:
    """Return whether this is a prompt or a tax payout of M-Pesa whose answer was lost, or a code of
    it: only a notification tells of these, which may be lost as well."""
    order = transaction.order
    if order.flow is Flow.QR:
        return True
    is_named = transaction.progress.provider_reference is not None
    return order.provider == MPESA and order.type is not Type.PAYOUT and not is_named


def every_payment_ends(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S3: by three days, and not before them for want of a result: by true time, whatever the
    clocks of the machines show, and with what a rest of the gateways takes."""
    longest_s = LIFE_MAX / SECOND + world.plan.rest_step_s + LATE_S
    for reference, each in books.transactions.items():
        if each.progress.completed_at is None:
            yield f"{reference} is still {each.progress.stage}"
        elif not _may_have_lost_time(world):
            lived_s = _lived_s(world, each)
            if lived_s > longest_s:
                yield f"{reference} took {lived_s:.0f} s"
            if _is_early_expiry(world, each):
                yield f"{reference} expired after {lived_s:.0f} s"


def an_expired_payment_was_asked_about(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S3, S5: no payment is given up that its operator was not asked about in its last hour, where
    it can be."""
    if _may_have_lost_time(world):
        return
    within_s = HOUR / SECOND + 2 * world.plan.rest_step_s + LATE_S
    for reference, each in books.transactions.items():
        if not _was_given_up(each) or _cannot_be_asked_about(each):
            continue
        ended_s = _ended_s(world, reference)
        asked_s = [at_s for at_s, _ in world.commits.conversations.get(reference, ())]
        if not any(ended_s - within_s <= at_s <= ended_s for at_s in asked_s):
            yield f"{reference} has expired, and nobody had asked about it for an hour"


def an_open_payment_stands_before_staff(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S5: staff see each payment that is given up at last from its first unknown hour on."""
    if any(each.kind is FaultKind.CLOCK_STEPPED for each in world.periods):
        return
    for reference, each in books.transactions.items():
        begun = each.progress.submitted_at
        if begun is None or not _was_given_up(each):
            continue
        begin_s = (begun + STUCK_AFTER - TRUE_TIME_AT_START) / SECOND + LATE_S
        missed_s = [
            at_s
            for at_s, seen in world.staff.looks
            if begin_s < at_s < _ended_s(world, reference) and reference not in seen
        ]
        if missed_s:
            yield f"{reference} is open, and staff did not see it at {missed_s[0]:.0f} s"


def _was_given_up(transaction: Transaction) -> bool:
    """Return whether a payment that was submitted has ended without a result."""
    progress = transaction.progress
    is_expired = progress.error_code is ErrorCode.TRANSACTION_EXPIRED
    return is_expired and progress.submitted_at is not None


def every_payment_ends_once_nothing_is_wrong(
    world: SimulatedWorld, books: WorldBooks
) -> Iterator[str]:
    """S3, S6: when the last fault is over, what was left is taken up, and operators are asked,
    within the longest pause between two polls. A prompt of M-Pesa whose answer was lost can be
    asked about only since its notification. Where an operator has contradicted a success that it
    reported, or knows nothing of what it has notified us of, the payment waits for a person."""
    quiet_s = max((each.ended_s for each in world.periods), default=0.0)
    for reference, each in books.transactions.items():
        if (
            each.progress.completed_at is None
            or _may_have_lost_time(world)
            or _cannot_be_asked_about(each)
        ):
            continue
        stages = world.commits.stages[reference]
        if _ending(world, each) in _LEFT_OPEN or _is_contradicted(each) or _is_denied(each, stages):
            continue
        since_s = max(quiet_s, can_be_asked_about_since_s(stages))
        if _ended_s(world, reference) > since_s + TAKEN_UP_S + 2 * world.plan.rest_step_s:
            late_s = _ended_s(world, reference) - since_s
            yield (
                f"{reference} was {stages[-2].stage} for {late_s:.0f} s more after everything was "
                f"right again"
            )


def _is_contradicted(transaction: Transaction) -> bool:
    """Return whether the operator has reported a success and then said otherwise; Airtel reports
    one by `TS`."""
    progress = transaction.progress
    return (progress.evidence is not None and progress.evidence.is_denied) or '"TS"' in (
        progress.hint or ""
    )


def _is_denied(transaction: Transaction, stages: Sequence[StoredStage]) -> bool:
    """Return whether the operator has said that it never received what a notification of it
    names."""
    denials = [each for each in stages if each.input_name == ProviderNeverReceived.__name__]
    return transaction.progress.hint is not None and any(
        each.stage == Stage.SUBMITTING for each in denials
    )


def can_be_asked_about_since_s(stages: Sequence[StoredStage]) -> float:
    """Return from when on an operator can be asked about a payment: from its beginning, or, where
    it could not be asked because its id for the payment was not known, from the latest
    notification, which names it."""
    begun_s = stages[0].at_s
    if all(each.input_name != ProviderCannotTell.__name__ for each in stages):
        return begun_s
    return max(
        (each.at_s for each in stages if each.input_name == ProviderHinted.__name__),
        default=begun_s,
    )


def _may_have_lost_time(world: SimulatedWorld) -> bool:
    """Return whether a gateway may have begun with a wrong time: it has only the wall clock to go
    by where the store is new, and where a machine was restarted whose store has no clock of its
    own."""
    stepped = [each for each in world.periods if each.kind is FaultKind.CLOCK_STEPPED]
    has_restarted = any(each.kind is FaultKind.GATEWAY_LOSES_POWER for each in world.periods)
    is_alone = not world.plan.is_store_shared
    return any(each.began_s < FIRST_START_S for each in stepped) or bool(
        stepped and has_restarted and is_alone
    )


def _may_stay_unknown(world: SimulatedWorld, transaction: Transaction) -> bool:
    """Return whether only a notification, which may be lost, tells that this payment was paid. That
    is so as well where a gateway began with a wrong time and ended it before the operator did, and
    where staff did by mistake."""
    has_expired_early = _may_have_lost_time(world) and _is_early_expiry(world, transaction)
    is_mistake = transaction.reference in world.staff.mistaken
    return has_expired_early or is_mistake or _cannot_be_asked_about(transaction)


def _is_early_expiry(world: SimulatedWorld, transaction: Transaction) -> bool:
    is_expiry = transaction.progress.error_code == ErrorCode.TRANSACTION_EXPIRED
    return is_expiry and _lived_s(world, transaction) < LIFE_MAX / SECOND - EARLY_S


def _lived_s(world: SimulatedWorld, transaction: Transaction) -> float:
    """Return how long a payment has lived since it was created; by its own date where all clocks
    were right, as a process that is suspended in a commit may be killed much later, and the commit
    has taken place."""
    begun_s = world.commits.stages[transaction.reference][0].at_s
    if all(each.kind is not FaultKind.CLOCK_STEPPED for each in world.periods):
        begun_s = min(begun_s, (transaction.order.created_at - TRUE_TIME_AT_START) / SECOND)
    return _ended_s(world, transaction.reference) - begun_s


def _ended_s(world: SimulatedWorld, reference: str) -> float:
    return next(
        each.at_s for each in world.commits.stages[reference] if Stage(each.stage).is_terminal
    )


def an_undisturbed_payment_succeeds_soon(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """What no fault is near of, and no payer delays, ends as its operator decides, in a minute, and
    its callback arrives."""
    called = {
        each.gateway_reference: each.at
        for merchant in world.merchants
        for each in merchant.received
    }
    for merchant in world.merchants:
        for reference, started in merchant.started.items():
            begun_at = merchant.begun_at[reference]
            begin, end = begun_at - DISTURBED_BEFORE_S, begun_at + DISTURBED_AFTER_S
            if any(each.began_s <= end and each.ended_s >= begin for each in world.periods):
                continue
            each = books.transactions[started.gateway_reference]
            if each.order.flow is not Flow.DIRECT:
                continue  # Its payer takes his time.
            ending = _ending(world, each)
            if ending not in (PaymentEnding.AT_ONCE, PaymentEnding.REFUSED):
                continue
            if each.progress.error_code is ErrorCode.USER_BUSY:
                # M-Pesa asks a phone for one payment at a time, and refuses the next one at once.
                continue
            if (each.status is Status.SUCCESS) != (ending is PaymentEnding.AT_ONCE):
                yield (
                    f"{each.reference} is {each.status}, and its operator has ended it as "
                    f"{ending.value}"
                )
            elif ending is PaymentEnding.REFUSED:
                # An answer that refuses a pay-out may prove nothing, and then it is polled.
                continue
            elif called.get(each.reference, math.inf) > begun_at + UNDISTURBED_S:
                yield f"{each.reference} was not called back in a minute, and nothing was wrong"


def an_end_never_changes(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """S1, S2: who learns that a payment has ended learns the same for ever, but for a receipt that
    its operator tells later."""
    reports: defaultdict[str, list[ReportedPayment]] = defaultdict(list)
    for merchant in world.merchants:
        for each in merchant.reports:
            reports[each.transaction.gateway_reference].append(each)
    for reference, results in reports.items():
        ends = [each for each in results if each.transaction.has_ended]
        for earlier, later in pairwise(ends):
            receipt = later.transaction.provider_reference
            if evolve(earlier.transaction, provider_reference=receipt) != later.transaction:
                yield (
                    f"{reference} was reported as {earlier.transaction.status} by {earlier.by}, "
                    f"and then otherwise"
                )
        if ends and any(
            each.asked_at > ends[0].at and not each.transaction.has_ended for each in results
        ):
            yield f"{reference} was reported as pending after its end"
        ours = books.transactions.get(reference)
        if ends and (ours is None or ours.status is not ends[-1].transaction.status):
            yield (
                f"{reference} was reported as {ends[-1].transaction.status}, and the books say "
                f"otherwise"
            )


def the_journal_explains_each_stage(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """J1: the entries of a payment lead from its creation to its stage, and those of its reversals
    to their states."""
    for reference, each in books.transactions.items():
        stages: dict[str, str] = {}
        for entry in books.journal[reference]:
            about = described_reversal(entry) or reference
            if entry.stage_after is None:
                continue
            if entry.stage_before != stages.get(about):
                yield (
                    f"the journal of {about} goes on from {entry.stage_before}, and it was "
                    f"{stages.get(about)}"
                )
            stages[about] = entry.stage_after
        ends = {reference: each.progress.stage} | {
            back.id: back.state for back in books.ledger.reversals.get(reference, ())
        }
        if stages != ends:
            yield f"the journal of {reference} ends with {stages}, and it is {ends}"


def records_list_each_payment_once(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """R6, R7: a window that is over lists what was created in it, each once."""
    for merchant in world.merchants:
        for listed in merchant.listed:
            counts = Counter(each.gateway_reference for each in listed.transactions)
            yield from (
                f"{merchant.brand} found {each} {times} times in one list"
                for each, times in counts.items()
                if times > 1
            )
            if _had_wrong_clocks(world, listed.at):
                continue  # For a gateway whose clock is behind the window was not over.
            over_at = (
                from_datetime(listed.window.end)
                - store_clock_error_max_s(world.periods, listed.at) * SECOND
            )
            expected = {
                each.reference
                for each in books.transactions.values()
                if each.order.brand == merchant.brand
                and from_datetime(listed.window.begin) <= each.order.created_at < over_at
            }
            for missing in sorted(expected - counts.keys()):
                yield f"{merchant.brand} did not find {missing} in a list of a window that was over"


def store_clock_error_max_s(periods: Sequence[FaultPeriod], at_s: float) -> float:
    """Return how far the clock of the store may be behind at this time: each standby has a clock of
    its own. What is later than that clock is not over, so a payment may be dated there
    afterwards."""
    failovers = sum(
        each.kind is FaultKind.STORE_FAILS_OVER and each.began_s <= at_s for each in periods
    )
    return failovers * CLOCK_DIFFERENCE_MAX / 2 / SECOND


def _had_wrong_clocks(world: SimulatedWorld, at_s: float) -> bool:
    return any(
        each.kind is FaultKind.CLOCK_STEPPED
        and each.began_s <= at_s <= each.ended_s + CLOCK_TRUSTED_AFTER_S
        for each in world.periods
    )


def nothing_is_left(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """When all is quiet there is no work, no process and no unanswered creation."""
    yield from (f"{each.intent} was never carried out" for each in books.unfinished)
    yield from world.left
    if books.next_wake is not None:
        yield f"something is due at {books.next_wake}"
    for gateway in world.gateways:
        if gateway.life is not None:
            yield f"{gateway.machine.name} has not ended its process"
    for merchant in world.merchants:
        yield from (
            f"{merchant.brand} does not know the outcome of {each}"
            for each in sorted(merchant.unclear)
        )


def the_store_holds_what_was_decided(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """P5: the rows are those that the commits have decided, and no others."""
    decided, stored = world.commits.ledger, books.ledger
    pairs: list[tuple[str, Mapping[Any, object], Mapping[Any, object]]] = [
        ("payment", decided.transactions, stored.transactions),
        ("use of", decided.references, stored.references),
        ("deposit", decided.deposits, stored.deposits),
        ("claim of", decided.claims, stored.claims),
        ("counter", decided.usage, stored.usage),
        ("reversals of", decided.reversals, stored.reversals),
        ("intent", dict.fromkeys(decided.intents), dict.fromkeys(stored.intents)),
        ("journal of", world.commits.journal, books.journal),
    ]
    if (
        not world.plan.is_store_shared
    ):  # Of several processes, only the owner of a channel saves its breaker.
        pairs.append(("breaker of", world.commits.breakers, books.breakers))
    for what, ours, theirs in pairs:
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            if ours.get(key, ABSENT) != theirs.get(key, ABSENT):
                yield (
                    f"the {what} {key} was decided as {ours.get(key, ABSENT)}, and is "
                    f"{theirs.get(key, ABSENT)}"
                )
    recorded = Counter((each.gateway_reference, each.attempt) for each in world.commits.callbacks)
    kept = Counter(
        (each.gateway_reference, each.attempt)
        for found in books.callbacks.values()
        for each in found
    )
    for reference, attempt in (recorded - kept) + (kept - recorded):
        yield f"the callback {attempt} of {reference} was recorded otherwise than decided"


def no_part_has_a_fault(world: SimulatedWorld, books: WorldBooks) -> Iterator[str]:
    """No log line tells of an error of the program itself."""
    yield from (f"the log tells of a fault: {each}" for each in world.trace.faults)


JUDGES: Sequence[Judge] = (
    no_answered_create_is_lost,
    a_reference_is_one_payment,
    money_is_asked_for_once,
    the_operators_book_equals_ours,
    what_is_paid_unasked_is_in_the_books,
    what_is_paid_beside_a_prompt_is_its_payers,
    what_is_told_as_failed_was_not_paid,
    what_was_forged_is_no_money,
    the_merchants_accounts_have_moved_by_that,
    money_goes_back_once,
    no_more_goes_back_than_was_paid,
    what_has_gone_back_is_on_record,
    nothing_is_asked_back_that_is_not_left,
    a_report_counts_for_what_it_answers,
    every_payment_ends,
    an_expired_payment_was_asked_about,
    an_open_payment_stands_before_staff,
    every_payment_ends_once_nothing_is_wrong,
    an_undisturbed_payment_succeeds_soon,
    an_end_never_changes,
    each_end_is_called_back_once,
    callbacks_go_through_one_process,
    only_the_owner_calls_back,
    one_breaker_holds_over_all_processes,
    a_receipt_is_one_success,
    staff_end_payments_once_and_on_evidence,
    nothing_is_submitted_on_hold,
    a_submission_on_record_is_begun,
    a_counted_poll_is_made,
    an_ended_payment_is_polled,
    the_journal_explains_each_stage,
    records_list_each_payment_once,
    nothing_is_left,
    the_store_holds_what_was_decided,
    no_part_has_a_fault,
)


def judge(world: SimulatedWorld, books: WorldBooks) -> list[str]:
    """Return every violation, with the judge's name."""
    return [f"{each.__name__}: {found}" for each in JUDGES for found in each(world, books)]
