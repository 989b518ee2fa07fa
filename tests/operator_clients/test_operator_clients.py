"""Clients of the operators that other people wrote do with the simulators all that these offer, in their own defaults,
and read every callback with their own models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.operator_clients.clients import CLIENTS, PROGRAMS, OperatorClient

TIMEOUT_S = 300
ENVIRONMENTS = Path(os.environ.get("MMO_TEST_CLIENTS", ".nox/operator_clients_environments"))


@contextmanager
def simulated(operator: str) -> Iterator[str]:
    """A fresh operator's address."""
    command = [sys.executable, "-m", "mmo_trio.cli", "simulate", operator, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@pytest.mark.finding("operators-clients")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.name)
def test_a_client_does_all_that_the_simulator_offers(client: OperatorClient) -> None:
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    command = client.install(ENVIRONMENTS.absolute())
    with simulated(client.operator) as origin:
        environment = {**os.environ, "OPERATOR_URL": origin}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            command, cwd=PROGRAMS, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    assert done.returncode == 0, done.stderr


def test_each_operator_has_three_clients() -> None:
    counts = {each: sum(client.operator == each for client in CLIENTS) for each in ("airtel", "mpesa", "mtn")}
    assert min(counts.values()) >= 3
