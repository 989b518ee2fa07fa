"""Lists what was paid to the accounts of providers that can tell: it finds prompts of which nothing was heard, and
deposits whose notification never came. What is listed is decided like a confirmed notification, so it may come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog
import trio
from attrs import define

from mmo_sansio.providers.common.interface import DepositReport, ExchangeFailed, ListsDeposits
from mmo_sansio.values.clock import FIRST_INSTANT, HOUR, MINUTE, Instant, Span, earlier, elapsed, later
from mmo_trio.engine.engine import Submit
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.conversation import drive_async
from mmo_trio.workers.providers.deposit_inputs import deposit_inputs
from mmo_trio.workers.providers.open_accounts import OpenAccount

logger = structlog.get_logger(__name__)

SCAN_INTERVAL_S: Final = 1.0
"""Seconds between two looks at the clock."""

LIST_INTERVAL: Final = Span(5 * MINUTE)
"""How often an account is listed, by one of all processes."""

LISTED_AFTER: Final = Span(2 * MINUTE)
"""How old a payment is when it is listed: mostly it was notified before."""

OVERLAP: Final = Span(HOUR)
"""How much of the time that was listed is listed again: a provider may list a payment late."""

KEPT_FOR: Final = Span(48 * HOUR)
"""How long a provider lists a payment."""


@define(eq=False)
class DepositLister:
    """Runs once in each process; the store lets one of them list an account."""

    store: Store
    submit: Submit
    accounts: Sequence[OpenAccount]
    """Those whose provider is a ListsDeposits."""
    now: Callable[[], Instant]
    """Returns the gateway's own time, which the store has; `utc` returns the wall time, which providers have."""
    utc: Callable[[], Instant]
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
            if (now := self.now()) >= due_at:
                due_at = later(now, LIST_INTERVAL)
                try:
                    await self._list_if_due(account, now)
                except ExchangeFailed as failure:  # The next listing begins where the last one that succeeded ended.
                    logger.warning("deposits_not_listed", provider=account.provider.name, reason=failure.reason)
                except Exception as error:
                    log_store_failure(logger, "deposit_listing_failed", error, provider=account.provider.name)
            await trio.sleep(self.scan_interval_s)

    async def _list_if_due(self, account: OpenAccount, now: Instant) -> None:
        """List what was paid since the last listing."""
        provider, end = account.provider, earlier(now, LISTED_AFTER)
        begin = await self.store.begin_listing(provider.name, now, interval=LIST_INTERVAL)
        if begin is None or begin >= end:
            return
        begin = max(begin, earlier(now, KEPT_FOR))
        assert isinstance(provider, ListsDeposits)
        ahead = elapsed(self.now(), self.utc())
        listing = provider.list_deposits(later(begin, ahead), later(end, ahead))
        for each in await drive_async(listing, account.account.ask):
            if isinstance(each, DepositReport):
                for input_ in await deposit_inputs(self.store, provider, each, self.next_reference()):
                    await self.submit(input_)
            else:
                await self.submit(each)
        await self.store.save_listed(provider.name, max(begin, earlier(end, OVERLAP)))
