"""For every test: no example of Hypothesis fails because the machine stalls, quick effort has fewer
of them, and nothing finds a default port free."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.support.effort import EFFORT, by_effort

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("patient"), max_examples=30)
settings.load_profile(by_effort("quick", "patient"))

DEFAULT_PORTS = (8080, 8081, 8082)
"""The ports that a gateway serves on unless it is told others."""


@pytest.fixture(scope="session", autouse=True)
def _no_setting() -> None:
    """Hide the variable that chose the effort from the gateways that tests start: these refuse what
    isn't a setting of theirs."""
    os.environ.pop(EFFORT, None)


@pytest.fixture(scope="session", autouse=True)
def _default_ports_in_use() -> Iterator[None]:
    """Hold the default ports without listening: a test that needs one fails everywhere, not only
    beside a sandbox."""
    with ExitStack() as held:
        for port in DEFAULT_PORTS:
            with suppress(OSError):  # Others have it.
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
        yield
