"""Recognises at the start a store that was restored from a backup, and keeps the mark by which the
next start does."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, assert_never

import structlog
import trio
from attrs import asdict, define, frozen

from mmo_sansio.resilience.store_mark import (
    Recognition,
    StoreMark,
    StoreState,
    lost_epochs,
    recognise,
)
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_trio.admin.brand_hold import SubmitBatch
from mmo_trio.admin.restoration import begin_restoration, mark_unfinished, new_store_id
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.settings import Settings, SettingsError
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.storage.interface.store import (
    EPOCH_INTERVAL_S,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnusable,
    log_store_failure,
)
from mmo_trio.storage.open_store import is_shared_store, sqlite_file
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.damaged_file import DamagedFile

logger = structlog.get_logger(__name__)

# Seconds between two looks whether the store is still the same.
# Each look is a read of the store by every process.
LOOK_INTERVAL_S: Final = 5.0

# Seconds between two looks whether a commit has raised the epoch of the store.
WRITE_INTERVAL_S: Final = 0.25

# Seconds after which commits that raised nothing, and that no other one has followed, get a commit
# that does: so the last of a busy time are in the mark, too.
QUIET_S: Final = 2 * EPOCH_INTERVAL_S

# Seconds that the last note of a process may take.
STOP_TIMEOUT_S: Final = 2.0

# The gateway reads what a command of another user wrote; it is no secret.
MARK_MODE: Final = 0o644


@frozen
class StoreComparison:
    """What a store is, by the mark that this machine has kept of it."""

    found: Recognition
    stored: StoreState
    mark: StoreMark | None
    """What is known; None where no file says it, or a damaged one."""
    file: Path | None
    """Where it is kept; None where there is no place for it."""


async def compare_store(
    store: Store, settings: Settings, *, serves: bool, is_sandbox: bool = False
) -> StoreComparison:
    """Compare a store with its mark; `serves`: whether this process is one that serves it. A
    sandbox's has none. Raises DamagedFile, OSError and what the store raises."""
    file = None
    if not is_sandbox:
        file = find_mark_file(settings)

    stored = await store.state()
    mark = None
    if file is not None:
        mark = read_mark(file)

    must_be_marked = file is not None and settings.database.mark_file is not None

    # A process that serves it already has recognised it: a new node's missing mark is no
    # restoration.
    is_served = False
    if must_be_marked and mark is None:
        is_served = len(await store.serving_processes()) > (1 if serves else 0)

    found = recognise(
        stored,
        mark,
        must_be_marked=must_be_marked,
        is_served=is_served,
        loss_max=_loss_max(settings),
    )
    return StoreComparison(found, stored, mark, file)


async def recognise_store(store: Store, config: ServiceConfig) -> MarkKeeper:
    """Return what keeps the mark of this store, once it is known to have everything that was
    served. From then on each older backup is older than its mark.

    What a failover has lost within `database.failover_loss_s` is logged, and what had not ended is
    marked. Raises StoreUnusable when the store was restored or may have been, SettingsError when
    the mark can't be written, StoreUnavailable, and DamagedFile."""
    settings = config.settings
    compared = await compare_store(store, settings, serves=True, is_sandbox=config.is_sandbox)
    keeper = MarkKeeper(store, compared.file, _loss_max(settings))
    if not config.is_sandbox and (
        compared.file is None or is_in_folder_of_store(compared.file, settings)
    ):
        logger.warning(
            "restore_not_recognisable", remedy="set database.mark_file", mark_file=compared.file
        )
    if compared.file is None:
        return keeper

    # Refused rather than served: a restored store has forgotten payments that were paid.
    match compared.found:
        case Recognition.RESTORED | Recognition.UNMARKED:
            raise StoreUnusable(_refusal(compared.found, compared.file))
        case Recognition.BEHIND:
            assert compared.mark is not None, "a store is behind a mark"
            await _accept_loss(store, compared.stored, compared.mark)
        case Recognition.CURRENT:
            pass
        case _:
            assert_never(compared.found)

    try:
        # From here on each older backup is behind the mark.
        await store.raise_epoch()
    except OutcomeUnknown as error:
        raise StoreUnavailable("it is not known whether the epoch was raised") from error

    _write_first_mark(compared.file, await store.state())
    return keeper


def _refusal(found: Recognition, file: Path) -> str:
    if found is Recognition.UNMARKED:
        return (
            f"{file} is missing, which says how far the store had come: copy it from the machine "
            "that served the store last; if a backup was restored, or nobody knows, run `mmo db "
            "restored`"
        )

    return (
        f"it lacks what this gateway has served, or is another store, by {file}: if a backup was "
        "restored, run `mmo db restored`; if this is a new store, remove that file"
    )


async def _accept_loss(store: Store, stored: StoreState, mark: StoreMark) -> None:
    """Go on with a promoted standby that lacks a little: what had not ended there may have been
    submitted since."""
    logger.error("failover_lost_commits", epochs=lost_epochs(stored.mark, mark))
    clock = GatewayClock()
    submit = partial(submit_batch_once, store, clock=clock)
    await mark_unfinished(store, submit, user="gateway")
    await store.admin.begin_restoration(new_store_id(), ())


async def restore_store(
    store: Store, submit: SubmitBatch, compared: StoreComparison, *, user: str, now: Instant
) -> int:
    """Prepare a store that was restored from a backup, and let its mark be that of the store as it
    is now; return how many payments may have been submitted since.

    It may end at any step and be repeated. Until the store has its new id it is refused as before,
    and with the new id everything is marked and on hold. Raises SettingsError when the mark can't
    be written, and what the store raises."""
    mark = compared.mark

    # A new id tells all later marks apart from those of the time that was lost.
    if mark is None or mark.store_id == compared.stored.mark.store_id:
        lost_id = ""
    else:
        lost_id = mark.store_id

    marked = await begin_restoration(store, submit, user=user, now=now, lost_id=lost_id)
    if compared.file is not None:
        if mark is None:  # What can't be read says nothing any more.
            compared.file.unlink(missing_ok=True)
        _write_first_mark(compared.file, await store.state())

    return marked


@asynccontextmanager
async def counted_commits(store: Store, settings: Settings) -> AsyncIterator[Recognition | None]:
    """Let what a command commits during the block be in the mark, too; yield what the store is by
    the mark as it is; None when that can't be read.

    A store that lacks something counts nothing: its epochs would seem those that were lost."""
    try:
        compared = await compare_store(store, settings, serves=False)
    except (DamagedFile, OSError):
        yield None
        return

    if compared.found is Recognition.CURRENT:
        store.count_commands()

    try:
        yield compared.found
    finally:
        raised, file = store.raised_state, compared.file
        # A machine that has never served keeps no mark. Who may not write the file leaves that to
        # the gateway, which looks at the store itself.
        if raised is not None and file is not None and compared.mark is not None:
            with suppress(DamagedFile, OSError):
                write_mark(file, raised)


def _loss_max(settings: Settings) -> Span:
    return Span(settings.database.failover_loss_s * SECOND)


@define(eq=False)
class MarkKeeper:
    """Writes how far the store has come, in a file outside of it where no restore of the store
    reaches it, and looks whether it is still the same store."""

    store: Store
    file: Path | None
    """None where there is no place for it: nothing is written then."""
    loss_max: Span
    """How much a failover may lose."""
    _written: StoreState | None = None
    _raised: StoreState | None = None
    """What a commit of this process was last seen to have raised."""
    _raised_at: float = -math.inf
    """When that was seen."""

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
        # Commits raise the epoch now and then; one of them says how far the store has come.
        raised, now = self.store.raised_state, trio.current_time()
        if raised is not None and raised != self._raised:
            self._raised, self._raised_at = raised, now
            await self._write(raised)
        elif self.store.has_unmarked_commits and now >= self._raised_at + QUIET_S:
            await self._raise()

    async def write_last(self) -> None:
        """Write a mark that has everything which this process has committed; when that fails, the
        next start does."""
        if self.file is None:
            return
        with trio.move_on_after(STOP_TIMEOUT_S):
            if self.store.has_unmarked_commits:
                await self._raise()
            await self.write()

    async def _raise(self) -> None:
        self._raised_at = trio.current_time()
        try:
            await self.store.raise_epoch()
        except Exception as error:
            log_store_failure(logger, "epoch_not_raised", error)

    async def _write(self, state: StoreState) -> None:
        assert self.file is not None, "there is a place for the mark"
        if self._written is None or state.has_all_of(self._written.mark):
            self._written = state
        try:
            await trio.to_thread.run_sync(write_mark, self.file, state)
        except Exception as error:
            log_store_failure(logger, "mark_write_failed", error)

    async def _look(self, restart: Callable[[], None]) -> None:
        """Look at the store itself, which others change as well: commands, and processes of other
        machines."""
        try:
            found = await self.store.state()
        except Exception as error:
            log_store_failure(logger, "store_not_recognised", error)
            return

        written = None if self._written is None else self._written.mark
        match recognise(
            found, written, must_be_marked=False, is_served=True, loss_max=self.loss_max
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
                if written is not None and found.mark != written:
                    await self._write(found)


def find_mark_file(settings: Settings) -> Path | None:
    """Return where the mark of the store is; None where there is no place for it."""
    database, key = settings.database, settings.keys.master_key_file
    if database.mark_file is not None:
        return database.mark_file

    # Beside the master key, which no backup of the store takes, and which every node has.
    beside_key = key.with_name(f"{key.name}.mark")
    has_place = os.access(beside_key.parent, os.W_OK)
    if has_place and not is_in_folder_of_store(beside_key, settings):
        return beside_key
    if is_shared_store(database.url):
        return None

    # Beside the file of the store: one that is put back alone, or loses its log, is recognised.
    store = sqlite_file(database.url)
    return store.with_name(f"{store.name}.mark")


def is_in_folder_of_store(file: Path, settings: Settings) -> bool:
    """Tell whether a backup of the folder with the SQLite file takes this file along."""
    if is_shared_store(settings.database.url):
        return False
    return file.parent.resolve() == sqlite_file(settings.database.url).parent.resolve()


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


def _write_first_mark(file: Path, state: StoreState) -> None:
    try:
        write_mark(file, state)
    except OSError as error:
        remedy = "Let the gateway's user write its folder, or name another file."
        raise SettingsError(
            f"database.mark_file ({file})", f"can't be written: {error.strerror}.", remedy
        ) from None


def write_mark(file: Path, state: StoreState) -> None:
    """Write the mark of a store durably, as a whole or not at all. Several processes may write one
    file: it never goes back. A store that lacks what the file knows writes nothing, unless it was
    prepared and named anew. Raises OSError and DamagedFile."""
    # The folder is locked, as the file itself is replaced.
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = read_mark(file)
        if known is not None and (known == state.mark or not state.has_all_of(known)):
            return

        # Written aside, synced, renamed: after a power cut there is the old mark or the new one.
        draft = file.with_name(f".{file.name}.part")
        draft.unlink(missing_ok=True)  # It may be that of a user who wrote it last.
        with draft.open("x", encoding="utf-8") as to:
            os.fchmod(to.fileno(), MARK_MODE)
            json.dump(asdict(state.mark), to)
            to.flush()
            os.fsync(to.fileno())

        draft.replace(file)
        os.fsync(folder)
    finally:
        os.close(folder)
