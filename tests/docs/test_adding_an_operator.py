"""The operator of `docs/internals/adding.md` is an adapter that does what the page's table says one
has to."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import (
    ProviderAccepted,
    ProviderFailed,
    ProviderHinted,
    ProviderNeverReceived,
    ProviderReport,
    ProviderSucceeded,
    ProviderUnreachable,
    UnmatchedNotified,
)
from mmo_sansio.providers.common.interface import (
    AccessToken,
    ExchangeFailed,
    Provider,
    SignInFailed,
    SignsIn,
    drive,
)
from mmo_sansio.providers.registry import ProviderKind
from mmo_sansio.testing import (
    ADAPTER_CHECKS,
    KES,
    REFERENCE,
    START,
    AdapterCase,
    AdapterCheck,
    a_transaction,
)
from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Instant, Moment, Span, earlier, later
from mmo_sansio.values.error_codes import EXPLANATIONS
from mmo_sansio.values.fields import SettingsError, read_table
from mmo_sansio.values.model import Stage, Transaction, Type

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = {"base_url": "https://pesaplus.example", "api_key": "SECRET"}
NOW = later(START, Span(10 * SECOND))
BOTH = pytest.mark.parametrize("type", [Type.PAYIN, Type.PAYOUT], ids=["pay-in", "pay-out"])


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page before the operator whose payers approve at its page."""
    text = (root / "docs/internals/adding.md").read_text(encoding="utf-8")
    return text.partition("\n## 9. ")[0]


@pytest.fixture(scope="module")
def pesaplus(page: str) -> Any:
    """The page's code, as one module."""
    module = ModuleType("pesaplus")
    sys.modules["pesaplus"] = module
    exec(compile("\n".join(BLOCK.findall(page)), "adding.md", "exec"), module.__dict__)
    return module


@pytest.fixture
def provider(pesaplus: Any) -> Provider:
    made: Provider = pesaplus.PesaplusProvider(
        "pesaplus", "Pesaplus", read_table(pesaplus.Account, OPTIONS)
    )
    return made


def a_payment(type: Type = Type.PAYIN) -> Transaction:
    return a_transaction(Stage.SUBMITTING, type=type, provider="pesaplus", submitted_at=START)


def answer(status: int, **members: Any) -> HttpResponse:
    return HttpResponse(status, (), json.dumps({"id": REFERENCE, **members}).encode())


def always(to: HttpResponse | ExchangeFailed) -> Callable[[HttpRequest], HttpResponse]:
    def exchange(request: HttpRequest) -> HttpResponse:
        if isinstance(to, ExchangeFailed):
            raise to
        return to

    return exchange


def submitted(
    provider: Provider, to: HttpResponse | ExchangeFailed, **members: Any
) -> ProviderReport:
    return drive(provider.submit(a_payment(**members), now=Moment.at(NOW)), always(to))


def asked(
    provider: Provider, to: HttpResponse | ExchangeFailed, now: Instant = NOW
) -> ProviderReport:
    return drive(provider.poll(a_payment(), now=Moment.at(now)), always(to))


def test_what_is_sent_names_the_payment_so_that_a_repetition_is_recognised(
    provider: Provider,
) -> None:
    request = next(provider.submit(a_payment(), now=Moment.at(NOW)))
    assert request == next(provider.submit(a_payment(), now=Moment.at(later(NOW, HOUR))))
    assert json.loads(request.body)["id"] == REFERENCE


@pytest.mark.parametrize("status", [202, 409])
def test_accepted_or_had_before(provider: Provider, status: int) -> None:
    assert isinstance(submitted(provider, answer(status)), ProviderAccepted)


def test_no_connection_at_all(provider: Provider) -> None:
    gone = ExchangeFailed("No connection.", may_have_arrived=False)
    assert isinstance(submitted(provider, gone), ProviderNeverReceived)
    assert isinstance(asked(provider, gone), ProviderUnreachable)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "to",
    [
        ExchangeFailed("It broke.", may_have_arrived=True),
        answer(500),
        answer(503, state="refused", code="no-money"),
        HttpResponse(422, (), b"<html>"),
        answer(302),
    ],
)
def test_connection_broken_or_answer_unreadable(
    provider: Provider, to: HttpResponse | ExchangeFailed
) -> None:
    assert isinstance(submitted(provider, to), ProviderUnreachable)
    assert isinstance(asked(provider, to), ProviderUnreachable)


@BOTH
@pytest.mark.parametrize("code", ["no-money", "said-no", "no-such-phone", "something-new"])
def test_refused_with_a_code_of_the_catalogue(provider: Provider, code: str, type: Type) -> None:
    report = submitted(provider, answer(422, state="refused", code=code), type=type)
    assert isinstance(report, ProviderFailed)
    assert report.error_code in EXPLANATIONS
    assert report.native_code == code
    later = asked(provider, answer(200, state="refused", code=code))
    assert isinstance(later, ProviderFailed)


def test_paid_or_waiting(provider: Provider) -> None:
    paid = answer(200, state="paid", amount="150.00", currency="KES", receipt="R1")
    report = asked(provider, paid)
    assert isinstance(report, ProviderSucceeded)
    assert (report.final, report.provider_reference) == (KES("150.00"), "R1")
    assert isinstance(asked(provider, answer(200, state="waiting")), ProviderAccepted)


@pytest.mark.spec("S6")
@pytest.mark.parametrize(
    "to",
    [
        answer(200, id="another", state="paid"),
        answer(200, state="odd"),
        answer(200, state="paid", amount="much", currency="KES", receipt="R1"),
        answer(200, state="paid", amount="1", currency="???", receipt="R1"),
        answer(200, state="paid", amount=1, currency="KES", receipt="R1"),
        answer(200, state="refused", code="\0"),
        HttpResponse(200, (), b"[]"),
        HttpResponse(200, (), b"[" * 100_000),
        HttpResponse(200),
        HttpResponse(404, (), b"<html>"),
    ],
)
def test_another_payment_or_nonsense(provider: Provider, to: HttpResponse) -> None:
    assert isinstance(asked(provider, to), ProviderUnreachable)


@pytest.mark.spec("S6")
def test_not_found_too_early_and_late_enough(provider: Provider) -> None:
    unknown = HttpResponse(404, (), b'{"code":"unknown"}')
    assert isinstance(
        asked(provider, unknown, earlier(later(START, MINUTE), Span(1))), ProviderUnreachable
    )
    assert isinstance(asked(provider, unknown, later(START, MINUTE)), ProviderNeverReceived)


def test_a_notification_is_a_hint_or_matches_nothing(provider: Provider) -> None:
    def told(body: bytes) -> object:
        return provider.read_notification(HttpRequest("POST", b"/hooks/pesaplus/x", (), body))

    assert isinstance(told(json.dumps({"id": REFERENCE}).encode()), ProviderHinted)
    for body in (b"", b"\xff\0", b"[]", b"{}", b'{"id":7}', b'{"id":"short"}', b"[" * 100_000):
        assert isinstance(told(body), UnmatchedNotified)
    request = HttpRequest("POST", b"/hooks/pesaplus/x")
    assert provider.answer_notification(request, True).status == 200


def test_a_token_or_a_refusal_that_quotes_nothing(provider: Provider) -> None:
    assert isinstance(provider, SignsIn)
    signer = provider
    request = next(provider.submit(a_payment(), now=Moment.at(NOW)))
    assert b"SECRET" not in repr(request).encode()
    scope = provider.scope_of(request)
    assert scope is not None

    def sign_in(to: HttpResponse) -> AccessToken:
        conversation = signer.sign_in(scope, now=Moment.at(NOW))
        assert next(conversation).value(b"x-api-key") == b"SECRET"
        with pytest.raises(StopIteration) as end:
            conversation.send(to)
        token: AccessToken = end.value.value
        return token

    good = HttpResponse(200, (), b'{"token":"T","seconds":3600}')
    assert sign_in(good) == AccessToken("T", issued_at=NOW, expires_at=later(NOW, HOUR))
    for status, body in ((403, b"SECRET"), (200, b"SECRET"), (200, b'{"token":"SECRET"}')):
        with pytest.raises(SignInFailed) as refusal:
            sign_in(HttpResponse(status, (), body))
        assert "SECRET" not in refusal.value.reason
    assert provider.rejects_token(HttpResponse(401))


def test_options_are_checked_and_secrets_kept(pesaplus: Any, provider: Provider) -> None:
    for wrong in ({"api_key": "SECRET"}, {**OPTIONS, "apikey": "SECRET"}):
        with pytest.raises(SettingsError) as refusal:
            read_table(pesaplus.Account, wrong)
        assert "SECRET" not in str(refusal.value)
    assert "SECRET" not in repr(provider)


@pytest.mark.spec("S6", "A5")
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_promises_of_every_adapter(pesaplus: Any, check: AdapterCheck) -> None:
    kind: ProviderKind = pesaplus.PESAPLUS
    check(AdapterCase(kind, OPTIONS))


def test_what_the_page_points_to_is_there(root: Path, page: str) -> None:
    for name in re.findall(r"`((?:mmo_sansio|mmo_trio|tests)/[a-z_/.]+)`", page):
        assert (root / name).exists() or (root / "src" / name).exists(), name
