"""Plays a merchant of a simulated world: it pays as the documentation tells merchants to, by the
rules of `mmo_merchant`, receives callbacks, and remembers everything that was reported to it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any, Final, TypeVar, assert_never

import trio
from attrs import Factory, define, frozen

from mmo_merchant import (
    Answer,
    ApiAccess,
    ApiRejection,
    CallbackRejected,
    DirectPayIn,
    Exchange,
    GatewayUnavailable,
    MerchantApiError,
    NewPayment,
    NoAnswer,
    Party,
    PayOut,
    QrDelivery,
    QrPayIn,
    RecordsWindow,
    StartedPayment,
    TaxPayOut,
    TransactionNotFound,
    TransactionObject,
    WebPayIn,
    create_or_get,
    look_up_request,
    page_request,
    read_callback,
    read_found,
    read_page,
    records_request,
    to_money,
)
from mmo_sansio.http.exchange import NoResponseReceived
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_sansio.values.model import Operation
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.system.ids import request_id_generator
from tests.simulation.world.files import (
    API_PORT,
    GATEWAY_HOST,
    WorldMethod,
    merchant_key,
    merchant_name,
)
from tests.simulation.world.party import WorldParty
from tests.simulation.world.payers import WorldPayers
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.schedule import WorldSchedule
from tests.simulation.world.trace import SimulationTrace

RECEIVER_PORT: Final = 443
REQUEST_TIMEOUT_S: Final = 30.0
CREATION_RETRIES: Final = 200
"""How often a merchant begins a creation again whose outcome is unclear: for more than a day."""
LOOK_UPS_SHARE: Final = 0.3
"""The share of payments about which a merchant asks at once."""
CREATION_RETRY_AFTER_S: Final = 600.0
PAYINS_SHARE: Final = 0.6
"""The share of the payments that are pay-ins, where there are prompts and pay-outs only."""

T = TypeVar("T")


@frozen
class ReportedPayment:
    """Is a payment as the gateway reported it."""

    asked_at: float
    """When the merchant began to ask, by Trio's time; for a callback when it came."""
    at: float
    """When the report came, by Trio's time."""
    by: str
    """`callback`, `look_up` or `records`."""
    transaction: TransactionObject


@frozen
class ListedRecords:
    """Is a list of records that was read to its end."""

    at: float
    """Trio's time at the beginning of its reading."""
    window: RecordsWindow
    transactions: Sequence[TransactionObject]


@define
class ReceivedCallback:
    """Is a callback that has arrived."""

    gateway_reference: str
    sender: str
    """The address of the gateway."""
    at: float
    """Trio's time."""
    answered_at: float | None = None
    """When the merchant answered; None while it has not."""
    status: int = 0
    """The status of its answer."""


@define
class ReceiverMood:
    """Says how a merchant's receiver behaves at present."""

    is_down: bool = False
    """It answers 503."""
    hangs_s: float = 0.0
    """Seconds before it answers."""


@define(eq=False)
class WorldMerchant:
    """Runs one merchant. It is never killed, and forgets nothing."""

    number: int
    party: WorldParty
    random: Random
    trace: SimulationTrace
    schedule: WorldSchedule
    payers: WorldPayers | None = None
    """Who acts on its pay-ins; None: prompts are all that it asks for."""
    mood: ReceiverMood = Factory(ReceiverMood)
    begun_at: dict[str, float] = Factory(dict)
    """When each creation was begun, by merchantReference: Trio's time."""
    started: dict[str, StartedPayment] = Factory(dict)
    """The payments that a creation has answered for, by merchantReference."""
    rejected: dict[str, str] = Factory(dict)
    """The payments that were rejected, with the cause."""
    unclear: set[str] = Factory(set)
    """The references whose creation has not ended."""
    settled: set[str] = Factory(set)
    """The references of which the merchant and staff have agreed what became of them: it creates
    these no more."""
    lost: list[str] = Factory(list)
    """The references of payments that were answered for, and that the gateway did not know
    afterwards."""
    reports: list[ReportedPayment] = Factory(list)
    received: list[ReceivedCallback] = Factory(list)
    """Every callback that could be read."""
    listed: list[ListedRecords] = Factory(list)
    """The windows that were listed to their end."""
    wrong_callbacks: list[str] = Factory(list)
    """Why a callback could not be read."""

    @property
    def brand(self) -> str:
        """The merchant's brand."""
        return merchant_name(self.number)

    @property
    def host(self) -> str:
        """The name of the merchant's receiver."""
        return f"{self.brand}.example"

    @property
    def access(self) -> ApiAccess:
        """How the merchant asks the gateway."""
        return ApiAccess(
            f"http://{GATEWAY_HOST}:{API_PORT}", merchant_key(self.number), allow_clear=True
        )

    async def receive(self, process: SimulatedProcess) -> None:
        """Receive callbacks until cancelled."""
        context = ListenerContext(
            _Receiver(self),
            ListenerLimits(),
            error_docs_url="about:blank",
            mint_request_id=request_id_generator(),
            drain=trio.Event(),
        )
        await serve_http(context, [self.party.listen(RECEIVER_PORT)])

    async def pay(self, reference: str, method: WorldMethod) -> None:
        """Create a payment under this reference, and go on until the outcome of the creation is
        known."""
        client, payment = self.party.http_client(), self._new_payment(reference, method)
        self.begun_at[reference] = trio.current_time()
        self.unclear.add(reference)
        is_first_attempt = True
        for _ in range(CREATION_RETRIES):
            exchange = create_or_get(self.access, payment, is_first_attempt=is_first_attempt)
            is_first_attempt = False
            try:
                self.started[reference] = await self._drive(client, exchange)
                self.trace.add(
                    "created", self.brand, reference, self.started[reference].gateway_reference
                )
                self._let_payer_act(payment, self.started[reference])
            except ApiRejection as error:
                self.rejected[reference] = str(error)
                self.trace.add("rejected", self.brand, reference, error)
            except MerchantApiError as error:
                self.trace.add("creation_unclear", self.brand, reference, type(error).__name__)
                if reference in self.settled:
                    return
                await self.schedule.sleep(CREATION_RETRY_AFTER_S)
                continue
            self.unclear.discard(reference)
            if reference in self.started and self.random.random() < LOOK_UPS_SHARE:
                await self._look_up_again(reference)
            return

    def _let_payer_act(self, payment: NewPayment, started: StartedPayment) -> None:
        if self.payers is not None and isinstance(payment, DirectPayIn | WebPayIn):
            self.payers.asked_for(
                payment.method, started.gateway_reference, payment.amount, started.page_url
            )

    async def _look_up_again(self, reference: str) -> None:
        """Ask about a payment that was just created."""
        try:
            await self.look_up(self.started[reference].gateway_reference)
        except TransactionNotFound:
            self.lost.append(reference)

    async def look_up(self, gateway_reference: str) -> TransactionObject | None:
        """Return the payment as a look-up tells it; None when there was no answer. Raises
        TransactionNotFound."""
        asked_at = trio.current_time()
        request = look_up_request(self.access, gateway_reference)
        try:
            found = read_found(await self._send(self.party.http_client(), request))
        except TransactionNotFound:
            raise
        except MerchantApiError:
            return None
        self._note("look_up", found, asked_at)
        return found

    async def records(self, window: RecordsWindow) -> list[TransactionObject] | None:
        """Return all transactions of a window, page by page; None when an answer did not come."""
        client, found = self.party.http_client(), list[TransactionObject]()
        request, began_at = records_request(self.access, window), trio.current_time()
        while True:
            asked_at = trio.current_time()
            try:
                page = read_page(await self._send(client, request))
            except (GatewayUnavailable, ApiRejection):
                return None
            found += page.transactions
            for each in page.transactions:
                self._note("records", each, asked_at)
            if page.next is None:
                self.listed.append(ListedRecords(began_at, window, found))
                return found
            request = page_request(self.access, page.next)

    def _note(self, by: str, transaction: TransactionObject, asked_at: float) -> None:
        self.reports.append(ReportedPayment(asked_at, trio.current_time(), by, transaction))

    async def _drive(self, client: HttpClient, exchange: Exchange[T]) -> T:
        ask = next(exchange)
        while True:
            if ask.pause_s:
                await self.schedule.sleep(ask.pause_s)
            answer = await self._send(client, ask.request)
            try:
                ask = exchange.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result

    async def _send(self, client: HttpClient, request: HttpRequest) -> Answer:
        with self.schedule.activity():
            result = await client.exchange(
                request,
                skip_egress_rules=True,
                deadline_s=REQUEST_TIMEOUT_S,
                body_bytes_max=8 * 1024 * 1024,
            )
        if isinstance(result, NoResponseReceived) or not result.is_complete:
            self.trace.add("no_answer", self.brand, result)
            return NoAnswer("nothing came")
        self.trace.add("answer", self.brand, request.method, result.status)
        return HttpResponse(result.status, result.headers, result.body)

    def _new_payment(self, reference: str, method: WorldMethod) -> NewPayment:
        amount = to_money(Decimal(self.random.randrange(*method.amounts)), method.currency)
        last_digits = f"{self.random.randrange(10**method.number_digits):0{method.number_digits}}"
        party = Party(
            f"customer-{reference}", f"{method.number_prefix}{last_digits}", "Ada", "Okello", None
        )
        url = f"https://{self.host}/results"
        shared: dict[str, Any] = {
            "method": method.name,
            "amount": amount,
            "country": method.country,
            "result_url": url,
            "merchant_reference": reference,
        }
        match self._operation(method):
            case Operation.DIRECT_PAYIN:
                return DirectPayIn(**shared, payer=party)
            case Operation.WEB_PAYIN:
                return WebPayIn(**shared, payer=party)
            case Operation.QR_PAYIN:
                return QrPayIn(**shared, payer=party, display_qr_url=url)
            case Operation.DIRECT_PAYOUT:
                return PayOut(**shared, payee=party)
            case Operation.DIRECT_TAXPAYOUT:
                number = reference.rpartition("-")[2]
                return TaxPayOut(**shared, reconciliation_reference=f"PRN{number}")
            case operation:
                assert_never(operation)

    def _operation(self, method: WorldMethod) -> Operation:
        if self.payers is not None:
            return self.random.choice(method.operations)
        is_payin = self.random.random() < PAYINS_SHARE
        return Operation.DIRECT_PAYIN if is_payin else Operation.DIRECT_PAYOUT

    async def take_callback(self, head: RequestHead, sender: str, body: bytes) -> HttpResponse:
        """Verify a callback and answer it as the receiver's mood is."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        try:
            received = read_callback(headers, body, [merchant_key(self.number)])
        except CallbackRejected as error:
            self.wrong_callbacks.append(str(error))
            return HttpResponse(error.status)
        if isinstance(received, QrDelivery):
            return self._show(received)
        callback = ReceivedCallback(received.gateway_reference, sender, trio.current_time())
        self.received.append(callback)
        self._note("callback", received, trio.current_time())
        status = 503 if self.mood.is_down else 204
        self.trace.add(
            "callback", self.brand, received.gateway_reference, received.status, status, sender
        )
        if self.mood.hangs_s:
            self.trace.add("receiver_hangs", self.brand)
            await self.schedule.sleep(self.mood.hangs_s)
        callback.answered_at, callback.status = trio.current_time(), status
        return HttpResponse(status)

    def _show(self, code: QrDelivery) -> HttpResponse:
        """Show a code to its payer."""
        assert self.payers is not None
        if self.mood.is_down:
            return HttpResponse(503)
        self.trace.add("code_shown", self.brand, code.gateway_reference)
        (provider,) = (each for each in self.payers.operators.values() if each.kind.takes_deposits)
        self.payers.show(provider.name, code.gateway_reference, code.amount)
        return HttpResponse(204)


CALLBACK_BYTES_MAX: Final = 1024 * 1024


@frozen
class _Receiver:
    """Hands callbacks to a merchant."""

    merchant: WorldMerchant

    async def admit(self, head: RequestHead, context: RequestContext) -> Admitted:
        return Admitted(
            CALLBACK_BYTES_MAX, partial(self.merchant.take_callback, head, context.client)
        )
