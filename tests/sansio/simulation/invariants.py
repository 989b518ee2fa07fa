"""What must hold, with each thing that happens: each invariant is a function that is named for what
it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from mmo_sansio.messages.changes import (
    CallbackRecorded,
    JournalEntry,
    ReferenceConsumed,
    SuspenseRecorded,
    TransactionAdvanced,
    TransactionCreated,
)
from mmo_sansio.messages.inputs import (
    CreatePayment,
    EndedPollConcluded,
    Input,
    ProviderAccepted,
    ProviderCannotTell,
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    ResolveManually,
)
from mmo_sansio.messages.intents import (
    DeliverCallback,
    IntentKind,
    PollEnded,
    PollProvider,
    SubmitToProvider,
)
from mmo_sansio.messages.replies import Accepted, Rejected
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.evidence import SUBMISSION_TIMEOUT
from mmo_sansio.values import clock, problems
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import ReferenceReuse, Source, Stage, Status, Transaction
from tests.sansio.simulation.records import Walk

if TYPE_CHECKING:
    from tests.sansio.simulation.world import Simulation

WINDOW = 15 * clock.MINUTE


def check_decision(
    world: Simulation, given: Input, was: Transaction | None, decision: Decision, now: Instant
) -> None:
    """Everything that holds of one decision before it is made durable."""
    a_refusal_consumes_nothing(decision)
    a_decision_leaves_one_line(given, was, decision)
    if isinstance(given, CreatePayment):
        a_creation_is_whole(given, decision, now)
        a_reference_is_taken_once_in_its_window(world, given, decision, now)
    for change in decision.changes:
        match change:
            case TransactionCreated(made):
                a_gateway_reference_is_used_once(world, made)
                what_a_stage_says_it_is(made)
            case TransactionAdvanced(before, after):
                what_has_ended_never_changes(before, after)
                an_order_never_changes(before, after)
                what_a_stage_says_it_is(after)
                nothing_expires_early(after, now)
                a_result_is_what_was_told(given, after)
            case CallbackRecorded():
                a_callback_is_recorded_once(world, change)
            case SuspenseRecorded():
                a_suspense_entry_stands_with_its_own_brand(world, change)
            case _:
                pass
    callbacks_are_scheduled_exactly_when_something_ends(decision)
    questions_and_submissions_are_for_what_is_pending(world, decision)
    a_result_that_is_not_applied_is_kept(given, was, decision)
    only_a_result_ends_a_payment(given, decision)


# Of one decision.


def a_refusal_consumes_nothing(decision: Decision) -> None:
    """C12, law 4."""
    if isinstance(decision.reply, Rejected):
        assert decision.changes == (), "a refusal changed something"
        assert decision.intents == (), "a refusal wants something done"


def a_decision_leaves_one_line(given: Input, was: Transaction | None, decision: Decision) -> None:
    """The journal has one line for each decision that changes something, the last of its
    changes."""
    if decision.changes:
        assert isinstance(decision.changes[-1], JournalEntry), "no line in the journal"
    elif not (
        isinstance(given, ProviderHinted | ProviderAccepted | EndedPollConcluded)
        and was
        and was.progress.stage.is_terminal
    ):
        assert not decision.intents, "an intent without a change"


def a_creation_is_whole(given: CreatePayment, decision: Decision, now: Instant) -> None:
    """2: its reference and its transaction become true together, and expire when its terms say."""
    if isinstance(decision.reply, Accepted):
        kinds = [type(each) for each in decision.changes]
        assert kinds == [ReferenceConsumed, TransactionCreated, JournalEntry], "a partial creation"
        order = decision.reply.order
        assert order.created_at == now
        assert order.expires_at == now + given.terms.pending_timeout, "wrong expiry"
        assert order.merchant_reference == given.draft.merchant_reference


def a_reference_is_taken_once_in_its_window(
    world: Simulation, given: CreatePayment, decision: Decision, now: Instant
) -> None:
    """6: at most one accepted creation of a brand's reference in any window, after it only as its
    policy allows, and no refusal without its cause."""
    before = [
        each
        for each in world.ledger.transactions.values()
        if each.order.merchant_reference == given.draft.merchant_reference
        and each.order.brand == given.brand.id
    ]
    outcomes = {each.status for each in before}
    is_guarded = any(now - each.order.created_at < WINDOW for each in before)
    is_refused = (
        bool(before)
        and not {
            ReferenceReuse.UNLESS_PAID: outcomes == {Status.FAILED},
            ReferenceReuse.NEVER: False,
            ReferenceReuse.AFTER_WINDOW: Status.PENDING not in outcomes,
        }[given.brand.reference_reuse.for_type(given.draft.operation.type)]
    )
    if isinstance(decision.reply, Accepted):
        assert not is_guarded, "a reference was taken twice within its window"
        assert Status.PENDING not in outcomes, "a pending payment was repeated"
        assert not is_refused, "a reference was taken against the brand's policy"
        world.tally["taken again after a failure"] += bool(before)
    elif isinstance(decision.reply, Rejected):
        is_called_taken = decision.reply.problem.status == problems.DUPLICATE_REFERENCE.status
        assert is_guarded or is_refused or not is_called_taken, "a free reference was refused"
        world.tally["refused after the window"] += is_called_taken and not is_guarded


def a_gateway_reference_is_used_once(world: Simulation, made: Transaction) -> None:
    """3."""
    assert made.reference not in world.ledger.transactions, "a gatewayReference came twice"


def an_order_never_changes(before: Transaction, after: Transaction) -> None:
    """3."""
    assert before.order == after.order, "an order changed"


def what_has_ended_never_changes(before: Transaction, after: Transaction) -> None:
    """4, 11, 12; only the receipt that its provider had not named is added."""
    if before.progress.stage.is_terminal:
        receipt = after.progress.provider_reference
        added = evolve(
            before.progress,
            version=after.progress.version,
            provider_reference=receipt,
            receipt_awaited_since=None,
        )
        assert before.progress.receipt_awaited_since is not None, "a terminal transaction moved"
        assert after.progress == added, "a terminal transaction moved"
    assert after.progress.version == before.progress.version + 1, "a version was skipped"


def what_a_stage_says_it_is(transaction: Transaction) -> None:
    """5: which members are set in which stage."""
    progress, order = transaction.progress, transaction.order
    ended = progress.stage.is_terminal
    assert (progress.wake_at is None) == ended, (
        "a wake on what has ended, or none on what is pending"
    )
    assert (progress.final is not None) == (progress.stage is Stage.SUCCEEDED), "finalAmount"
    assert (progress.completed_at is not None) == ended, "completedAt"
    assert (progress.completion_source is not None) == ended, "completionSource"
    assert (progress.error_code is not None) == (progress.stage is Stage.FAILED), "errorCode"
    assert (progress.error_message is None) == (progress.error_code is None), "errorMessage"
    assert progress.completed_at is None or progress.completed_at >= order.created_at
    assert progress.wake_at is None or progress.wake_at <= order.expires_at, "sleeps past expiry"
    if progress.final is not None:
        assert progress.final.currency == order.requested.currency, "another currency"
        assert progress.provider_data is not None, "a success without a provider"
    if progress.stage in (Stage.SUBMITTING, Stage.AWAITING_RESULT):
        assert progress.provider_data is not None, "submitted without a record"


def nothing_expires_early(after: Transaction, now: Instant) -> None:
    """5: `transaction_expired` by our own timer, and not before the terms' time; what would expire
    in flight is not sent."""
    progress = after.progress
    if progress.completion_source is Source.EXPIRY:
        if progress.error_code is ErrorCode.TRANSACTION_EXPIRED:
            assert now >= after.order.expires_at, "expired early"
        elif progress.error_code is ErrorCode.PROVIDER_UNAVAILABLE:
            assert now > after.order.expires_at - SUBMISSION_TIMEOUT, "not sent, with time to spare"
        else:
            assert after.order.page is not None, "timed out without a page"
            assert now >= after.order.page.closes_at, "the page closed early"
            is_unsent = progress.provider_data is None or progress.unsent > 0
            assert is_unsent, "timed out although it was submitted"


def a_result_is_what_was_told(given: Input, after: Transaction) -> None:
    """15: a final amount is what its provider or an operator confirmed, or what was requested."""
    if after.progress.stage is Stage.SUCCEEDED:
        if isinstance(given, ProviderHinted):  # It only adds the receipt.
            return
        assert isinstance(given, ProviderSucceeded | ResolveManually), "a success out of nothing"
        assert after.progress.final == (given.final or after.order.requested), "another amount"
        if isinstance(given, ProviderSucceeded):
            assert given.provider == after.order.provider, "another provider's result"


def a_callback_is_recorded_once(world: Simulation, change: CallbackRecorded) -> None:
    """8."""
    key = (change.gateway_reference, IntentKind.CALLBACK)
    assert key in world.ledger.intents, "a callback was recorded twice"


def a_suspense_entry_stands_with_its_own_brand(world: Simulation, noted: SuspenseRecorded) -> None:
    """16."""
    about = world.ledger.transactions.get(noted.gateway_reference or "")
    if about is not None:
        assert noted.brand == about.order.brand, "an entry stands with another brand"


def callbacks_are_scheduled_exactly_when_something_ends(decision: Decision) -> None:
    """K1, 7: one callback with each entry into a terminal stage, and never another."""
    ended = {
        each.after.reference
        for each in decision.changes
        if isinstance(each, TransactionAdvanced)
        if each.after.progress.stage.is_terminal and not each.before.progress.stage.is_terminal
    } | {
        each.transaction.reference
        for each in decision.changes
        if isinstance(each, TransactionCreated) and each.transaction.progress.stage.is_terminal
        if each.transaction.order.result_url is not None
    }
    called = [each.gateway_reference for each in decision.intents if type(each) is DeliverCallback]
    assert sorted(called) == sorted(ended), "callbacks and ends don't match"


def questions_and_submissions_are_for_what_is_pending(
    world: Simulation, decision: Decision
) -> None:
    """S6: a wish to submit comes with `CREATED` only, a question only with what has been
    submitted."""
    if not decision.intents:
        return
    after = dict(world.ledger.transactions)
    for change in decision.changes:
        if isinstance(change, TransactionAdvanced):
            after[change.after.reference] = change.after
        elif isinstance(change, TransactionCreated):
            after[change.transaction.reference] = change.transaction
    for intent in decision.intents:
        progress = after[intent.gateway_reference].progress
        stage = progress.stage
        if isinstance(intent, SubmitToProvider):
            assert stage is Stage.CREATED, "submitted a second time"
        elif isinstance(intent, PollEnded):
            is_word = stage is Stage.SUCCEEDED and progress.completion_source is not Source.MANUAL
            assert stage.is_terminal, "forgotten too early"
            assert not is_word, "asked for nothing"
        elif isinstance(intent, PollProvider):
            assert stage in (Stage.SUBMITTING, Stage.AWAITING_RESULT), "asked for nothing"


def only_a_result_ends_a_payment(given: Input, decision: Decision) -> None:
    """S5, S6: a hint only asks, and where nobody can be asked nothing is done on a guess."""
    if not isinstance(given, ProviderHinted | ProviderCannotTell):
        return
    wanted = (PollProvider, PollEnded) if isinstance(given, ProviderHinted) else ()
    assert all(isinstance(each, wanted) for each in decision.intents), "acted on a guess"
    for change in decision.changes:
        if isinstance(change, TransactionAdvanced):
            assert change.after.progress.stage is change.before.progress.stage, "moved on a guess"


def a_result_that_is_not_applied_is_kept(
    given: Input, was: Transaction | None, decision: Decision
) -> None:
    """S5, 11, 12: what changes nothing is kept, but for an answer that agrees with what is on
    record."""
    if not isinstance(given, ProviderSucceeded | ProviderFailed):
        return
    if any(isinstance(each, TransactionAdvanced | SuspenseRecorded) for each in decision.changes):
        return
    assert was is not None, "a result for an unknown payment was dropped"
    assert given.source is Source.POLL, "a notification was dropped"
    agrees = (was.progress.stage is Stage.SUCCEEDED) == isinstance(given, ProviderSucceeded)
    assert agrees, "a conflicting result was dropped"


# Of what workers do.


def money_is_asked_for_once(world: Simulation, reference: str) -> None:
    """10: one request to move money arrives, and another only after the provider denied it."""
    transaction = world.ledger.transactions[reference]
    provider = world.providers[transaction.order.provider]
    assert provider.received[reference] <= 1 + provider.lies[reference], "money was asked for twice"


def callbacks_tell_what_has_ended(world: Simulation, transaction: Transaction) -> None:
    """7: never for pending, and it says what a look-up says at that time."""
    assert transaction.progress.stage.is_terminal, "a callback for a pending payment"
    assert world.ledger.transactions[transaction.reference] is transaction


def a_callback_is_sent_once(world: Simulation, reference: str) -> None:
    """8: a second time only after a crash between sending and recording."""
    assert world.sends[reference] <= 1 + world.lost_sends[reference], "a callback was sent again"
    recorded = [each for each in world.recorded if each.gateway_reference == reference]
    assert not recorded, "a callback was sent after its outcome was recorded"


def an_open_breaker_sends_nothing(world: Simulation, brand: str) -> None:
    """9."""
    assert world.stamp >= world.open_until.get(brand, 0), "sent while the breaker was open"


def a_walk_sees_each_row_once(walk: Walk) -> None:
    """13, 14, R6, R7."""
    assert len(set(walk.seen)) == len(walk.seen), "a row was listed twice"
    if walk.query.status is None:
        assert walk.seen == walk.expected, "a row was skipped"
        if walk.seen_back:
            assert walk.seen_back == walk.expected, "the way back differs"
    else:
        assert set(walk.seen) <= set(walk.expected)
        assert len(set(walk.seen_back)) == len(walk.seen_back), "a row was listed twice"
