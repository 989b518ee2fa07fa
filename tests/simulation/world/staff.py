"""Plays the staff of a simulated world: they put brands on hold, and end payments by hand as the operator's statement
says, or err, in two tabs and as two approvers. What must not follow from their errors is left for judges."""

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
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.admin.brand_hold import stop_unsubmitted
from mmo_trio.admin.resolution import ResolutionRefused, Resolutions, ResolutionUser
from mmo_trio.console.context import ConsoleContext
from mmo_trio.storage.interface.admin_types import BrandHold, ConsoleUser, Role
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
ROWS: Final = 50
"""How many payments they look at."""
AT_ONCE: Final = 3
"""How many of the pending ones they try to end at a time."""


@define
class WorldHold:
    """Is the time in which a brand was on hold for certain, in seconds after the beginning of the world."""

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
    against_evidence: set[str] = Factory(set)
    """Payments that a tab called failed while evidence of their success was on record."""

    async def sign_up(self) -> None:
        """Make them users of the console."""
        async with self.store.open_outside() as store:
            for each in (PROPOSER, *APPROVERS):
                await store.admin.add_user(ConsoleUser(each.name, Role.APPROVER, "", TRUE_TIME_AT_START))

    async def hold(self, brand: str) -> None:
        """Put this brand on hold."""

        async def begin(console: ConsoleContext) -> None:
            await console.store.admin.hold_brand(BrandHold(brand, console.now(), PROPOSER.name))
            self.holds.append(WorldHold(brand, trio.current_time()))
            await stop_unsubmitted(console.store, brand, user=PROPOSER.name, submit=partial(_submit_all, console))

        await self._in_console(begin)

    async def release(self, brand: str) -> bool:
        """End the hold of this brand; return whether that is done."""
        for hold in self.holds:
            hold.ended_s = min(hold.ended_s, trio.current_time() if hold.brand == brand else math.inf)
        await self._in_console(lambda console: console.store.admin.release_brand(brand))
        async with self.store.open_outside() as store:
            return all(each.brand != brand for each in await store.admin.brand_holds())

    async def end_payments(self) -> None:
        """Propose how some of the pending payments have ended, and decide on all that is proposed about these."""
        await self._in_console(self._end_payments)

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

    def _outcomes(self, payment: Transaction, others: Sequence[Transaction]) -> Sequence[Outcome]:
        """Return what each tab says of a payment."""
        reference, provider = payment.reference, payment.order.provider
        statement = self._statement(payment)
        known = self.store.commits.ledger.claims.values()
        claims = [each for each in known if each.payment == reference and each.wake_at]
        receipts = [each.progress.provider_reference for each in others if each.order.provider == provider]
        match self.random.choice(("as the statement", "against evidence", "receipt", "two tabs")):
            case "against evidence" if payment.progress.evidence or any(each.is_confirmed for each in claims):
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
        """Return how the operator's statement says that a payment has ended; nothing when it has not."""
        operator = self.operators[payment.order.provider]
        names, rows = operator.kind.names(payment.reference), operator.simulator.snapshot()["payments"]
        ended = [each for each in rows if each["reference"] in names and each["result"] is not None]
        paid: list[Outcome] = [(None, each["receipt"]) for each in ended if each["result"] == "success"]
        return paid or [FAILED] * bool(ended)

    async def _propose(self, resolutions: Resolutions, reference: str, outcome: Outcome) -> None:
        code, receipt = outcome
        self.trace.add("resolution_proposed", reference, code, receipt)
        with suppress(ResolutionRefused):
            await resolutions.propose(
                PROPOSER, reference, code, reason="stuck", evidence="statement", provider_reference=receipt
            )

    async def _approve(self, resolutions: Resolutions, approver: ResolutionUser, id: int) -> None:
        with suppress(ResolutionRefused):
            decided = await resolutions.approve(approver, id)
            self.trace.add("resolution_decided", decided.gateway_reference, decided.state, decided.error_code)


async def _submit_all(console: ConsoleContext, inputs: Sequence[Input]) -> Sequence[Reply]:
    return [await console.submit(each) for each in inputs]
