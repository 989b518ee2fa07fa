"""Our tables on one server; what a store does otherwise where they are distributed by brand is in
`distribution`.

One of the two is chosen when the store is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from mmo_sansio.resilience.clock_guard import DIFFERENCE_MAX
from mmo_sansio.values.clock import SECOND
from mmo_trio.storage.interface.store import CLOCK_RECORDS_RECENT_FOR
from mmo_trio.storage.postgres.commits import Commit
from mmo_trio.storage.postgres.pipeline import BoundStatement, Row
from mmo_trio.storage.postgres.statements import BrandStatement, CountRows, InsertStatement, Rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection, fetch_rows
from mmo_trio.storage.sql.net_effect import NetEffect
from mmo_trio.storage.sql.schema import SqlSchema
from mmo_trio.storage.sql.statements import SqlStatement


@frozen
class CallbackSearch:
    """Says which waiting callbacks a process looks for in its channels."""

    holder: int
    """The number of its lease."""
    room: Mapping[str, int]
    """How many of each brand."""
    marks: Mapping[str, int]
    """The id of an intent above which it looks, by brand."""
    taken: Mapping[str, Collection[str]]
    """Payments that it knows already."""
    known: Mapping[str, int] | None
    """The fences of the channels as far as they are known; None for all."""


# The server's clock, and how many of the machines that have saved theirs of late agree with it.
_READ_CLOCK = f"""
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
        count(*) FILTER (WHERE abs(ahead) <= {DIFFERENCE_MAX}),
        count(*) FILTER (WHERE abs(ahead) > {DIFFERENCE_MAX})
    FROM (
        SELECT utc - extract(epoch FROM saved_at) * 1000000 AS ahead FROM clock_records
        WHERE boot_id <> ? AND saved_at > clock_timestamp() -
            interval '{CLOCK_RECORDS_RECENT_FOR // SECOND} s'
    ) AS recent
"""

POSTGRES_SCHEMA = SqlSchema(
    transaction_key=("brand", "gateway_reference"),
    held_until=(("clock_records", "served_until"), ("horizon", "at"), ("batches", "stamp")),
    reference_suffix="right(gateway_reference, 12)",
    host_of_brand="brand::json ->> 'host'",
    breaker_table="channels",
    clear_breaker="UPDATE channels SET breaker = NULL WHERE brand = ?",
    clock_record_age="(extract(epoch FROM clock_timestamp() - saved_at) * 1000000)::bigint",
    now=lambda: SqlStatement("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"),
    clock_query=_READ_CLOCK,
    touch_clock_record=", saved_at = clock_timestamp()",
    takes_arrays=True,
    invariant_violations={
        "holders of durable intents that are not there": (
            "(SELECT DISTINCT holder FROM intents) AS held"
            " WHERE NOT EXISTS (SELECT FROM holders WHERE holders.id = held.holder)"
        ),
        "pending transactions that never wake": (
            "transactions AS t WHERE status = 'pending' AND NOT EXISTS (SELECT FROM wakes AS w"
            " WHERE w.brand = t.brand AND w.gateway_reference = t.gateway_reference)"
        ),
        "wakes of transactions that are final or wake at another time": (
            "wakes AS w LEFT JOIN transactions AS t USING (brand, gateway_reference)"
            " WHERE t.status IS DISTINCT FROM 'pending' OR w.created_at <> t.created_at"
            " OR split_part(encode(t.progress, 'escape'), ',', 3) <> w.wake_at::text"
        ),
        "transactions that wake twice": (
            "(SELECT brand FROM wakes GROUP BY brand, gateway_reference HAVING count(*) > "
            "1) AS twice"
        ),
    },
)

# Callbacks are not among them: the owner of their channel claims those. Rows that another process
# claims at this moment are passed over, not waited for.
_CLAIM_ABANDONED = """
    WITH free AS (
        SELECT i.brand, i.gateway_reference, i.kind
        FROM holders AS h JOIN intents AS i ON i.holder = h.id
        WHERE (h.is_over OR h.id = 0) AND i.kind <> 'callback'
        ORDER BY i.id LIMIT %s FOR UPDATE OF i SKIP LOCKED
    ), taken AS (
        UPDATE intents AS i SET holder = %s FROM free
        WHERE i.brand = free.brand AND i.gateway_reference = free.gateway_reference
            AND i.kind = free.kind
        RETURNING i.id, i.brand, i.gateway_reference, i.kind, i.since, i.hint, i.provider_reference
    )
    SELECT gateway_reference, kind, since, hint, provider_reference, order_row, progress
    FROM taken JOIN transactions USING (brand, gateway_reference) ORDER BY taken.id
"""

# The highest id: the upper end of a range of one brand's ids that is open above.
_ID_MAX = 2**63 - 1

# The oldest callbacks come first: after all new ones they would never come.
#
# 1. `wanted` has one row for each brand: how many, above which id, and what is taken already.
# 2. Brand and id are compared as pairs, from below and from above. Only one index has the two in
#    front, so the planner takes no other one, of which it would have to read every dead row that an
#    old snapshot keeps.
# 3. The rows are locked so that this transaction's end waits for the standby: what it has seen is
#    durable.
# 4. Those of channels that this process has lost meanwhile are dropped, and the fence is read anew.
_FIND_CALLBACKS = f"""
    WITH found AS MATERIALIZED (
        SELECT i.brand, i.id, i.gateway_reference
        FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])
            AS wanted (brand, room, mark, taken)
        CROSS JOIN LATERAL (
            SELECT brand, id, gateway_reference FROM intents
            WHERE kind = 'callback' AND (intents.brand, id) > (wanted.brand, wanted.mark)
                AND (intents.brand, id) < (wanted.brand, {_ID_MAX})
                AND gateway_reference <> ALL (string_to_array(wanted.taken, ' '))
            ORDER BY brand, id LIMIT wanted.room FOR UPDATE SKIP LOCKED
        ) AS i
    )
    SELECT gateway_reference, c.fence, order_row, progress, brand, found.id
    FROM found JOIN channels AS c USING (brand)
        JOIN holders AS h ON h.id = c.holder AND NOT h.is_over
        JOIN transactions USING (brand, gateway_reference)
    WHERE c.holder = %s ORDER BY found.id
"""

# The latest id of an intent, whether it is committed or not; none where the role may not see it.
_LAST_ID = """
    SELECT pg_sequence_last_value(ids)
    FROM (SELECT pg_get_serial_sequence('intents', 'id')::regclass AS ids) AS named
    WHERE has_sequence_privilege(ids, 'USAGE') OR has_sequence_privilege(ids, 'SELECT')
"""


@frozen
class Tables:
    """Our tables on one server."""

    schema: SqlSchema = POSTGRES_SCHEMA
    session_setup: str = ""
    """The statements that prepare each session for these tables."""
    commit_tables: Sequence[str] = ("batches",)
    """Those in which commits leave the rows that tell their outcome."""

    def bind(
        self, statement: BrandStatement | InsertStatement, rows: Rows
    ) -> Iterator[BoundStatement]:
        """Yield the statement for these rows, or one for each shard."""
        return statement.bind_on_one_server(rows)

    def bind_counted(
        self, statement: BrandStatement, rows: Rows, count: CountRows = len
    ) -> Iterator[BoundStatement]:
        """Yield the same with what its check compares: the number of the rows of each, or another
        count."""
        return statement.bind_on_one_server(rows, count)

    def guard(self, commit: Commit[Any], effect: NetEffect) -> None:
        """Choose how the commit of a batch is made: one server makes it at once."""

    async def waiting_brands(
        self, connection: PostgresConnection, values: Mapping[str, object]
    ) -> Sequence[str] | None:
        """Return the brands that have callbacks waiting, as far as a claim with these values (`me`,
        `is_known`, `known`, `fences` and `excluding`) may take their channels; None where the claim
        itself finds them."""
        return None

    async def find_callbacks(
        self, connection: PostgresConnection, search: CallbackSearch
    ) -> tuple[int | None, Sequence[Row]]:
        """Return callbacks, the oldest first: gateway_reference, fence, order_row, progress, brand
        and id of each; and an id up to which no others wait, None where that is not known."""
        brands = list(search.room)

        # One text for each brand, as an array of arrays would need them of equal length.
        taken = [" ".join(search.taken.get(brand, ())) for brand in brands]
        values = (
            brands,
            list(search.room.values()),
            [search.marks[brand] for brand in brands],
            taken,
            search.holder,
        )

        # The last id first: one that is given between the two statements lies above the mark.
        async with connection.pipeline():
            last = await connection.execute(_LAST_ID.encode())
            found = await connection.execute(_FIND_CALLBACKS.encode(), values, binary=True)

        ((last_id,),) = await last.fetchall() or ((None,),)
        return last_id, await found.fetchall()

    async def claim_abandoned(
        self, connection: PostgresConnection, holder: int, limit: int
    ) -> Sequence[Row]:
        """Claim durable intents whose holder's lease has ended, the oldest first; return the row
        of each, as `parse_work_item` reads it."""
        return await fetch_rows(connection, _CLAIM_ABANDONED, limit, holder)

    async def counted_groups(
        self, connection: PostgresConnection
    ) -> Sequence[tuple[str, Sequence[object]]]:
        """Return the conditions, with their values, for rows of `figure_deltas` that one statement
        adds up."""
        return [("", ())]
