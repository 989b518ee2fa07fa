"""Providers' notifications: unknown senders learn nothing, and a response means durable."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
import trio
from attrs import Factory, define, evolve
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import BeginSubmission, ProviderHinted
from mmo_sansio.messages.intents import PollProvider
from mmo_sansio.payments.ledger import Reads
from mmo_sansio.providers.common.balances import AccountBalance, BalanceReport
from mmo_sansio.providers.common.interface import AccountFinding, DepositAnswer, DepositReport
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, ProviderOperation
from mmo_sansio.testing import (
    KES,
    REFERENCE,
    a_brand,
    a_create_payment,
    a_party,
    accepted,
    hinted,
    succeeded,
)
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Moment
from mmo_sansio.values.model import DepositAnswerOutcome, DepositTrust, Status
from mmo_sansio.values.money import Money
from mmo_sansio.values.problems import ProblemError
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.api.webhooks import ANSWER_WITHIN_S, Webhooks
from mmo_trio.engine.engine import Engine, Enqueue, Outbox
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.settings.values import NETWORKS
from mmo_trio.storage.interface.store import OutcomeUnknown, StoreUnavailable
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.ids import ReferenceGenerator
from mmo_trio.workers.providers.account import WebhookEndpoint
from tests.support.engine_double import EngineDouble
from tests.support.provider_double import ScriptedProvider
from tests.support.sqlite_store import StoreFile, TrioClock
from tests.support.stored_ledger import store_ledger

TOKEN = "0123abcd"
PREVIOUS = "4567cdef"


@define(eq=False)
class Bench:
    """Hooks before an engine in memory, with one account."""

    store: Any = None
    provider: ScriptedProvider = Factory(ScriptedProvider)
    engine: EngineDouble = Factory(EngineDouble)
    allowed: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    learnt: list[AccountFinding] = Factory(list)
    balances: list[AccountBalance] = Factory(list)
    time: Instant = Instant(0)
    enqueue: Enqueue | None = None
    """In place of the engine's."""
    has_room: bool = True
    kept: list[ProviderHinted] = Factory(list)

    def hooks(self) -> Webhooks:
        endpoint = WebhookEndpoint(
            self.provider, (TOKEN, PREVIOUS), NETWORKS.read(list(self.allowed))
        )
        proxies = TrustedProxies(NETWORKS.read(list(self.proxies)))
        return Webhooks(
            {"test": endpoint},
            self.store,
            self.engine.submit,
            self.learn,
            self.learn_balances,
            ReferenceGenerator(lambda: Instant(0)),
            lambda: Moment.at(self.time),
            1000,
            proxies,
            self.keep,
            enqueue=self.enqueue or self.engine.enqueue,
        )

    async def keep(self, hint: ProviderHinted) -> bool:
        if self.has_room:
            self.kept.append(hint)
        return self.has_room

    async def learn(self, finding: AccountFinding) -> None:
        self.learnt.append(finding)

    async def learn_balances(self, report: BalanceReport) -> None:
        self.balances += report.balances

    async def notify(
        self, name: str = "test", token: str = TOKEN, client: str = "192.0.2.7", **fields: str
    ) -> HttpResponse:
        headers = tuple((key.encode(), value.encode()) for key, value in fields.items())
        return await self.send(b"{}", headers, name=name, token=token, client=client)

    async def send(
        self,
        body: bytes,
        headers: Headers,
        *,
        name: str = "test",
        token: str = TOKEN,
        client: str = "192.0.2.7",
    ) -> HttpResponse:
        head = HttpRequest("POST", f"/hooks/{name}/{token}".encode(), headers)
        admitted = self.hooks().admit(
            name, token, head, RequestContext("r", client, is_secure=True)
        )
        assert isinstance(admitted, Admitted)
        assert admitted.body_limit == 1000
        answer = await admitted.respond(body)
        assert isinstance(answer, HttpResponse)
        return answer

    async def a_payment_awaits_its_result(self) -> None:
        await self.engine.submit(a_create_payment())
        await self.engine.submit(BeginSubmission(REFERENCE))
        await self.engine.submit(accepted(poll_after=HOUR))


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (gzip.compress(b"fine"), b"fine"),
        (b"damaged", b"damaged"),
        (bomb := gzip.compress(bytes(1001)), bomb),
    ],
    ids=["packed", "damaged", "too large"],
)
async def test_a_compressed_notification_is_unpacked_within_the_limit_of_bodies(
    body: bytes, read: bytes
) -> None:
    bench = Bench()
    await bench.send(body, ((b"content-encoding", b"gzip"),))
    assert bench.provider.notified == [read]


@define
class SuspiciousProvider(ScriptedProvider):
    """Takes notifications of the first second only."""

    def refuse_notification(self, request: HttpRequest, *, now: Moment) -> str | None:
        return "It is late." if now.utc > SECOND else None


async def test_a_notification_that_its_adapter_refuses_is_not_read_and_changes_nothing() -> None:
    bench = Bench(provider=SuspiciousProvider(), time=Instant(2 * SECOND))
    assert (await bench.notify()).status == 401
    assert (bench.provider.notified, bench.engine.inputs) == ([], [])
    bench.time = Instant(SECOND)
    assert (await bench.notify()).status == 200
    assert bench.provider.notified == [b"{}"]


@pytest.mark.parametrize(
    ("name", "token"), [("other", TOKEN), ("test", "wrong"), ("test", "é"), ("test", "")]
)
async def test_an_unknown_sender_finds_nothing(name: str, token: str) -> None:
    with pytest.raises(ProblemError) as caught:
        await Bench().notify(name, token)
    assert caught.value.problem.status == 404


@pytest.mark.parametrize(
    ("client", "forwarded", "is_let_in"),
    [
        ("196.201.214.200", "", True),
        ("::ffff:c4c9:d6c8", "", True),
        ("192.0.2.9", "", False),
        ("10.0.0.1", "192.0.2.1, 196.201.214.200", True),
        ("10.0.0.1", "196.201.214.200, 192.0.2.1", False),
        ("10.0.0.1", "nonsense", False),
        ("10.0.0.1", "", False),
        ("::ffff:10.0.0.1", "::ffff:196.201.214.200", True),
        ("nonsense", "196.201.214.200", False),
        ("192.0.2.9", "196.201.214.200", False),
    ],
)
async def test_only_listed_addresses_are_let_in(
    client: str, forwarded: str, is_let_in: bool
) -> None:
    bench = Bench(allowed=("196.201.214.200",), proxies=("10.0.0.0/8",))
    sent = {"x-forwarded-for": forwarded} if forwarded else {}
    if is_let_in:
        assert (await bench.notify(client=client, **sent)).status == 200
    else:
        with pytest.raises(ProblemError):
            await bench.notify(client=client, **sent)


async def test_a_line_that_the_client_put_before_the_proxys_opens_no_door() -> None:
    """A proxy that adds a line of its own leaves the client's line in front of it."""
    hooks = Bench(allowed=("196.201.214.200",), proxies=("10.0.0.0/8",)).hooks()
    lines = ((b"x-forwarded-for", b"196.201.214.200"), (b"x-forwarded-for", b"203.0.113.9"))
    target = f"/hooks/test/{TOKEN}".encode()
    context = RequestContext("r", "10.0.0.1", is_secure=True)
    with pytest.raises(ProblemError) as caught:
        hooks.admit("test", TOKEN, HttpRequest("POST", target, lines), context)
    assert caught.value.problem.status == 404
    hooks.admit("test", TOKEN, HttpRequest("POST", target, lines[::-1]), context)


@pytest.mark.spec("S5")
async def test_a_hint_makes_us_ask_and_is_answered_in_the_providers_words() -> None:
    bench = Bench()
    await bench.a_payment_awaits_its_result()
    asked = []
    bench.engine.dispatch = lambda work: asked.append(work.intent)
    bench.provider.notification = hinted()
    answer = await bench.notify()
    assert (answer.status, answer.body) == (200, b"taken")
    assert asked == [PollProvider(REFERENCE)]


@pytest.mark.spec("S2", "S5")
async def test_results_are_applied_once_and_what_fits_nothing_is_kept() -> None:
    bench = Bench()
    await bench.a_payment_awaits_its_result()
    bench.provider.notification = succeeded()
    assert (await bench.notify()).status == 200
    assert (await bench.notify()).status == 200
    bench.provider.notification = hinted("01K5NOBODYNOBODYNOBODYNOBO")
    assert (await bench.notify()).status == 200
    assert bench.engine.transaction().status is Status.SUCCESS
    kept = [each.reason for each in bench.engine.gateway.suspense]
    assert kept == ["repeated_result", "unknown_transaction"]


@pytest.mark.spec("P5")
@pytest.mark.parametrize("trouble", [StoreUnavailable("x"), OutcomeUnknown("x")])
async def test_what_is_not_durable_is_not_taken(trouble: Exception) -> None:
    bench = Bench()
    bench.engine.errors = [trouble]
    answer = await bench.notify()
    assert answer.status == 503
    assert answer.value(b"retry-after") == b"5"


@pytest.mark.spec("P5", "S6")
@pytest.mark.parametrize("trouble", [StoreUnavailable("x"), OutcomeUnknown("x"), None])
async def test_a_hint_that_is_sent_once_is_kept_while_the_store_is_slow_or_away(
    trouble: Exception | None, autojump_clock: MockClock
) -> None:
    """M-Pesa was seen to send a callback once, whatever the answer."""
    bench, hint = Bench(provider=ScriptedProvider(sends_notifications_once=True)), hinted()
    bench.provider.notification = hint
    if trouble is not None:
        bench.engine.errors = [trouble]
        answer = await bench.notify()
        assert (answer.status, bench.kept) == (200, [hint])
        return
    async with StoreFile().open() as store, trio.open_nursery() as nursery:
        slow_store: Any = SlowStore(store)
        engine = Engine(slow_store, TrioClock(), Outbox())
        await nursery.start(engine.run)
        await wait_all_tasks_blocked()
        bench.enqueue = engine.enqueue
        answer = await bench.notify()
        assert (answer.status, bench.kept) == (200, [hint])
        assert trio.current_time() == ANSWER_WITHIN_S
        await trio.sleep(SLOW_S)
        assert [each.reason for each in await store.admin.suspense_entries(limit=9)] == [
            "unknown_transaction"
        ]
        nursery.cancel_scope.cancel()


@pytest.mark.spec("P5")
@pytest.mark.parametrize("trouble", [StoreUnavailable("x"), OutcomeUnknown("x")])
@pytest.mark.parametrize("is_sent_once", [True, False], ids=["no room", "is repeated"])
async def test_a_hint_without_room_or_that_is_repeated_is_not_taken(
    trouble: Exception, is_sent_once: bool
) -> None:
    provider = ScriptedProvider(sends_notifications_once=is_sent_once)
    bench = Bench(provider=provider, has_room=not is_sent_once)
    bench.provider.notification = hinted()
    bench.engine.errors = [trouble]
    answer = await bench.notify()
    assert (answer.status, bench.kept) == (503, [])


SLOW_S = 20.0


class SlowStore:
    """A store whose commits take so long."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, reads: Reads, decide: Any) -> Any:
        await trio.sleep(SLOW_S)
        return await self._store.transact(reads, decide)


@pytest.mark.spec("S4")
async def test_a_deposit_becomes_a_payment_once_and_one_of_nobody_is_kept() -> None:
    deposit = DepositReport("test", "RKL51ZDR4F", "600966", "acme-77", KES(5), a_party())
    async with StoreFile().open() as store:
        bench = Bench(store)
        bench.provider.notification = deposit
        await bench.notify()
        assert [each.reason for each in bench.engine.gateway.suspense] == ["unmatched_deposit"]
        await store.admin.save_brands([a_brand()])
        await bench.notify()
        await bench.notify()
    (made,) = bench.engine.gateway.ledger.transactions.values()
    assert (made.order.brand, made.order.provider_title) == ("acme", "Test Money")
    assert made.progress.provider_reference == "RKL51ZDR4F"


@pytest.mark.parametrize("can_be_polled", [True, False])
async def test_an_unsigned_deposit_that_names_a_payment_moves_nothing_and_polls_it(
    can_be_polled: bool,
) -> None:
    deposit = DepositReport(
        "test",
        "RKL51ZDR4F",
        "600966",
        REFERENCE[-12:],
        KES(150),
        a_party(),
        DepositTrust.UNCONFIRMED,
    )
    async with StoreFile().open() as store:
        bench = Bench(store)
        bench.provider.operations = {
            DIRECT_PAYIN: ProviderOperation(False, can_be_polled, None, (HOUR,))
        }
        await bench.a_payment_awaits_its_result()
        await store_ledger(store, bench.engine.gateway.ledger)
        asked = []
        bench.engine.dispatch = lambda work: asked.append(work.intent)
        bench.provider.notification = deposit
        await bench.notify()
        assert bench.engine.transaction().status is Status.PENDING
        claim = bench.engine.gateway.ledger.claims["test", "RKL51ZDR4F"]
        assert (claim.payment, claim.is_confirmed) == (REFERENCE, False)
        assert asked == ([PollProvider(REFERENCE)] if can_be_polled else [])


async def test_an_operators_answer_finds_the_deposits_owner() -> None:
    deposit = DepositReport(
        "test", "RKL51ZDR4F", "600966", "acme-77", KES(5), a_party(), DepositTrust.UNCONFIRMED
    )
    async with StoreFile().open() as store:
        bench = Bench(store)
        await store.admin.save_brands([a_brand()])
        bench.provider.notification = deposit
        await bench.notify()
        assert bench.engine.gateway.ledger.transactions == {}
        await store_ledger(store, bench.engine.gateway.ledger)
        answer = DepositAnswer(
            "test", "RKL51ZDR4F", DepositAnswerOutcome.COMPLETED, is_ours=True, amount=KES(5)
        )
        bench.provider.notification = answer
        await bench.notify()
        await bench.notify()
        bench.provider.notification = evolve(answer, receipt="OTHER")
        await bench.notify()
    (made,) = bench.engine.gateway.ledger.transactions.values()
    assert (made.order.brand, made.order.requested) == ("acme", KES(5))
    assert bench.engine.gateway.suspense == []


async def test_balances_that_a_provider_notifies_are_kept_before_it_is_answered() -> None:
    balance = AccountBalance(
        "test", "Utility Account", Money(100_00, "KES"), Instant(1), is_float=True
    )
    bench = Bench(provider=ScriptedProvider(notification=BalanceReport((balance,))))
    assert (await bench.notify()).status == 200
    assert bench.balances == [balance]
