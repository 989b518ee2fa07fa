"""Asks providers about unconfirmed deposits, and lets claims of deposits move on when their time has come.

The claims and the times of the questions are in the store, so that a killed process loses none. Several processes may
find the same claim due: the decision to wake it lets only one of them ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import DepositClaimWoke
from mmo_sansio.messages.replies import ClaimDue
from mmo_sansio.providers.common.deposits import answer_input, claimed_deposit, find_owner
from mmo_sansio.providers.common.interface import DepositAnswer, Provider, VerifiesDeposits
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import OutcomeUnknown, Store, StoreUnavailable
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.providers.conversation import CONVERSATION_TIMEOUT_S, SendRequest, drive_async

logger = structlog.get_logger(__name__)

SCAN_INTERVAL_S = 1.0
"""Seconds between two looks at what is due."""

ROUND_SIZE_MAX = 16
"""Claims that are woken in one round: a flood of forged notifications must leave the account's requests to payments."""

RETRY_DELAY_S = 5.0
"""Seconds before the next round when the store can't serve."""


@define(eq=False)
class DepositClaimWorker:
    """Runs once in each process that has a provider whose notifications of deposits are unsigned."""

    store: Store
    submit: Submit
    providers: Mapping[str, Provider]
    exchange_for: Callable[[str], SendRequest]
    """Returns the function that sends requests to the provider with this name."""
    now: Callable[[], Instant]
    scan_interval_s: float = SCAN_INTERVAL_S
    _limiter: trio.CapacityLimiter = Factory(lambda: trio.CapacityLimiter(ROUND_SIZE_MAX))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until cancelled. A question that is cancelled is asked again."""
        async with trio.open_nursery() as questions:
            task_status.started()
            while True:
                pause_s = self.scan_interval_s
                try:
                    await self._run_round(questions)
                except (StoreUnavailable, OutcomeUnknown) as error:
                    logger.warning("deposit_claim_scan_failed", error=str(error))
                    pause_s = RETRY_DELAY_S
                except Exception as error:
                    logger.error("deposit_claim_scan_failed", fault=describe_fault(error))
                    pause_s = RETRY_DELAY_S
                await trio.sleep(pause_s)

    async def _run_round(self, questions: trio.Nursery) -> None:
        for claim in await self.store.due_claims(self.now(), limit=ROUND_SIZE_MAX):
            reply = await self.submit(DepositClaimWoke(claim.provider, claim.receipt, claim.payment))
            if isinstance(reply, ClaimDue):
                questions.start_soon(self._ask, reply.claim)

    async def _ask(self, claim: DepositClaim) -> None:
        """Ask the provider; without an answer the claim is woken again."""
        provider = self.providers.get(claim.provider)
        if not isinstance(provider, VerifiesDeposits):
            logger.error("deposit_not_verifiable", provider=claim.provider, receipt=claim.receipt)
            return
        try:
            answer = None
            async with self._limiter:
                with trio.move_on_after(CONVERSATION_TIMEOUT_S):
                    conversation = provider.verify_deposit(claim, now=self.now())
                    answer = await drive_async(conversation, self.exchange_for(claim.provider))
            if answer is not None:
                await self._report(answer, claim)
        except Exception as error:
            logger.error("deposit_question_failed", provider=claim.provider, fault=describe_fault(error))

    async def _report(self, answer: DepositAnswer, claim: DepositClaim) -> None:
        owner = None
        if claim.payment is None:
            brands = [each.brand for each in await self.store.admin.brands()]
            owner = find_owner(claimed_deposit(claim), brands)
        await self.submit(answer_input(answer, claim, owner))
