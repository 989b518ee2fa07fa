"""Money back by staff: who may ask for it, who approves it, and what the audit log holds of that.
The rules about money are :mod:`mmo_sansio.payments.rules.reversals`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NoReturn

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Ignored, Reply, ReversalApplied
from mmo_sansio.messages.reversals import (
    DecideReversal,
    RequestReversal,
    ResolveReversal,
    ReversalInput,
)
from mmo_sansio.values.clock import format_with_microseconds
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState, left_of, reversed_payment
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.admin.resolution import ResolutionRefusal, ResolutionUser, is_same_person
from mmo_trio.admin.told_wrong import ToldWrong, find_told_wrong
from mmo_trio.settings.values import ReversalLimit
from mmo_trio.storage.interface.admin_types import Role, SuspenseEntry
from mmo_trio.storage.sql.store import Store


class ReversalRefused(Exception):
    """Nothing has changed; the message is a sentence for a person."""


class ReversalNotPermitted(ReversalRefused):
    """The role of the user does not permit it."""


class NoSuchReversal(ReversalRefused):
    """There is no reversal with this id."""


_COMMAND_REFUSED: Final = (
    "With four eyes another user {verb} it in the console: a command only asks, unless"
    " console.commands_approve is on."
)


@frozen
class Reversals:
    """Requests for money back, and the decisions on them, each by a member of staff."""

    store: Store
    submit: Callable[[Input], Awaitable[Reply]]
    audit_log: AuditLog
    four_eyes: bool
    limits: Sequence[ReversalLimit] = ()
    commands_approve: bool = False
    """Whether a command counts as a second pair of eyes. The users of the machine are not those of
    the console, so one person may be both."""

    async def request(
        self,
        user: ResolutionUser,
        role: Role,
        payment: Transaction,
        amount: Money | None,
        reason: str,
        *,
        number: int | None = None,
    ) -> Reversal:
        """Ask for money of a payment back, for all that is left of it where `amount` is None.
        Without four eyes that of an approver is sent at once. With a `number` it is refused unless
        it gets this one. Raises ReversalRefused, which is recorded."""
        brand = payment.order.brand
        about = f"payment:{payment.reference}"

        # 1. The role, and its limit of a day. Where there are limits, a role without one has none.
        of_role = (limit.amount for limit in self.limits if limit.role == role)
        daily_max = next(
            (limit for limit in of_role if limit.currency == payment.order.requested.currency), None
        )
        if not user.can_propose or (self.limits and daily_max is None):
            await self._refuse(user, about, ResolutionRefusal.NOT_PERMITTED, ReversalNotPermitted)

        # 2. A restored store may lack a reversal that was sent: it would be sent again.
        if brand in (await self.store.configuration()).restored_brands:
            await self._refuse(
                user, about, "The store was restored: first close the gap (`mmo db restored`)."
            )

        # 3. A failed payment that was paid after all has moved what its provider reports.
        input_ = RequestReversal(
            payment.reference,
            brand,
            amount,
            reason,
            user.name,
            needs_approval=self.four_eyes or not user.can_approve,
            daily_max=daily_max,
            number=number,
        )
        wrong = find_paid_after_all(
            payment, await self.store.admin.suspense_of_payment(payment.reference)
        )
        if wrong is not None:
            input_ = evolve(
                input_,
                reported=wrong.reported_money,
                receipt=wrong.receipt,
                provider=payment.order.provider,
                suspense_entry=wrong.entry.id,
            )

        asked_amount = None
        if amount is not None:
            asked_amount = str(amount)

        return await self._carry_out(
            user, input_, "reversal_requested", about, amount=asked_amount, reason=reason
        )

    async def decide(
        self, user: ResolutionUser, id: str, *, is_approved: bool, remark: str = ""
    ) -> Reversal:
        """Approve a reversal, or refuse one that was not sent; whoever asked for it may take it
        back. Raises ReversalRefused, which is recorded."""
        reversal = await self.find(id)
        about = f"payment:{reversal.payment}"
        is_own = reversal.asked_by == user.name

        # Who asked for it may take it back without being an approver.
        if not user.can_approve and (is_approved or not is_own):
            await self._refuse(user, about, ResolutionRefusal.NOT_PERMITTED, ReversalNotPermitted)

        if is_approved and self.four_eyes and is_same_person(reversal.asked_by, user.name):
            await self._refuse(user, about, "You asked for it: another user has to approve it.")

        if is_approved and self._only_asks(user):
            await self._refuse(user, about, _COMMAND_REFUSED.format(verb="approves"))

        allowed = _MAY_BE_REFUSED
        action = "reversal_refused"
        if is_approved:
            allowed = _MAY_BE_APPROVED
            action = "reversal_approved"

        if reversal.state not in allowed:
            await self._refuse(user, about, _who_decided(reversal))

        decision = DecideReversal(
            id, user.name, is_approved=is_approved, four_eyes=self.four_eyes, remark=remark
        )
        return await self._carry_out(user, decision, action, about, reversal=id, remark=remark)

    async def resolve(
        self,
        user: ResolutionUser,
        id: str,
        *,
        succeeded: bool,
        evidence: str,
        provider_reference: str | None = None,
    ) -> Reversal:
        """End a reversal by hand whose outcome is unknown; with four eyes, not one's own. Raises
        ReversalRefused, which is recorded."""
        reversal = await self.find(id)
        about = f"payment:{reversal.payment}"
        if not user.can_approve:
            await self._refuse(user, about, ResolutionRefusal.NOT_PERMITTED, ReversalNotPermitted)

        # With four eyes neither one's own reversal, nor by a command, which is no other pair of
        # eyes.
        if self.four_eyes and is_same_person(reversal.asked_by, user.name):
            await self._refuse(user, about, "You asked for it: another user has to end it.")

        if self._only_asks(user):
            await self._refuse(user, about, _COMMAND_REFUSED.format(verb="ends"))

        ended = ResolveReversal(id, user.name, succeeded, evidence, provider_reference)
        outcome = "succeeded" if succeeded else "failed"
        return await self._carry_out(
            user, ended, "reversal_resolved", about, reversal=id, outcome=outcome, evidence=evidence
        )

    async def find(self, id: str) -> Reversal:
        """Return the reversal with this id. Raises NoSuchReversal."""
        for reversal in await self.store.reversals(reversed_payment(id)):
            if reversal.id == id:
                return reversal
        raise NoSuchReversal(f"There is no reversal {id}.")

    def _only_asks(self, user: ResolutionUser) -> bool:
        return user.is_command and self.four_eyes and not self.commands_approve

    async def _carry_out(
        self, user: ResolutionUser, input_: ReversalInput, action: str, about: str, **detail: object
    ) -> Reversal:
        # Recorded before it takes effect: no money goes back without its event, whatever crashes.
        await self.audit_log.record(user.actor, action, about, **detail, **user.people)
        reply = await self.submit(input_)
        if isinstance(reply, Ignored):
            await self._refuse(user, about, reply.reason)
        if not isinstance(reply, ReversalApplied):
            await self._refuse(user, about, "It is not possible.")
        return reply.reversal

    async def _refuse(
        self,
        user: ResolutionUser,
        about: str,
        why: str,
        refusal: type[ReversalRefused] = ReversalRefused,
    ) -> NoReturn:
        await self.audit_log.record(user.actor, "refused", about, remark=why, **user.people)
        raise refusal(why)


# Sent is sent: from then on only its outcome ends a reversal.
_MAY_BE_APPROVED = frozenset((ReversalState.REQUESTED,))
_MAY_BE_REFUSED = _MAY_BE_APPROVED | {ReversalState.APPROVED}


def _who_decided(reversal: Reversal) -> str:
    """Return a sentence about who has decided on a reversal, and when."""
    by = reversal.approved_by
    at = reversal.approved_at
    verb = "approved"
    if reversal.ended_by is not None:
        by = reversal.ended_by
        at = reversal.ended_at

        # What was never sent can only have been refused.
        verb = "ended"
        if reversal.sent_at is None:
            verb = "refused"

    if by is None or at is None:
        return f"It is {reversal.state} already."

    return f"{by} {verb} it already, at {format_with_microseconds(at)[:19]}Z."


def find_paid_after_all(
    payment: Transaction, suspense: Iterable[SuspenseEntry]
) -> ToldWrong | None:
    """Return a payment that has failed, with the open entry of its suspense by which its provider
    has confirmed that it was paid; None for all others."""
    wrong = None
    if payment.status is Status.FAILED:
        wrong = find_told_wrong(payment, suspense, ())
    # An unconfirmed notification is no proof that there is money to give back.
    if wrong is not None and wrong.is_confirmed:
        return wrong
    return None


def money_left(
    payment: Transaction, suspense: Iterable[SuspenseEntry], reversals: Sequence[Reversal]
) -> Money | None:
    """Return what can still be asked back of a payment; None when it has moved no money."""
    wrong = find_paid_after_all(payment, suspense)
    if wrong is not None:
        paid: Money | None = wrong.reported_money
    else:
        paid = payment.progress.final

    # Once the entry is closed, an earlier reversal still has what was reported.
    if paid is None and reversals:
        paid = reversals[-1].reported
    if paid is None:
        return None
    return left_of(paid, reversals)
