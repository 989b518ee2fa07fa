"""What staff change of brands, keys and providers is in force on every process when the command
ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from mmo_trio.cli.group import main
from mmo_trio.cli.support import target
from tests.runtime.contract.test_kill import KEY, creation
from tests.support.connection_owner import children_of, owner_of
from tests.support.http_listener import Client
from tests.support.mmo_process import Process, serving_process
from tests.support.shared_operator import BRAND, PROVIDER, configure_gateways, shared_operator

RESULT_URL = "https://localhost:9/callback"
CONNECTIONS_MAX = 200
BRANDS = BRAND.format(key=KEY)
LOWER = BRANDS.replace('max = "150000"', 'max = "50"')


@asynccontextmanager
async def serving(directory: Path, url: str, *words: str) -> AsyncIterator[Process]:
    """`mmo serve` on this database with the brand acme, whose payments may be up to 150,000 KES."""
    command: tuple[str | Path, ...] = (
        "serve",
        "--config",
        directory / "mmo.toml",
        "--brands",
        directory / "brands.toml",
        *words,
    )
    with shared_operator() as operator:
        configure_gateways(directory, url, operator, key=KEY)
        async with serving_process(*command, log=directory / "log") as process:
            yield process


async def one_connection_each(
    stack: AsyncExitStack, node: Process, count: int
) -> Mapping[int, Client]:
    """A connection to each worker of the node, of which there are so many."""
    found: dict[int, Client] = {}
    for _ in range(CONNECTIONS_MAX):
        stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", node.port))
        ports = stream.socket.getpeername()[1], stream.socket.getsockname()[1]
        client, process = Client(stream), None
        await client.ask(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n")
        process = owner_of(ports, [node.process.pid, *children_of([node.process.pid])])
        if process is not None:
            found.setdefault(process, client)
        if len(found) == count:
            return found
    raise AssertionError(f"only {list(found)} take connections")


async def run(directory: Path, *words: str, exit_code: int = 0) -> str:
    """What a command about this gateway says on standard error."""
    arguments = [*words, "--config", str(directory / "mmo.toml")]
    done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))
    assert done.exit_code == exit_code, done.output
    return done.stderr


async def apply(directory: Path, brands: str) -> str:
    """Apply these brands; what the command says."""
    (directory / "brands.toml").write_text(brands, "utf-8")
    return await run(directory, "brands", "apply", str(directory / "brands.toml"))


async def check_each_change(directory: Path, clients: Mapping[int, Client], said: str) -> None:
    """Change a limit, the brand, the provider and the key; each is in force on these connections
    when it was said."""
    numbers = iter(range(100, 10_000, 2))

    async def statuses() -> list[int]:
        """What each process answers to a pay-in of more than 50 KES."""
        return [
            (await client.ask(creation(next(numbers), RESULT_URL))).status
            for client in clients.values()
        ]

    everywhere = len(clients)
    assert await statuses() == [200] * everywhere
    assert said in await apply(directory, LOWER)
    assert await statuses() == [400] * everywhere
    assert said in await apply(directory, BRANDS)
    assert await statuses() == [200] * everywhere
    assert said in await run(directory, "brands", "disable", "acme")
    assert await statuses() == [400] * everywhere
    assert said in await run(directory, "brands", "enable", "acme")
    assert said in await run(
        directory, "providers", "disable", PROVIDER, "--reason", "out of order"
    )
    assert said in await run(directory, "providers", "enable", PROVIDER)
    assert await statuses() == [200] * everywhere
    assert said in await run(directory, "brands", "key", "retire", "acme", "1")
    assert await statuses() == [401] * everywhere


async def test_a_change_is_in_force_on_every_worker_when_the_command_ends(
    database: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(serving(tmp_path, database, "--workers", "2"))
        clients = await one_connection_each(stack, node, 2)
        await check_each_change(tmp_path, clients, "In force on 2 processes.")


async def test_a_change_is_in_force_on_sqlite_when_the_command_ends(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/gateway.db"
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(serving(tmp_path, url))
        clients = await one_connection_each(stack, node, 1)
        await check_each_change(tmp_path, clients, "In force on 1 process.")
    assert "No process serves now" in await apply(tmp_path, LOWER)


async def test_a_process_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "IN_FORCE_WAIT_S", 0.5)
    url = f"sqlite:///{tmp_path}/gateway.db"
    async with serving(tmp_path, url) as node:
        (tmp_path / "brands.toml").write_text(LOWER, "utf-8")
        node.process.send_signal(signal.SIGSTOP)
        try:
            words = ("brands", "apply", str(tmp_path / "brands.toml"))
            said = await run(tmp_path, *words, exit_code=4)
        finally:
            node.process.send_signal(signal.SIGCONT)
        assert f"not known to be in force on: process {node.process.pid} on " in said
        monkeypatch.undo()
        assert "In force on 1 process." in await run(tmp_path, *words)
