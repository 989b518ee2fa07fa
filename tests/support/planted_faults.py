"""A gateway's workers over a real SQLite store, with one fault planted at one of the places where
they wait."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio
from attrs import Factory, define, evolve, field, frozen
from trio.lowlevel import current_statistics
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    CreatePayment,
    Input,
    ProviderAccepted,
    ProviderHinted,
    ProviderReport,
)
from mmo_sansio.messages.replies import Reply
from mmo_sansio.providers.common.interface import (
    Conversation,
    DepositAnswer,
    DepositConversation,
    ExchangeFailed,
)
from mmo_sansio.providers.common.operations import ProviderOperation
from mmo_sansio.resilience.circuit_breaker import BreakerSettings
from mmo_sansio.testing import (
    START,
    a_brand,
    a_create_payment,
    a_deposit,
    a_method,
    numbered_reference,
)
from mmo_sansio.values.clock import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Instant,
    Moment,
    MonotonicInstant,
    Span,
    later,
)
from mmo_sansio.values.model import (
    DepositAnswerOutcome,
    DepositClaim,
    DepositTrust,
    Operation,
    Order,
    QrCode,
    Terms,
    Transaction,
)
from mmo_trio.engine.engine import DecisionFailed, Engine, Outbox, PendingInput, Sender
from mmo_trio.storage.interface.store import OutcomeUnknown
from mmo_trio.storage.sql.net_effect import net_effect
from mmo_trio.storage.sqlite.startup import open_sqlite
from mmo_trio.storage.sqlite.writer import WriteAttempt
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.deliveries import CallbackWorker, QrWorker
from mmo_trio.workers.dispatcher import Dispatcher
from mmo_trio.workers.providers.deposits import DepositClaimWorker
from mmo_trio.workers.providers.worker import PaymentCreator, ProviderWorker
from mmo_trio.workers.scheduler import Scheduler
from tests.runtime.workers.providers.test_worker import PlainProvider

T = TypeVar("T")

POLLED = ProviderOperation(
    is_idempotent=False,
    can_be_polled=True,
    not_found_is_final_after=None,
    poll_intervals=(Span(MINUTE),),
)
OPERATIONS = {
    0: Operation.DIRECT_PAYIN,
    1: Operation.DIRECT_PAYOUT,
    2: Operation.DIRECT_PAYIN,
    3: Operation.DIRECT_TAXPAYOUT,
    4: Operation.QR_PAYIN,
}
"""What is created: 1 is refused once, 2 is never answered, and for 3 no conversation can be
reserved."""

UNANSWERED = numbered_reference(2)
SENDER = Sender(MonotonicInstant(2**62), lambda: False)
"""The payment of which the operator never says anything."""

BEGINS = frozenset({"clock_record", "save_clock_record"})
"""Calls of the store before a process serves: it ends when they fail."""


class Fault(Enum):
    """What is planted."""

    RAISED = "an exception of ours, and nothing was done"
    UNDECIDED = "an unclassified error, several times"
    UNKNOWN = "an unknown outcome of what was not done"
    UNKNOWN_DONE = "an unknown outcome of what was done"
    CANCELLED = "the end of the process before it was done"
    CANCELLED_DONE = "the end of the process after it was done"


@define(eq=False)
class Planter:
    """Knows the places where something is awaited, and plants its fault at one of them."""

    place: str | None = None
    fault: Fault = Fault.RAISED
    left: int = 1
    """How often it is still to happen."""
    places: Counter[str] = Factory(Counter)
    is_ending: trio.Event = Factory(trio.Event)
    """Set when the process ends by the fault."""

    def wrap(
        self, name: str, operation: Callable[..., Awaitable[T]]
    ) -> Callable[..., Awaitable[T]]:
        async def call(*args: Any, **kwargs: Any) -> T:
            return await self.at(name, lambda: operation(*args, **kwargs))

        return call

    async def at(self, place: str, operation: Callable[[], Awaitable[T]]) -> T:
        return await self.at_any([place], operation)

    async def at_any(
        self,
        places: Sequence[str],
        operation: Callable[[], Awaitable[T]],
        *,
        is_commit: bool = False,
    ) -> T:
        """Do this, which goes by any of these names, unless the fault is planted here. Nothing
        cancels a commit: when the process ends, its outcome is unknown."""
        self.places.update(places)
        if self.place not in places or not self.left:
            return await operation()
        self.left -= 1
        if self.fault in (Fault.UNKNOWN_DONE, Fault.CANCELLED_DONE):
            await operation()
        match self.fault:
            case Fault.RAISED:
                raise ZeroDivisionError
            case Fault.UNDECIDED:
                raise DecisionFailed("planted")
            case Fault.UNKNOWN | Fault.UNKNOWN_DONE:
                raise OutcomeUnknown("planted")
            case Fault.CANCELLED | Fault.CANCELLED_DONE:
                self.is_ending.set()
                if is_commit:
                    raise OutcomeUnknown("planted")
                await trio.sleep_forever()
                raise AssertionError("unreachable")


class VirtualClock(GatewayClock):
    """Follows a clock that a test moves; the store's threads read it, too."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__()
        self._clock = clock

    def raw_wall_time(self) -> Instant:
        return later(START, Span(round(self._clock.current_time() * SECOND)))

    def monotonic(self) -> MonotonicInstant:
        return MonotonicInstant(self.raw_wall_time())


@define(eq=False)
class PlantedStore:
    """The real store; each call is a place."""

    store: Any
    planter: Planter
    busy: int = 0
    """Calls that are in a thread, so that time must stand still."""
    _done: Any = ()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            async def work() -> Any:
                self.busy += 1
                try:
                    done = await found(*args, **kwargs)
                    if name == "transact":
                        self._done = done
                    return done
                finally:
                    self.busy -= 1

            if name in BEGINS:
                return await work()
            inputs: Any = getattr(args[1], "__self__", None) if name == "transact" else None
            kinds = (
                sorted({type(each.input).__name__ for each in inputs.pending_inputs})
                if inputs
                else [""]
            )
            self._done = () if name == "transact" else self._done
            places, is_commit = (
                [f"store {name} {kind}".strip() for kind in kinds],
                name == "transact",
            )
            try:
                return await self.planter.at_any(places, work, is_commit=is_commit)
            except OutcomeUnknown:
                if is_commit:
                    self._keep_in_doubt()
                raise

        return call

    def _keep_in_doubt(self) -> None:
        """Let the store know that its latest commit is in doubt, as it does when the commit takes
        too long."""
        attempt = WriteAttempt()
        attempt.scheduled, attempt.has_ended = tuple(net_effect(self._done).scheduled), True
        self.store._writer.in_doubt.append(attempt)


@frozen
class PlantedReply:
    """An input that the engine decides; to wait for its reply is a place."""

    pending: PendingInput
    planter: Planter

    async def reply(self) -> Reply:
        return await self.planter.at(
            f"reply to {type(self.pending.input).__name__}", self.pending.reply
        )


@define
class Operator(PlainProvider):
    """Confirms deposits, and gives a code for a QR pay-in."""

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        report: ProviderReport = yield from PlainProvider.submit(self, transaction, now=now)
        return (
            evolve(report, qr=QrCode(image="cGlj"))
            if isinstance(report, ProviderAccepted)
            else report
        )

    def verify_deposit(self, claim: DepositClaim, *, now: Moment) -> DepositConversation:
        yield HttpRequest("VERIFY", claim.receipt.encode())
        return DepositAnswer(
            self.name,
            claim.receipt,
            DepositAnswerOutcome.COMPLETED,
            is_ours=True,
            amount=claim.amount,
        )


@define(eq=False)
class Life:
    """One process: an engine and its workers."""

    store: PlantedStore
    engine: Engine
    providers: ProviderWorker
    callbacks: CallbackWorker
    qr_codes: QrWorker
    dispatcher: Dispatcher
    scheduler: Scheduler
    claims: DepositClaimWorker
    creator: PaymentCreator

    def claimed(self) -> dict[str, object]:
        """Return what is not finished, by what has it."""
        queues = self.providers._queues.values()
        found: dict[str, object] = {
            "conversations": self.providers._claimed or sum(each.active for each in queues),
            "polls after the end": self.providers._ended_polls.waiting,
            "waiting": self.providers.waiting,
            "callbacks": [each.intent for each in self.callbacks.claimed()],
            "codes": [each.intent for each in self.qr_codes.claimed()],
            "dispatcher": self.dispatcher._waiting,
            "not woken": len(self.scheduler._postponed) + len(self.claims._postponed),
            "questions": self.claims._open_questions,
            "inputs": self.engine.queued,
        }
        return {name: each for name, each in found.items() if each}


@define(eq=False)
class World:
    """Merchants, an operator and one process after the other."""

    path: Path
    planter: Planter
    clock: MockClock
    arrived: Counter[str] = Factory(Counter)
    """Submissions that the operator has received, by payment."""
    refused: set[str] = Factory(set)
    sent: Counter[str] = Factory(Counter)
    """Callbacks that merchants have received, by payment."""
    life: Life = field(init=False)

    async def play(self) -> None:
        """Let payments be made, and a day pass; the process begins again when the fault ends it."""
        async with self._process():
            async with trio.open_nursery() as requests:
                requests.start_soon(self._request)
                await self._pass(Span(30 * SECOND))
                requests.cancel_scope.cancel()
            await self._pass(Span(2 * HOUR))
            if self.planter.is_ending.is_set():
                return
            await self._hint_and_rest()

    async def rest(self) -> None:
        """Begin again after a fault that has ended the process."""
        async with self._process():
            await self._hint_and_rest()

    async def _hint_and_rest(self) -> None:
        async with trio.open_nursery() as requests:
            requests.start_soon(self._hint)
            await self._pass(Span(HOUR))
            requests.cancel_scope.cancel()
        await self._pass(DAY)
        await self._pass(MINUTE)

    async def _hint(self) -> None:
        """Report the unanswered payment, which has expired, until that is taken."""
        await self._insist(
            lambda: self.life.engine.submit(ProviderHinted(UNANSWERED, "test", "RECEIPT"))
        )

    async def _request(self) -> None:
        brand = a_brand(methods=(a_method(),))
        for number, operation in OPERATIONS.items():
            members: dict[str, Any] = {}
            if operation is Operation.QR_PAYIN:
                members["display_qr_url"] = "https://acme.example/qr"
            if operation is Operation.DIRECT_TAXPAYOUT:
                members["party"] = None
            reference = numbered_reference(number)
            asked = a_create_payment(
                reference,
                brand=brand,
                terms=Terms(pending_timeout=Span(HOUR)),
                merchant_reference=reference,
                operation=operation,
                **members,
            )
            await self._insist(partial(self.life.creator.create, asked, SENDER))
        deposit = a_deposit(gateway_reference=numbered_reference(9), provider_reference="RECEIPT9")
        told = evolve(
            deposit, trust=DepositTrust.UNCONFIRMED, account="600966", bill_reference="acme"
        )
        await self._insist(lambda: self.life.engine.submit(told))

    async def _insist(self, request: Callable[[], Awaitable[Reply]]) -> None:
        """Make a request, as who gets no answer makes it again."""
        for _ in range(10):
            try:
                await request()
            except Exception:
                await trio.sleep(1)
            else:
                return

    async def _pass(self, span: Span) -> None:
        """Let time pass: from one deadline to the next at first, then in steps that grow."""
        began = trio.current_time()
        while (
            passed := trio.current_time() - began
        ) < span / SECOND and not self.planter.is_ending.is_set():
            await wait_all_tasks_blocked()
            if self.life.store.busy:
                await trio.to_thread.run_sync(time.sleep, 0.0005)
                continue
            next_s = current_statistics().seconds_to_next_deadline
            self.clock.jump(min(max(next_s, 0.001, passed / 6), span / SECOND - passed + 0.001))

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[None]:
        plant, gateway_clock = self.planter, VirtualClock(self.clock)
        async with open_sqlite(self.path, serving=True) as sqlite, trio.open_nursery() as nursery:
            await sqlite.admin.save_brands([a_brand(methods=(a_method(),))])
            store: Any = PlantedStore(sqlite, plant)
            outbox = Outbox()
            engine = Engine(store, gateway_clock, outbox)
            submit, operator = self._submit(engine), Operator(operations=self._offered())
            providers = ProviderWorker(
                submit,
                {"test": operator},
                lambda _: self._exchange,
                lambda _: self._exchange,
                gateway_clock.moment,
            )
            callbacks = CallbackWorker(
                deliver=self._deliver,
                find_key=plant.wrap("find_key", self._find_key),
                record_outcome=submit,
                own_time=gateway_clock.own_time,
                monotonic=gateway_clock.monotonic,
                breaker=BreakerSettings(),
                wait_for_due=plant.wrap("wait_for_due", trio.lowlevel.checkpoint),
            )
            qr_codes = QrWorker(
                deliver=self._show,
                find_key=plant.wrap("find_key of a code", self._find_key),
                record_outcome=submit,
            )
            dispatcher = Dispatcher(store, providers, callbacks, qr_codes)
            outbox.subscribe(dispatcher.dispatch)
            self.life = Life(
                store=store,
                engine=engine,
                providers=providers,
                callbacks=callbacks,
                qr_codes=qr_codes,
                dispatcher=dispatcher,
                scheduler=Scheduler(
                    store,
                    self._enqueue(engine),
                    dispatcher.dispatch,
                    dispatcher.has_room,
                    gateway_clock.own_time,
                ),
                claims=DepositClaimWorker(
                    store,
                    submit,
                    {"test": operator},
                    lambda _: self._exchange,
                    gateway_clock.moment,
                ),
                creator=PaymentCreator(partial(self._create, engine), providers),
            )
            never = trio.Event()
            await nursery.start(engine.run)
            for run in (providers.run, callbacks.run, qr_codes.run, self.life.claims.run):
                await nursery.start(partial(run, drain=never))
            nursery.start_soon(dispatcher.run)
            await nursery.start(self.life.scheduler.run)
            yield
            nursery.cancel_scope.cancel()

    def _offered(self) -> dict[Any, ProviderOperation]:
        tax = Operation.DIRECT_TAXPAYOUT
        return {
            (each.type, each.flow): evolve(POLLED, can_be_polled=each is not tax)
            for each in OPERATIONS.values()
        }

    def _submit(self, engine: Engine) -> Callable[[Input], Awaitable[Reply]]:
        async def submit(input_: Input) -> Reply:
            return await self.planter.at(
                f"submit {type(input_).__name__}", lambda: engine.submit(input_)
            )

        return submit

    async def _create(self, engine: Engine, input_: CreatePayment, sender: Sender) -> Reply:
        return await self.planter.at("submit CreatePayment", lambda: engine.submit(input_, sender))

    def _enqueue(self, engine: Engine) -> Callable[[Input], Any]:
        return lambda input_: PlantedReply(engine.enqueue(input_), self.planter)

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        return await self.planter.at(f"exchange {request.method}", lambda: self._answer(request))

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        reference = request.target.decode()
        if (
            request.method == "POST"
            and reference == numbered_reference(1)
            and reference not in self.refused
        ):
            self.refused.add(reference)
            raise ExchangeFailed("connection refused", may_have_arrived=False)
        if request.method == "POST":
            self.arrived[reference] += 1
        if reference == UNANSWERED:
            raise ExchangeFailed("no answer", may_have_arrived=True)
        if request.method == "GET" and not self.arrived[reference]:
            return HttpResponse(404)
        return HttpResponse(202 if request.method == "POST" else 200)

    async def _find_key(self, order: Order, url: str) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"a-key"

    async def _deliver(
        self, request: HttpRequest, *, brand: str, may_send: Callable[[], bool] = lambda: True
    ) -> DeliveryAttempt:
        await self.planter.at("connect", trio.lowlevel.checkpoint)
        assert may_send()
        self.sent[json.loads(request.body)["gatewayReference"]] += 1
        await self.planter.at("answer to a callback", trio.lowlevel.checkpoint)
        return DeliveryAttempt(DeliveryOutcome.DELIVERED, request.target.decode(), 204)

    async def _show(self, request: HttpRequest, *, brand: str) -> DeliveryAttempt:
        await self.planter.at("answer to a code", trio.lowlevel.checkpoint)
        return DeliveryAttempt(DeliveryOutcome.DELIVERED, request.target.decode(), 204)
