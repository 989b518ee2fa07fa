"""Plays the staff of a simulated world: they put brands on hold, and end payments by hand as the
operator's statement says, or err, in two tabs and as two approvers. So they ask for money back.
What must not follow from their errors is left for judges."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, TypeAlias

import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Transaction
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.admin.brand_hold import stop_unsubmitted
from mmo_trio.admin.resolution import ResolutionRefused, Resolutions, ResolutionUser
from mmo_trio.admin.reversals import ReversalRefused, Reversals, money_left
from mmo_trio.console.context import ConsoleContext
from mmo_trio.storage.interface.admin_types import (
    BrandHold,
    ConsoleUser,
    NoteTopic,
    ProviderNote,
    Role,
)
from mmo_trio.workers.providers.account_notes import REQUESTED
from tests.simulation.clocks.virtual_clock import TRUE_TIME_AT_START
from tests.simulation.world.gateway import WorldGateway
from tests.simulation.world.operator import WorldOperator
from tests.simulation.world.store import WorldStore
from tests.simulation.world.trace import SimulationTrace

Outcome: TypeAlias = tuple[ErrorCode | None, str | None]
"""How a payment is to end: the error code, None for a success, and the receipt."""

FAILED: Final[Outcome] = (ErrorCode.PROVIDER_TIMEOUT, None)
PROPOSER: Final = ResolutionUser("sam", "user:sam", can_propose=True, can_approve=False)
APPROVERS: Final = [ResolutionUser(name, f"user:{name}", True, True) for name in ("ann", "bob")]
ALL_ROWS: Final = 10_000
ROWS: Final = 50
"""How many payments they look at."""
PARTS: Final = 3
"""A part is about one of so many of what is left, or less."""
PART_SHARE: Final = 0.95
"""The share of the reversals that ask for a part, where the operator gives back parts."""
TWICE_SHARE: Final = 0.2
"""The share of the reversals that are asked for in two tabs."""
LEFT_SHARE: Final = 0.3
"""The share of the reversals on which nobody decides at once."""
TAKEN_BACK_SHARE: Final = 0.1
"""The share of the decisions that refuse a reversal."""
AT_ONCE: Final = 3
"""How many of the pending ones they try to end at a time, and of how many payments they ask for the
money back."""


@define
class WorldHold:
    """Is the time in which a brand was on hold for certain, in seconds after the beginning of the
    world."""

    brand: str
    began_s: float
    ended_s: float = math.inf


@define(eq=False)
class WorldStaff:
    """Works in the consoles of the gateways."""

    gateways: Sequence[WorldGateway]
    operators: dict[str, WorldOperator]
    store: WorldStore
    random: Random
    trace: SimulationTrace
    holds: list[WorldHold] = Factory(list)
    mistaken: set[str] = Factory(set)
    """Payments of which a tab said what only the operator's statement denies."""
    looks: list[tuple[float, frozenset[str]]] = Factory(list)
    """What they saw as open too long, and when, in seconds after the beginning of the world."""
    against_evidence: set[str] = Factory(set)
    """Payments that a tab called failed while evidence of their success was on record."""

    async def sign_up(self) -> None:
        """Make them users of the console."""
        async with self.store.open_outside() as store:
            for each in (PROPOSER, *APPROVERS):
                await store.admin.add_user(
                    ConsoleUser(each.name, Role.APPROVER, "", TRUE_TIME_AT_START)
                )

    async def hold(self, brand: str) -> None:
        """Put this brand on hold."""

        async def begin(console: ConsoleContext) -> None:
            await console.store.admin.hold_brand(
                BrandHold(brand, console.wall_time(), PROPOSER.name)
            )
            self.holds.append(WorldHold(brand, trio.current_time()))
            await stop_unsubmitted(
                console.store, brand, user=PROPOSER.name, submit=partial(_submit_all, console)
            )

        await self._in_console(begin)

    async def release(self, brand: str) -> bool:
        """End the hold of this brand; return whether that is done."""
        for hold in self.holds:
            hold.ended_s = min(
                hold.ended_s, trio.current_time() if hold.brand == brand else math.inf
            )
        await self._in_console(lambda console: console.store.admin.release_brand(brand))
        async with self.store.open_outside() as store:
            return all(each.brand != brand for each in await store.admin.brand_holds())

    async def end_payments(self) -> None:
        """Propose how some of the pending payments have ended, and decide on all that is proposed
        about these."""
        await self._in_console(self._end_payments)

    async def look(self, own_time: Instant) -> None:
        """Look at what is open and should not be."""
        async with self.store.open_outside() as store:
            found = await store.admin.stuck_transactions(own_time, limit=ALL_ROWS)
        self.looks.append((trio.current_time(), frozenset(each.reference for each in found)))

    async def ask_for_check(self, provider: str) -> None:
        """Ask whether the operator accepts the account."""
        note = ProviderNote(provider, NoteTopic.CHECK, content=REQUESTED)
        await self._in_console(lambda console: console.store.admin.note_provider(note))

    async def ask_back(self) -> None:
        """Ask for the money of some payments back, and mostly decide on that."""
        await self._in_console(self._ask_back)

    async def settle(self) -> None:
        """Decide on the reversals that wait for it, and end by the operator's statement those
        reversals and payments of which no question can tell the outcome."""
        await self._in_console(self._settle_reversals)
        await self._in_console(self._end_stuck)

    async def _ask_back(self, console: ConsoleContext) -> None:
        admin, reversals = console.store.admin, self._reversals(console)
        payments = [*await admin.find_transactions(status=Status.SUCCESS, limit=ROWS)]
        payments += await admin.find_transactions(status=Status.FAILED, limit=AT_ONCE)
        asked_count = 0
        for payment in self.random.sample(payments, len(payments)):
            operation, known = (
                console.reversal_operation(payment),
                await console.store.reversals(payment.reference),
            )
            left = money_left(payment, await admin.suspense_of_payment(payment.reference), known)
            if operation is None or left is None or left.minor <= 0:
                continue
            is_part = operation.can_be_partial and self.random.random() < PART_SHARE
            part = Money(self.random.randint(1, left.minor // PARTS + 1), left.currency)
            amount = part if is_part else None
            asker, tabs = (
                self.random.choice((PROPOSER, *APPROVERS)),
                1 + (self.random.random() < TWICE_SHARE),
            )
            self.trace.add("asked_back", payment.reference, amount, asker.name)
            async with trio.open_nursery() as asked:
                for _ in range(tabs):
                    asked.start_soon(
                        self._request, reversals, asker, payment, amount, len(known) + 1
                    )
            if self.random.random() >= LEFT_SHARE:
                await self._decide_all(reversals, await console.store.reversals(payment.reference))
            asked_count += 1
            if asked_count == AT_ONCE:
                return

    async def _settle_reversals(self, console: ConsoleContext) -> None:
        reversals = self._reversals(console)
        unfinished = await console.store.list_reversals(only_unfinished=True, limit=ROWS)
        await self._decide_all(reversals, unfinished)
        for each in unfinished:
            if each.state is ReversalState.UNKNOWN and each.wake_at is None:
                payment = await console.store.transaction(each.payment)
                assert payment is not None
                approver = next(user for user in APPROVERS if user.name != each.asked_by)
                has_moved = self.went_back(each, payment)
                self.trace.add("reversal_resolved", each.id, has_moved)
                with suppress(ReversalRefused):
                    await reversals.resolve(
                        approver, each.id, succeeded=has_moved, evidence="statement"
                    )

    def went_back(self, reversal: Reversal, payment: Transaction) -> bool:
        """Tell whether the operator's statement has the money of this reversal, or all of its
        payment, as gone back."""
        names = {
            reversal.id,
            reversal.payment,
            payment.progress.provider_reference,
            reversal.receipt,
        }
        return any(
            each["reference"] in names for each in self.operators[reversal.provider].sent_back
        )

    def _reversals(self, console: ConsoleContext) -> Reversals:
        return Reversals(console.store, console.submit, console.audit_log, four_eyes=True)

    async def _request(
        self,
        reversals: Reversals,
        asker: ResolutionUser,
        payment: Transaction,
        amount: Money | None,
        number: int,
    ) -> None:
        with suppress(ReversalRefused):
            await reversals.request(
                asker, Role.APPROVER, payment, amount, "asked back", number=number
            )

    async def _decide_all(self, reversals: Reversals, found: Sequence[Reversal]) -> None:
        """Let one or both approvers approve or refuse each reversal that waits, whoever has asked
        for it."""
        async with trio.open_nursery() as decisions:
            for each in found:
                if each.state is ReversalState.REQUESTED:
                    for approver in self.random.sample(APPROVERS, self.random.randint(1, 2)):
                        is_approved = self.random.random() >= TAKEN_BACK_SHARE
                        decisions.start_soon(
                            self._decide_reversal, reversals, approver, each.id, is_approved
                        )

    async def _decide_reversal(
        self, reversals: Reversals, approver: ResolutionUser, id: str, is_approved: bool
    ) -> None:
        with suppress(ReversalRefused):
            decided = await reversals.decide(
                approver, id, is_approved=is_approved, remark="looked at"
            )
            self.trace.add("reversal_decided", id, decided.state)

    async def _in_console(self, act: Callable[[ConsoleContext], Awaitable[object]]) -> None:
        await self.random.choice(self.gateways).act(act)

    async def _end_payments(self, console: ConsoleContext) -> None:
        admin = console.store.admin
        pending = await admin.find_transactions(status=Status.PENDING, limit=ROWS)
        others = await admin.find_transactions(status=Status.SUCCESS, limit=ROWS)
        resolutions = Resolutions(console.store, console.submit, console.audit_log, four_eyes=True)
        for payment in self.random.sample(pending, min(len(pending), AT_ONCE)):
            async with trio.open_nursery() as tabs:
                for outcome in self._outcomes(payment, others):
                    tabs.start_soon(self._propose, resolutions, payment.reference, outcome)
            proposals = await admin.proposals(about=payment.reference)
            async with trio.open_nursery() as approvals:
                for each in proposals:
                    for approver in self.random.sample(APPROVERS, self.random.randint(1, 2)):
                        approvals.start_soon(self._approve, resolutions, approver, each.id)

    async def _end_stuck(self, console: ConsoleContext) -> None:
        resolutions = Resolutions(console.store, console.submit, console.audit_log, four_eyes=True)
        for payment in await console.store.admin.stuck_transactions(console.own_time(), limit=ROWS):
            for outcome in self._statement(payment):
                await self._propose(resolutions, payment.reference, outcome)
            for each in await console.store.admin.proposals(about=payment.reference):
                await self._approve(resolutions, APPROVERS[0], each.id)

    def _outcomes(self, payment: Transaction, others: Sequence[Transaction]) -> Sequence[Outcome]:
        """Return what each tab says of a payment."""
        reference, provider = payment.reference, payment.order.provider
        statement = self._statement(payment)
        known = self.store.commits.ledger.claims.values()
        claims = [each for each in known if each.payment == reference and each.wake_at]
        receipts = [
            each.progress.provider_reference for each in others if each.order.provider == provider
        ]
        match self.random.choice(("as the statement", "against evidence", "receipt", "two tabs")):
            case "against evidence" if payment.progress.evidence or any(
                each.is_confirmed for each in claims
            ):
                self.against_evidence.add(reference)
                return [FAILED]
            case "receipt" if receipts:
                return [(None, self.random.choice(receipts))]
            case "two tabs" if statement:
                self.mistaken.add(reference)
                return [*statement, FAILED]
            case _:
                return statement

    def _statement(self, payment: Transaction) -> Sequence[Outcome]:
        """Return how the operator's statement says that a payment has ended; nothing when it has
        not."""
        operator = self.operators[payment.order.provider]
        names = operator.kind.names(payment.reference)
        ended = [
            each
            for each in operator.payments
            if each["reference"] in names and each["result"] is not None
        ]
        paid: list[Outcome] = [
            (None, each["receipt"]) for each in ended if each["result"] == "success"
        ]
        return paid or [FAILED] * bool(ended)

    async def _propose(self, resolutions: Resolutions, reference: str, outcome: Outcome) -> None:
        code, receipt = outcome
        self.trace.add("resolution_proposed", reference, code, receipt)
        with suppress(ResolutionRefused):
            await resolutions.propose(
                PROPOSER,
                reference,
                code,
                reason="stuck",
                evidence="statement",
                provider_reference=receipt,
            )

    async def _approve(self, resolutions: Resolutions, approver: ResolutionUser, id: int) -> None:
        with suppress(ResolutionRefused):
            decided = await resolutions.approve(approver, id)
            self.trace.add(
                "resolution_decided", decided.gateway_reference, decided.state, decided.error_code
            )


async def _submit_all(console: ConsoleContext, inputs: Sequence[Input]) -> Sequence[Reply]:
    return [await console.submit(each) for each in inputs]
