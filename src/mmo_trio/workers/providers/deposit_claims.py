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
from mmo_sansio.providers.common.deposits import answer_input, claimed_deposit
from mmo_sansio.providers.common.interface import DepositAnswer, Provider, VerifiesDeposits
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.deposit_claim import DepositClaim
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.postponed import Postponed
from mmo_trio.workers.providers.conversation import CONVERSATION_TIMEOUT_S, SendRequest, drive_async
from mmo_trio.workers.providers.deposit_inputs import deposit_owner

logger = structlog.get_logger(__name__)

SCAN_INTERVAL_S = 1.0
"""Seconds between two looks at what is due."""

SCAN_INTERVAL_MIN_S = 0.05
"""Seconds between two looks while more is due than may be asked about at once."""

QUESTIONS_MAX = 32
"""Open questions at once: a flood of forged notifications must leave the accounts' requests to payments."""

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
    _open_questions: int = 0
    _postponed: Postponed[tuple[str, str]] = Factory(Postponed)
    """Claims that could not be woken: each round passes over those whose time has not come."""

    async def run(self, *, drain: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run rounds until `drain` is set, and then until cancelled wait for what was asked. A question that is
        cancelled is asked again."""
        async with trio.open_nursery() as questions:
            task_status.started()
            while not drain.is_set():
                try:
                    is_full = await self._run_round(questions)
                    pause_s = SCAN_INTERVAL_MIN_S if is_full else self.scan_interval_s
                except Exception as error:
                    log_store_failure(logger, "deposit_claim_scan_failed", error)
                    pause_s = RETRY_DELAY_S
                await trio.sleep(pause_s)

    async def _run_round(self, questions: trio.Nursery) -> bool:
        """Wake as many due claims as may be asked about, and return whether there may be more."""
        room = QUESTIONS_MAX - self._open_questions
        limit = room + len(self._postponed)
        found = await self.store.due_claims(self.now(), limit=limit) if room else ()
        if room and len(found) < limit:  # All that are due were found.
            self._postponed.retain([(each.provider, each.receipt) for each in found])
        due = [each for each in found if not self._postponed.must_wait((each.provider, each.receipt))][:room]
        async with trio.open_nursery() as inputs:
            for claim in due:
                inputs.start_soon(self._wake, claim, questions)
        return len(due) == room

    async def _wake(self, claim: DepositClaim, questions: trio.Nursery) -> None:
        """Wake a claim; one that cannot be woken holds up no other."""
        key = (claim.provider, claim.receipt)
        try:
            reply = await self.submit(DepositClaimWoke(*key, claim.payment))
        except Exception as error:
            log_store_failure(logger, "deposit_claim_scan_failed", error)
            self._postponed.add(key)
            return
        self._postponed.discard(key)
        if isinstance(reply, ClaimDue):
            self._open_questions += 1
            questions.start_soon(self._ask, reply.claim)

    async def _ask(self, claim: DepositClaim) -> None:
        """Ask the provider; without an answer the claim is woken again."""
        provider = self.providers.get(claim.provider)
        try:
            if not isinstance(provider, VerifiesDeposits):
                logger.error("deposit_not_verifiable", provider=claim.provider, receipt=claim.receipt)
                return
            answer = None
            with trio.move_on_after(CONVERSATION_TIMEOUT_S):
                conversation = provider.verify_deposit(claim, now=self.now())
                answer = await drive_async(conversation, self.exchange_for(claim.provider))
            if answer is not None:
                await self._report(answer, claim)
        except Exception as error:
            logger.error("deposit_question_failed", provider=claim.provider, fault=describe_fault(error))
        finally:
            self._open_questions -= 1

    async def _report(self, answer: DepositAnswer, claim: DepositClaim) -> None:
        owner = None if claim.payment else await deposit_owner(self.store, claimed_deposit(claim))
        await self.submit(answer_input(answer, claim, owner))
