"""The admin API of the store on PostgreSQL, as far as several processes make a difference to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.postgres.connection_pool import RunCall
from mmo_trio.storage.postgres.shared_locks import SUBMISSION_LOCK, find_holders, wait_for_holders
from mmo_trio.storage.sql.admin_store import SqlAdminStore


@frozen
class PostgresAdminStore(SqlAdminStore):
    """See :class:`mmo_trio.storage.interface.admin.AdminStore`."""

    begin_run: Callable[[], RunCall]
    """Returns how calls of one operation are run, until its deadline."""

    async def hold_brand(self, hold: BrandHold) -> bool:
        """Wait for the commits that may have looked before, also where the brand is on hold already: so nothing of it
        begins to be submitted after this."""
        is_new = await SqlAdminStore.hold_brand(self, hold)
        run = self.begin_run()
        await wait_for_holders(run, SUBMISSION_LOCK, await run(partial(find_holders, lock=SUBMISSION_LOCK)))
        return is_new
