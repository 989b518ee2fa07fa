"""The primary is killed under load and its synchronous standby promoted: nothing that was answered
is lost."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
import trio

from mmo_sansio.messages.replies import Accepted
from mmo_trio.api.merchant_api import READINESS_TTL_S
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.storage.interface.store import CHECK_TIMEOUT_S, OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.system.clock import GatewayClock
from tests.conformance.inputs import creation, reference
from tests.support.merchant import ask
from tests.support.mmo_process import mmo, serving_process
from tests.support.postgres_cluster import Cluster, postgres_cluster
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = pytest.mark.long

BACK_WITHIN_S = 10.0


@pytest.mark.spec("P5", "C6")
async def test_a_promoted_standby_has_everything_that_was_answered() -> None:
    with postgres_cluster() as cluster:
        async with open_postgres(cluster.url, serving=True) as store:
            engine = Engine(store, GatewayClock(), Outbox())
            async with trio.open_nursery() as nursery:
                await nursery.start(engine.run)
                with trio.fail_after(HANGS_AFTER_S):
                    answers = await _load(engine, cluster)
                nursery.cancel_scope.cancel()
            for number, answer in answers.items():
                found = await store.transaction(reference(number))
                if answer == "Accepted":
                    assert found is not None, number
                if answer == "StoreUnavailable":
                    assert found is None, number
            assert Counter(answers.values())["Accepted"] > 100
            assert not await store.integrity_errors()


async def _load(engine: Engine, cluster: Cluster) -> dict[int, str]:
    """Create payments while the primary dies, until the new one has taken a hundred more."""
    numbers, answers = count(), dict[int, str]()

    async def create(enough: trio.CancelScope) -> None:
        while True:
            number = next(numbers)
            try:
                reply = await engine.submit(creation(number))
                answers[number] = type(reply).__name__
            except (StoreUnavailable, OutcomeUnknown) as error:
                answers[number] = type(error).__name__

    def accepted() -> int:
        return Counter(answers.values())[Accepted.__name__]

    async def more_than(number: int) -> None:
        while accepted() <= number:  # noqa: ASYNC110  (a look now and then is simpler than an event for each)
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(create, nursery.cancel_scope)
        await more_than(199)
        await trio.to_thread.run_sync(cluster.kill_primary)
        before = accepted()
        asked_at = trio.current_time()
        await trio.to_thread.run_sync(cluster.promote)
        with trio.fail_after(BACK_WITHIN_S):
            await more_than(before)
        print(f"served {trio.current_time() - asked_at:.1f} s after the promotion was asked for")
        await more_than(before + 100)
        nursery.cancel_scope.cancel()
    return answers


CONFIG = """
[database]
url = "{url}"

[keys]
master_key_file = "{folder}/master.key"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"

[log]
format = "json"

[provider.sandbox]
kind = "sandbox"
"""


async def test_a_gateway_says_that_its_database_is_gone_and_does_not_fill_the_log(
    tmp_path: Path,
) -> None:
    create_master_key(tmp_path / "master.key")
    config, log = tmp_path / "mmo.toml", tmp_path / "log"
    with postgres_cluster() as cluster:
        config.write_text(CONFIG.format(url=cluster.url, folder=tmp_path))
        await mmo("db", "migrate", "--config", config)
        async with serving_process("serve", "--config", config, log=log) as gateway:
            readyz = f"{gateway.ready['api']}/readyz"
            assert (await ask(readyz)).status == 200
            cluster.kill_primary()
            with trio.fail_after(HANGS_AFTER_S):
                while (await ask(readyz)).status != 503:
                    pass
            asked_until = trio.current_time() + 3  # Long enough for more lines than one a second.
            while trio.current_time() < asked_until:
                assert (await ask(readyz)).status == 503
            cluster.promote()
            with trio.fail_after(HANGS_AFTER_S):
                while (await ask(readyz)).status != 200:  # noqa: ASYNC110
                    await trio.sleep(0.1)
    assert READINESS_TTL_S + CHECK_TIMEOUT_S < 2, (
        "an answer holds a second, and the next takes less than another"
    )
    events = Counter[tuple[str, str]]()
    for line in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        event = line["event"] if line["logger"].startswith("mmo_trio") else line["logger"]
        events[event, line["timestamp"][:19]] += 1
    assert max(events.values()) <= 2, events.most_common(
        3
    )  # Two seconds may begin within one of the clock.
