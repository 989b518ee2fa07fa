"""Unusable options of a provider stop the start with a message that names them, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.common.payer_urls import check_pages_url
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext, ProviderKind
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant
from mmo_sansio.values.fields import REQUIRED, SECRET, Field
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.service.wiring import trusts_anybody
from mmo_trio.settings import SettingsError
from mmo_trio.settings.providers import ProviderSection
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.open_accounts import (
    AccountEnvironment,
    OpenAccount,
    open_account,
    open_accounts,
)

CANARY = "canary-91ab"


async def ask(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
    raise NotImplementedError


SEEN: dict[str, Any] = {}
SECRET_FIELD = Field("secret", SECRET, REQUIRED, "")


def open_test(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> Provider:
    SEEN.update(secret=options["secret"], url=context.hooks_url)
    return SandboxProvider(name, title)


OUTSIDE = AccountEnvironment(
    ask,
    lambda: Moment.at(Instant(0)),
    lambda: MonotonicInstant(0),
    SystemCiphers(),
    KeyRing(b"k" * 32),
    "https://pay.example",
    {"test": ProviderKind("Test", open_test, [SECRET_FIELD])},
)


def opened(**tables: dict[str, Any]) -> Mapping[str, OpenAccount]:
    sections = {name: ProviderSection(name, "test", table) for name, table in tables.items()}
    return open_accounts(sections, dict.fromkeys(sections, "T"), OUTSIDE)


def test_an_account_is_opened_with_a_secret_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{CANARY}\n")
    account = opened(
        momo={
            "secret_file": str(file),
            "title": "M",
            "hooks_name": "hooks1",
            "hooks_from": "192.0.2.0/24",
            "requests_per_minute": "60",
            "colour": "#ffcc00",
        }
    )["momo"]
    assert SEEN["secret"] == CANARY
    assert SEEN["url"] == f"https://pay.example/hooks/hooks1/{account.webhook_endpoint.tokens[0]}"
    assert account.account.rate_limit is not None
    assert [str(each) for each in account.webhook_endpoint.allowed_networks] == ["192.0.2.0/24"]
    assert account.webhook_endpoint.tokens[0] not in repr(account)


@pytest.mark.parametrize(
    ("options", "failures"),
    [({}, 5), ({"breaker_minimum_requests": "3"}, 3), ({"breaker_failure_percent": 20}, 5)],
)
async def test_an_account_has_a_breaker_of_its_own_making(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], failures: int
) -> None:
    async def ask(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        return HttpResponse(503)

    monkeypatch.setattr(
        "tests.runtime.workers.providers.test_open_accounts.OUTSIDE",
        evolve(OUTSIDE, send_request=ask),
    )
    account = opened(momo={"secret": "x", **options})["momo"].account
    sent = 0
    while account.breaker.state == "closed":
        await account.exchange(HttpRequest("GET", b"https://operator.example/"))
        sent += 1
    assert sent == failures


async def test_an_account_waits_for_an_answer_as_long_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = []

    async def ask(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
        await trio.lowlevel.checkpoint()
        waits.append(deadline_s)
        return HttpResponse(200)

    monkeypatch.setattr(
        "tests.runtime.workers.providers.test_open_accounts.OUTSIDE",
        evolve(OUTSIDE, send_request=ask),
    )
    for options in ({}, {"answer_within_s": "2"}):
        account = opened(momo={"secret": "x", **options})["momo"].account
        await account.send_request(HttpRequest("GET", b"https://operator.example/"))
    assert waits == [15, 2]


def test_each_account_has_a_token_of_its_own_the_same_on_every_node() -> None:
    two = opened(a={"secret": "x"}, b={"secret": "x"})
    again = opened(a={"secret": "x"})
    assert (
        two["a"].webhook_endpoint.tokens[0]
        == again["a"].webhook_endpoint.tokens[0]
        != two["b"].webhook_endpoint.tokens[0]
    )


@pytest.mark.parametrize(
    ("table", "key", "what"),
    [
        ({}, "secret", "is missing"),
        ({"secret": "x", "sekret": CANARY}, "sekret", "there is no such key"),
        ({"secret": CANARY, "secret_file": "/nowhere"}, "secret", "itself and as a file"),
        ({"secret_file": "/nowhere/at-all"}, "secret_file", "can't be read"),
        ({"secret": "x", "hooks_from": CANARY}, "hooks_from", "must be a list"),
        ({"secret": "x", "hooks_name": "a/b"}, "hooks_name", "must be letters and digits"),
        ({"secret": "x", "requests_per_minute": "fast"}, "requests_per_minute", "whole number"),
        (
            {"secret": "x", "answer_within_s": "20"},
            "answer_within_s",
            "must be a whole number from 1 to 18",
        ),
        ({"secret": "x", "breaker_failure_percent": 0}, "breaker_failure_percent", "1 to 100"),
        ({"secret": "x", "breaker_open_for_s": -1}, "breaker_open_for_s", "whole number"),
    ],
)
def test_what_cannot_be_used_is_named(table: dict[str, Any], key: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        opened(momo=table)
    assert caught.value.location == f"provider.momo.{key} (MMO_PROVIDER__MOMO__{key.upper()})"
    assert what in caught.value.fault
    assert caught.value.remedy
    assert CANARY not in str(caught.value)


def test_all_faults_of_an_account_are_named_at_once() -> None:
    table = {"sekret": "x", "answer_within_s": 0, "hooks_name": "a/b", "colour": "green"}
    with pytest.raises(SettingsError) as caught:
        opened(momo=table)
    assert [fault.location.partition(" ")[0] for fault in caught.value.each] == [
        f"provider.momo.{key}"
        for key in ("hooks_name", "answer_within_s", "colour", "sekret", "secret")
    ]


def test_a_setting_of_the_gateway_that_an_account_can_not_work_with_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def open_demanding(
        name: str, title: str, options: Mapping[str, Any], context: AdapterContext
    ) -> Provider:
        check_pages_url(context.pages_url, "https://operator.example")
        return SandboxProvider(name, title)

    kinds = {"test": ProviderKind("Test", open_demanding, ())}
    for pages_url, is_refused in (("", False), ("https://p.example", False), ("http://x", True)):
        outside = evolve(OUTSIDE, provider_kinds=kinds, pages_url=pages_url)
        monkeypatch.setitem(globals(), "OUTSIDE", outside)
        if not is_refused:
            opened(momo={})
            continue
        with pytest.raises(SettingsError) as caught:
            opened(momo={})
        assert caught.value.location == "gateway.hpp_url"
        assert "provider.momo" in caught.value.fault
        assert "https://" in caught.value.remedy


@pytest.mark.spec("A5")
def test_what_a_kind_declares_as_secret_is_redacted_wherever_its_adapter_keeps_it() -> None:
    account = opened(momo={"secret": "the-long-secret-of-a-package"})["momo"]
    told = account.provider.redact("The key the-long-secret-of-a-package is unknown.")
    assert told == "The key [secret] is unknown."
    token = account.webhook_endpoint.tokens[0]
    assert account.provider.redact(f"No path /x/{token}") == "No path /x/[secret]"


def test_two_accounts_with_one_address_are_refused() -> None:
    with pytest.raises(SettingsError, match="stands in another provider's addresses"):
        opened(a={"secret": "x", "hooks_name": "h"}, b={"secret": "x", "hooks_name": "h"})


@pytest.mark.parametrize("key", ["title", "hooks_name", "answer_within_s", "secret_file"])
def test_a_kind_whose_own_keys_every_kind_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    kinds = {
        "test": ProviderKind(
            "Test", open_test, [SECRET_FIELD, evolve(SECRET_FIELD, name=key)], "mmo-test 1.0"
        )
    }
    monkeypatch.setitem(globals(), "OUTSIDE", evolve(OUTSIDE, provider_kinds=kinds))
    with pytest.raises(SettingsError, match=f"{key}.*Rename them in mmo-test 1.0"):
        opened(momo={"secret": "x"})


MPESA = {
    "consumer_key": "key",
    "consumer_secret": "secret",
    "shortcode": "174379",
    "merchant_name": "TEST SHOP",
}


def open_mpesa_with(**options: str) -> OpenAccount:
    environment = evolve(OUTSIDE, provider_kinds=PROVIDER_KINDS)
    return open_account(
        ProviderSection("ke", "mpesa_daraja", {**MPESA, **options}), "M-Pesa", environment
    )


def test_qr_codes_that_anybody_could_settle_are_refused_until_somebody_asks_for_it() -> None:
    with pytest.raises(SettingsError) as caught:
        open_mpesa_with()
    assert "provider.ke.deposits" in str(caught.value)
    assert trusts_anybody(open_mpesa_with(deposits="trust"))
    assert not trusts_anybody(open_mpesa_with(hooks_from="196.201.214.200"))
    operator = {
        "initiator": "api",
        "initiator_password": "p",
        "certificate": open_mpesa().certificate,
    }
    assert not trusts_anybody(open_mpesa_with(**operator))
    assert trusts_anybody(open_mpesa_with(**operator, deposits="trust"))


@pytest.mark.parametrize(
    ("options", "is_simulated"),
    [
        ({}, False),
        ({"base_url": "https://sandbox.safaricom.co.ke"}, True),
        ({"base_url": "https://proxy.example"}, True),
        ({"base_url": "https://proxy.example", "production": "true"}, False),
        ({"production": "false"}, True),
    ],
)
def test_an_account_is_simulated_by_its_address_unless_its_options_say_otherwise(
    options: dict[str, str], is_simulated: bool
) -> None:
    opened = open_mpesa_with(deposits="trust", **options)
    assert opened.provider.is_simulated is is_simulated


def test_production_is_true_or_false() -> None:
    with pytest.raises(SettingsError, match=r"provider\.ke\.production"):
        open_mpesa_with(deposits="trust", production="sandbox")
