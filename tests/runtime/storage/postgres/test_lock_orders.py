"""Two processes that write the same rows: neither waits for the other in a circle, and neither
misses the other."""

from __future__ import annotations

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.values.model import Stage
from mmo_trio.storage.postgres import open_postgres
from tests.conformance.driver import NOON, after_noon, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.time_limits import HANGS_AFTER_S

_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def wait_for_waiter(other: psycopg.Connection[tuple[int]]) -> None:
    """Wait until somebody waits for a lock."""
    while other.execute(_WAITING).fetchone() == (0,):  # noqa: ASYNC110
        await trio.sleep(0.01)


@pytest.mark.spec("S6")
async def test_an_intent_that_another_process_claims_meanwhile_does_not_stay(
    migrated_database: str,
) -> None:
    """The process that begins the submission stood still, so another one claims its work; that
    isn't committed yet."""
    async with open_postgres(migrated_database, serving=True) as store:
        await submit_batch(store, (creation(1), NOON))
        replies: list[Reply] = []

        async def begin() -> None:
            replies.extend(
                await submit_batch(store, (BeginSubmission(reference(1)), after_noon(1)))
            )

        with psycopg.connect(migrated_database) as other, trio.fail_after(HANGS_AFTER_S):
            other.execute("UPDATE intents SET holder = 0")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(begin)
                await wait_for_waiter(other)
                other.commit()
            [reply] = replies
            assert isinstance(reply, Applied)
            assert reply.transaction.progress.stage is Stage.SUBMITTING
            assert other.execute("SELECT count(*) FROM intents").fetchone() == (0,)


async def test_an_intent_to_submit_what_has_ended_is_removed_and_no_other(
    migrated_database: str,
) -> None:
    """It would keep its payment from being masked."""
    async with open_postgres(migrated_database, serving=True) as store:
        await submit_batch(store, (creation(1), NOON), (creation(2), after_noon(1)))
        await submit_batch(
            store, (BeginSubmission(reference(1)), after_noon(2)), (succeeded(1), after_noon(3))
        )
        insert = (
            "INSERT INTO intents (brand, gateway_reference, kind, holder) VALUES ('acme', %s, "
            "'submit', 0)"
        )
        with psycopg.connect(migrated_database, autocommit=True) as other:
            other.execute(insert, (reference(1),))
            await store.purge()
            found = other.execute(
                "SELECT gateway_reference, kind FROM intents ORDER BY kind"
            ).fetchall()
        assert found == [(reference(1), "callback"), (reference(2), "submit")]


async def test_a_release_of_channels_and_a_batch_lock_them_in_the_same_order(
    migrated_database: str,
) -> None:
    brands = ("B", "a", "acme")
    async with open_postgres(migrated_database, serving=True) as store:
        assert store.ownership is not None
        holder = store.ownership.lease_number
        with psycopg.connect(migrated_database) as batch, trio.fail_after(HANGS_AFTER_S):
            batch.execute(
                "INSERT INTO channels SELECT unnest(%s::text[]), %s, 1",
                (list(reversed(brands)), holder),
            )
            batch.commit()
            lock = "SELECT FROM channels WHERE brand = %s FOR UPDATE"
            batch.execute(lock, ("B",))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.ownership.release, dict.fromkeys(reversed(brands), 1), {})
                await wait_for_waiter(batch)
                for brand in brands[1:]:
                    batch.execute(lock, (brand,))
                batch.commit()
            released = batch.execute("SELECT count(*) FROM channels WHERE holder = 0").fetchone()
        assert released == (len(brands),)
