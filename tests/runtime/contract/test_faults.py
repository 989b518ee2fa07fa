"""When something is broken on our side: clauses P3, P5 and C6 (rows 127 and 128), with faults in
the real store."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import CreatePayment, Input
from mmo_sansio.payments.decide import decide
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger
from mmo_sansio.values.clock import Instant
from mmo_trio.engine import engine
from mmo_trio.storage.sqlite import connection as sqlite_connection
from mmo_trio.storage.sqlite import startup
from mmo_trio.storage.sqlite.connection import SqliteSystem
from mmo_trio.storage.sqlite.store import STORE_TIMEOUT_S, SqliteStore
from tests.support.merchant import TIMEOUT_S, Answer, a_reference, ask
from tests.support.rejections import assert_problem
from tests.support.sandbox_gateway import Running, Serve
from tests.support.store_timeouts import set_timeout

pytestmark = pytest.mark.own_store

SECRET_MSISDN = "254799000777"


@contextmanager
def _beside(sandbox: Running) -> Iterator[sqlite3.Connection]:
    """Another program's connection to the store."""
    with closing(sqlite3.connect(sandbox.directory / "gateway.db", isolation_level=None)) as other:
        yield other


def _assert_tells_nothing(answer: Answer) -> None:
    problem = assert_problem(answer, 500, "internal_server_error")
    told = json.dumps(problem).lower()
    for word in ("sqlite", "select", "transactions", "traceback", "error:", ".py", SECRET_MSISDN):
        assert word not in told, word


@pytest.mark.spec("P3", "G9", "A5")
async def test_an_unexpected_fault_is_a_500_that_tells_nothing(
    sandbox: Running, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    merchant = sandbox.merchant
    reference = (await merchant.accepted())["gatewayReference"]
    await sandbox.callback_for(reference)
    with _beside(sandbox) as other:
        other.execute("ALTER TABLE transactions RENAME TO hidden")
        failed = await merchant.create(msisdn=SECRET_MSISDN)
        answers = [
            failed,
            await merchant.get(f"status/{reference}"),
            await merchant.records(begin="2026-01-01", to="2027-01-01"),
        ]
        other.execute("ALTER TABLE hidden RENAME TO transactions")
    logged = caplog.text + "".join(capfd.readouterr())
    for answer in answers:
        _assert_tells_nothing(answer)
        assert answer.headers["x-request-id"] in logged, "row 127: the log says where"
    assert SECRET_MSISDN not in logged
    assert (await merchant.get(f"status/{reference}")).status == 200, "and it serves on"
    assert (await merchant.create()).status == 200


@pytest.mark.spec("P3", "W3")
async def test_a_fault_behind_a_payment_page_tells_nothing_either(
    sandbox: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    page = (await sandbox.merchant.accepted("web/payin", msisdn=SECRET_MSISDN))["pageUrl"]
    with _beside(sandbox) as other:
        other.execute("ALTER TABLE transactions RENAME TO hidden")
        answer = await ask(page)
        other.execute("ALTER TABLE hidden RENAME TO transactions")
    token = page.rsplit("/", 1)[1]
    assert answer.status == 500
    for word in (b"sqlite", b"transactions", b".py", token.encode()):
        assert word not in answer.body.lower()
    logged = "".join(capfd.readouterr())
    assert "page_request_failed" in logged
    assert "sqlite3.OperationalError" in logged
    assert "route=/pay/<token>" in logged
    assert token not in logged, "who reads the log can't pay"
    assert (await ask(page)).status == 200


@pytest.mark.spec("P3", "T4")
async def test_a_damaged_row_is_a_500_and_never_wrong_data(sandbox: Running) -> None:
    merchant = sandbox.merchant
    damaged, sound = [(await merchant.accepted())["gatewayReference"] for _ in range(2)]
    for reference in (damaged, sound):
        await sandbox.callback_for(reference)
    with _beside(sandbox) as other:
        [row] = other.execute(
            "SELECT object FROM transactions WHERE gateway_reference = ?", (damaged,)
        ).fetchone()
        flipped = row[:-1] + bytes([row[-1] ^ 1])
        other.execute(
            "UPDATE transactions SET object = ? WHERE gateway_reference = ?", (flipped, damaged)
        )
    _assert_tells_nothing(await merchant.get(f"status/{damaged}"))
    assert (await merchant.get(f"status/{sound}")).status == 200


@pytest.mark.spec("P3")
async def test_a_fault_of_ours_in_one_request_costs_only_that_request(
    sandbox: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = a_reference()

    def faulty(ledger: Ledger, given: Input, *, now: Instant, utc: Instant) -> Decision:
        if isinstance(given, CreatePayment) and given.draft.merchant_reference == planted:
            raise ZeroDivisionError(SECRET_MSISDN)
        return decide(ledger, given, now=now, utc=utc)

    monkeypatch.setattr(engine, "decide", faulty)
    statuses: list[int] = []

    async def create(reference: str) -> None:
        answer = await sandbox.merchant.create(merchantReference=reference)
        statuses.append(answer.status)
        if reference == planted:
            _assert_tells_nothing(answer)

    async with trio.open_nursery() as nursery:
        for reference in (a_reference(), planted, a_reference(), a_reference()):
            nursery.start_soon(create, reference)
    assert sorted(statuses) == [200, 200, 200, 500]
    monkeypatch.setattr(engine, "decide", decide)
    await sandbox.merchant.accepted(merchantReference=planted)


@pytest.mark.spec("P5", "P4", "C6", "C12")
async def test_a_store_that_is_locked_is_a_503_and_nothing_was_stored(sandbox: Running) -> None:
    merchant, reference = sandbox.merchant, a_reference()
    with _beside(sandbox) as other:
        other.execute("BEGIN EXCLUSIVE")
        refused = await merchant.create(merchantReference=reference)
        other.execute("ROLLBACK")
        problem = assert_problem(refused, 503, "service_unavailable", note="row 128")
        assert int(refused.headers["retry-after"]) > 0
        assert "same reference" in problem["detail"]
        assert (await merchant.get(f"status/mref/{reference}")).status == 404
        assert other.execute("SELECT count(*) FROM transactions").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM reference_uses").fetchone() == (0,)
    assert (await merchant.accepted(merchantReference=reference))["merchantReference"] == reference


@define
class Wires:
    """The store's own connections; a test can hold a statement of theirs as a slow disk would."""

    stores: list[SqliteStore] = Factory(list)
    opened: list[sqlite3.Connection] = Factory(list)
    held: threading.Event = Factory(threading.Event)
    """Set when a statement is being held."""
    go_on: threading.Event = Factory(threading.Event)

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection that all writes go through."""
        return self.opened[0]

    def hold(self, start: str) -> None:
        """Hold the writer's next statement that starts so."""

        def look(statement: str) -> None:
            if statement.lstrip().startswith(start) and not self.held.is_set():
                self.held.set()
                assert self.go_on.wait(TIMEOUT_S)

        self.writer.set_trace_callback(look)

    def be_impatient(self) -> None:
        """From now on a second stands for the ten that the store waits for its disk (P5)."""
        assert STORE_TIMEOUT_S == 10
        set_timeout(self.stores[0], 1)

    def release(self) -> None:
        """Let the held statement go on, with all the patience there is."""
        set_timeout(self.stores[0], TIMEOUT_S)
        self.go_on.set()

    async def until_held(self) -> None:
        """Return once the statement is being held."""
        assert await trio.to_thread.run_sync(self.held.wait, TIMEOUT_S)


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wires]:
    """The connections of the store that is opened next."""
    wires = Wires()

    def connect(path: Path, *, query_only: bool = False) -> sqlite3.Connection:
        found = sqlite_connection.connect(path, query_only=query_only)
        wires.opened.append(found)
        return found

    def made(*given: Any) -> SqliteStore:
        wires.stores.append(SqliteStore(*given))
        return wires.stores[-1]

    monkeypatch.setattr(startup, "SqliteStore", made)
    monkeypatch.setattr(startup, "SqliteSystem", partial(SqliteSystem, connect))
    yield wires
    wires.go_on.set()


@pytest.mark.spec("C6")
async def test_no_answer_leaves_before_the_commit_has_ended(wires: Wires, serve: Serve) -> None:
    async with serve() as sandbox:
        merchant, reference = sandbox.merchant, a_reference()
        assert wires.writer.execute("PRAGMA synchronous").fetchone() == (2,), "FULL: on the disk"
        answers: list[Answer] = []

        async def create() -> None:
            answers.append(await merchant.create(merchantReference=reference))

        wires.hold("COMMIT")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            await wires.until_held()
            for _ in range(10):
                assert (await merchant.get(f"status/mref/{reference}")).status == 404
            assert answers == []
            wires.go_on.set()
        assert [each.status for each in answers] == [200]
        assert (await merchant.get(f"status/mref/{reference}")).status == 200


@pytest.mark.spec("P5", "P3", "C12")
async def test_when_it_cannot_be_learnt_whether_a_payment_was_stored_the_answer_says_so(
    wires: Wires, serve: Serve
) -> None:
    async with serve() as sandbox:
        merchant, reference = sandbox.merchant, a_reference()
        assert (await merchant.get(f"status/mref/{reference}")).status == 404
        wires.hold("COMMIT")
        wires.be_impatient()
        answer = await merchant.create(merchantReference=reference)
        problem = assert_problem(answer, 500, "internal_server_error")
        assert "Look it up by its merchantReference before sending it again" in problem["detail"]
        wires.release()
        with trio.fail_after(TIMEOUT_S):
            while (found := await merchant.get(f"status/mref/{reference}")).status == 404:
                await trio.lowlevel.checkpoint()
        again = await merchant.create(merchantReference=reference)
        assert_problem(again, 422, "merchant_transactionid_duplicate")
        ended = await merchant.ended(found.json["gatewayReference"])
        assert ended["status"] == "success", "what was stored is carried out all the same"


@pytest.mark.spec("P5", "P4", "V1")
async def test_a_full_queue_is_a_503_at_once(wires: Wires, serve: Serve) -> None:
    async with serve(environment={"MMO_LIMITS_QUEUE": "1"}) as sandbox:
        merchant = sandbox.merchant
        answers: list[Answer] = []
        refused = trio.Event()

        async def create() -> None:
            answers.append(await merchant.create())
            refused.set()

        wires.hold("COMMIT")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            await wires.until_held()  # One is being decided; one more may wait.
            nursery.start_soon(create)
            nursery.start_soon(create)
            with trio.fail_after(TIMEOUT_S):
                await refused.wait()
            assert_problem(answers[0], 503, "service_unavailable")
            wires.go_on.set()
        assert [each.status for each in answers] == [503, 200, 200]
