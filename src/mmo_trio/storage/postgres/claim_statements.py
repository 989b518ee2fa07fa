"""Writes the claims of deposits that a batch changes, as statements: pure."""

from __future__ import annotations

from collections.abc import Iterator

from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement
from mmo_trio.storage.postgres.text_encoding import escape_text
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.serialization import serialize_claim

_INSERT_CLAIMS = PreparedStatement("""
    INSERT INTO deposit_claims (provider, receipt, version, wake_at, claim)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::bigint[], %s::bytea[])
""")
_UPDATE_CLAIMS = PreparedStatement("""
    WITH moved AS (
        UPDATE deposit_claims AS c SET version = new.version, wake_at = new.wake_at, claim = new.claim
        FROM unnest(%s::text[], %s::text[], %s::integer[], %s::integer[], %s::bigint[], %s::bytea[])
            AS new (provider, receipt, was, version, wake_at, claim)
        WHERE c.provider = new.provider AND c.receipt = new.receipt AND c.version = new.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM moved
""")
_DELETE_CLAIMS = PreparedStatement("""
    WITH gone AS (
        DELETE FROM deposit_claims AS c
        USING unnest(%s::text[], %s::text[], %s::integer[]) AS old (provider, receipt, was)
        WHERE c.provider = old.provider AND c.receipt = old.receipt AND c.version = old.was
        RETURNING 1
    )
    SELECT still_so(count(*) = %s::bigint) FROM gone
""")


def claim_statements(effect: NetEffect) -> Iterator[BoundStatement]:
    """Yield the statements that write what a batch changes of claims."""
    inserted: list[tuple[object, ...]] = []
    updated: list[tuple[object, ...]] = []
    deleted: list[tuple[object, ...]] = []
    for (provider, receipt), (was, claim) in sorted(effect.claims.items(), key=lambda item: item[0]):
        key = (provider, escape_text(receipt))
        if claim is None:
            deleted += [(*key, was)] if was else []
            continue
        columns = (claim.version, claim.wake_at, serialize_claim(claim))
        if was:
            updated.append((*key, was, *columns))
        else:
            inserted.append((*key, *columns))
    if inserted:
        yield _INSERT_CLAIMS.bind_rows(inserted)
    if updated:
        yield _UPDATE_CLAIMS.bind_rows(updated, len(updated))
    if deleted:
        yield _DELETE_CLAIMS.bind_rows(deleted, len(deleted))
