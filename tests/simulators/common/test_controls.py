"""Controls are taken from this machine's programs and pages, and from no page of another site."""

from __future__ import annotations

import pytest

from mmo_sansio.http.messages import HttpRequest
from mmo_simulators.common.controls import handle_control_request
from mmo_simulators.operators.mtn.api import MtnSimulator


def status(path: str, *, host: bytes | None = b"127.0.0.1:8090", **headers: bytes) -> int | None:
    """The status of the response to a request; None when it is none that controls the
    simulation."""
    named = () if host is None else ((b"host", host),)
    fields = (
        *named,
        *((name.replace("_", "-").encode(), value) for name, value in headers.items()),
    )
    response = handle_control_request(MtnSimulator(), HttpRequest("GET", path.encode(), fields))
    return None if response is None else response.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"127.0.0.1:8090", 200),
        (b"localhost", 200),
        (b"[::1]:8090", 200),
        (b"192.0.2.7", 200),
        (b"evil.example:8090", 421),
        (b"localhost.evil.example", 421),
        (b"127.0.0.1.evil.example", 421),
        (b"a b", 400),
        (b"\xff", 400),
        (None, 400),
    ],
)
def test_a_name_of_another_site_controls_nothing(host: bytes | None, expected: int) -> None:
    assert status("/_simulator/book", host=host) == expected


@pytest.mark.parametrize(
    ("site", "expected"), [(b"same-origin", 200), (b"none", 200), (b"cross-site", 403)]
)
def test_a_page_of_another_site_controls_nothing(site: bytes, expected: int) -> None:
    assert status("/_simulator/book", sec_fetch_site=site) == expected


def test_an_operators_own_paths_are_served_under_any_host() -> None:
    assert status("/collection/v1_0/account/balance", host=b"mtn.example") is None


def test_the_paths_of_one_operator_are_controls_too() -> None:
    assert status("/_simulator/certificate") is None
    assert status("/_simulator/certificate", host=b"evil.example") == 421
