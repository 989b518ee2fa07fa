"""Clients of the operators that other people wrote do with the simulators all that these offer, in
their own defaults, and read every callback with their own models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import pytest
from attrs import frozen

from mmo_simulators.common.operator_routes import SimulatedRoute, match_route
from mmo_simulators.operators.airtel import api as airtel
from mmo_simulators.operators.mpesa.forms import ENDPOINTS
from mmo_simulators.operators.mtn import api as mtn
from mmo_simulators.operators.pawapay import api as pawapay
from mmo_simulators.operators.wave import api as wave
from tests.outside.operator_clients.clients import CLIENTS, PROGRAMS, OperatorClient
from tests.outside.operator_clients.table import CALLBACKS, callback_table

TIMEOUT_S = 300
AT_ONCE = 4
"""How many clients run at once."""
INSTALLING = Lock()
ENVIRONMENTS = Path(os.environ.get("MMO_TEST_CLIENTS", ".nox/operator_clients_environments"))
PAGE = Path(__file__).parents[3] / "docs/internals/operators.md"

ROUTES: Mapping[str, Sequence[SimulatedRoute[Any]]] = {
    "airtel": airtel.ROUTES,
    "mpesa": tuple(
        SimulatedRoute(each.operation, each.method, path, None) for path, each in ENDPOINTS.items()
    ),
    "mtn": mtn.ROUTES,
    # No published client of pawaPay's version 2 asks for a prediction.
    "pawapay": [route for route in pawapay.ROUTES if route.operation != "predict"],
    "wave": [route for route in wave.ROUTES if route.operation != "page"],
}
CLIENTS_MIN = {"airtel": 3, "mpesa": 3, "mtn": 3, "pawapay": 1, "wave": 1}
"""Of pawaPay's version 2 there is one that is published and needs no licence; of Wave's one with
webhooks."""


@frozen
class ClientRun:
    """What a client's program did."""

    error: str
    """Empty for a program that succeeded."""
    requests: tuple[tuple[str, str], ...]
    """Method and path of each request that the operator fulfilled."""
    refusals: Mapping[str, str]
    """By kind of callback: why the client's own model does not read it; empty where it does."""


@contextmanager
def simulated(client: OperatorClient, file: Path) -> Iterator[str]:
    """A fresh operator's address; the file takes what it fulfils."""
    command = [
        sys.executable,
        "-m",
        "tests.outside.operator_clients.recorded_simulator",
        "simulate",
        client.operator,
    ]
    padding = () if client.pin_padding is None else ("--pin-padding", client.pin_padding)
    environment = {**os.environ, "RECORDED_REQUESTS": str(file)}
    with subprocess.Popen(
        [*command, "--port", "0", *padding], env=environment, stdout=subprocess.PIPE, text=True
    ) as it:
        try:
            assert it.stdout is not None
            yield it.stdout.readline().split()[-1]
        finally:
            it.terminate()


@cache
def runs() -> Mapping[OperatorClient, Future[ClientRun]]:
    """The run of each client. Several run at once, as they mostly wait: for what the operator
    decides."""
    pool = ThreadPoolExecutor(AT_ONCE)
    return {client: pool.submit(run, client) for client in CLIENTS}


def run_of(client: OperatorClient) -> ClientRun:
    """What the program of this client did."""
    return runs()[client].result()


def run(client: OperatorClient) -> ClientRun:
    """Install the client, and run its program."""
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    with INSTALLING:  # Some share an environment.
        command = client.install(ENVIRONMENTS.absolute())
    with TemporaryDirectory() as folder:
        requests, report = Path(folder, "requests"), Path(folder, "report")
        requests.touch()
        report.touch()
        with simulated(client, requests) as origin:
            environment = {**os.environ, "OPERATOR_URL": origin, "CLIENT_REPORT": str(report)}
            environment.pop("PYTHONPATH", None)
            if client.pin_padding is not None:
                environment["PIN_PADDING"] = client.pin_padding
            done = subprocess.run(
                command,
                cwd=PROGRAMS,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        lines = [line.partition(" ") for line in requests.read_text().splitlines()]
        refusals: dict[str, str] = {}
        for each in map(json.loads, report.read_text().splitlines()):
            refusals[each["callback"]] = refusals.get(each["callback"]) or each["refusal"]
    return ClientRun(
        done.stderr or "it failed" if done.returncode else "",
        tuple((method, path) for method, _, path in lines),
        refusals,
    )


def used_routes(operator: str, requests: Iterable[tuple[str, str]]) -> set[str]:
    """The operator's routes that these requests are to."""
    found = (
        match_route(ROUTES[operator], method, path.rstrip(end))
        for method, path in requests
        for end in ("", "/")
    )
    return {f"{each[0].method} {each[0].template}" for each in found if each is not None}


def test_each_operator_has_its_clients() -> None:
    packages = defaultdict(set)
    for client in CLIENTS:
        packages[client.operator].add(client.requirements[0])
    enough = {operator: len(each) >= CLIENTS_MIN[operator] for operator, each in packages.items()}
    assert enough == dict.fromkeys(ROUTES, True)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.name)
def test_a_client_succeeds_with_the_simulator(client: OperatorClient) -> None:
    assert run_of(client).error == ""


@pytest.mark.parametrize("operator", ROUTES)
def test_each_operation_of_a_simulator_is_used_by_a_client(operator: str) -> None:
    requests = [
        each
        for client in CLIENTS
        if client.operator == operator
        for each in run_of(client).requests
    ]
    offered = {f"{each.method} {each.template}" for each in ROUTES[operator]}
    assert offered - used_routes(operator, requests) == set()


@pytest.mark.parametrize("operator", CALLBACKS)
def test_each_kind_of_callback_is_read_by_a_clients_own_model(operator: str) -> None:
    runs = [run_of(client) for client in CLIENTS if client.operator == operator]
    reported = {kind for each in runs for kind in each.refusals}
    assert reported == set(CALLBACKS[operator])
    assert {
        kind for each in runs for kind, refusal in each.refusals.items() if not refusal
    } == reported


@pytest.mark.parametrize("operator", CALLBACKS)
def test_the_page_says_which_callbacks_each_client_reads(operator: str) -> None:
    refusals = {
        client: run_of(client).refusals for client in CLIENTS if client.operator == operator
    }
    assert callback_table(operator, refusals) in PAGE.read_text()
