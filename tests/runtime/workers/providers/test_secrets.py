"""Planted secrets of providers' accounts appear in no error, repr or shown setting."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings import SettingsError, effective_settings, load_settings
from mmo_trio.settings.providers import ProviderSection, provider_variable
from mmo_trio.system.ciphers import SystemCiphers
from mmo_trio.workers.providers.open_accounts import AccountEnvironment, OpenAccount, open_account
from tests.support.provider_secrets import CANARY, SECRETS, canary, good_options


async def ask(request: HttpRequest, *, deadline_s: float) -> HttpResponse:
    raise NotImplementedError


def opened(kind: str, options: dict[str, Any]) -> OpenAccount:
    ring = KeyRing(b"k" * 32)
    outside = AccountEnvironment(
        ask,
        lambda: Moment.at(Instant(0)),
        lambda: MonotonicInstant(0),
        SystemCiphers(),
        ring,
        "https://pay.example",
    )
    return open_account(ProviderSection("ug", kind, options), "Title", outside)


def options_of(kind: str) -> list[str]:
    """Return the options of this kind, as its error message lists them."""
    options = good_options(kind, "https://operator.example") | {"qqqqqqqqqq": "1"}
    with pytest.raises(SettingsError) as refusal:
        opened(kind, options)
    _, _, known = str(refusal.value).partition("Known are: ")
    return known.rstrip(". \n").split(", ")


def shown(thing: object, seen: set[int], depth: int = 0) -> str:
    """Return every repr and str of an object and of its contents, at any depth."""
    if id(thing) in seen or depth > 4:
        return ""
    seen.add(id(thing))
    text = repr(thing) + str(thing)
    held = getattr(type(thing), "__attrs_attrs__", ())
    return text + "".join(
        shown(getattr(thing, each.name), seen, depth + 1)
        for each in held
        if each.repr and hasattr(thing, each.name)
    )


REAL = sorted(PROVIDER_KINDS.keys() - {"sandbox"})


def test_every_kind_of_provider_has_its_secrets_planted() -> None:
    assert sorted(SECRETS) == REAL
    for kind in REAL:
        assert set(SECRETS[kind]) == set(PROVIDER_KINDS[kind].secrets) <= set(options_of(kind))
        suspicious = ("secret", "password", "pin", "passkey", "_key")
        named = {each for each in options_of(kind) if each.endswith(suspicious)}
        assert named <= {*SECRETS[kind], "public_key"}, f"{kind} has secrets that nobody planted"


@pytest.mark.parametrize("kind", REAL)
def test_no_secret_is_in_the_repr_of_anything(kind: str) -> None:
    account = opened(kind, good_options(kind, "https://operator.example"))
    text = shown(account, set()) + shown(account.provider, set()) + shown(account.account, set())
    section = ProviderSection("ug", kind, good_options(kind, "https://operator.example"))
    assert "https://operator.example" in text
    assert CANARY not in text + repr(section)


@pytest.mark.parametrize("kind", REAL)
def test_an_option_that_cannot_be_used_is_refused_without_its_value(kind: str) -> None:
    refused = 0
    for name in options_of(kind):
        for value in (canary(name), f"{canary(name)}\n\0é", [canary(name)], {canary(name): 1}):
            options = good_options(kind, "https://operator.example") | {name: value}
            try:
                account = opened(kind, options)
            except SettingsError as error:
                refused += 1
                text = "".join(traceback.format_exception(error)) + repr(error)
                assert CANARY not in text, name
            else:
                if name in SECRETS[kind]:
                    assert CANARY not in shown(account, set()), name
    assert refused > 5


@pytest.mark.parametrize("kind", REAL)
def test_the_settings_that_are_shown_mask_them(kind: str) -> None:
    options = {"kind": kind, **good_options(kind, "https://operator.example")}
    environment = {provider_variable("ug", name): str(value) for name, value in options.items()}
    settings = load_settings(environment=environment, presets={})
    rows = [(row.key, row.value) for row in effective_settings(settings)]
    assert any(key.startswith("provider.ug") for key, _ in rows)
    assert CANARY not in repr(rows) + repr(settings)
