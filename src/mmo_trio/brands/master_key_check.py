"""Finds out whether a process has the master keys that the store's secrets are sealed with.

A store remembers the ids of its master keys. A process serves it only with all of them, and seals only with one that
the store knows: so a wrong master key is noticed at the start, and not when a merchant is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import structlog
from attrs import define, field

from mmo_sansio.values.clock import Instant
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.settings.errors import SettingsError
from mmo_trio.storage.interface.admin_types import StoredMasterKey
from mmo_trio.storage.interface.audit_chain import EMPTY_HEAD
from mmo_trio.storage.interface.store import Store

logger = structlog.get_logger(__name__)


async def open_keyring(store: Store, file: Path, *, may_create: bool, now: Instant) -> KeyRing:
    """Return the keyring of this store from the master key file.

    With `may_create`, a store that has never been used with a master key gets one. Raises SettingsError when the file
    can't be used, or when its keys are not those of the store."""
    if may_create and _file_identity(file) is None and not await _is_used(store):
        create_master_key(file)
    keyring = KeyRing(*load_master_keys(file))
    stored = await store.admin.master_keys()
    if not stored:
        stored = await _adopt_store(store, keyring, file, now=now)
    fault = master_key_fault(keyring, stored)
    if fault is not None:
        raise _mismatch(file, fault)
    return keyring


async def check_master_key(store: Store, file: Path, *, now: Instant) -> None:
    """Raise SettingsError when the file's keys are not those of a store that has been used with a master key."""
    if await _is_used(store):
        await open_keyring(store, file, may_create=False, now=now)


def master_key_fault(keyring: KeyRing, stored: Sequence[StoredMasterKey]) -> str | None:
    """Return why a process with this keyring can't serve a store with these master keys, in a sentence; None if it
    can."""
    ids = [each.id for each in stored if each.ended_at is None]
    if not set(ids) <= set(keyring.master_key_ids):
        names = f"{' and '.join(ids)}, and the file has {' and '.join(keyring.master_key_ids)}"
        return f"its keys are not those of the store: the store's secrets are sealed with {names}."
    if ids and keyring.master_key_id not in ids:
        return f"its first key, {keyring.master_key_id}, is not in use any more; the store has {' and '.join(ids)}."
    return None


@define(eq=False)
class MasterKeyFile:
    """Reads the master keys of a running process again when their file has changed, as `mmo keys rotate` does."""

    path: Path
    keyring: KeyRing
    _seen: tuple[int, int, int] | None = field(init=False)
    _fault: str | None = None

    def __attrs_post_init__(self) -> None:
        self._seen = _file_identity(self.path)

    async def find_fault(self, store: Store) -> str | None:
        """Return why this process can't serve the store any more, as `master_key_fault` does; the file is read again
        first if it has changed."""
        stored = await store.admin.master_keys()
        fault = master_key_fault(self.keyring, stored)
        if fault is not None and self.reload_if_changed():
            fault = master_key_fault(self.keyring, stored)
        if fault is not None and fault != self._fault:
            logger.error("master_key_mismatch", fault=fault)
        self._fault = fault
        return fault

    def reload_if_changed(self) -> bool:
        """Return whether the keyring has other master keys now. An unusable file changes nothing."""
        found = _file_identity(self.path)
        if found is None or found == self._seen:
            return False
        self._seen = found
        try:
            keys = load_master_keys(self.path)
        except SettingsError:
            return False
        before = self.keyring.master_key_ids
        self.keyring.replace(*keys)
        logger.info("master_keys_reloaded", in_use=self.keyring.master_key_id)
        return self.keyring.master_key_ids != before


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


async def _is_used(store: Store) -> bool:
    """Return whether anything of the store needs a master key that exists already."""
    return (
        bool(await store.admin.master_keys())
        or await store.admin.audit_head() != EMPTY_HEAD
        or any(each.keys for each in await store.admin.brands())
    )


async def _adopt_store(store: Store, keyring: KeyRing, file: Path, *, now: Instant) -> Sequence[StoredMasterKey]:
    """Record the master key of a store that is new, or of a version that did not record it, and return the record.

    Raises SettingsError when an API key of the store was sealed with another one."""
    for record in await store.admin.brands():
        for key in record.keys[-1:]:
            try:
                keyring.unseal(record.brand.id, key.sealed)
            except SealError:
                raise _mismatch(file, "its keys are not those that the store's API keys are sealed with.") from None
    await store.admin.add_master_key(StoredMasterKey(1, keyring.master_key_id, now))
    return await store.admin.master_keys()


def _mismatch(file: Path, fault: str) -> SettingsError:
    remedy = "Name the master key file of this store, or restore it from a backup; a new one can't replace it."
    return SettingsError(f"keys.master_key_file ({file})", fault, remedy)
