"""Two gateways on one PostgreSQL: what becomes of a merchant's callbacks when their sender is
stopped, or is killed.

Only then may a callback be sent twice (K3)."""

from __future__ import annotations

import json
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.channel_owner import SCAN_INTERVAL_S
from tests.runtime.contract.test_kill import KEY, creation
from tests.runtime.contract.test_processes import served
from tests.support.http_listener import Client
from tests.support.mmo_process import Process, serving_process
from tests.support.shared_operator import configure_gateways, shared_operator
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.long, pytest.mark.http1("sends bytes")]

PAYMENTS = 24
PLACES = 16
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


@define(eq=False)
class Receiver:
    """A merchant's server that can keep callers waiting, before the handshake or before the
    answer."""

    url: str
    context: ssl.SSLContext
    shakes_hands: trio.Event = Factory(trio.Event)
    """Until then those of the first who connect wait for the handshake."""
    answers: trio.Event = Factory(trio.Event)
    """Until then those of the first who have sent something wait for the answer."""
    connected: int = 0
    heard: list[str] = Factory(list)
    """gatewayReferences, in the order in which the requests came."""

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        self.connected += 1
        if self.connected <= PLACES:
            await self.shakes_hands.wait()
        tls = trio.SSLStream(stream, self.context, server_side=True, https_compatible=True)
        request = b""
        try:
            while b'"gatewayReference"' not in request:
                more = await tls.receive_some()
                if not more:
                    return
                request += more
            body = json.loads(request.partition(b"\r\n\r\n")[2])
            self.heard.append(body["gatewayReference"])
            if len(self.heard) <= PLACES:
                await self.answers.wait()
            await tls.send_all(ANSWER)
        except (trio.BrokenResourceError, ssl.SSLError):
            pass  # The caller was killed, or has nothing to say.
        finally:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def receiving(directory: Path) -> AsyncIterator[Receiver]:
    """A receiver at work; the authority in this directory vouches for it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    context = ensure_authority(directory).issue("127.0.0.1")
    receiver = Receiver(f"https://127.0.0.1:{port}/callback", context)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, receiver.serve, [listener])
        yield receiver
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def two_gateways(directory: Path, url: str) -> AsyncIterator[tuple[Process, Process]]:
    """Two nodes with a worker each on this database; they share an operator."""
    words = ("serve", "--config", directory / "mmo.toml")
    first, second = logs_in(directory)
    with shared_operator() as operator:
        limits = '[limits]\ncallback_timeout = "60s"\n'
        configure_gateways(directory, url, operator, key=KEY, further=limits)
        async with (
            serving_process(*words, "--brands", directory / "brands.toml", log=first) as one,
            serving_process(*words, log=second) as other,
        ):
            yield one, other


@asynccontextmanager
async def scene(
    directory: Path, database: str
) -> AsyncIterator[tuple[Receiver, tuple[Process, Process], Store]]:
    """The merchant's server, both gateways, and what they store; for two minutes at most."""
    with trio.fail_after(HANGS_AFTER_S):
        async with (
            receiving(directory) as receiver,
            two_gateways(directory, database) as both,
            open_store(database, serving=False) as store,
        ):
            yield receiver, both, store


async def pay(gateway: Process, receiver: Receiver) -> None:
    """Payments that soon succeed."""
    async with await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream:
        client = Client(stream)
        for number in range(PAYMENTS):
            answer = await client.ask(creation(6 * number, receiver.url))
            assert answer.status == 200, answer.body


async def all_recorded(store: Store) -> None:
    """Returns once every payment's callback is on record as delivered, each once."""
    await until(lambda: are_recorded(store, PAYMENTS))
    recorded = await store.admin.callbacks()
    assert len({each.gateway_reference for each in recorded}) == len(recorded) == PAYMENTS
    assert {each.attempt.outcome for each in recorded} == {DeliveryOutcome.DELIVERED}


@pytest.mark.spec("K3")
async def test_an_owner_that_is_stopped_and_goes_on_sends_nothing_that_another_has_sent(
    tmp_path: Path, migrated_database: str
) -> None:
    async with scene(tmp_path, migrated_database) as (receiver, both, store):
        receiver.answers.set()
        await pay(both[0], receiver)
        await until(lambda: are_under_way(store, receiver.connected))
        owner, log = owner_in(tmp_path)
        os.kill(owner, signal.SIGSTOP)
        await all_recorded(store)
        os.kill(owner, signal.SIGCONT)
        receiver.shakes_hands.set()
        await until(lambda: has_let_go(log))
        await pay_one_more(both[0], receiver, store)
        assert len(receiver.heard) == len(set(receiver.heard)) == PAYMENTS + 1


async def has_let_go(log: Path) -> bool:
    """Whether the process that went on has dropped what it had under way."""
    text = await trio.Path(log).read_text("utf-8")
    return text.count("callback_released") >= PLACES


def owner_in(directory: Path) -> tuple[int, Path]:
    """The worker that has taken the merchant's channel, the first that saw a callback; and its
    node's log."""
    (log,) = [each for each in logs_in(directory) if "channel_claimed" in each.read_text("utf-8")]
    ((_, pid),) = served(log)
    return pid, log


def logs_in(directory: Path) -> Sequence[Path]:
    """Of both nodes."""
    return (directory / "log-one", directory / "log-other")


async def pay_one_more(gateway: Process, receiver: Receiver, store: Store) -> None:
    """Shows that both nodes work again. A process that has just gone on creates nothing at first,
    by requests that may be as old as its stop (C12), and answers 503."""

    async def is_taken() -> bool:
        async with await trio.open_tcp_stream("127.0.0.1", gateway.port) as stream:
            answer = await Client(stream).ask(creation(6 * PAYMENTS, receiver.url))
        assert answer.status in (200, 503), answer.body
        return answer.status == 200

    await until(is_taken)
    await until(lambda: are_recorded(store, PAYMENTS + 1))


@pytest.mark.spec("K3")
async def test_an_owner_that_drains_keeps_the_channel_until_nothing_is_under_way(
    tmp_path: Path, migrated_database: str
) -> None:
    async with scene(tmp_path, migrated_database) as (receiver, both, store):
        receiver.shakes_hands.set()
        await pay(both[0], receiver)
        await until(lambda: have_been_heard(receiver, PLACES))
        owner, log = owner_in(tmp_path)
        os.kill(owner, signal.SIGTERM)
        await until(lambda: is_draining(log))
        await trio.sleep(4 * SCAN_INTERVAL_S)  # In which another would take what is free.
        assert len(receiver.heard) == PLACES
        receiver.answers.set()
        await all_recorded(store)
        assert len(receiver.heard) == len(set(receiver.heard)) == PAYMENTS


async def have_been_heard(receiver: Receiver, many: int) -> bool:
    """Whether so many requests have come."""
    return len(receiver.heard) >= many


async def is_draining(log: Path) -> bool:
    """Whether a process of this node has begun to drain."""
    return "drain_started" in await trio.Path(log).read_text("utf-8")


@pytest.mark.spec("K3")
async def test_a_killed_owner_s_callbacks_are_taken_over_within_its_lease(
    tmp_path: Path, migrated_database: str
) -> None:
    async with scene(tmp_path, migrated_database) as (receiver, both, store):
        receiver.shakes_hands.set()
        await pay(both[0], receiver)
        await until(lambda: are_under_way(store, len(receiver.heard)))
        os.kill(owner_in(tmp_path)[0], signal.SIGKILL)
        await all_recorded(store)
    repeated = len(receiver.heard) - len(set(receiver.heard))
    assert len(set(receiver.heard)) == PAYMENTS
    assert repeated == PLACES, "what was under way when it was killed, and nothing else"


async def are_under_way(store: Store, count: int) -> bool:
    """Whether all payments have ended, and as many callbacks as can be are under way."""
    found = await store.admin.find_transactions()
    return count >= PLACES and all(each.progress.stage.is_terminal for each in found)


async def are_recorded(store: Store, count: int) -> bool:
    """Whether so many callbacks are on record."""
    return len(await store.admin.callbacks()) >= count


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Return once it is so; another process makes it so, and nobody here is told."""
    while not await is_so():  # noqa: ASYNC110
        await trio.sleep(0.05)
