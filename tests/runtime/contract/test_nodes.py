"""Two nodes with two workers each on one PostgreSQL: whatever dies, each payment happens once, and
everybody hears."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS_PER_BRAND
from mmo_sansio.values.clock import SECOND
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.open_store import open_store
from tests.runtime.contract.test_kill import (
    KEY,
    Log,
    all_called,
    all_ended,
    creation,
    each_ended_once,
    each_was_submitted_once,
    nothing_is_lost,
)
from tests.runtime.contract.test_kill import create_without_end as create_until_it_breaks
from tests.runtime.contract.test_processes import served, until
from tests.support.connection_owner import can_find_owner, children_of, owner_of
from tests.support.effort import by_effort
from tests.support.http_listener import Answer, Client, NoAnswerError
from tests.support.mmo_process import (
    CallbackRecorder,
    Process,
    RecordedCallback,
    mmo,
    recording_callbacks,
    serving_process,
)
from tests.support.shared_operator import SharedOperator, configure_gateways, shared_operator
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.long, pytest.mark.http1("sends bytes")]

KILLS = by_effort(3, 20)
RACES = by_effort(5, 100)
BETWEEN_KILLS_S = 2.0
RACERS = 50
NODES = 2
SEED = 21
CONNECTIONS = 8
"""To each node."""
CREATES_PER_S = 60
"""In all: little enough that two cores bear five processes and a database beside the test."""
ENOUGH = 20
"""Answers between two kills, at least."""
HEARD_WITHIN = 60 * SECOND


@define(eq=False)
class Cluster:
    """Nodes on one database."""

    directory: Path
    url: str
    operator: SharedOperator
    nodes: list[Process] = Factory(list)
    killed: set[int] = Factory(set)
    """Processes."""
    paused: set[int] = Factory(set)
    """Processes that stood still for longer than their lease lasts, so that others have taken them
    for dead."""

    def alive(self) -> list[int]:
        """Every worker that serves."""
        said = [served(self.log(number)) for number in range(NODES)]
        return [pid for node in said for _, pid in node if pid not in self.killed]

    def kill_one(self, chance: random.Random) -> None:
        """`kill -9` of one worker of any node, which there must be."""
        pid = chance.choice(self.alive())
        self.killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    async def kill_node(self, node: Process) -> None:
        """`kill -9` of all its processes."""
        pids = children_of([node.process.pid])
        self.killed.update(pids)
        await node.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def rest(self) -> list[Process]:
        """The nodes that weren't killed."""
        return [node for node in self.nodes if node.process.returncode is None]

    def sender(self, ports: tuple[int, int]) -> int | None:
        """The worker that has the connection between these ports."""
        return owner_of(ports, children_of(node.process.pid for node in self.rest))

    def log(self, number: int) -> Path:
        """Where this node's standard error goes."""
        return self.directory / f"log-{number}"


@asynccontextmanager
async def cluster(directory: Path, url: str) -> AsyncIterator[Cluster]:
    """Two nodes, from their READY lines on; they drain when the block ends."""
    async with AsyncExitStack() as stack:
        operator = stack.enter_context(shared_operator())
        configure_gateways(directory, url, operator, key=KEY)
        words = ("serve", "--config", directory / "mmo.toml", "--workers", "2")
        found = Cluster(directory, url, operator)
        for number in range(NODES):
            brands = ("--brands", directory / "brands.toml") if number == 0 else ()
            node = serving_process(*words, *brands, log=found.log(number))
            found.nodes.append(await stack.enter_async_context(node))
        yield found


@define(eq=False)
class Faults:
    """What merchants had to bear."""

    refused: list[bytes] = Factory(list)
    """Answers other than 200."""
    broken: int = 0
    """Requests without an answer."""


async def create_without_end(port: int, log: Log, result_url: str, faults: Faults) -> None:
    """One payment after the other; when the connection breaks, on another one."""
    turn = trio.current_time()
    while True:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            client, is_last = Client(stream), False
            while not is_last:
                number = next(log.numbers)
                log.asked.add(f"kill-{number}")
                try:
                    answer = await client.ask(creation(number, result_url))
                except (NoAnswerError, trio.BrokenResourceError):
                    faults.broken += 1
                    break
                if answer.status == 200:
                    log.note(answer.json["gatewayReference"], answer.json["merchantReference"])
                else:
                    faults.refused.append(answer.body)
                is_last = answer.is_last
                turn = max(turn + NODES * CONNECTIONS / CREATES_PER_S, trio.current_time())
                await trio.sleep_until(turn)


@asynccontextmanager
async def loaded(here: Cluster, log: Log, result_url: str) -> AsyncIterator[Faults]:
    """Creates on both nodes as long as the block lasts."""
    faults = Faults()
    async with trio.open_nursery() as load:
        for node in here.nodes:
            for _ in range(CONNECTIONS):
                load.start_soon(create_without_end, node.port, log, result_url, faults)
        yield faults
        load.cancel_scope.cancel()


async def all_is_well(
    here: Cluster, log: Log, recorder: CallbackRecorder, *, heard_within: int = HEARD_WITHIN
) -> None:
    """Once everything has ended: nothing is lost, and each payment happened, and was told, as often
    as it may."""
    nodes = here.rest
    await all_ended(nodes[0])
    async with open_store(here.url, serving=False) as store:
        found = await store.admin.find_transactions(limit=len(log.asked) + 1)
        recorded = await all_called(store, len(found))
        nothing_is_lost(log, found)
        await each_ended_once(store, found)
    await mmo("db", "check", "--config", here.directory / "mmo.toml")
    each_was_submitted_once(await here.operator.submitted(), found)
    each_was_recorded_in_time(found, recorded, heard_within)
    each_was_heard(recorder, here.killed | here.paused, {each.reference for each in found})
    assert here.rest == nodes


@pytest.mark.spec("S1", "S6", "K3", "C6")
async def test_workers_of_two_nodes_die_and_every_payment_happens_once(
    tmp_path: Path, migrated_database: str
) -> None:
    chance, log = random.Random(SEED), Log()
    async with (
        recording_callbacks(tmp_path) as recorder,
        cluster(tmp_path, migrated_database) as here,
    ):
        recorder.find_sender = here.sender
        async with loaded(here, log, recorder.url) as faults:
            for round in range(1, KILLS + 1):
                await trio.sleep(BETWEEN_KILLS_S)
                await until(lambda round=round: len(log.answered) >= round * ENOUGH)  # type: ignore[misc]
                await until(here.alive)
                here.kill_one(chance)
            await trio.sleep(BETWEEN_KILLS_S)
        await all_is_well(here, log, recorder)
    assert faults.refused == []


@pytest.mark.spec("S1", "S6", "K3", "C6")
async def test_a_node_that_is_killed_whole_leaves_its_payments_to_the_other(
    tmp_path: Path, migrated_database: str
) -> None:
    log = Log()
    async with (
        recording_callbacks(tmp_path) as recorder,
        cluster(tmp_path, migrated_database) as here,
    ):
        recorder.find_sender = here.sender
        first = here.nodes[0]
        async with trio.open_nursery() as load:
            for node in here.nodes:
                for _ in range(CONNECTIONS):
                    load.start_soon(create_until_it_breaks, node.port, log, recorder.url)
            await until(lambda: len(log.answered) >= 2 * ENOUGH)
            await here.kill_node(first)
            enough = len(log.answered) + ENOUGH
            await until(lambda: len(log.answered) >= enough)
            load.cancel_scope.cancel()
        assert here.rest == here.nodes[1:]
        await all_is_well(here, log, recorder)


@pytest.mark.spec("S1", "K3")
async def test_replacing_every_worker_of_both_nodes_under_load_costs_nothing(
    tmp_path: Path, migrated_database: str
) -> None:
    log = Log()
    async with (
        recording_callbacks(tmp_path) as recorder,
        cluster(tmp_path, migrated_database) as here,
    ):
        recorder.find_sender = here.sender
        async with loaded(here, log, recorder.url) as faults:
            for number, node in enumerate(here.nodes):
                node.process.send_signal(signal.SIGUSR2)
                await until(lambda number=number: len(served(here.log(number))) == 4)  # type: ignore[misc]
        await all_is_well(here, log, recorder)
    assert (faults.broken, faults.refused) == (0, [])
    assert log.answered


def each_was_recorded_in_time(
    found: Sequence[Transaction], recorded: Sequence[CallbackRecorded], heard_within: int
) -> None:
    """One outcome for each payment, delivered, and soon after the payment's end."""
    recorded_at = {each.gateway_reference: each.at for each in recorded}
    assert len(recorded_at) == len(recorded)
    assert {each.attempt.outcome for each in recorded} == {DeliveryOutcome.DELIVERED}
    waits = []
    for each in found:
        completed_at = each.progress.completed_at
        assert completed_at is not None
        waits.append(recorded_at[each.reference] - completed_at)
    print(f"the latest callback was recorded {max(waits) / SECOND:.1f} s after its payment's end")
    assert max(waits) <= heard_within


def each_was_heard(
    recorder: CallbackRecorder, killed: Collection[int], references: set[str]
) -> None:
    """Once, and again only when its sender was killed before that was recorded."""
    heard: defaultdict[str, list[RecordedCallback]] = defaultdict(list)
    for each in recorder.callbacks:
        heard[each.gateway_reference].append(each)
    assert heard.keys() == references
    assert all(len({each.body for each in all}) == 1 for all in heard.values()), "they say the same"
    repeated = [each for all in heard.values() for each in all[:-1]]
    # A sender that was dead when its callback was read can't be looked up any more.
    assert all(each.sender is None or each.sender in killed for each in repeated), repeated
    unknown = [each for each in recorder.callbacks if each.sender is None]
    under_way = DELIVERY_SLOTS_PER_BRAND * len(killed)
    assert len(repeated) <= under_way
    assert len(unknown) <= under_way or not can_find_owner()
    print(
        f"{len(references)} callbacks, {len(repeated)} repeated, {len(killed)} kills, "
        f"{len(unknown)} of unknown senders"
    )


@pytest.mark.spec("C12")
async def test_one_of_many_creates_with_one_reference_over_two_nodes_wins(
    tmp_path: Path, migrated_database: str
) -> None:
    result_url = "https://127.0.0.1:9/callback"
    async with cluster(tmp_path, migrated_database) as here, AsyncExitStack() as stack:
        clients = [
            Client(
                await stack.enter_async_context(
                    await trio.open_tcp_stream("127.0.0.1", here.nodes[number % NODES].port)
                )
            )
            for number in range(RACERS)
        ]
        for race in range(RACES):
            answers = await at_once(
                [partial(each.ask, creation(race, result_url)) for each in clients]
            )
            statuses = Counter(each.status for each in answers)
            assert statuses == {200: 1, 422: RACERS - 1}, (race, statuses)


async def at_once(questions: Sequence[Callable[[], Awaitable[Answer]]]) -> list[Answer]:
    """The answers to all of them, asked at the same time."""
    answers: list[Answer] = []

    async def ask(question: Callable[[], Awaitable[Answer]]) -> None:
        answers.append(await question())

    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            for question in questions:
                nursery.start_soon(ask, question)
    return answers
