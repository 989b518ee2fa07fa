"""The simulators do what captures of real operators show: with the switches that a capture names,
a payment ends as there, and no answer has a member that the real one lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import Factory, define, evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import parse_planned_fault
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.operators.registry import ACCOUNT_OPTIONS
from mmo_simulators.operators.wave.api import WaveSimulator
from tests.runtime.workers.providers.test_captures import assert_leads_to
from tests.support.airtel_account import a_simulator
from tests.support.captures import Capture, PlayedPayment, member_paths, read_captures
from tests.support.simulator_exchange import SimulatorAccount

CASES = [capture for capture in read_captures() if "simulated" in capture.document]


def open_mpesa() -> MpesaSimulator:
    """Return an M-Pesa that reads the passwords of transparent ciphers."""
    return MpesaSimulator("PEM", lambda sealed: sealed[::-1])


OPEN: Mapping[str, tuple[str, Callable[[], Simulator]]] = {
    "airtel_money": ("airtel", a_simulator),
    "mpesa_daraja": ("mpesa", open_mpesa),
    "mtn_momo": ("mtn", MtnSimulator),
    "wave": ("wave", WaveSimulator),
}
"""The simulator of each kind of adapter, by the name of its published options."""


@define
class SimulatedOperator:
    """Puts a simulator on the other side of a played payment."""

    simulator: Simulator
    adapter: Provider
    answers: list[tuple[HttpRequest, HttpResponse]] = Factory(list)
    _account: SimulatorAccount | None = None

    def exchange(self, request: HttpRequest, *, now: Instant) -> HttpResponse:
        if self._account is None:
            self._account = SimulatorAccount(self.adapter, self.simulator, now)
        self._account.now = now
        answer = self._account.exchange(request)
        self.answers.append((request, answer))
        return answer

    def next_callback_at(self) -> Instant | None:
        return self.simulator.next_due_at()

    def take_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        requests = self.simulator.take_due_callbacks(now=now)
        told = [evolve(each, target=_path(each.target)) for each in requests]
        return [each for each in told if each.target]


def _path(target: bytes) -> bytes:
    return target.removeprefix(b"https://gw.example")


def as_simulated(capture: Capture) -> tuple[Capture, Simulator]:
    """Return the capture with the options of the simulator's account, and the simulator with the
    switches that it names."""
    name, open_simulator = OPEN[capture.kind]
    simulator, simulated = open_simulator(), capture.document["simulated"]
    simulator.open_accounts(simulated.get("accounts", ()))
    simulator.faults.plan([parse_planned_fault(fault) for fault in simulated.get("faults", ())])
    hidden = {"kind", "certificate_file"}
    published = {key: value for key, value in ACCOUNT_OPTIONS[name].items() if key not in hidden}
    account = {**capture.document.get("account", {}), **published, "public_key": None}
    if capture.kind == "mpesa_daraja":
        account.pop("public_key")
    return evolve(capture, document={**capture.document, "account": account}), simulator


@pytest.mark.parametrize("capture", CASES, ids=[each.id for each in CASES])
def test_a_simulator_does_what_an_operator_was_seen_to_do(capture: Capture) -> None:
    played_capture, simulator = as_simulated(capture)
    operator = SimulatedOperator(simulator, played_capture.open_adapter())
    played = PlayedPayment(played_capture, operator)
    played.play()
    wanted = dict(capture.document["leads_to"])
    for own in ("providerReference", "providerErrorCode"):
        wanted.pop(own, None)  # The simulator's own receipts; its codes are compared below.
    assert_leads_to(played, {**wanted, "within_s": max(wanted["within_s"], 300)})
    native = capture.document["leads_to"].get("providerErrorCode")
    data = played.payment.progress.provider_data
    assert data is not None
    assert data.error_code == native
    if "answer" in capture.document["simulated"]:
        assert_has_no_other_members(capture, operator)


def assert_has_no_other_members(capture: Capture, operator: SimulatedOperator) -> None:
    """Fail where the simulator's last answer to the named request has a member that no captured
    answer has."""
    called = capture.document["simulated"]["answer"]
    method, path = called.split(" ")
    seen: set[str] = set()
    for answer in capture.document["answers"][called]:
        seen |= set(member_paths(answer["body"]))
    told: list[Any] = [
        json.loads(response.body)
        for request, response in operator.answers
        if request.method == method and path in request.target.decode() and response.status == 200
    ]
    assert set(member_paths(told[-1])) <= seen


@pytest.mark.parametrize(
    ("kind", "account", "fault"),
    [
        ("mpesa_daraja", {"account": "174379", "c2b_version": 3}, "c2b_version"),
        ("mpesa_daraja", {"account": "600997", "excise": "-1"}, "balance"),
        ("airtel_money", {"account": "collection", "ambiguous_status": "TS"}, "ambiguous_status"),
        ("airtel_money", {"account": "collection", "names_codes": "yes"}, "names_codes"),
        ("mtn_momo", {"account": "numbers", "as_seen": "yes"}, "as_seen"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused(
    kind: str, account: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        OPEN[kind][1]().open_accounts([account])


@pytest.mark.parametrize("differ", [False, True])
def test_a_query_may_word_a_result_otherwise_than_its_callback(differ: bool) -> None:
    (capture,) = (each for each in CASES if each.name == "prompt_cancelled_1031")
    switches = [
        {"account": "254708374149", "enters": "cancel"},
        {"account": "174379", "words_differ": differ},
    ]
    simulated = {**capture.document, "simulated": {"accounts": switches}}
    played_capture, simulator = as_simulated(evolve(capture, document=simulated))
    played = PlayedPayment(
        played_capture, SimulatedOperator(simulator, played_capture.open_adapter())
    )
    played.play()
    data = played.payment.progress.provider_data
    assert data is not None
    assert (data.error_code, data.error_message) == (
        "1032",
        "Request canceled by user." if differ else "Request cancelled by user.",
    )
