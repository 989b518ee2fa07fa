"""Writes the audit log, whose rows are authenticated with a key of the gateway's keyring, and
verifies it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditHead, AuditKey
from mmo_trio.storage.interface.audit_chain import AuditChainVerifier
from mmo_trio.storage.sql.admin_store import AdminStore

# Limit on the characters of one detail; longer text is cut.
TEXT_CHARACTERS_MAX = 2_000

# Rows that are read and verified at a time.
PAGE_SIZE = 1_000


class SecretKeys(Protocol):
    """The keys of the gateway that staff's data needs; see
    :class:`mmo_trio.brands.keyring.KeyRing`."""

    @property
    def audit_key(self) -> AuditKey: ...
    @property
    def audit_keys(self) -> Sequence[AuditKey]: ...
    def seal_secret(self, owner: str, secret: bytes) -> bytes: ...
    def unseal_secret(self, owner: str, sealed: bytes) -> bytes: ...


@frozen
class AuditLog:
    """Appends events to the audit log of a store."""

    store: AdminStore
    key: AuditKey
    wall_time: Callable[[], Instant]

    async def record(self, actor: str, action: str, about: str = "", **detail: object) -> None:
        """Append an event: what the actor is about to do. Raises what the store raises."""
        await self.store.append_audit(*self.event(actor, action, about, **detail))

    def event(
        self, actor: str, action: str, about: str = "", **detail: object
    ) -> tuple[AuditEvent, AuditKey]:
        """Return an event, and the key that authenticates it, for a store that appends it with
        another change."""
        return audit_event(self.wall_time(), actor, action, about, **detail), self.key


def audit_event(
    at: Instant, actor: str, action: str, about: str = "", **detail: object
) -> AuditEvent:
    """Return an audit event without the details that are None."""
    members = {name: _cut(value) for name, value in detail.items() if value is not None}
    return AuditEvent(
        at, replace_unprintable(actor), action, replace_unprintable(about), json.dumps(members)
    )


def _cut(value: object) -> object:
    if isinstance(value, str):
        return value[:TEXT_CHARACTERS_MAX]
    return value


def replace_unprintable(text: str) -> str:
    """Replace control characters and characters that a store can't store."""
    return "".join(character if character.isprintable() else "?" for character in text[:300])


@frozen
class AuditVerification:
    """Says what a verification of the whole log has found."""

    fault: str | None
    """A sentence that says what is wrong; None when nothing is."""
    end: AuditHead
    """The last row that was verified."""


async def verify_audit_log(
    store: AdminStore, keys: SecretKeys | None, known_head: AuditHead | None = None
) -> AuditVerification:
    """Verify the log from its first row; `known_head` is an end that was seen earlier and has to be
    in it still.

    Without keys only the chain of hashes is verified. Raises SealError when an earlier audit key
    can't be opened."""
    # Earlier keys are sealed in the store: whoever has no master key still sees a broken chain.
    audit_keys = None
    if keys is not None:
        audit_keys = await load_audit_keys(store, keys)

    chain = AuditChainVerifier(audit_keys)
    has_seen_head = known_head is None or known_head.number == 0
    fault: str | None = None
    while fault is None:
        rows = await store.audit_after(chain.verified_head.number, limit=PAGE_SIZE)
        if not rows:
            # The end last: a row that is added between the two reads is no end that is missing.
            head = await store.audit_head()
            if await store.audit_after(chain.verified_head.number, limit=1):
                continue

            fault = chain.verify_end(head)
            break

        fault = chain.verify(rows)
        has_seen_head = has_seen_head or any(
            known_head == AuditHead(row.number, row.hash) for row in rows
        )

    # A log that was cut and written anew is a whole chain, and lacks the row that somebody has
    # seen.
    if fault is None and not has_seen_head and known_head is not None:
        fault = f"row {known_head.number} isn't the one that was seen."

    return AuditVerification(fault, chain.verified_head)


async def load_audit_keys(store: AdminStore, keys: SecretKeys) -> Sequence[AuditKey]:
    """Return all keys that the log was ever written with: the current ones, and those of earlier
    master keys."""
    sealed_keys = await store.sealed_audit_keys()
    earlier = [
        AuditKey(id, keys.unseal_secret(_owner(id), sealed)) for id, sealed in sealed_keys.items()
    ]
    return [*keys.audit_keys, *earlier]


async def reseal_audit_keys(store: AdminStore, keys: SecretKeys) -> None:
    """Seal the audit keys of all earlier master keys with the current one, so that old rows stay
    verifiable when the earlier master keys are gone."""
    for key in await load_audit_keys(store, keys):
        # The current key needs no place in the store: it follows from the master key.
        if key.id != keys.audit_key.id:
            await store.save_audit_key(key.id, keys.seal_secret(_owner(key.id), key.secret))


def _owner(key_id: str) -> str:
    return f"audit key {key_id}"
