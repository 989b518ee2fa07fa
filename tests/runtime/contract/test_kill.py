"""`kill -9` of the whole gateway, again and again, in the middle of its work: nothing that was
promised is lost."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import Factory, define

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.providers.sandbox.journal import SandboxSubmission
from mmo_sansio.resilience.fair_queue import DELIVERY_SLOTS_PER_BRAND
from mmo_sansio.values.model import Stage, Transaction
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.sandbox.operator_worker import read_operator_journal
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from tests.support.effort import by_effort
from tests.support.http_listener import Client, NoAnswerError
from tests.support.merchant import ROOT, Merchant
from tests.support.mmo_process import (
    BRAND_ON_THE_SANDBOX,
    CallbackRecorder,
    Process,
    mmo,
    recording_callbacks,
    serving_process,
)
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.long, pytest.mark.http1("sends bytes")]

KILLS = by_effort(3, 20)
SEED = 20
KEY = "a-key-that-survives-kills"
CONNECTIONS = 16
CREATES_PER_S = 160
"""How many are sent; at least LOAD_PER_S must be answered in the last moment before each kill."""
LOAD_PER_S = 100
MOMENT_S = 0.5

CONFIGURATION = """
[database]
url = "sqlite:///{directory}/gateway.db"

[keys]
master_key_file = "{directory}/master.key"

[egress]
allow_private = true
extra_ca_file = "{directory}/ca.pem"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"

[provider.sandbox]
kind = "sandbox"
"""

BRANDS = BRAND_ON_THE_SANDBOX.format(key=KEY)

ENDINGS = ("000", "001", "101", "150", "002", "110")
"""Of the payers' numbers: they succeed, have no money, are told twice, or must be asked about."""


@define(eq=False)
class Log:
    """What the merchant knows."""

    numbers: count[int] = Factory(count)
    asked: set[str] = Factory(set)
    """merchantReferences that were sent."""
    answered: dict[str, str] = Factory(dict)
    """merchantReference by the gatewayReference of the answer."""
    recent: deque[float] = Factory(deque)
    """When the answers of the last moment came."""

    def note(self, gateway_reference: str, merchant_reference: str) -> None:
        """An answer has come."""
        assert gateway_reference not in self.answered
        self.answered[gateway_reference] = merchant_reference
        self.recent.append(trio.current_time())

    def per_s(self) -> float:
        """Answers per second in the last moment."""
        while self.recent and self.recent[0] < trio.current_time() - MOMENT_S:
            self.recent.popleft()
        return len(self.recent) / MOMENT_S


def creation(number: int, result_url: str) -> bytes:
    """A pay-in or payout as its octets."""
    direction, party = (("payin", "payer"), ("payout", "payee"))[number % 2]
    body = {
        "amount": {"value": 10 + number % 1000, "currency": "KES"},
        party: {"id": "user-1", "msisdn": f"254712345{ENDINGS[number % len(ENDINGS)]}"},
        "country": "KE",
        "resultUrl": result_url,
        "merchantReference": f"kill-{number}",
    }
    raw = json.dumps(body).encode()
    head = (
        f"POST {ROOT}/direct/{direction}/mpesa_ke HTTP/1.1\r\nHost: gateway\r\nX-Api-Key: {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    return head.encode() + raw


async def create_without_end(port: int, log: Log, result_url: str) -> None:
    """One payment after the other on one connection, at this connection's pace, until the
    connection breaks."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        client = Client(stream)
        turn = trio.current_time()
        while True:
            number = next(log.numbers)
            log.asked.add(f"kill-{number}")
            try:
                answer = await client.ask(creation(number, result_url))
            except (NoAnswerError, trio.BrokenResourceError):
                return
            assert answer.status == 200, answer.body
            assert answer.json["status"] == "pending"
            log.note(answer.json["gatewayReference"], answer.json["merchantReference"])
            turn += CONNECTIONS / CREATES_PER_S
            await trio.sleep_until(turn)


async def load_and_kill(gateway: Process, log: Log, result_url: str, after: int) -> None:
    """Create from all connections at once, and kill the gateway after so many answers, under full
    load."""
    enough = len(log.answered) + after
    log.recent.clear()
    with trio.fail_after(HANGS_AFTER_S):
        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS):
                nursery.start_soon(create_without_end, gateway.port, log, result_url)
            while len(log.answered) < enough or log.per_s() < LOAD_PER_S:  # noqa: ASYNC110
                await trio.sleep(0.002)
            await gateway.kill()


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[Process]:
    """`mmo serve`, until the block ends or it is killed."""
    async with serving_process(
        *("serve", "--config", directory / "mmo.toml", "--brands", directory / "brands.toml"),
        log=directory / "log",
    ) as gateway:
        yield gateway


async def all_ended(gateway: Process) -> None:
    """Wait until no payment is pending."""
    merchant = Merchant(gateway.ready["api"], KEY)
    window = {"begin": "2020-01-01", "to": "2100-01-01", "status": "pending", "pageSize": 1}
    with trio.fail_after(HANGS_AFTER_S):
        while (await merchant.records(**window)).json["data"]:  # noqa: ASYNC110
            await trio.sleep(0.2)


async def all_called(store: Store, count: int) -> Sequence[CallbackRecorded]:
    """The outcomes of all callbacks, once so many are recorded."""
    with trio.fail_after(HANGS_AFTER_S):
        while len(recorded := await store.admin.callbacks(limit=2 * count)) < count:  # noqa: ASYNC110
            await trio.sleep(0.2)
    return recorded


@pytest.mark.spec("S1", "S6", "K3", "C6")
async def test_what_was_answered_survives_every_kill_and_happens_once(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    ensure_authority(tmp_path)
    (tmp_path / "mmo.toml").write_text(CONFIGURATION.format(directory=tmp_path), encoding="utf-8")
    (tmp_path / "brands.toml").write_text(BRANDS, encoding="utf-8")
    chance = random.Random(SEED)
    log = Log()
    url = f"sqlite:///{tmp_path / 'gateway.db'}"
    async with recording_callbacks(tmp_path) as recorder:
        for recorder.run in range(KILLS):
            async with started(tmp_path) as gateway:
                await load_and_kill(gateway, log, recorder.url, after=chance.randint(60, 160))
            # What the dead one had sent is still to be read by the receiver, as that run's.
            await trio.testing.wait_all_tasks_blocked(0.05)
        recorder.run = KILLS
        await mmo("db", "check", "--config", tmp_path / "mmo.toml")
        async with started(tmp_path) as gateway, open_store(url, serving=False) as store:
            await all_ended(gateway)
            found = await store.admin.find_transactions(limit=len(log.asked) + 1)
            recorded = await all_called(store, len(found))
        await mmo("db", "check", "--config", tmp_path / "mmo.toml")
    assert len(log.answered) >= KILLS * 60
    async with open_store(url, serving=False) as store:
        nothing_is_lost(log, found)
        await each_ended_once(store, found)
    entries = read_operator_journal(tmp_path / OPERATOR_JOURNAL_FILE)
    submitted = Counter(each.reference for each in entries if isinstance(each, SandboxSubmission))
    each_was_submitted_once(submitted, found)
    references = {each.reference for each in found}
    each_was_called_back(recorder, references)
    assert sorted(each.gateway_reference for each in recorded) == sorted(references)
    assert {each.attempt.outcome for each in recorded} == {DeliveryOutcome.DELIVERED}


def nothing_is_lost(log: Log, found: Sequence[Transaction]) -> None:
    """Every answered payment is there, and none that nobody asked for."""
    stored = {each.reference: each.order.merchant_reference for each in found}
    assert log.answered.items() <= stored.items()
    assert set(stored.values()) <= log.asked
    assert len(set(stored.values())) == len(stored)


async def each_ended_once(store: Store, found: Sequence[Transaction]) -> None:
    """Each payment has come to its one end."""
    for each in found:
        assert each.progress.stage.is_terminal
        ends = [
            line
            for line in await store.admin.timeline(each.reference)
            if line.stage_after is not None
            and Stage(line.stage_after).is_terminal
            and line.stage_before != line.stage_after
        ]
        assert len(ends) == 1, each.reference


def each_was_submitted_once(submitted: Counter[str], found: Sequence[Transaction]) -> None:
    """The operator was asked at most once to move the money of a payment, and once if it
    succeeded. `submitted` counts what it has accepted, by gatewayReference."""
    assert max(submitted.values()) == 1
    assert submitted.keys() <= {each.reference for each in found}
    paid = {each.reference for each in found if each.progress.stage is Stage.SUCCEEDED}
    assert paid <= submitted.keys()


def each_was_called_back(recorder: CallbackRecorder, references: set[str]) -> None:
    """Each was called back: in one run of the gateway at most once, and again only if the kill fell
    between sending and recording, which is so for as many as may be under way."""
    runs: defaultdict[str, list[int]] = defaultdict(list)
    bodies: defaultdict[str, set[bytes]] = defaultdict(set)
    for each in recorder.callbacks:
        assert each.key == KEY.encode()
        runs[each.gateway_reference].append(each.run)
        bodies[each.gateway_reference].add(each.body)
    assert runs.keys() == references
    assert all(len(set(each)) == len(each) for each in runs.values())
    assert all(len(each) == 1 for each in bodies.values()), "a repeat says the same"
    cut_off = Counter(run for each in runs.values() for run in sorted(each)[:-1])
    assert all(times <= DELIVERY_SLOTS_PER_BRAND for times in cut_off.values()), cut_off
