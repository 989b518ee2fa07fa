"""Recognises at the start a store that was restored from a backup, and keeps the mark by which the
next start does."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import structlog
import trio
from attrs import asdict, define

from mmo_sansio.resilience.store_mark import Recognition, StoreMark, StoreState, recognise
from mmo_sansio.values.clock import SECOND, Span
from mmo_trio.admin.restoration import mark_unfinished, new_store_id
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.storage.interface.store import StoreUnusable, log_store_failure
from mmo_trio.storage.open_store import is_shared_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.fault_report import DamagedFile

logger = structlog.get_logger(__name__)

LOOK_INTERVAL_S: Final = 5.0
"""Seconds between two looks whether the store is still the same."""

WRITE_INTERVAL_S: Final = 0.25
"""Seconds between two looks whether a commit has raised the epoch of the store."""


async def recognise_store(store: Store, config: ServiceConfig) -> MarkKeeper:
    """Return what keeps the mark of this store, once it is known to have everything that was
    served.

    What a failover has lost within `database.failover_loss_s` is logged, and what had not ended is
    marked. Raises StoreUnusable when the store was restored or may have been, SettingsError when
    the mark can't be written, and what the store raises."""
    settings = config.settings
    loss_max = Span(settings.database.failover_loss_s * SECOND)
    file = None if config.is_sandbox else find_mark_file(settings)
    if file is None:
        if not config.is_sandbox:
            logger.warning("restore_not_recognisable", remedy="set database.mark_file")
        return MarkKeeper(store, None, loss_max)
    stored, mark = await store.state(), read_mark(file)
    found = recognise(
        stored,
        mark,
        must_be_marked=settings.database.mark_file is not None,
        is_served=len(await store.serving_processes()) > 1,
        loss_max=loss_max,
    )
    match found:
        case Recognition.RESTORED | Recognition.UNMARKED:
            raise StoreUnusable(_refusal(found, file))
        case Recognition.BEHIND:
            assert mark is not None, "a store is behind a mark"
            stored = await _accept_loss(store, stored, mark)
        case Recognition.CURRENT:
            pass
    try:
        write_mark(file, stored.mark)
    except OSError as error:
        remedy = "Let the gateway's user write its folder, or name another file."
        raise SettingsError(
            f"database.mark_file ({file})", f"can't be written: {error.strerror}.", remedy
        ) from None
    return MarkKeeper(store, file, loss_max)


def _refusal(found: Recognition, file: Path) -> str:
    if found is Recognition.UNMARKED:
        return (
            f"{file} is missing, which says how far the store had come: copy it from the machine "
            f"that served the store"
            " last; if a backup was restored, or nobody knows, run `mmo db restored`"
        )
    return (
        f"it lacks what this gateway has served, or is another store, by {file}: if a backup was "
        f"restored, run"
        " `mmo db restored`; if this is a new store, remove that file"
    )


async def _accept_loss(store: Store, stored: StoreState, mark: StoreMark) -> StoreState:
    """Go on with a promoted standby that lacks a little: what had not ended there may have been
    submitted since."""
    logger.error("failover_lost_commits", epochs=mark.epoch - stored.mark.epoch)
    clock = GatewayClock()
    submit = partial(submit_batch_once, store, clock=clock)
    await mark_unfinished(store, submit, user="gateway")
    await store.admin.begin_restoration(new_store_id(), ())
    return await store.state()


@define(eq=False)
class MarkKeeper:
    """Writes how far the store has come, in a file outside of it where no restore of the store
    reaches it, and looks whether it is still the same store."""

    store: Store
    file: Path | None
    """None where there is no place for it: nothing is written then."""
    loss_max: Span
    """How much a failover may lose."""
    _written: StoreMark | None = None

    async def run(self, restart: Callable[[], None]) -> None:
        """Write the mark whenever it has changed, until cancelled. `restart` is called when a
        failover has lost no more than it may: the next start deals with that."""
        look_at = trio.current_time() + LOOK_INTERVAL_S
        while self.file is not None:
            await self.write()
            if trio.current_time() >= look_at:
                look_at = trio.current_time() + LOOK_INTERVAL_S
                await self._look(restart)
            await trio.sleep(WRITE_INTERVAL_S)

    async def write(self) -> None:
        """Write the mark if a commit has raised it; when that fails, the next change is written."""
        mark, file = self.store.raised_mark, self.file
        if file is None or mark is None or mark == self._written:
            return
        self._written = mark
        try:
            await trio.to_thread.run_sync(write_mark, file, mark)
        except Exception as error:
            log_store_failure(logger, "mark_write_failed", error)

    async def _look(self, restart: Callable[[], None]) -> None:
        try:
            found = await self.store.state()
        except Exception as error:
            log_store_failure(logger, "store_not_recognised", error)
            return
        match recognise(
            found, self._written, must_be_marked=False, is_served=True, loss_max=self.loss_max
        ):
            case Recognition.RESTORED:
                logger.error(
                    "store_restored",
                    remedy="stop the gateway and run `mmo db restored`",
                    once_a_minute=True,
                )
            case Recognition.BEHIND:
                restart()
            case _:
                pass


async def keep_mark(store: Store, settings: Settings) -> None:
    """Write the mark of a store as it is now, whatever was known of it before. Raises OSError."""
    file = find_mark_file(settings)
    if file is not None:
        write_mark(file, (await store.state()).mark, replaces=True)


def find_mark_file(settings: Settings) -> Path | None:
    """Return where the mark of the store is; None where there is no place for it outside of the
    store."""
    database, key = settings.database, settings.keys.master_key_file
    if database.mark_file is not None:
        return database.mark_file
    beside = key.with_name(f"{key.name}.mark")
    is_in_store = not is_shared_store(database.url) and (
        beside.parent.resolve() == Path(database.url.removeprefix("sqlite:///")).parent.resolve()
    )
    return None if is_in_store or not os.access(beside.parent, os.W_OK) else beside


def read_mark(file: Path) -> StoreMark | None:
    """Return the mark; None where there is no file. Raises DamagedFile, and OSError when it can't
    be read."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return StoreMark(**json.loads(text))
    except (ValueError, TypeError):
        remedy = "was the store restored, run `mmo db restored`; otherwise remove the file."
        raise DamagedFile(f"{file} is not what the gateway wrote: {remedy}") from None


def write_mark(file: Path, mark: StoreMark, *, replaces: bool = False) -> None:
    """Write the mark durably, as a whole or not at all. Several processes may write one file: it
    never goes back to an earlier epoch of the same store, unless it `replaces` what is there.
    Raises OSError and DamagedFile."""
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = None if replaces else read_mark(file)
        if known is not None and known.store_id == mark.store_id and known.epoch >= mark.epoch:
            return
        draft = file.with_name(f".{file.name}.part")
        with draft.open("w", encoding="utf-8") as to:
            json.dump(asdict(mark), to)
            to.flush()
            os.fsync(to.fileno())
        draft.replace(file)
        os.fsync(folder)
    finally:
        os.close(folder)
