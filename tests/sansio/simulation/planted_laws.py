"""Laws with one thing wrong each, and the words of the invariant that must see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import evolve

from mmo_sansio.messages.changes import (
    Change,
    DepositRecorded,
    JournalEntry,
    ReferenceConsumed,
    SuspenseRecorded,
    TransactionAdvanced,
)
from mmo_sansio.messages.inputs import (
    CreatePayment,
    Input,
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderSucceeded,
    ResolveManually,
    TransactionWoke,
)
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Applied, Ignored, Rejected
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Progress, Source, Stage, Status, Transaction

Law: TypeAlias = Callable[[Ledger, Input, Instant], Decision]


def with_changes(decision: Decision, changes: Sequence[Change]) -> Decision:
    """The same decision with other changes."""
    return Decision(decision.reply, tuple(changes), decision.intents)


def with_progress(decision: Decision, change: Callable[[Progress], Progress]) -> Decision:
    """The same decision with the progress that it leads to changed."""
    changes: list[Change] = []
    for each in decision.changes:
        if isinstance(each, TransactionAdvanced):
            after = Transaction(each.after.order, change(each.after.progress))
            each = TransactionAdvanced(each.before, after)
        changes.append(each)
    return with_changes(decision, changes)


def without(decision: Decision, kind: type[Change]) -> Decision:
    """The same decision without this kind of change."""
    return with_changes(decision, [each for each in decision.changes if not isinstance(each, kind)])


def reuse_a_millisecond_early(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The window ends at 14:59.999."""
    if isinstance(given, CreatePayment):
        window = Span(given.terms.idempotency_window - clock.MILLISECOND)
        given = evolve(given, terms=evolve(given.terms, idempotency_window=window))
    return decide(ledger, given, now=now)


def reuse_a_microsecond_late(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """At 15:00 sharp a reference is still taken."""
    if isinstance(given, CreatePayment):
        window = Span(given.terms.idempotency_window + clock.MICROSECOND)
        given = evolve(given, terms=evolve(given.terms, idempotency_window=window))
    return decide(ledger, given, now=now)


def only_the_newest_use_counts(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """How the payments before the newest one ended is forgotten."""
    if not isinstance(given, CreatePayment):
        return decide(ledger, given, now=now)
    uses = {key: evolve(use, earlier=Status.FAILED) for key, use in ledger.references.items()}
    return decide(evolve(ledger, references=uses), given, now=now)


def what_is_pending_counts_as_failed(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """After the window nobody looks at how the payment ended."""
    if not isinstance(given, CreatePayment):
        return decide(ledger, given, now=now)
    ended = {
        name: evolve(each, progress=evolve(each.progress, stage=Stage.FAILED))
        for name, each in ledger.transactions.items()
        if each.order.merchant_reference == given.draft.merchant_reference
    }
    return decide(evolve(ledger, transactions={**ledger.transactions, **ended}), given, now=now)


def a_result_after_the_end_is_applied(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """A success beats a failure that came first."""
    decision = decide(ledger, given, now=now)
    if isinstance(given, ProviderSucceeded) and isinstance(decision.reply, Ignored):
        was = decision.reply.transaction
        if was is not None and was.progress.stage is Stage.FAILED:
            version = was.progress.version + 1
            progress = evolve(was.progress, stage=Stage.SUCCEEDED, version=version)
            step = TransactionAdvanced(was, Transaction(was.order, progress))
            return with_changes(decision, (step, decision.changes[-1]))
    return decision


def expires_an_hour_early(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The clock of expiry runs ahead."""
    ahead = Instant(now + clock.HOUR if isinstance(given, TransactionWoke) else now)
    return decide(ledger, given, now=ahead)


def a_refusal_consumes_its_reference(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The reference is put on record before the request is checked."""
    decision = decide(ledger, given, now=now)
    if isinstance(given, CreatePayment) and isinstance(decision.reply, Rejected):
        used = ReferenceConsumed(
            given.brand.id, given.draft.merchant_reference, given.gateway_reference, now
        )
        return with_changes(decision, (used,))
    return decision


def another_currency_is_applied(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """Only the number is looked at."""
    decision = decide(ledger, given, now=now)
    if isinstance(given, ProviderSucceeded) and given.final and given.final.currency != "KES":
        final = given.final
        settled = decide(ledger, evolve(given, final=None), now=now)
        return with_progress(settled, lambda progress: evolve(progress, final=final))
    return decision


def a_deposit_told_twice_makes_two(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """Nobody remembers the provider's own id."""
    return without(decide(ledger, given, now=now), DepositRecorded)


def a_callback_for_pending(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The merchant would so much like to know."""
    decision = decide(ledger, given, now=now)
    if isinstance(given, ProviderAccepted) and isinstance(decision.reply, Applied):
        return evolve(decision, intents=(DeliverCallback(given.gateway_reference),))
    return decision


def a_wake_is_left_behind(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """What has ended is woken for ever."""
    decision = decide(ledger, given, now=now)
    if not isinstance(given, ProviderFailed):
        return decision
    return with_progress(
        decision, lambda progress: evolve(progress, wake_at=later(now, clock.HOUR))
    )


def a_failure_has_a_final_amount(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """finalAmount is set whatever the result."""
    decision = decide(ledger, given, now=now)
    was = ledger.transactions.get(getattr(given, "gateway_reference", ""))
    if was is None or not isinstance(given, ProviderFailed):
        return decision
    requested = was.order.requested
    return with_progress(decision, lambda progress: evolve(progress, final=requested))


def nothing_ever_expires(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The wake of what has never been sent does nothing."""
    if isinstance(given, TransactionWoke):
        was = ledger.transactions.get(given.gateway_reference)
        if was is not None and was.progress.stage is Stage.AWAITING_CUSTOMER:
            return Decision(Ignored("Nothing is due.", was))
    return decide(ledger, given, now=now)


def a_conflict_is_dropped(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """A second, different result leaves no trace."""
    decision = decide(ledger, given, now=now)
    if any(isinstance(each, SuspenseRecorded) for each in decision.changes):
        return Decision(decision.reply)
    return decision


def a_callback_is_forgotten(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """Expiry tells nobody."""
    decision = decide(ledger, given, now=now)
    if isinstance(given, TransactionWoke):
        kept = tuple(each for each in decision.intents if not isinstance(each, DeliverCallback))
        return evolve(decision, intents=kept)
    return decision


def a_move_leaves_no_line(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """The journal is written only for what merchants do."""
    decision = decide(ledger, given, now=now)
    return decision if isinstance(given, CreatePayment) else without(decision, JournalEntry)


def a_hint_is_believed(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """What nobody has signed is a result."""
    if isinstance(given, ProviderHinted):
        result = ProviderSucceeded(given.gateway_reference, given.provider, Source.WEBHOOK)
        return decide(ledger, result, now=now)
    return decide(ledger, given, now=now)


def staff_may_name_any_receipt(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """What staff name as the receipt of a payment is not looked up."""
    if not isinstance(given, ResolveManually) or given.provider_reference is None:
        return decide(ledger, given, now=now)
    decision = decide(ledger, evolve(given, provider_reference=None), now=now)
    return with_progress(
        decision, lambda progress: evolve(progress, provider_reference=given.provider_reference)
    )


def settled_amounts_are_rounded(ledger: Ledger, given: Input, now: Instant) -> Decision:
    """What a provider settles is rounded down to whole shillings."""

    def rounded(progress: Progress) -> Progress:
        if progress.final is None:
            return progress
        whole = evolve(progress.final, minor=progress.final.minor // 100 * 100)
        return evolve(progress, final=whole)

    return with_progress(decide(ledger, given, now=now), rounded)


LAWS: tuple[tuple[Law, str], ...] = (
    (staff_may_name_any_receipt, "a receipt has ended"),
    (reuse_a_millisecond_early, "a reference was taken twice within its window"),
    (reuse_a_microsecond_late, "a free reference was refused"),
    (only_the_newest_use_counts, "a reference was taken against the brand's policy"),
    (what_is_pending_counts_as_failed, "a pending payment was repeated"),
    (a_result_after_the_end_is_applied, "a terminal transaction moved"),
    (expires_an_hour_early, "early"),
    (a_refusal_consumes_its_reference, "a refusal changed something"),
    (another_currency_is_applied, "another currency"),
    (
        a_deposit_told_twice_makes_two,
        "one deposit became two|isn't known by its id|a gatewayReference came twice",
    ),
    (a_callback_for_pending, "callbacks and ends don't match"),
    (a_wake_is_left_behind, "a wake on what has ended"),
    (a_failure_has_a_final_amount, "finalAmount"),
    (nothing_ever_expires, "does not come to rest"),
    (a_conflict_is_dropped, "was dropped"),
    (a_callback_is_forgotten, "callbacks and ends don't match"),
    (a_move_leaves_no_line, "no line in the journal"),
    (a_hint_is_believed, "out of nothing|on a guess"),
    (settled_amounts_are_rounded, "another amount"),
)
