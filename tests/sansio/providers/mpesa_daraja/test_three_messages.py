"""A paid prompt has three messages: the answer to our question, its callback with the receipt, and
the C2B confirmation of the same money. In every order, each lost, told once or told twice, the
receipt is known where M-Pesa has told it, and nobody is told that money came which did not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from attrs import Factory, define, evolve, field

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import DepositClaimWoke, Input, ProviderHinted
from mmo_sansio.messages.intents import PollEnded, PollProvider
from mmo_sansio.messages.replies import ClaimDue
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.payments.settlement import RECEIPT_AWAITED_FOR
from mmo_sansio.providers.common.deposits import answer_input, deposit_input
from mmo_sansio.providers.common.interface import DepositAnswer, DepositReport, drive
from mmo_sansio.providers.common.operations import with_poll_interval
from mmo_sansio.providers.mpesa_daraja.adapter import DarajaProvider
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.testing.builders import KES, REFERENCE, START, UNUSED_REFERENCE, ledger_with
from mmo_sansio.values.clock import HOUR, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.model import Source, Stage, Transaction
from tests.sansio.providers.mpesa_daraja.test_adapter import (
    TAKEN,
    adapter,
    callback,
    payment,
    push_document,
    result_document,
    to,
)

RECEIPT: Final = "SG632NMUAB"
OTHER_RECEIPT: Final = "SG632NMUAC"
PROMPT: Final = "ws_CO_1"
AFTER_S: Final = (3, 12, 26, 44, 90)
"""When messages come: around the first questions, after 15 and 35 s, and long after them."""


@define
class Prompt:
    """A prompt at M-Pesa in virtual time, as the runtime handles it."""

    deposits: str
    paid_at: Instant
    """From when on questions know that it is paid."""
    gateway: Gateway = Factory(Gateway)
    now: Instant = START
    mail: list[tuple[Instant, HttpRequest]] = Factory(list)
    """What M-Pesa will send, and when."""
    daraja: DarajaProvider = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.daraja = adapter(deposits=self.deposits)
        began = payment(
            "payin",
            Stage.AWAITING_RESULT,
            provider_reference=PROMPT,
            wake_at=later(START, Span(15 * SECOND)),
        )
        self.gateway.ledger = ledger_with(began)

    @property
    def payment(self) -> Transaction:
        return self.gateway.transaction(REFERENCE)

    @property
    def suspense(self) -> list[str]:
        return [each.reason.value for each in self.gateway.suspense]

    def call_back(self, at: Instant) -> None:
        """M-Pesa tells the result at the prompt's own address."""
        items = (
            {"Name": "Amount", "Value": 150.0},
            {"Name": "MpesaReceiptNumber", "Value": RECEIPT},
        )
        document = push_document(0, *items)
        self.mail.append((at, callback(to(MpesaCallbackKind.PUSH), document)))

    def confirm(self, at: Instant) -> None:
        """M-Pesa confirms that the shortcode was paid."""
        document = {
            "TransactionType": "Pay Bill",
            "TransID": RECEIPT,
            "TransAmount": "150.00",
            "BusinessShortCode": "174379",
            "BillRefNumber": REFERENCE[-12:],
            "MSISDN": "254708374149",
            "FirstName": "JANE",
        }
        self.mail.append((at, callback(to(MpesaCallbackKind.CONFIRMATION), document)))

    def live(self, span: Span) -> None:
        """Let time pass: messages come, claims and payments wake."""
        until = later(self.now, span)
        while (due := min(self._due(), default=None)) is not None and due <= until:
            self.now = max(self.now, due)
            self._deliver()
            self._wake_claims()
            self.gateway.wake(now=self.now)
            self._work()
        self.now = until

    def _due(self) -> Iterator[Instant]:
        yield from (at for at, _ in self.mail)
        if (at := self.gateway.next_wake()) is not None:
            yield at
        for claim in self.gateway.ledger.claims.values():
            if claim.wake_at is not None:
                yield claim.wake_at

    def _deliver(self) -> None:
        came = [request for at, request in self.mail if at <= self.now]
        self.mail = [(at, request) for at, request in self.mail if at > self.now]
        for request in came:
            for each in self._inputs(request):
                self._receive(each)

    def _inputs(self, request: HttpRequest) -> list[Input]:
        """What the runtime makes of a notification."""
        told = self.daraja.read_notification(request)
        if isinstance(told, DepositAnswer):
            claim = self.gateway.ledger.claims["kenya", told.receipt]
            return [answer_input(told, claim, None)]
        if not isinstance(told, DepositReport):
            return [told]  # type: ignore[list-item]
        named = deposit_input(
            told,
            None,
            provider_title="M-Pesa",
            gateway_reference=UNUSED_REFERENCE,
            payment=REFERENCE,
        )
        if self.payment.progress.stage.is_terminal:
            return [named]
        return [named, ProviderHinted(REFERENCE, "kenya")]

    def _wake_claims(self) -> None:
        for claim in [*self.gateway.ledger.claims.values()]:
            if claim.wake_at is not None and claim.wake_at <= self.now:
                woke = DepositClaimWoke(claim.provider, claim.receipt, claim.payment)
                reply = self.gateway.receive(woke, now=self.now)
                if isinstance(reply, ClaimDue):
                    at = Moment.at(self.now)
                    drive(self.daraja.verify_deposit(reply.claim, now=at), self._exchange)

    def _receive(self, input_: Input) -> None:
        self.gateway.receive(input_, now=self.now)
        self._work()

    def _work(self) -> None:
        for intent in self.gateway.take_intents():
            if isinstance(intent, PollProvider | PollEnded):
                about = self.payment
                if isinstance(intent, PollEnded) and intent.hint is not None:
                    about = evolve(about, progress=evolve(about.progress, hint=intent.hint))
                report = drive(self.daraja.poll(about, now=Moment.at(self.now)), self._exchange)
                self._receive(with_poll_interval(report, self.daraja.operations, about))

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        asked = json.loads(request.body)
        if "CheckoutRequestID" in asked:
            return _json(*self._state_of_prompt())
        state = {
            "TransactionStatus": "Completed",
            "ReceiptNo": asked["TransactionID"],
            "Amount": 150,
            "DebitPartyName": "254708374149 - JANE",
            "CreditPartyName": "174379 - TEST SHOP",
        }
        items = [{"Key": key, "Value": value} for key, value in state.items()]
        answer = callback(asked["ResultURL"], result_document(0, items))
        self.mail.append((later(self.now, SECOND), answer))
        return _json(200, TAKEN)

    def _state_of_prompt(self) -> tuple[int, Mapping[str, Any]]:
        if self.now < self.paid_at:
            words = "The transaction is being processed"
            return 500, {"errorCode": "500.001.1001", "errorMessage": words}
        told = {"ResponseCode": "0", "CheckoutRequestID": PROMPT, "ResultDesc": "Processed"}
        return 200, {**told, "ResultCode": "0"}


def _json(status: int, document: Mapping[str, Any]) -> HttpResponse:
    return HttpResponse(status, (), json.dumps(document).encode())


ORDERS: Final = [
    (paid_s, callbacks, confirmations)
    for paid_s in (1, 20, 60)
    for callbacks in [(), *((each,) for each in AFTER_S), (12, 44)]
    for confirmations in [(), *((each + 1,) for each in AFTER_S), (4, 45), (27, 91)]
]


@pytest.mark.spec("S2", "S4", "S5")
@pytest.mark.parametrize("deposits", ["trust", "confirm"])
@pytest.mark.parametrize("is_confirmation_first", [False, True])
def test_in_every_order_of_its_messages_a_prompt_is_paid_once_and_its_receipt_is_known(
    deposits: str, *, is_confirmation_first: bool
) -> None:
    for paid_s, callbacks, confirmations in ORDERS:
        prompt = Prompt(deposits, later(START, Span(paid_s * SECOND)))
        sent = [(at, prompt.call_back) for at in callbacks]
        sent += [(at - 2 * is_confirmation_first, prompt.confirm) for at in confirmations]
        for at_s, send in sorted(sent, key=lambda each: each[0]):
            send(later(START, Span(at_s * SECOND)))
        prompt.live(HOUR)
        order = (paid_s, callbacks, confirmations)
        progress = prompt.payment.progress
        assert (progress.stage, progress.final) == (Stage.SUCCEEDED, KES(150)), order
        is_told = bool(callbacks or confirmations)
        assert progress.provider_reference == (RECEIPT if is_told else PROMPT), order
        assert (progress.receipt_awaited_since is None) is is_told, order
        assert prompt.suspense == [], order
        assert len(prompt.gateway.ledger.transactions) == 1, order
        claims = prompt.gateway.ledger.claims
        assert [each.payment for each in claims.values()] in ([REFERENCE] * is_told, []), order
        assert all(each.wake_at is None for each in claims.values()), order


def paid_prompt(**members: Any) -> Prompt:
    """A prompt that the first question, after 15 s, calls paid."""
    return Prompt(**{"deposits": "trust", "paid_at": START, **members})


@pytest.mark.spec("S2")
def test_a_prompt_that_is_called_paid_waits_for_its_callback_before_it_ends() -> None:
    prompt = paid_prompt()
    prompt.call_back(later(START, Span(26 * SECOND)))
    prompt.live(Span(25 * SECOND))
    assert prompt.payment.progress.stage is Stage.AWAITING_RESULT
    prompt.live(SECOND)
    progress = prompt.payment.progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)
    assert progress.completion_source is Source.POLL


@pytest.mark.spec("S2")
def test_without_its_callback_it_ends_twenty_seconds_later() -> None:
    prompt = paid_prompt()
    stages = []
    for span in (15 * SECOND + RECEIPT_AWAITED_FOR - 1, 1):
        prompt.live(Span(span))
        stages.append(prompt.payment.progress.stage)
    assert stages == [Stage.AWAITING_RESULT, Stage.SUCCEEDED]


@pytest.mark.spec("S2")
def test_a_receipt_that_was_confirmed_before_ends_it_at_once() -> None:
    prompt = paid_prompt(paid_at=later(START, Span(10 * SECOND)))
    prompt.confirm(later(START, Span(3 * SECOND)))
    prompt.live(Span(20 * SECOND))  # It was asked at 3 s, when it was not paid yet, and at 18 s.
    progress = prompt.payment.progress
    assert (progress.stage, progress.provider_reference) == (Stage.SUCCEEDED, RECEIPT)


@pytest.mark.spec("S4", "S5")
@pytest.mark.parametrize("deposits", ["trust", "confirm"])
def test_of_two_confirmed_receipts_one_is_the_prompts_and_the_other_stands_before_a_person(
    deposits: str,
) -> None:
    """The payer has paid past the prompt as well, and typed its reference."""
    prompt = paid_prompt(deposits=deposits)
    prompt.confirm(later(START, Span(3 * SECOND)))
    prompt.confirm(later(START, Span(30 * SECOND)))
    at, second = prompt.mail[1]
    told = json.loads(second.body) | {"TransID": OTHER_RECEIPT}
    prompt.mail[1] = (at, evolve(second, body=json.dumps(told).encode()))
    prompt.live(HOUR)
    assert prompt.suspense == ["conflicting_deposit"]
    (entry,) = prompt.gateway.suspense
    known = {
        prompt.payment.progress.provider_reference,
        json.loads(entry.content)["providerReference"],
    }
    assert known == {RECEIPT, OTHER_RECEIPT}
