"""Finds out about deposits: whether an unconfirmed one was paid, which ones nobody has told of, and
what each is for (S4).

The claims and the times of the questions are in the store, so that a killed process loses none.
Several processes may find the same claim due: the decision to wake it lets only one of them ask.

Providers that can tell list what was paid to their accounts: this finds prompts of which nothing
was heard, and deposits whose notification never came. What is listed is decided like a confirmed
notification, so it may come twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import DepositClaimWoke, Input, ProviderHinted
from mmo_sansio.messages.replies import ClaimDue
from mmo_sansio.providers.common import deposits
from mmo_sansio.providers.common.interface import (
    DepositReport,
    ExchangeFailed,
    Provider,
    VerifiesDeposits,
    is_simulated,
)
from mmo_sansio.providers.common.operations import operation_key
from mmo_sansio.values.clock import (
    FIRST_INSTANT,
    HOUR,
    MINUTE,
    Instant,
    Moment,
    Span,
    earlier,
    elapsed,
    later,
)
from mmo_sansio.values.model import DepositClaim, Transaction
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.fault_report import describe_fault
from mmo_trio.workers.postponed import Postponed
from mmo_trio.workers.providers.account import SendRequest, drive_async
from mmo_trio.workers.providers.open_accounts import OpenAccount
from mmo_trio.workers.providers.worker import CONVERSATION_TIMEOUT_S

logger = structlog.get_logger(__name__)

# Seconds between two looks at what is due.
SCAN_INTERVAL_S = 1.0

# Seconds between two looks while more is due than may be asked about at once.
SCAN_INTERVAL_MIN_S = 0.05

# Open questions at once: a flood of forged notifications must leave the accounts' requests to
# payments.
QUESTIONS_MAX = 32

# Seconds before the next round when the store can't serve.
RETRY_DELAY_S = 5.0

# How often an account is listed, by one of all processes.
LIST_INTERVAL: Final = Span(5 * MINUTE)

# How old a payment is when it is listed: mostly it was notified before.
LISTED_AFTER: Final = Span(2 * MINUTE)

# How much of the time that was listed is listed again: a provider may list a payment late.
LISTING_OVERLAP: Final = Span(HOUR)

# How long a provider lists a payment.
LISTED_FOR: Final = Span(48 * HOUR)


@define(eq=False)
class DepositClaimWorker:
    """Runs once in each process that has a provider whose notifications of deposits are
    unsigned."""

    store: Store
    submit: Submit
    providers: Mapping[str, Provider]
    exchange_for: Callable[[str], SendRequest]
    """Returns the function that sends requests to the provider with this name."""
    moment: Callable[[], Moment]
    scan_interval_s: float = SCAN_INTERVAL_S
    _open_questions: int = 0
    _postponed: Postponed[tuple[str, str]] = Factory(Postponed)
    """Claims that could not be woken: each round passes over those whose time has not come."""

    async def run(
        self, *, drain: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run rounds until `drain` is set, and then until cancelled wait for what was asked. A
        question that is cancelled is asked again."""
        async with trio.open_nursery() as questions:
            task_status.started()
            while not drain.is_set():
                try:
                    pause_s = self.scan_interval_s
                    if await self._run_round(questions):
                        pause_s = SCAN_INTERVAL_MIN_S
                except Exception as error:
                    log_store_failure(logger, "deposit_claim_scan_failed", error)
                    pause_s = RETRY_DELAY_S

                await trio.sleep(pause_s)

    async def _run_round(self, questions: trio.Nursery) -> bool:
        """Wake as many due claims as may be asked about, and return whether there may be more."""
        room = QUESTIONS_MAX - self._open_questions
        if not room:
            return True

        # However many are postponed, a round finds enough of the others.
        limit = room + len(self._postponed)
        found = await self.store.due_claims(self.moment().time, limit=limit)

        # All that are due were found; postponed ones that are not among them have moved on.
        if len(found) < limit:
            self._postponed.retain([(deposit.provider, deposit.receipt) for deposit in found])

        due = [
            deposit
            for deposit in found
            if not self._postponed.must_wait((deposit.provider, deposit.receipt))
        ][:room]
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
            # What the other sort of account says is of other money.
            is_changed = provider is not None and is_simulated(provider) is not claim.is_simulated
            if not isinstance(provider, VerifiesDeposits) or is_changed:
                logger.error(
                    "deposit_not_verifiable", provider=claim.provider, receipt=claim.receipt
                )
                return

            answer = None
            with trio.move_on_after(CONVERSATION_TIMEOUT_S):
                conversation = provider.verify_deposit(claim, now=self.moment())
                answer = await drive_async(conversation, self.exchange_for(claim.provider))

            # A claim of no payment may be a deposit to a brand's account.
            if answer is not None:
                owner = None
                if not claim.payment:
                    owner = await deposit_owner(self.store, deposits.claimed_deposit(claim))

                await self.submit(deposits.answer_input(answer, claim, owner))
        except Exception as error:
            logger.error(
                "deposit_question_failed", provider=claim.provider, fault=describe_fault(error)
            )
        finally:
            self._open_questions -= 1


@define(eq=False)
class DepositLister:
    """Runs once in each process; the store lets one of them list an account."""

    store: Store
    submit: Submit
    accounts: Sequence[OpenAccount]
    """Those whose adapter is a ListsDeposits."""
    moment: Callable[[], Moment]
    """Returns the gateway's own time, which the store has, and the wall time, which providers
    have."""
    next_reference: Callable[[], str]
    scan_interval_s: float = SCAN_INTERVAL_S

    async def run(self) -> None:
        """List each account when it is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            for account in self.accounts:
                nursery.start_soon(self._run_for, account)

    async def _run_for(self, account: OpenAccount) -> None:
        due_at = FIRST_INSTANT
        while True:
            if (now := self.moment().time) >= due_at:
                due_at = later(now, LIST_INTERVAL)
                try:
                    await self._list_if_due(account, now)
                except ExchangeFailed as failure:
                    # The next listing begins where the last one that succeeded ended.
                    logger.warning(
                        "deposits_not_listed", provider=account.provider.name, reason=failure.reason
                    )
                except Exception as error:
                    log_store_failure(
                        logger, "deposit_listing_failed", error, provider=account.provider.name
                    )

            await trio.sleep(self.scan_interval_s)

    async def _list_if_due(self, account: OpenAccount, now: Instant) -> None:
        # 1. From where the last listing of all processes ended; nothing while it was a moment ago.
        provider = account.provider
        end = earlier(now, LISTED_AFTER)
        begin = await self.store.begin_listing(provider.name, now, interval=LIST_INTERVAL)
        if begin is None or begin >= end:
            return

        # 2. What was paid since, by the operator's clock, which is wall time.
        begin = max(begin, earlier(now, LISTED_FOR))
        at = self.moment()
        ahead = elapsed(at.time, at.utc)
        listing = provider.list_deposits(later(begin, ahead), later(end, ahead))
        for deposit in await drive_async(listing, account.account.ask):
            if isinstance(deposit, DepositReport):
                for input_ in await deposit_inputs(
                    self.store, provider, deposit, self.next_reference()
                ):
                    await self.submit(input_)
            else:
                await self.submit(deposit)

        # 3. Only now it counts as listed: whatever has failed on the way is listed again.
        await self.store.save_listed(provider.name, max(begin, earlier(end, LISTING_OVERLAP)))


async def deposit_inputs(
    store: Store, provider: Provider, deposit: DepositReport, gateway_reference: str
) -> Sequence[Input]:
    """Return the input for a deposit, and a hint to the payment that it names: the deposit may be
    its result. The gatewayReference is a fresh one."""
    payment = await payment_named_by(store, provider, deposit)
    owner = None
    named = None
    if payment is None:
        owner = await deposit_owner(store, deposit)
    else:
        named = payment.reference

    notified = deposits.deposit_input(
        deposit,
        owner,
        provider_title=provider.title,
        gateway_reference=gateway_reference,
        payment=named,
        is_simulated=is_simulated(provider),
    )

    # A payment that was sent and has not ended is asked about: the money may be its own.
    if (
        payment is None
        or payment.progress.provider_data is None
        or payment.progress.stage.is_terminal
    ):
        return (notified,)

    operation = provider.operations.get(operation_key(payment))
    if operation is None or not operation.can_be_polled:
        return (notified,)

    return notified, ProviderHinted(payment.reference, provider.name)


async def payment_named_by(
    store: Store, provider: Provider, deposit: DepositReport
) -> Transaction | None:
    """Return the payment whose reference the payer gave; None when it is none of this
    provider's."""
    suffix = deposits.typed_reference_suffix(deposit)
    if suffix is None:
        return None

    payment = await store.transaction_by_suffix(suffix)
    if payment is not None and payment.order.provider == provider.name:
        return payment
    return None


async def deposit_owner(store: Store, deposit: DepositReport) -> deposits.DepositOwner | None:
    """Return the brand and the method whose account was paid; None when there is none."""
    return deposits.find_owner(deposit, [brand.brand for brand in await store.admin.brands()])
