"""The audit log stays verifiable when the master key is replaced."""

from __future__ import annotations

import pytest

from mmo_sansio.values.clock import Instant
from mmo_trio.admin.auditing import AuditLog, reseal_audit_keys, verify_audit_log
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.storage.sqlite import SqliteStore


async def test_rows_of_an_earlier_master_key_stay_authentic(store: SqliteStore) -> None:
    admin = store.admin
    first, second, third = (KeyRing(bytes([each]) * 32) for each in range(3))
    assert len({each.audit_key.id for each in (first, second, third)}) == 3
    await AuditLog(admin, first.audit_key, lambda: Instant(1)).record("cli:ada", "looked")
    assert (await verify_audit_log(admin, first)).fault is None

    await reseal_audit_keys(admin, KeyRing(bytes([1]) * 32, bytes([0]) * 32))
    await AuditLog(admin, second.audit_key, lambda: Instant(2)).record("cli:ada", "looked")
    assert (await verify_audit_log(admin, second)).fault is None
    with pytest.raises(SealError):
        await verify_audit_log(admin, third)
