"""The file of the master key: 32 bytes in Base64, which only the gateway's user may read.

While a master key is replaced the file has two lines, a key in each: the first is in use, the other is accepted as
well. The file is written completely or not at all.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mmo_trio.settings.errors import SettingsError

MASTER_KEY_BYTES: Final = 32
MASTER_KEYS_MAX: Final = 2
"""Keys in the file: the one in use, and during a rotation the next or the previous one."""

_FORBIDDEN_MODE: Final = stat.S_IRWXO | stat.S_IWGRP
"""Permissions that no master key file may give."""


def load_master_keys(path: Path) -> Sequence[bytes]:
    """Load the master keys from their file, the one in use first.

    Raises SettingsError when there is no such file, when others than the gateway's user can read or change it, or when
    it has no keys."""
    where = _setting(path)
    try:
        status, text = path.stat(), path.read_bytes()
    except FileNotFoundError:
        remedy = (
            "Name the file that the store's API keys were sealed with; for a new store `mmo brands apply` makes one."
        )
        raise SettingsError(where, "there is no such file.", remedy) from None
    except OSError as error:
        remedy = "Let the gateway's user read it."
        raise SettingsError(where, f"it can't be read ({error.strerror}).", remedy) from None
    _check_access(path, status)
    keys = [_parse_key(line) for line in text.split()]
    if not 1 <= len(keys) <= MASTER_KEYS_MAX or None in keys or len(set(keys)) != len(keys):
        remedy = "Restore it from a backup; a new one can't open the keys in the store."
        raise SettingsError(where, "it doesn't hold 32 bytes in Base64, or two different such lines.", remedy)
    return [key for key in keys if key is not None]


def create_master_key(path: Path) -> None:
    """Make the file with a new key unless it is there; two processes that do so at once use the same key.

    Raises SettingsError when it can't be made."""
    temporary = _write_temporary(path, [generate_master_key()])
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise _not_writable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def replace_master_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Replace the file's keys; its owner and its permissions stay. Raises SettingsError when it can't be written."""
    temporary = _write_temporary(path, keys)
    try:
        status = path.stat()
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(temporary, status.st_uid, status.st_gid)
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
    """Write the keys to a file next to the path, for its owner only, and to the disk. Raises SettingsError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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
