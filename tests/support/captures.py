"""Reads what real operators were seen to say, one file each in `tests/captures`, and plays it in
virtual time: the product's own core and adapter before an operator that says exactly that, or
before its simulator.

`tests/captures/README.md` has the members of a file."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from attrs import Factory, define, field, frozen
from mmo_provider_pawapay import PAWAPAY
from mmo_provider_wave import WAVE

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import Input, ProviderHinted, ProviderReport, UnmatchedNotified
from mmo_sansio.providers.common.interface import ExchangeFailed, Provider, drive
from mmo_sansio.providers.common.operations import with_poll_interval
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext, ProviderKind
from mmo_sansio.testing import (
    REFERENCE,
    TransparentCiphers,
    World,
    a_brand,
    a_confirmation,
    a_method,
    a_party,
)
from mmo_sansio.values.clock import DAY, SECOND, Instant, Moment, Span, elapsed, later
from mmo_sansio.values.model import Limits, Operation, Transaction
from mmo_sansio.values.money import to_money
from tests.support.bodies import documented

CAPTURES = Path(__file__).parents[1] / "captures"
HOOKS_URL = "https://gw.example/hooks/account/token"
PAGES_URL = "https://pay.example"
KINDS = {**PROVIDER_KINDS, "pawapay": PAWAPAY, "wave": WAVE}
"""By the name of a directory: those of the gateway, and of packages."""
LASTS = Span(4 * DAY)
"""Longer than any payment is pending."""


@frozen
class Capture:
    """What an operator was seen to say about one payment, and what it must lead to."""

    kind: str
    """The kind of the adapter: the name of the file's directory."""
    name: str
    document: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The name in the output of tests."""
        return f"{self.kind}/{self.name}"

    @property
    def account(self) -> Mapping[str, Any]:
        """The options of an account with this operator."""
        standard = json.loads((CAPTURES / self.kind / "account.options").read_text("utf-8"))
        options = {**standard, **self.document.get("account", {})}
        return {name: value for name, value in options.items() if value is not None}

    def open_adapter(self) -> Provider:
        """Return the adapter of this account."""
        context = AdapterContext(HOOKS_URL, TransparentCiphers(), pages_url=PAGES_URL)
        return _find_kind(self.kind).open_adapter("p", "Operator", self.account, context)


def _find_kind(name: str) -> ProviderKind:
    """Return a kind of the gateway, else that of the package of this name."""
    if name in PROVIDER_KINDS:
        return PROVIDER_KINDS[name]
    kind = getattr(import_module(f"mmo_provider_{name}"), name.upper())
    assert isinstance(kind, ProviderKind)
    return kind


def read_captures() -> Sequence[Capture]:
    """Return every file, in the order of their names."""
    return [
        Capture(path.parent.name, path.stem, json.loads(path.read_text("utf-8")))
        for path in sorted(CAPTURES.glob("*/*.json"))
    ]


class PlayedOperator(Protocol):
    """The other side of a payment that is played."""

    def exchange(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        """Answer a request. Raises ExchangeFailed."""

    def next_callback_at(self) -> Instant | None:
        """Return when the next callback comes."""

    def take_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks that come now."""


@define
class CapturedOperator:
    """Says what the capture says; the last answer of a list is repeated."""

    capture: Capture
    requests: list[HttpRequest] = Factory(list)
    _asked: dict[str, int] = Factory(dict)
    _callbacks: list[tuple[Instant, HttpRequest]] = Factory(list)
    _sent: dict[str, str] = Factory(dict)
    """The texts that the submission's body has as members, by name."""

    def exchange(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        self.requests.append(request)
        if not self._sent and request.body:
            members = json.loads(request.body).items()
            self._sent = {name: text for name, text in members if isinstance(text, str)}
        line = f"{request.method} {request.target.decode()}"
        for called, answers in self.capture.document["answers"].items():
            method, path = called.split(" ")
            if not line.startswith(method) or path not in line:
                continue
            number = self._asked.get(called, 0)
            self._asked[called] = number + 1
            if number == 0:
                self._plan_callbacks(called, request, now)
            return self._response(answers[min(number, len(answers) - 1)])
        raise ExchangeFailed("The capture has no answer to this.", may_have_arrived=True)

    def next_callback_at(self) -> Instant | None:
        return min((at for at, _ in self._callbacks), default=None)

    def take_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        due = [request for at, request in self._callbacks if at <= now]
        self._callbacks = [(at, request) for at, request in self._callbacks if at > now]
        return due

    def _response(self, answer: Mapping[str, Any]) -> HttpResponse:
        if answer.get("lost"):
            raise ExchangeFailed("The answer was lost.", may_have_arrived=True)
        return HttpResponse(answer.get("status", 200), (), self._body(answer.get("body", "")))

    def _plan_callbacks(self, called: str, request: HttpRequest, now: Instant) -> None:
        for callback in self.capture.document.get("callbacks", ()):
            if callback["after"] == called:
                path = _callback_url(callback["to"], request).removeprefix("https://gw.example")
                told = HttpRequest("POST", path.encode(), (), self._body(callback["body"]))
                self._callbacks.append((later(now, Span(callback["after_s"] * SECOND)), told))

    def _body(self, value: Any) -> bytes:
        """Return a body as bytes, with what the capture had replaced by placeholders put in."""
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        text = text.replace("{reference}", REFERENCE).replace("{ending}", REFERENCE[-12:])
        for name, sent in self._sent.items():
            text = text.replace(f"{{sent.{name}}}", sent)
        if "{hash}" in text:
            signed = json.dumps(json.loads(text)["transaction"], separators=(",", ":")).encode()
            digest = hmac.new(b"callback-key-1", signed, hashlib.sha256).digest()
            text = text.replace("{hash}", base64.b64encode(digest).decode())
        return text.encode()


def _callback_url(to: str, request: HttpRequest) -> str:
    """Return the address of a callback: a member of the request, or what follows the account's
    own."""
    if to.startswith("/") or not to:
        return HOOKS_URL + to.replace("{reference}", REFERENCE)
    return str(json.loads(request.body)[to])


@define
class PlayedPayment:
    """One payment of the product before an operator, from its creation to its end."""

    capture: Capture
    operator: PlayedOperator
    adapter: Provider = field(init=False)
    world: World = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.adapter = self.capture.open_adapter()
        self.world = World(self)  # type: ignore[arg-type]  # It has what a FakeProvider offers.

    @property
    def payment(self) -> Transaction:
        return self.world.transaction()

    @property
    def took_s(self) -> float:
        """How long the payment was pending."""
        completed_at = self.payment.progress.completed_at
        assert completed_at is not None
        return elapsed(self.payment.order.accepted_at, completed_at) / SECOND

    def submit(self, transaction: Transaction) -> ProviderReport:
        report = drive(self.adapter.submit(transaction, now=self._moment), self._exchange)
        return with_poll_interval(report, self.adapter.operations, transaction)

    def poll(self, transaction: Transaction, *, now: Instant) -> ProviderReport:
        report = drive(self.adapter.poll(transaction, now=self._moment), self._exchange)
        return with_poll_interval(report, self.adapter.operations, transaction)

    def play(self) -> None:
        """Create the payment, and let time pass until nothing is left to come of it."""
        self._create()
        self.world.settle()
        ends_at = later(self.world.now, LASTS)
        while (at := self._next_at()) is not None and at <= ends_at:
            self.world.advance(Span(max(at - self.world.now, 0)))
            self._deliver_callbacks()

    def _next_at(self) -> Instant | None:
        """Return when the gateway wakes next, or the operator calls back."""
        times = (self.world.gateway.next_wake(), self.operator.next_callback_at())
        return min((at for at in times if at is not None), default=None)

    @property
    def _moment(self) -> Moment:
        return Moment.at(self.world.now)

    def _exchange(self, request: HttpRequest) -> HttpResponse:
        return self.operator.exchange(request, now=self.world.now)

    def _deliver_callbacks(self) -> None:
        for request in self.operator.take_callbacks(now=self.world.now):
            notification = self.adapter.read_notification(request)
            assert isinstance(notification, ProviderHinted | UnmatchedNotified | Input)
            self.world.receive(notification)
            self.world.settle()

    def _create(self) -> None:
        told = self.capture.document["payment"]
        currency, operation = told["currency"], Operation(self.capture.document["operation"])
        limits = Limits(to_money(Decimal(1), currency), to_money(Decimal(10_000_000), currency))
        method = a_method(
            key="m",
            provider="p",
            provider_title="Operator",
            country=told["country"],
            limits={currency: limits},
        )
        self.world.create(
            brand=a_brand(methods=(method,)),
            operation=operation,
            method="m",
            amount=Decimal(told["amount"]),
            currency=currency,
            country=told["country"],
            party=a_party(msisdn=told["msisdn"]),
        )
        if operation is Operation.WEB_PAYIN:
            self.world.receive(a_confirmation())


def assert_documented(kind: str, told: Mapping[str, Any]) -> None:
    """Fail where a simulator's answer lacks a member of the documented body of this name."""
    for name, answer in told.items():
        wanted = set(member_paths(documented(kind, name)))
        assert sorted(wanted - set(member_paths(answer))) == [], name


def member_paths(value: Any, before: str = "") -> Iterator[str]:
    """Yield the path of each member of a JSON value, without the numbers of lists."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{before}.{name}"
            yield from member_paths(member, f"{before}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from member_paths(item, f"{before}[]")
