"""A gateway at rest leaves its database at rest."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from bench.machine import cpu_s

from tests.runtime.contract.test_kill import KEY
from tests.support.effort import by_effort
from tests.support.mmo_process import serving_process
from tests.support.postgres_process import postgres_process
from tests.support.postgres_server import PostgresServer
from tests.support.shared_operator import configure_gateways, shared_operator

pytestmark = [pytest.mark.own_store, pytest.mark.long]

PROCESSES = 2
SETTLED_AFTER_S = 8.0
"""By then connections are made and statements are planned."""
WATCHED_S = by_effort(5.0, 20.0)
SHARE_MAX = 0.01
"""Of a core, for each process."""
TRIES_MAX = 5
"""A busy machine settles later, and has cold caches."""


async def test_a_gateway_at_rest_takes_a_hundredth_of_a_core_of_its_database(
    tmp_path: Path,
) -> None:
    with postgres_process() as server, shared_operator() as operator:
        url = PostgresServer(server.socket_url).migrated()
        configure_gateways(tmp_path, url, operator, key=KEY)
        words = ("serve", "--config", tmp_path / "mmo.toml", "--brands", tmp_path / "brands.toml")
        async with serving_process(*words, "--workers", f"{PROCESSES}", log=tmp_path / "log"):
            await trio.sleep(SETTLED_AFTER_S)
            for _ in range(TRIES_MAX):
                used_s, begun_at = cpu_s(server.pid), trio.current_time()
                await trio.sleep(WATCHED_S)
                share = (cpu_s(server.pid) - used_s) / (trio.current_time() - begun_at) / PROCESSES
                if share < SHARE_MAX:
                    break
    print(f"each process at rest keeps {share:.2%} of a core of the database busy")
    assert share < SHARE_MAX
