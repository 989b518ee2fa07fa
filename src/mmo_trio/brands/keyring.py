"""API keys at rest are sealed for callbacks and digested for look-ups by requests (A4, A5).

Everything is derived from master keys. The keyring has the one in use and, while it is replaced, a
second one: what either has sealed, digested or signed is accepted, and only the first makes
anything new."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mmo_trio.storage.interface.admin_types import AuditKey

MASTER_KEY_BYTES: Final = 32

# The nonce length that AES-GCM uses without hashing (NIST SP 800-38D section 8.2).
_NONCE_BYTES: Final = 12

_KEY_ENTROPY_BYTES: Final = 32
_ID_BYTES: Final = 8

# The generation of a provider's webhook URL until its option `hooks_generation` says another.
FIRST_WEBHOOK_GENERATION: Final = 1


class SealError(Exception):
    """Sealed text is damaged, belongs to another brand, or was sealed with another master key."""


class _DerivedKeys:
    """The keys that are derived from one master key (HKDF, RFC 5869)."""

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != MASTER_KEY_BYTES:
            raise ValueError(f"a master key has {MASTER_KEY_BYTES} bytes")

        # One key for each purpose: what one of them reveals says nothing of the others.
        self.id = _derive_key(master_key, b"mmo-gateway master key: id", _ID_BYTES).hex()
        self.cipher = AESGCM(_derive_key(master_key, b"mmo-gateway api keys: seal"))
        self.digest_key = _derive_key(master_key, b"mmo-gateway api keys: digest")
        self.cursor_key = _derive_key(master_key, b"mmo-gateway records: cursor")
        self.webhook_key = _derive_key(master_key, b"mmo-gateway hooks: token")
        self.secrets_cipher = AESGCM(_derive_key(master_key, b"mmo-gateway secrets: seal"))
        secret = _derive_key(master_key, b"mmo-gateway audit log: authenticate")
        id = hashlib.blake2b(secret, digest_size=4, person=b"audit key id").hexdigest()
        self.audit_key = AuditKey(id, secret)

    def __repr__(self) -> str:
        return f"<derived keys of {self.id}>"


class KeyRing:
    """Seals, digests and signs with the first of its master keys, and accepts what any of them
    made."""

    def __init__(self, *master_keys: bytes) -> None:
        """Raise ValueError when there is no master key, or one that does not have 32 bytes."""
        self._generations: Sequence[_DerivedKeys] = ()
        self.replace(*master_keys)

    def __repr__(self) -> str:
        return "<KeyRing>"

    def replace(self, *master_keys: bytes) -> None:
        """Replace the master keys. Raises ValueError like the making of a keyring."""
        if not master_keys:
            raise ValueError("a keyring needs a master key")
        self._generations = tuple(map(_DerivedKeys, master_keys))

    @property
    def _current(self) -> _DerivedKeys:
        return self._generations[0]

    @property
    def master_key_id(self) -> str:
        """Return the id of the master key in use: text that tells master keys apart and reveals
        nothing of them."""
        return self._current.id

    @property
    def master_key_ids(self) -> Sequence[str]:
        """Return the ids of all master keys, that of the one in use first."""
        return [generation.id for generation in self._generations]

    @property
    def cursor_keys(self) -> tuple[bytes, ...]:
        """Return the keys of cursors of the records: the first signs, all are accepted."""
        return tuple(generation.cursor_key for generation in self._generations)

    @property
    def audit_key(self) -> AuditKey:
        """Return the key that authenticates new rows of the audit log."""
        return self._current.audit_key

    @property
    def audit_keys(self) -> Sequence[AuditKey]:
        """Return the audit keys of all master keys, that of the one in use first."""
        return [generation.audit_key for generation in self._generations]

    def digest(self, api_key: bytes) -> bytes:
        """Return the digest by which a store finds a key that was added with the master key in
        use."""
        return _digest(self._current, api_key)

    def digests(self, api_key: bytes) -> Sequence[bytes]:
        """Return the digests under which a store may have the key, one for each master key (keyed
        BLAKE2b, RFC 7693).

        The time of a look-up reveals nothing to a client that can't compute the digest (A1).
        """
        return [_digest(generation, api_key) for generation in self._generations]

    def webhook_tokens(
        self, provider: str, generation: int = FIRST_WEBHOOK_GENERATION
    ) -> tuple[str, ...]:
        """Return the accepted secret parts of a provider's webhook URL, 128 bits each, equal on all
        nodes: that of this generation, which stands in new URLs, first, and that of the generation
        before."""
        # An operator takes its time to learn a new address: that of the generation before goes on.
        generations = range(generation, max(generation - 2, FIRST_WEBHOOK_GENERATION - 1), -1)
        return tuple(
            _webhook_token(keys, provider, number)
            for number in generations
            for keys in self._generations
        )

    def seal(self, brand: str, api_key: bytes) -> bytes:
        """Encrypt the key for this brand; each time with another result."""
        return _seal(self._current.cipher, brand, api_key)

    def unseal(self, brand: str, sealed: bytes) -> bytes:
        """Return the key that was sealed for this brand. Raises SealError."""
        return _unseal(
            f"a stored API key of brand '{brand}'",
            (g.cipher for g in self._generations),
            brand,
            sealed,
        )

    def sealing_key_id(self, brand: str, sealed: bytes) -> str | None:
        """Return the id of the master key with which a key was sealed; None when it is none of
        these."""
        for generation in self._generations:
            with suppress(InvalidTag, ValueError):
                generation.cipher.decrypt(
                    sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], brand.encode()
                )
                return generation.id
        return None

    def seal_secret(self, owner: str, secret: bytes) -> bytes:
        """Encrypt a secret of the gateway's own for its owner, e.g. `second factor of ada`."""
        return _seal(self._current.secrets_cipher, owner, secret)

    def unseal_secret(self, owner: str, sealed: bytes) -> bytes:
        """Return the secret that was sealed for this owner. Raises SealError."""
        return _unseal(f"the {owner}", (g.secrets_cipher for g in self._generations), owner, sealed)


def generate_api_key() -> str:
    """Return a new API key: 43 characters for a header and a command line (no leading dash)."""
    # A command would take it for an option.
    while (api_key := secrets.token_urlsafe(_KEY_ENTROPY_BYTES)).startswith("-"):
        pass
    return api_key


def _digest(keys: _DerivedKeys, api_key: bytes) -> bytes:
    return hashlib.blake2b(api_key, key=keys.digest_key, digest_size=32).digest()


def _seal(cipher: AESGCM, owner: str, secret: bytes) -> bytes:
    # Random, as several processes seal with one key and cannot count together.
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, secret, owner.encode())


def _unseal(name: str, ciphers: Iterable[AESGCM], owner: str, sealed: bytes) -> bytes:
    for cipher in ciphers:
        with suppress(InvalidTag, ValueError):
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], owner.encode())
    raise SealError(f"{name} can't be opened: use the master key file that it was sealed with")


def _webhook_token(keys: _DerivedKeys, provider: str, generation: int) -> str:
    # The first one has no number: addresses that operators know stay as they are.
    if generation == FIRST_WEBHOOK_GENERATION:
        subject = provider
    else:
        subject = f"{provider}\0{generation}"
    return hashlib.blake2b(subject.encode(), key=keys.webhook_key, digest_size=16).hexdigest()


def _derive_key(master_key: bytes, purpose: bytes, length: int = 32) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(master_key)
