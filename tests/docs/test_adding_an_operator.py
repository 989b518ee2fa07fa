"""The page about adding an operator: its adapter works, from the options to the result."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mmo_sansio.catalogue import ErrorCode
from mmo_sansio.clock import MINUTE
from mmo_sansio.http import HttpRequest, HttpResponse
from mmo_sansio.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.model import Stage
from mmo_sansio.providers.conversation import ExchangeFailed, drive
from mmo_sansio.providers.options import OptionError
from mmo_sansio.providers.registry import Surroundings
from mmo_sansio.testing import REFERENCE, START, a_transaction

HOOKS = "https://pay.example/hooks/tiny/token"
OPTIONS = {"base_url": "https://tiny.example", "api_key": "canary"}
PAYMENT = a_transaction(Stage.SUBMITTING)


@pytest.fixture(scope="module")
def example(root: Path) -> dict[str, Any]:
    """What the page's code defines."""
    page = (root / "docs/providers/adding.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "tiny_money"}
    exec(compile(code, "docs/providers/adding.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def tiny(example: dict[str, Any]) -> Any:
    surroundings = Surroundings(HOOKS, None)  # type: ignore[arg-type]
    return example["open_tiny_money"]("tiny", "Tiny Money", OPTIONS, surroundings)


def answers(status: int, **members: Any) -> Any:
    return lambda request: HttpResponse(status, (), json.dumps(members).encode())


def breaks(may_have_arrived: bool) -> Any:
    def exchange(request: HttpRequest) -> HttpResponse:
        raise ExchangeFailed("broken", may_have_arrived=may_have_arrived)

    return exchange


@pytest.mark.spec("S6", "E1")
@pytest.mark.parametrize(
    ("exchange", "kind", "code"),
    [
        (answers(202, state="waiting"), ProviderAccepted, None),
        (answers(200, state="paid", receipt="R1"), ProviderSucceeded, None),
        (
            answers(200, state="refused", why="NO_MONEY"),
            ProviderFailed,
            ErrorCode.USER_INSUFFICIENT_FUNDS,
        ),
        (answers(200, state="refused", why="X"), ProviderFailed, ErrorCode.TRANSACTION_DECLINED),
        (answers(500), ProviderUnreachable, None),
        (breaks(True), ProviderUnreachable, None),
        (breaks(False), ProviderFailed, ErrorCode.PROVIDER_UNAVAILABLE),
    ],
)
def test_a_submission(
    tiny: Any, exchange: Any, kind: type[ProviderReport], code: ErrorCode | None
) -> None:
    report = drive(tiny.submit(PAYMENT, now=START), exchange)
    assert type(report) is kind
    assert getattr(report, "error_code", None) is code


@pytest.mark.spec("S6")
def test_not_found_is_believed_only_once_it_is_final(tiny: Any) -> None:
    early = drive(tiny.ask(PAYMENT, now=START + MINUTE - 1), answers(404))
    final = drive(tiny.ask(PAYMENT, now=START + MINUTE), answers(404))
    assert isinstance(early, ProviderUnreachable)
    assert isinstance(final, ProviderNeverReceived)


@pytest.mark.spec("S5")
def test_a_notification_is_a_hint(tiny: Any) -> None:
    hint = tiny.read_notification(HttpRequest("POST", f"/hooks/tiny/token/{REFERENCE}".encode()))
    assert hint == ProviderHinted(REFERENCE, "tiny")
    odd = tiny.read_notification(HttpRequest("POST", b"/hooks/tiny/token", (), b"?"))
    assert isinstance(odd, UnmatchedNotified)


def test_it_signs_in_and_shows_no_secret(tiny: Any) -> None:
    conversation = tiny.sign_in("all", now=START)
    assert json.loads(next(conversation).body) == {"key": "canary"}
    with pytest.raises(StopIteration) as end:
        conversation.send(HttpResponse(200, (), b'{"token": "t"}'))
    assert end.value.value.is_fresh(START)
    assert "canary" not in repr(tiny)
    assert HOOKS not in repr(tiny)


def test_its_options_are_checked(example: dict[str, Any]) -> None:
    surroundings = Surroundings(HOOKS, None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="apikey is no option"):
        example["open_tiny_money"]("tiny", "T", {**OPTIONS, "apikey": "x"}, surroundings)
