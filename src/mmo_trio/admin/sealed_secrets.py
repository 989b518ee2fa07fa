"""Names the secrets of the gateway's staff that the store holds sealed, and seals them again for
another master key."""

from __future__ import annotations

from mmo_trio.admin.auditing import SecretKeys, reseal_audit_keys
from mmo_trio.storage.sql.admin_store import AdminStore


def second_factor_owner(user: str) -> str:
    """Return the name of the owner of a sealed second factor."""
    return f"second factor of {user}"


async def reseal_second_factors(store: AdminStore, keys: SecretKeys) -> None:
    """Seal the secrets of all second factors with the current key. Raises SealError when one can't
    be opened."""
    for factor in await store.second_factors():
        owner = second_factor_owner(factor.user)
        for sealed in (factor.sealed, factor.pending):
            if sealed is not None:
                again = keys.seal_secret(owner, keys.unseal_secret(owner, sealed))
                await store.reseal_second_factor(factor.user, sealed, again)


# What a change of the master key has to seal again besides API keys.
RESEAL = (reseal_audit_keys, reseal_second_factors)
