"""A brand on hold: from the end of the command on, no process begins to submit anything of it."""

from __future__ import annotations

from collections.abc import Sequence

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import pytest
import trio
from attrs import evolve

from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_sansio.messages.replies import Accepted, Applied
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Stage
from mmo_trio.storage.interface.admin_types import BrandHold
from mmo_trio.storage.postgres import PostgresStore, open_postgres
from mmo_trio.storage.postgres.shared_locks import SUBMISSION_LOCK
from tests.conformance.driver import NOON, after_noon, submit_batch
from tests.conformance.inputs import creation, reference
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.spec("S6")
HOLD = BrandHold("acme", NOON, "ada")


async def submit_while_held(
    store: PostgresStore, url: str, input_: Input, now: Instant
) -> Sequence[Decision]:
    """Decide an input whose brand staff put on hold between its first load and its commit, on
    another node."""

    def decide_once(ledger: Ledger) -> Sequence[Decision]:
        with psycopg.connect(url) as other:
            other.execute(
                "INSERT INTO brand_holds VALUES ('acme', 1, 'ada') ON CONFLICT DO NOTHING"
            )
        decision = decide(ledger, input_, now=now)
        ledger.apply(decision.changes, decision.intents)
        return [decision]

    with trio.fail_after(HANGS_AFTER_S):
        return await store.transact(reads(input_), decide_once)


async def test_a_commit_that_had_loaded_before_submits_nothing_of_a_brand_on_hold(
    migrated_database: str,
) -> None:
    async with open_postgres(migrated_database, serving=True) as store:
        await submit_batch(store, (creation(1), NOON))
        begin = BeginSubmission(reference(1))
        (decision,) = await submit_while_held(store, migrated_database, begin, after_noon(1))
        assert isinstance(decision.reply, Applied)
        assert decision.reply.transaction.progress.stage is Stage.FAILED


async def test_a_create_with_a_reserved_provider_submits_nothing_of_a_brand_on_hold(
    migrated_database: str,
) -> None:
    async with open_postgres(migrated_database, serving=True) as store:
        create = evolve(creation(1), reserved_provider="sandbox")
        (decision,) = await submit_while_held(store, migrated_database, create, NOON)
        assert isinstance(decision.reply, Accepted)
        created = await store.transaction(reference(1))
        assert created is not None
        assert created.progress.stage is Stage.CREATED


async def test_who_holds_a_brand_waits_for_commits_that_looked_before_and_delays_none(
    migrated_database: str,
) -> None:
    async with open_postgres(migrated_database, serving=True) as store:
        await submit_batch(
            store, (creation(1), NOON), (creation(2, brand_id="globex"), after_noon(1))
        )
        with psycopg.connect(migrated_database) as commit, trio.fail_after(HANGS_AFTER_S):
            commit.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", SUBMISSION_LOCK)
            held: list[bool] = []

            async def hold() -> None:
                held.append(await store.admin.hold_brand(HOLD))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                while not await store.admin.brand_holds():  # noqa: ASYNC110
                    await trio.sleep(0.01)
                stopped, begun = await submit_batch(
                    store,
                    (BeginSubmission(reference(1)), after_noon(2)),
                    (BeginSubmission(reference(2)), after_noon(3)),
                )
                assert not held, "it waits for the commit"
                commit.rollback()
        assert held == [True]
        stages = [
            each.transaction.progress.stage
            for each in (stopped, begun)
            if isinstance(each, Applied)
        ]
        assert stages == [Stage.FAILED, Stage.SUBMITTING]
