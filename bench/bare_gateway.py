"""Serves creations by the gateway's own rules and rows, with little around them; nothing follows
them.

    python -m bench.bare_gateway FILE|URL

It prints `AT url` once it serves, from a SQLite file or from a PostgreSQL database. It is what a
create costs at least in a gateway of this design: Trio, the payment rules, one durable commit for
all that wait. Of what the contract asks besides, it finds the brand by the digest of its key (A1),
names each request (G9), bounds the wait for a commit (P5), and looks whether the committed file is
still in its place. It has no limits, deadlines of connections, hosts, rates, metrics, logs,
recovery or clean end, and trusts its clients' framing."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import trio

from bench.suite.engine import BRAND
from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.requests import ApiSettings, CreateRoute, CreationHead, find_route
from mmo_sansio.api.outgoing import creation_response
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_sansio.http.request_head import END_OF_HEAD, HeadLimits, ParsedHead, parse_head
from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.decide import decide, reads
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads, merge_reads
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Terms
from mmo_trio.brands.keyring import MASTER_KEY_BYTES, KeyRing
from mmo_trio.cli.commands.serve import tune_interpreter
from mmo_trio.engine.engine import ACTIVE_PER_WAITING, COALESCED_MAX
from mmo_trio.http.responses import response_bytes
from mmo_trio.service.wiring import COALESCING_PAUSE_S
from mmo_trio.settings.sections import ENGINE_BATCH_MAX
from mmo_trio.storage.interface.store import DecideBatch
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.sql.net_effect import net_effect
from mmo_trio.storage.sqlite import open_sqlite
from mmo_trio.storage.sqlite.connection import CallThreads, connect
from mmo_trio.storage.sqlite.open_files import OpenFiles
from mmo_trio.storage.sqlite.statements import RecentTransactions, load_batch, write_batch
from mmo_trio.storage.sqlite.store import STORE_TIMEOUT_S
from mmo_trio.system.clock import BootClock
from mmo_trio.system.ids import PageTokenGenerator, ReferenceGenerator, request_id_generator

KEY = os.environ.get("RIVAL_KEY", "").encode()
SETTINGS = ApiSettings(
    "https://errors.example", "http://127.0.0.1", (b"bare" * 8,), EgressRules(allow_private=True)
)
HEAD_LIMITS = HeadLimits()
TERMS = Terms()


def now() -> Instant:
    """Return the machine's wall time."""
    return Instant(time.time_ns() // 1_000)


class Caller:
    """Is a creation on its way into a commit, and the task that waits for it."""

    def __init__(self, input_: CreatePayment) -> None:
        self.input = input_
        self.reads = reads(input_)
        self._reply: Reply | None = None
        self._task: trio.lowlevel.Task | None = None

    async def wait(self) -> Reply:
        """Return the reply once the creation is durable."""
        if self._reply is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        assert self._reply is not None
        return self._reply

    def complete(self, reply: Reply) -> None:
        """Hand over the reply."""
        self._reply = reply
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)


Transact: TypeAlias = Callable[[Reads, DecideBatch], Awaitable[Sequence[Decision]]]
"""Loads what is read, decides, and makes the decisions durable; see `Store.transact`."""


class SqliteFile:
    """Makes decisions durable in a file, in the one thread that writes."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # Opens the log.
        self._files = OpenFiles(path)
        self._files.record()
        self._recent = RecentTransactions()
        self._thread = CallThreads("writer")

    async def transact(self, needed: Reads, decide_batch: DecideBatch) -> Sequence[Decision]:
        """Make one hop: BEGIN IMMEDIATE, load, decide, write, COMMIT."""
        with trio.fail_after(STORE_TIMEOUT_S):
            return await self._thread.run(partial(self._commit_in_thread, needed, decide_batch))

    def _commit_in_thread(self, needed: Reads, decide_batch: DecideBatch) -> Sequence[Decision]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        decisions = decide_batch(load_batch(connection, needed, self._recent))
        effect = net_effect(decisions)
        write_batch(connection, effect, is_claimed=True)
        self._recent.add(effect.written_transactions)
        connection.execute("COMMIT")
        self._files.verify_committed()
        return decisions


class Committer:
    """Decides waiting creations in batches. When they begin is as in the engine."""

    def __init__(self, transact: Transact, slots: int, coalescing_pause_s: float) -> None:
        self._transact = transact
        self.slots = slots
        """How many further commits may begin."""
        self._coalescing_pause_s = coalescing_pause_s
        self._waiting: list[Caller] = []
        self._active_inputs = 0
        self._expected = 0
        self._awaited = 0
        self._idle: list[trio.lowlevel.Task] = []
        self._last = Instant(0)

    async def submit(self, input_: CreatePayment) -> Reply:
        """Return the reply to a creation; a caller that is alone commits by itself."""
        caller = Caller(input_)
        self._waiting.append(caller)
        if self._expected <= 1 and self._can_start():
            await self._commit()
        else:
            self._wake()
        return await caller.wait()

    async def run(self) -> None:
        """Commit what several callers wait for, one batch after the other."""
        while True:
            while not self._can_start():
                await self._sleep()
            await self._commit()
            await self._coalesce()

    def _can_start(self) -> bool:
        waiting = len(self._waiting)
        if not self.slots or waiting < max(1, self._awaited):
            return False
        return waiting * ACTIVE_PER_WAITING >= self._active_inputs

    def _wake(self) -> None:
        if self._idle and self._can_start():
            trio.lowlevel.reschedule(self._idle.pop())

    async def _coalesce(self) -> None:
        if not self._coalescing_pause_s:
            return
        self._awaited = self._expected
        while 0 < (count := len(self._waiting)) < self._awaited:
            with trio.move_on_after(self._coalescing_pause_s):
                await self._sleep()
            if len(self._waiting) == count:
                break
        self._awaited = 0

    async def _sleep(self) -> None:
        task = trio.lowlevel.current_task()
        self._idle.append(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._idle.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _commit(self) -> None:
        callers, self._waiting = self._waiting[:ENGINE_BATCH_MAX], self._waiting[ENGINE_BATCH_MAX:]
        self.slots -= 1
        self._active_inputs += len(callers)
        needed = merge_reads([each.reads for each in callers])
        decisions = await self._transact(needed, partial(self._decide, callers))
        self.slots += 1
        self._active_inputs -= len(callers)
        self._expected = min(len(callers) + len(self._waiting), COALESCED_MAX)
        for caller, decision in zip(callers, decisions, strict=True):
            caller.complete(decision.reply)
        self._wake()

    def _decide(self, callers: Sequence[Caller], ledger: Ledger) -> Sequence[Decision]:
        decisions = []
        moment = max(now(), self._last + 1)
        for nth, caller in enumerate(callers):
            decision = decide(ledger, caller.input, now=Instant(moment + nth))
            ledger.apply(decision.changes, decision.intents)
            decisions.append(decision)
        self._last = Instant(moment + len(callers))
        return decisions


class Service:
    """Answers creations."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._references = ReferenceGenerator(now)
        self._page_tokens = PageTokenGenerator(now)
        self._request_ids = request_id_generator()
        self._keyring = KeyRing(bytes(MASTER_KEY_BYTES))
        self._brands = {self._keyring.digest(KEY): BRAND}

    async def serve(self, connected: socket.socket) -> None:
        """Answer one creation after the other on a connection, until its client ends it."""
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        heads: dict[bytes, ParsedHead] = {}
        data = b""
        while True:
            end = data.find(END_OF_HEAD) + len(END_OF_HEAD)
            if end >= len(END_OF_HEAD):
                head = data[:end]
                if head not in heads:
                    heads[head] = parse_head(head, HEAD_LIMITS)
                length = heads[head].body_length or 0
                body = data[end : end + length]
                if len(body) == length:
                    data = data[end + length :]
                    connected.send(await self._respond(heads[head].head, body))
                    continue
            await trio.lowlevel.wait_readable(connected)
            try:
                received = connected.recv(65536)
            except ConnectionResetError:
                break
            if not received:
                break
            data += received
        connected.close()

    async def _respond(self, head: RequestHead, body: bytes) -> bytes:
        route = find_route(head)
        assert isinstance(route, CreateRoute)
        brand = self._brands.get(self._keyring.digest(requests.read_api_key(head)))
        creation = requests.check_head(head, route, brand, SETTINGS)
        assert isinstance(creation, CreationHead)
        input_ = requests.parse_creation(
            creation,
            body,
            SETTINGS,
            gateway_reference=self._references.next(),
            page_token=self._page_tokens.next(),
            terms=TERMS,
        )
        response = creation_response(await self._committer.submit(input_), SETTINGS)
        assert isinstance(response, HttpResponse)
        return response_bytes(response, request_id=self._request_ids())


@asynccontextmanager
async def open_committer(database: str) -> AsyncIterator[Committer]:
    """Open a file, or the PostgreSQL database of a URL; its tables are made."""
    if "://" in database:
        async with open_postgres(database, serving=True) as store:
            yield Committer(store.transact, store.batches_in_flight, coalescing_pause_s=0)
    else:
        async with open_sqlite(Path(database), serving=True):
            pass
        yield Committer(SqliteFile(Path(database)).transact, 1, COALESCING_PAUSE_S)


async def main(database: str) -> None:
    """Serve on a free port, with the payments in this database."""
    async with open_committer(database) as committer, trio.open_nursery() as nursery:
        service = Service(committer)
        tune_interpreter()
        for _ in range(committer.slots):
            nursery.start_soon(committer.run)
        with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
            listening.setblocking(False)
            print(f"AT http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
            while True:
                await trio.lowlevel.wait_readable(listening)
                nursery.start_soon(service.serve, listening.accept()[0])


if __name__ == "__main__":
    trio.run(main, sys.argv[1], clock=BootClock())
