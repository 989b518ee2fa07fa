"""Replaces the master key of a store in three steps, while processes serve it.

1. The file gets the next key as its second line, and is copied to every node: everybody accepts both.
2. The next key becomes the one in use: the store's secrets are sealed and digested with it, and it becomes the first
   line of the file, which is copied to every node again.
3. The previous key is removed from the store and from the file.

Each step may be repeated after an interruption.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from mmo_sansio.values.clock import Instant
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import generate_master_key, load_master_keys, replace_master_keys
from mmo_trio.storage.interface.admin import AdminStore
from mmo_trio.storage.interface.admin_types import StoredMasterKey
from mmo_trio.storage.interface.store import Store

Reseal: TypeAlias = Callable[[AdminStore, KeyRing], Awaitable[None]]
"""Seals secrets of one kind with the first master key of the keyring, those that another one has sealed. May be
repeated; raises SealError when one can't be opened."""


class RotationError(Exception):
    """The step can't be taken now; the message says why and names the step that can."""


def prepare_rotation(file: Path) -> KeyRing:
    """Add the next master key to the file, and return the file's keyring. Raises SettingsError and RotationError."""
    keys = load_master_keys(file)
    if len(keys) > 1:
        raise RotationError("the file has two keys already: a rotation has begun, see `mmo keys show`")
    replace_master_keys(file, [keys[0], generate_master_key()])
    return KeyRing(*load_master_keys(file))


async def rotate_master_key(store: Store, file: Path, reseals: Sequence[Reseal], *, now: Instant) -> KeyRing:
    """Make the second key of the file the one in use, in the store and in the file; return the new keyring.

    Raises SettingsError, SealError and RotationError."""
    first, second = _load_two(file, "begin with `mmo keys prepare`")
    newest, other = await _newest_master_key(store, first, second), KeyRing(second).master_key_id
    known = [each.id for each in await store.admin.master_keys()]
    if newest.id != other:
        if other in known:
            raise RotationError("the first key of the file is in use already: `mmo keys finish` is the next step")
        await store.admin.add_master_key(StoredMasterKey(newest.generation + 1, other, now))
    keyring = KeyRing(second, first)
    for reseal in reseals:
        await reseal(store.admin, keyring)
    replace_master_keys(file, [second, first])
    return keyring


async def finish_rotation(store: Store, file: Path, reseals: Sequence[Reseal], *, now: Instant) -> KeyRing:
    """End the previous master key in the store and remove it from the file; return the keyring that is left.

    Raises SettingsError, SealError and RotationError."""
    first, second = _load_two(file, "there is nothing to finish")
    newest = await _newest_master_key(store, first, second)
    known = {each.id for each in await store.admin.master_keys()}
    if newest.id != KeyRing(first).master_key_id or KeyRing(second).master_key_id not in known:
        raise RotationError("the second key of the file is not yet in use: `mmo keys rotate` is the next step")
    for reseal in reseals:  # A process that was not replaced may have sealed something with the second key.
        await reseal(store.admin, KeyRing(first, second))
    await store.admin.end_master_keys(below=newest.generation, now=now)
    replace_master_keys(file, [first])
    return KeyRing(first)


async def _newest_master_key(store: Store, first: bytes, second: bytes) -> StoredMasterKey:
    """Return the store's newest master key. Raises RotationError when it is none of these."""
    stored = await store.admin.master_keys()
    if not stored or stored[-1].id not in KeyRing(first, second).master_key_ids:
        raise RotationError("the file's keys are not those of the store: see `mmo keys show`")
    return stored[-1]


async def reseal_api_keys(store: AdminStore, keyring: KeyRing) -> None:
    """Bring every API key, retired ones too, under the first key of the keyring: sealed and digested with it."""
    for record in await store.brands():
        for key in record.keys:
            if keyring.sealing_key_id(record.brand.id, key.sealed) != keyring.master_key_id:
                plain = keyring.unseal(record.brand.id, key.sealed)
                await store.reseal_key(key.id, keyring.digest(plain), keyring.seal(record.brand.id, plain))


def _load_two(file: Path, otherwise: str) -> Sequence[bytes]:
    keys = load_master_keys(file)
    if len(keys) == 1:
        raise RotationError(f"the file has one key only: {otherwise}")
    return keys
