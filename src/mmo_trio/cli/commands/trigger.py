"""`mmo trigger` plays a whole scenario against a running sandbox, and shows what a merchant would
see."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never
from urllib.parse import urlsplit

import click
import trio
from attrs import Factory, define, field, frozen
from rich.text import Text

from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS, SCENARIOS_BY_NAME
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Brand, Method, Operation
from mmo_trio.admin.explanation import DELIVERY_TEXTS
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.http_client import API_PATH, CliResponse, least_amount, send_request
from mmo_trio.cli.support.local_server import HOST
from mmo_trio.cli.support.options import data_option, json_option
from mmo_trio.cli.support.output import print_json, print_line, terminal
from mmo_trio.cli.support.tables import print_rows
from mmo_trio.cli.support.target import default_data_directory, load_sandbox_keys, running_address
from mmo_trio.sandbox.callback_receiver import (
    ReceivedKind,
    ReceivedRequest,
    ReceiverAnswer,
    receive_callbacks,
)
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.system.display_text import visible_text

# Limit on each step, which usually takes well below a second.
STEP_TIMEOUT_S = 60.0

# Limit on a move of the clock, after which everything on the way is decided.
CLOCK_TIMEOUT_S = 300.0

# Seconds between two questions about one callback.
POLL_INTERVAL_S = 0.1

# Requests to the receiver that wait to be shown.
RECEIVED_MAX = 100


@frozen
class RequestPayment:
    """The merchant requests a payment, and the gateway answers."""

    operation: Operation = Operation.DIRECT_PAYIN
    sandbox_scenario: str = "success"
    """What the sandbox's operator does, as in the header `X-Sandbox-Scenario`."""


@frozen
class AdvanceClock:
    """The clock of the sandbox moves forward."""

    by: str
    """A span such as `3d`."""


class PlayedStep(Enum):
    """Is a step without details of its own."""

    REQUEST_AGAIN = "request_again"
    """The merchant sends the same request again (C12)."""
    CONFIRM_PAGE = "confirm_page"
    """The payer presses the button of the payment page (W1)."""
    MAKE_DEPOSIT = "make_deposit"
    """A payer sends money by the menu of their phone (S4)."""
    AWAIT_QR_CODE = "await_qr_code"
    """The gateway sends the QR code (Q1)."""
    AWAIT_CALLBACK = "await_callback"
    """The gateway sends the result (K1)."""
    SHOW_DELIVERY = "show_delivery"
    """The gateway records the outcome of the callback (K2)."""
    LOOK_UP = "look_up"
    """The merchant looks the payment up (L1)."""


ScenarioPart: TypeAlias = RequestPayment | AdvanceClock | PlayedStep


@frozen
class PlayedScenario:
    """Is a whole scenario."""

    name: str
    title: str
    """What happens, for people."""
    parts: tuple[ScenarioPart, ...]
    status: str = "success"
    """How the payment ends."""
    error_code: str | None = None
    is_receiver_down: bool = False
    """Whether the merchant's receiver answers 503."""


# How most scenarios end: the merchant learns the result by both ways.
_END = (PlayedStep.AWAIT_CALLBACK, PlayedStep.LOOK_UP)


def _failure(name: str, code: ErrorCode) -> PlayedScenario:
    title = f"A pay-in fails with {code.value}."
    return PlayedScenario(
        name, title, (RequestPayment(sandbox_scenario=name), *_END), "failed", code.value
    )


# By name.
PLAYED_SCENARIOS: Mapping[str, PlayedScenario] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            PlayedScenario("success", "A pay-in succeeds.", (RequestPayment(), *_END)),
            # Every failure that the sandbox's operator plays in one step.
            *(
                _failure(scenario.name, scenario.steps[0].failure)
                for scenario in SCENARIOS
                if len(scenario.steps) == 1 and scenario.steps[0].failure is not None
            ),
            PlayedScenario(
                "late_success",
                "A pay-in is pending at first, and succeeds ten seconds later.",
                (
                    RequestPayment(sandbox_scenario="slow"),
                    PlayedStep.LOOK_UP,
                    AdvanceClock("15s"),
                    *_END,
                ),
            ),
            PlayedScenario(
                "other_amount",
                "A pay-in succeeds with another amount than requested.",
                (RequestPayment(sandbox_scenario="other_amount"), *_END),
            ),
            PlayedScenario(
                "expiry",
                "A pay-in has no result, and expires after three days.",
                (
                    RequestPayment(sandbox_scenario="never"),
                    PlayedStep.LOOK_UP,
                    AdvanceClock("3d"),
                    *_END,
                ),
                "failed",
                ErrorCode.TRANSACTION_EXPIRED.value,
            ),
            PlayedScenario(
                "qr",
                "A pay-in by QR code: the code comes first, then the result.",
                (RequestPayment(Operation.QR_PAYIN), PlayedStep.AWAIT_QR_CODE, *_END),
            ),
            PlayedScenario(
                "web",
                "A pay-in on the payment page: the payer confirms it there.",
                (
                    RequestPayment(Operation.WEB_PAYIN),
                    PlayedStep.LOOK_UP,
                    PlayedStep.CONFIRM_PAGE,
                    *_END,
                ),
            ),
            PlayedScenario(
                "payout", "A pay-out succeeds.", (RequestPayment(Operation.DIRECT_PAYOUT), *_END)
            ),
            PlayedScenario(
                "tax", "A tax payout succeeds.", (RequestPayment(Operation.DIRECT_TAXPAYOUT), *_END)
            ),
            PlayedScenario(
                "offline_deposit",
                "A payer sends money without a request of the merchant.",
                (PlayedStep.MAKE_DEPOSIT, PlayedStep.LOOK_UP),
            ),
            PlayedScenario(
                "repeated_request",
                "The merchant sends the same request twice: the second one is refused, and one "
                "payment is made.",
                (RequestPayment(), PlayedStep.REQUEST_AGAIN, *_END),
            ),
            PlayedScenario(
                "receiver_down",
                "The merchant's receiver answers 503: the only callback is lost, and a look-up "
                "finds the result.",
                (
                    RequestPayment(),
                    PlayedStep.AWAIT_CALLBACK,
                    PlayedStep.SHOW_DELIVERY,
                    PlayedStep.LOOK_UP,
                ),
                is_receiver_down=True,
            ),
        )
    }
)


@click.command(short_help="Play a whole scenario against a running sandbox.")
@click.argument("name", required=False)
@click.option("--list", "list_only", is_flag=True, help="List the scenarios.")
@data_option
@json_option
def trigger(name: str | None, list_only: bool, data: Path | None, as_json: bool) -> None:
    """Play the scenario NAME against a running sandbox, and show what a merchant would see.

    It requests the payment with the sandbox's own key, receives the callback, moves the sandbox's
    clock where time has to pass, and looks the payment up."""
    if list_only or name is None:
        rows = [
            {"name": played_scenario.name, "what happens": played_scenario.title}
            for played_scenario in PLAYED_SCENARIOS.values()
        ]
        return print_rows({"name": "name", "what happens": "what happens"}, rows, as_json=as_json)

    scenario = PLAYED_SCENARIOS.get(name)
    if scenario is None:
        raise UsageProblem(f"There is no scenario {name}. `mmo trigger --list` lists them.")

    directory = (data or default_data_directory()).absolute()
    api = running_address(directory, "api")
    pages = running_address(directory, "pages")
    if api is None or pages is None:
        raise NegativeAnswer(f"No sandbox is running in {directory}. Start one with `mmo sandbox`.")

    # The demo brand's key, or the oldest one of another brand.
    brand, key = load_sandbox_keys(directory)[0]
    shown = _Report(as_json=as_json)
    shown.title(scenario)
    trio.run(_play, scenario, _Play(api, pages, key, brand, shown, scenario), directory)
    shown.end()
    return None


class _Report:
    """Shows each step as it happens, or all of them at the end as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._steps: list[dict[str, Any]] = []

    def title(self, scenario: PlayedScenario) -> None:
        """Show what will happen."""
        if not self._as_json:
            print_line(f"{scenario.name}: {scenario.title}", "bold")

    def step(self, what: str, *bodies: str, **members: Any) -> None:
        """Show a step with the bodies that belong to it; `members` are further ones in JSON."""
        self._steps.append({"step": what, "bodies": bodies, **members})
        if self._as_json:
            return
        terminal().print(Text(f"\n{len(self._steps)}. {visible_text(what)}"), soft_wrap=True)
        for body in bodies:
            terminal().print(Text(f"   {visible_text(body)}", style="dim"), soft_wrap=True)

    def end(self) -> None:
        """Print everything as JSON."""
        if self._as_json:
            print_json(self._steps)


async def _play(scenario: PlayedScenario, play: _Play, directory: Path) -> None:
    # 1. The merchant's receiver: where the brand wants pushes, or anywhere.
    tls = ensure_authority(directory).issue("localhost", HOST)
    listeners = await _open_push_listeners(scenario, play.brand)
    play.receives_pushes = bool(listeners)
    listeners = listeners or await trio.open_tcp_listeners(0, host=HOST)
    play.receiver = f"https://{HOST}:{listeners[0].socket.getsockname()[1]}"

    forward = None
    if scenario.is_receiver_down:
        forward = _refuse

    # 2. Step by step, while the receiver takes what comes.
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: tls,
                expected_keys=[play.key],
                on_request=play.take,
                forward=forward,
            )
        )
        for part in scenario.parts:
            timeout_s = STEP_TIMEOUT_S
            if isinstance(part, AdvanceClock):
                timeout_s = CLOCK_TIMEOUT_S

            with trio.move_on_after(timeout_s) as limit:
                await play.run(part)
            if limit.cancelled_caught:
                raise NegativeAnswer(f"The step did not end within {timeout_s:g} s: {part}.")

        nursery.cancel_scope.cancel()

    # 3. It must have ended as the scenario says.
    ended_as = (play.found.get("status"), play.found.get("errorCode"))
    if ended_as != (scenario.status, scenario.error_code):
        raise NegativeAnswer(
            f"The payment ended as {ended_as}, not as {scenario.status} ({scenario.error_code})."
        )


async def _open_push_listeners(scenario: PlayedScenario, brand: Brand) -> list[trio.SocketListener]:
    """Listen where the brand wants the results of offline deposits, if this scenario makes one;
    return nothing where that is on another machine, or where another program listens, such as `mmo
    listen`."""
    url = urlsplit(brand.push_result_url or "")
    if (
        PlayedStep.MAKE_DEPOSIT not in scenario.parts
        or url.hostname not in (HOST, "localhost")
        or url.port is None
    ):
        return []

    try:
        return await trio.open_tcp_listeners(url.port, host=HOST)
    except OSError:
        return []


async def _refuse(_: HttpRequest) -> ReceiverAnswer:
    return ReceiverAnswer(503)


@frozen
class _MerchantRequest:
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """Besides the key."""


@define(eq=False)
class _Play:
    """Plays one scenario."""

    api: str
    pages: str
    key: bytes = field(repr=False)
    brand: Brand
    shown: _Report
    scenario: PlayedScenario
    receiver: str = ""
    receives_pushes: bool = False
    """Whether the receiver is where the brand wants the results of offline deposits."""
    found: Mapping[str, Any] = field(factory=dict)
    """The transaction as it was last looked up."""
    _reference: str = ""
    """The gatewayReference of the payment, once there is one."""
    _request: _MerchantRequest | None = None
    """What asked for the payment, which may be sent again."""
    # The two ends of what has come to the receiver: it sends, and a step receives.
    _arrivals: tuple[
        trio.MemorySendChannel[ReceivedRequest], trio.MemoryReceiveChannel[ReceivedRequest]
    ] = Factory(lambda: trio.open_memory_channel[ReceivedRequest](RECEIVED_MAX))

    def take(self, received: ReceivedRequest) -> None:
        """Keep a request to the receiver for the step that awaits it."""
        self._arrivals[0].send_nowait(received)

    async def run(self, part: ScenarioPart) -> None:
        """Play a step and show it. Raises NegativeAnswer when it goes otherwise than it should."""
        match part:
            case RequestPayment():
                await self._request_payment(part)
            case AdvanceClock(by=by):
                await self._control("clock", {"advance": by})
                self.shown.step(f"The sandbox's clock moves forward by {by}.")
            case PlayedStep.REQUEST_AGAIN:
                # The answer is shown; the payment itself is still the first one.
                answer = await self._send_request()
                if answer.status != 422:
                    raise NegativeAnswer(f"The gateway answered {answer.status}, not 422.")
            case PlayedStep.CONFIRM_PAGE:
                await self._control("pay", {"gatewayReference": self._reference})
                self.shown.step("The payer presses the button of the payment page.")
            case PlayedStep.MAKE_DEPOSIT:
                await self._make_deposit()
            case PlayedStep.AWAIT_QR_CODE:
                await self._await(ReceivedKind.QR_CODE)
            case PlayedStep.AWAIT_CALLBACK:
                await self._await(ReceivedKind.CALLBACK)
            case PlayedStep.SHOW_DELIVERY:
                await self._show_delivery()
            case PlayedStep.LOOK_UP:
                await self._look_up()
            case _:
                assert_never(part)

    async def _request_payment(self, part: RequestPayment) -> None:
        method = self._method(part.operation)
        digits = SCENARIOS_BY_NAME[part.sandbox_scenario].digits or "001"
        body: dict[str, Any] = {
            "amount": least_amount(method),
            "country": method.country,
            "resultUrl": f"{self.receiver}/results",
            "merchantReference": f"trigger-{self.scenario.name}-{secrets.token_hex(4)}",
        }

        # A tax payout has no party (C5).
        if part.operation is Operation.DIRECT_TAXPAYOUT:
            body["reconciliationReference"] = "assessment-7"
        else:
            party = "payer"
            if part.operation is Operation.DIRECT_PAYOUT:
                party = "payee"
            body[party] = {"id": "customer-7", "msisdn": f"254700000{digits}"}

        if part.operation is Operation.QR_PAYIN:
            body["displayQrUrl"] = f"{self.receiver}/qr"

        # A payer's number says what the sandbox does; without a payer the header says it.
        headers = {}
        if "payer" not in body:
            headers["X-Sandbox-Scenario"] = part.sandbox_scenario

        path = f"{API_PATH}/{part.operation.value}/{method.key}"
        self._request = _MerchantRequest(path, body, headers)
        answer = await self._send_request()
        if answer.status != 200:
            raise NegativeAnswer(f"The gateway answered {answer.status}, not 200.")

        self._reference = answer.json_object()["gatewayReference"]

    async def _send_request(self) -> CliResponse:
        request = self._request
        assert request is not None, "a scenario requests first"
        answer = await self._call(
            f"{self.api}{request.path}",
            body=request.body,
            headers={**request.headers, **self._key_header()},
        )
        self._show_exchange("POST", request.path, answer, json.dumps(request.body))
        return answer

    async def _make_deposit(self) -> None:
        method = self._method(Operation.DIRECT_PAYIN)
        deposit = {
            "brand": self.brand.id,
            "method": method.key,
            "amount": least_amount(method),
            "party": {"id": "INVOICE-7", "msisdn": "254700000001"},
            "providerReference": f"TRIGGER{secrets.token_hex(4).upper()}",
        }
        # No request of the merchant: the sandbox's operator is told to notify the gateway (S4).
        answer = await self._control("push", deposit)
        self._reference = str(answer.json_object()["gatewayReference"])
        self.shown.step(
            "A payer sends money by the menu of their phone; the operator notifies.",
            json.dumps(deposit),
        )

        # What the merchant gets depends on where the brand wants its results.
        if self.brand.push_result_url is None:
            self.shown.step("There is no callback, as the brand has no push_result_url.")
        elif self.receives_pushes:
            await self._await(ReceivedKind.CALLBACK)
        else:
            self.shown.step(
                f"The gateway sends the result to {self.brand.push_result_url}, where "
                f"others listen."
            )
            await self._show_delivery()

    async def _await(self, kind: ReceivedKind) -> None:
        early = list[ReceivedRequest]()
        while True:
            received = await self._arrivals[1].receive()
            if received.kind is kind and received.gateway_reference == self._reference:
                break

            early.append(received)

        # A result may come before the QR code: the step that awaits it finds it again.
        for result in early:
            self.take(result)

        what = "result"
        if kind is ReceivedKind.QR_CODE:
            what = "QR code"

        status = received.answer.status
        text = (
            f"The gateway sends the {what}: POST {received.path}, its X-API-KEY is right "
            f"-> {status}"
        )
        self.shown.step(text, received.body.decode(), path=received.path, status=status)

    async def _show_delivery(self) -> None:
        # It is recorded a moment after the receiver has answered.
        while True:
            answer = await self._call(f"{self.pages}/sandbox/callbacks")
            for load in json.loads(answer.body):
                if load["gatewayReference"] == self._reference:
                    self.shown.step(
                        f"The gateway records the delivery: {DELIVERY_TEXTS[load['outcome']]}.",
                        json.dumps(load),
                    )
                    return
            await trio.sleep(POLL_INTERVAL_S)

    async def _look_up(self) -> None:
        path = f"{API_PATH}/status/{self._reference}"
        answer = await self._call(f"{self.api}{path}", headers=self._key_header())
        self._show_exchange("GET", path, answer)
        self.found = answer.json_object()

    def _show_exchange(self, method: str, path: str, answer: CliResponse, *bodies: str) -> None:
        text = f"The merchant sends {method} {path} -> {answer.status}"
        self.shown.step(text, *bodies, answer.body.decode(), path=path, status=answer.status)

    async def _control(self, name: str, body: dict[str, Any]) -> CliResponse:
        answer = await self._call(f"{self.pages}/sandbox/{name}", body=body)
        if answer.status != 200:
            raise NegativeAnswer(
                f"The sandbox answered {answer.status} to {name}: {answer.body.decode()}"
            )
        return answer

    async def _call(self, url: str, **options: Any) -> CliResponse:
        try:
            return await trio.to_thread.run_sync(
                partial(send_request, url, timeout_s=CLOCK_TIMEOUT_S, **options)
            )
        except ConnectionRefusedError:
            raise NegativeAnswer(
                f"Nothing answers at {url}. Start the sandbox with `mmo sandbox`."
            ) from None

    def _key_header(self) -> dict[str, str]:
        return {"X-Api-Key": self.key.decode()}

    def _method(self, operation: Operation) -> Method:
        for method in self.brand.methods:
            if operation in method.operations:
                return method
        raise NegativeAnswer(f"The brand {self.brand.id} has no method for {operation.value}.")
