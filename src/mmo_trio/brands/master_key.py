"""The master keys: their file, whether it has those of the store, and how they are replaced while
processes serve.

The file holds 32 bytes in Base64, which only the gateway's user may read. It is written completely
or not at all.

A store remembers the ids of its master keys. A process serves it only with all of them, and seals
only with one that the store knows: so a wrong master key is noticed at the start, and not when a
merchant is refused.

A rotation replaces the master key in three steps, each of which may be repeated after an
interruption:

1. The file gets the next key as its second line, and is copied to every node: everybody accepts
   both.
2. The next key becomes the one in use: the store's secrets are sealed and digested with it, and it
   becomes the first line of the file, which is copied to every node again.
3. The previous key is removed from the store and from the file.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import structlog
from attrs import define, field

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.fields import SettingsError
from mmo_trio.brands.keyring import MASTER_KEY_BYTES, KeyRing, SealError
from mmo_trio.storage.interface.admin_types import StoredMasterKey
from mmo_trio.storage.interface.audit_chain import EMPTY_HEAD
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.store import Store

logger = structlog.get_logger(__name__)

# Keys in the file: the one in use, and during a rotation the next or the previous one.
MASTER_KEYS_MAX: Final = 2

# Permissions that no master key file may give.
_FORBIDDEN_MODE: Final = stat.S_IRWXO | stat.S_IWGRP


def load_master_keys(path: Path) -> Sequence[bytes]:
    """Load the master keys from their file, the one in use first.

    Raises SettingsError when there is no such file, when others than the gateway's user can read or
    change it, or when it has no keys."""
    where = _setting(path)
    try:
        status, text = path.stat(), path.read_bytes()
    except FileNotFoundError:
        remedy = (
            "Name the file that the store's API keys were sealed with; for a new store `mmo "
            "brands apply` makes one."
        )
        raise SettingsError(where, "there is no such file.", remedy) from None
    except OSError as error:
        remedy = "Let the gateway's user read it."
        raise SettingsError(where, f"it can't be read ({error.strerror}).", remedy) from None

    _check_access(path, status)
    keys = [_parse_key(line) for line in text.split()]
    if not 1 <= len(keys) <= MASTER_KEYS_MAX or None in keys or len(set(keys)) != len(keys):
        remedy = "Restore it from a backup; a new one can't open the keys in the store."
        raise SettingsError(
            where, "it doesn't hold 32 bytes in Base64, or two different such lines.", remedy
        )

    return [key for key in keys if key is not None]


def create_master_key(path: Path) -> None:
    """Make the file with a new key unless it is there; two processes that do so at once use the
    same key.

    Raises SettingsError when it can't be made."""
    temporary = _write_temporary(path, [generate_master_key()])
    try:
        with suppress(FileExistsError):
            # A link fails where the file is there, which a rename would replace.
            os.link(temporary, path)
    except OSError as error:
        raise _not_writable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def replace_master_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Replace the file's keys; its owner and its permissions stay. Raises SettingsError when it
    can't be written."""
    temporary = _write_temporary(path, keys)
    try:
        status = path.stat()
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temporary, status.st_uid, status.st_gid)

        # As it was, so that the gateway can still read a file that root has given to its group.
        temporary.chmod(stat.S_IMODE(status.st_mode))
        os.replace(temporary, path.resolve())
    except OSError as error:
        raise _not_writable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def generate_master_key() -> bytes:
    """Return a new master key."""
    return os.urandom(MASTER_KEY_BYTES)


def _check_access(path: Path, status: os.stat_result) -> None:
    """Raise SettingsError unless only the gateway's user, and root, can read and change the file.

    A group may read a file of root's, which root has given to the gateway's group."""
    if status.st_uid not in (os.geteuid(), 0):
        fault, remedy = "it belongs to another user.", f"Run: chown {os.geteuid()} {path}"
        raise SettingsError(_setting(path), fault, remedy)
    if status.st_mode & _FORBIDDEN_MODE or (status.st_mode & stat.S_IRGRP and status.st_uid != 0):
        fault, remedy = "others than its owner can read or change it.", f"Run: chmod 600 {path}"
        raise SettingsError(_setting(path), fault, remedy)


def _parse_key(line: bytes) -> bytes | None:
    with suppress(binascii.Error):
        key = base64.b64decode(line, validate=True)
        if len(key) == MASTER_KEY_BYTES:
            return key
    return None


def _write_temporary(path: Path, keys: Sequence[bytes]) -> Path:
    """Write the keys to a file next to the path, for its owner only, and to the disk. Raises
    SettingsError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Closed to others from its first byte on.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(base64.b64encode(key) + b"\n" for key in keys)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _not_writable(path, error) from None

    return temporary


def _not_writable(path: Path, error: OSError) -> SettingsError:
    remedy = "Let the gateway's user write there, or name another file."
    return SettingsError(_setting(path), f"it can't be made ({error.strerror}).", remedy)


def _setting(path: Path) -> str:
    return f"keys.master_key_file ({path})"


async def open_keyring(store: Store, file: Path, *, may_create: bool, now: Instant) -> KeyRing:
    """Return the keyring of this store from the master key file.

    With `may_create`, a store that has never been used with a master key gets one. Raises
    SettingsError when the file can't be used, or when its keys are not those of the store."""
    # A store that was used needs its own key: a new one could open nothing.
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
    """Raise SettingsError when the file's keys are not those of a store that has been used with a
    master key."""
    if await _is_used(store):
        await open_keyring(store, file, may_create=False, now=now)


def master_key_fault(keyring: KeyRing, stored: Sequence[StoredMasterKey]) -> str | None:
    """Return why a process with this keyring can't serve a store with these master keys, in a
    sentence; None if it can."""
    # All keys in use must be there, and the first one must be one of them.
    ids = [generation.id for generation in stored if generation.ended_at is None]
    if not set(ids) <= set(keyring.master_key_ids):
        names = f"{' and '.join(ids)}, and the file has {' and '.join(keyring.master_key_ids)}"
        return f"its keys are not those of the store: the store's secrets are sealed with {names}."

    if ids and keyring.master_key_id not in ids:
        return (
            f"its first key, {keyring.master_key_id}, is not in use any more; the store has "
            f"{' and '.join(ids)}."
        )

    return None


@define(eq=False)
class MasterKeyFile:
    """Reads the master keys of a running process again when their file has changed, as `mmo keys
    rotate` does."""

    path: Path
    keyring: KeyRing
    _seen: tuple[int, int, int] | None = field(init=False)
    _fault: str | None = None

    def __attrs_post_init__(self) -> None:
        self._seen = _file_identity(self.path)

    async def find_fault(self, store: Store) -> str | None:
        """Return why this process can't serve the store any more, as `master_key_fault` does; the
        file is read again first if it has changed."""
        stored = await store.admin.master_keys()
        fault = master_key_fault(self.keyring, stored)
        if fault is not None and self.reload_if_changed():
            fault = master_key_fault(self.keyring, stored)
        if fault is not None and fault != self._fault:
            logger.error("master_key_mismatch", fault=fault)
        self._fault = fault
        return fault

    def reload_if_changed(self) -> bool:
        """Return whether the keyring has other master keys now. An unusable file changes
        nothing."""
        found = _file_identity(self.path)
        if found is None or found == self._seen:
            return False

        # Seen also where it cannot be used: a file that is wrong is not read at every request.
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
        or any(brand.keys for brand in await store.admin.brands())
    )


async def _adopt_store(
    store: Store, keyring: KeyRing, file: Path, *, now: Instant
) -> Sequence[StoredMasterKey]:
    """Record the master key of a store that has none on record, and return the record. Raises
    SettingsError when an API key of the store was sealed with another one."""
    for record in await store.admin.brands():
        # The newest of each brand is enough: all were sealed with one master key.
        for key in record.keys[-1:]:
            try:
                keyring.unseal(record.brand.id, key.sealed)
            except SealError:
                raise _mismatch(
                    file, "its keys are not those that the store's API keys are sealed with."
                ) from None

    await store.admin.add_master_key(StoredMasterKey(1, keyring.master_key_id, now))
    return await store.admin.master_keys()


def _mismatch(file: Path, fault: str) -> SettingsError:
    remedy = (
        "Name the master key file of this store, or restore it from a backup; a new one can't "
        "replace it."
    )
    return SettingsError(_setting(file), fault, remedy)


# Seals secrets of one kind with the first master key of the keyring, those that another one has
# sealed. May be repeated; raises SealError when one can't be opened.
Reseal: TypeAlias = Callable[[AdminStore, KeyRing], Awaitable[None]]


class RotationError(Exception):
    """The step can't be taken now; the message says why and names the step that can."""


def prepare_rotation(file: Path) -> KeyRing:
    """Add the next master key to the file, and return the file's keyring. Raises SettingsError and
    RotationError."""
    keys = load_master_keys(file)
    if len(keys) > 1:
        raise RotationError(
            "the file has two keys already: a rotation has begun, see `mmo keys show`"
        )
    replace_master_keys(file, [keys[0], generate_master_key()])
    return KeyRing(*load_master_keys(file))


async def rotate_master_key(
    store: Store, file: Path, reseals: Sequence[Reseal], *, now: Instant
) -> KeyRing:
    """Make the second key of the file the one in use, in the store and in the file; return the new
    keyring.

    Raises SettingsError, SealError and RotationError."""
    first, second = _load_two(file, "begin with `mmo keys prepare`")
    newest, other = await _newest_master_key(store, first, second), KeyRing(second).master_key_id
    known = [master_key.id for master_key in await store.admin.master_keys()]

    # A step that was interrupted goes on from here.
    if newest.id != other:
        if other in known:
            raise RotationError(
                "the first key of the file is in use already: `mmo keys finish` is the next step"
            )
        await store.admin.add_master_key(StoredMasterKey(newest.generation + 1, other, now))

    # Other processes accept both by now, so what is resealed can be opened by all.
    keyring = KeyRing(second, first)
    for reseal in reseals:
        await reseal(store.admin, keyring)

    # The file last: until then the step can be repeated.
    replace_master_keys(file, [second, first])
    return keyring


async def finish_rotation(
    store: Store, file: Path, reseals: Sequence[Reseal], *, now: Instant
) -> KeyRing:
    """End the previous master key in the store and remove it from the file; return the keyring that
    is left.

    Raises SettingsError, SealError and RotationError."""
    first, second = _load_two(file, "there is nothing to finish")
    newest = await _newest_master_key(store, first, second)
    known = {master_key.id for master_key in await store.admin.master_keys()}
    if newest.id != KeyRing(first).master_key_id or KeyRing(second).master_key_id not in known:
        raise RotationError(
            "the second key of the file is not yet in use: `mmo keys rotate` is the next step"
        )

    # A process that was not replaced may have sealed something with the second key.
    for reseal in reseals:
        await reseal(store.admin, KeyRing(first, second))

    # Only once nothing is sealed with it any more.
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
    """Bring every API key, retired ones too, under the first key of the keyring: sealed and
    digested with it."""
    for record in await store.brands():
        for key in record.keys:
            if keyring.sealing_key_id(record.brand.id, key.sealed) != keyring.master_key_id:
                plain = keyring.unseal(record.brand.id, key.sealed)
                await store.reseal_key(
                    key.id, keyring.digest(plain), keyring.seal(record.brand.id, plain)
                )


def _load_two(file: Path, otherwise: str) -> Sequence[bytes]:
    keys = load_master_keys(file)
    if len(keys) == 1:
        raise RotationError(f"the file has one key only: {otherwise}")
    return keys
