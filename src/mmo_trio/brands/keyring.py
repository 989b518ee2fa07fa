"""API keys at rest are sealed for callbacks and digested for look-ups by requests (A4, A5)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mmo_trio.settings.errors import SettingsError
from mmo_trio.storage.interface.admin_types import AuditKey

MASTER_KEY_BYTES = 32
_NONCE_BYTES = 12
"""The nonce length that AES-GCM uses without hashing (NIST SP 800-38D section 8.2)."""

_KEY_ENTROPY_BYTES = 32


class SealError(Exception):
    """Sealed text is damaged, belongs to another brand, or was sealed with another master key."""


class KeyRing:
    """Holds keys derived from the master key (HKDF, RFC 5869) to seal, to digest and to sign."""

    def __init__(self, master_key: bytes) -> None:
        """Raise ValueError when the master key does not have 32 bytes."""
        if len(master_key) != MASTER_KEY_BYTES:
            raise ValueError(f"a master key has {MASTER_KEY_BYTES} bytes")
        self._cipher = AESGCM(_derive_key(master_key, b"mmo-gateway api keys: seal"))
        self._digest_key = _derive_key(master_key, b"mmo-gateway api keys: digest")
        self.cursor_key = _derive_key(master_key, b"mmo-gateway records: cursor")
        self._webhook_key = _derive_key(master_key, b"mmo-gateway hooks: token")
        self._secrets_cipher = AESGCM(_derive_key(master_key, b"mmo-gateway secrets: seal"))
        self.audit_key = _audit_key(master_key)
        self.audit_keys: Sequence[AuditKey] = (self.audit_key,)
        """The audit keys of all master keys of this keyring."""

    def __repr__(self) -> str:
        return "<KeyRing>"

    def digest(self, api_key: bytes) -> bytes:
        """Return the digest by which a store finds the key (keyed BLAKE2b, RFC 7693).

        The time of a look-up reveals nothing to a client that can't compute the digest (A1).
        """
        return hashlib.blake2b(api_key, key=self._digest_key, digest_size=32).digest()

    def webhook_token(self, provider: str) -> str:
        """Return the secret part of a provider's webhook URL: 128 bits, equal on all nodes."""
        return hashlib.blake2b(provider.encode(), key=self._webhook_key, digest_size=16).hexdigest()

    def seal(self, brand: str, api_key: bytes) -> bytes:
        """Encrypt the key for this brand; each time with another result."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, api_key, brand.encode())

    def unseal(self, brand: str, sealed: bytes) -> bytes:
        """Return the key that was sealed for this brand. Raises SealError."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], brand.encode())
        except (InvalidTag, ValueError):
            raise SealError(
                f"a stored API key of brand '{brand}' can't be opened: use the master key file that it was sealed with"
            ) from None

    def seal_secret(self, owner: str, secret: bytes) -> bytes:
        """Encrypt a secret of the gateway's own for its owner, e.g. `second factor of ada`."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._secrets_cipher.encrypt(nonce, secret, owner.encode())

    def unseal_secret(self, owner: str, sealed: bytes) -> bytes:
        """Return the secret that was sealed for this owner. Raises SealError."""
        try:
            return self._secrets_cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], owner.encode())
        except (InvalidTag, ValueError):
            raise SealError(f"the {owner} can't be opened: use the master key file that it was sealed with") from None


def generate_api_key() -> str:
    """Return a new API key: 43 characters for a header and a command line (no leading dash)."""
    while (api_key := secrets.token_urlsafe(_KEY_ENTROPY_BYTES)).startswith("-"):
        pass
    return api_key


def load_master_key(path: Path, *, create: bool) -> bytes:
    """Load the master key from its file; `create` makes a missing one, for its owner only.

    Raises SettingsError when the file can't be read, is readable by everybody, or has no key.
    """
    where = f"keys.master_key_file ({path})"
    if create and not path.exists():
        _create_master_key(path)
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        remedy = "Name the file that the API keys in the store were sealed with."
        raise SettingsError(where, "there is no such file.", remedy) from None
    except OSError as error:
        remedy = "Let the gateway's user read it."
        raise SettingsError(where, f"it can't be read ({error.strerror}).", remedy) from None
    if mode & stat.S_IROTH:
        raise SettingsError(where, "everybody can read it.", f"Run: chmod 600 {path}")
    with suppress(binascii.Error):
        master_key = base64.b64decode(text.strip(), validate=True)
        if len(master_key) == MASTER_KEY_BYTES:
            return master_key
    remedy = "Restore it from a backup; a new one can't open the keys in the store."
    raise SettingsError(where, "it doesn't hold 32 bytes in Base64.", remedy)


def _create_master_key(path: Path) -> None:
    """Write the file completely or not at all, so that two starting processes use the same key."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(os.urandom(MASTER_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        where = f"keys.master_key_file ({path})"
        remedy = "Let the gateway's user write there, or name another file."
        raise SettingsError(where, f"it can't be made ({error.strerror}).", remedy) from None
    finally:
        temporary.unlink(missing_ok=True)


def _audit_key(master_key: bytes) -> AuditKey:
    secret = _derive_key(master_key, b"mmo-gateway audit log: authenticate")
    return AuditKey(hashlib.blake2b(secret, digest_size=4, person=b"audit key id").hexdigest(), secret)


def _derive_key(master_key: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(master_key)
