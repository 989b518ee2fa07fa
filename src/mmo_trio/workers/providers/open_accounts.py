"""The configured providers, opened: options checked, secrets read from their files, each with its own way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.ciphers import Ciphers
from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.providers.common.redaction import Discreet
from mmo_sansio.providers.registry import KINDS, Surroundings, open_provider, open_sandbox
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.resilience.circuit_breaker import Breaker, BreakerSettings
from mmo_sansio.resilience.rate_limit import Pace
from mmo_sansio.values.clock import SECOND, Instant, Span
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings import SettingsError
from mmo_trio.settings.errors import ValueFault
from mmo_trio.settings.providers import provider_variable
from mmo_trio.settings.sections import ProviderSection
from mmo_trio.settings.values import NETWORKS, Network
from mmo_trio.workers.providers.account import Account
from mmo_trio.workers.providers.webhook_endpoint import HookDoor

FILE_SUFFIX = "_file"
"""`KEY_file` names a file whose text is the value of KEY: a secret then stands in neither settings nor environment."""

SECRET_BYTES_MAX = 64 * 1024

COMMON = (
    "hooks_name",
    "hooks_from",
    "requests_per_minute",
    "answer_within_s",
    "breaker_window_s",
    "breaker_minimum_requests",
    "breaker_failure_percent",
    "breaker_open_for_s",
)
"""Options of every kind of provider."""


class AskWithin(Protocol):
    """Sends one request; raises ExchangeFailed when there is no usable answer by then."""

    async def __call__(self, request: HttpRequest, *, deadline_s: float) -> HttpResponse: ...


@frozen
class Opened:
    """One configured account, ready to be used."""

    adapter: Provider
    """What its kind made, for what only this kind can do."""
    provider: Provider
    """The adapter for everybody else: it gives away no secret."""
    account: Account
    hook_name: str
    door: HookDoor


@frozen
class Outside:
    """What accounts need of the process around them."""

    ask: AskWithin
    now: Callable[[], Instant]
    monotonic: Callable[[], Span]
    ciphers: Ciphers
    keyring: KeyRing
    hooks_base: str
    """Scheme and host under which notifications arrive, no slash at the end."""


def open_accounts(
    sections: Mapping[str, ProviderSection], titles: Mapping[str, str], outside: Outside
) -> Mapping[str, Opened]:
    """Every account with an operator, by name. Raises SettingsError."""
    opened: dict[str, Opened] = {}
    for name, section in sections.items():
        if section.kind == "sandbox":
            continue
        account = open_account(section, titles[name], outside)
        if any(each.hook_name == account.hook_name for each in opened.values()):
            remedy = "Give each of them another one."
            what = f"{account.hook_name!r} stands in another provider's addresses."
            _refuse(section, OptionError("hooks_name", what, remedy))
        opened[name] = account
    return opened


def open_account(section: ProviderSection, title: str, outside: Outside) -> Opened:
    """The account of `[provider.NAME]`. Beside those of its kind it has the options of every kind: `title` and those
    of `COMMON`. Raises SettingsError."""
    options = _with_files_read(section)
    options.pop("title", None)
    try:
        hook_name = Options(options).text("hooks_name", section.name)
        if not hook_name.replace("-", "").replace("_", "").isalnum() or not hook_name.isascii():
            raise OptionError("hooks_name", "can't stand in an address.", "Use letters and digits.")
        allowed = _networks(options)
        per_minute = Options(options).number("requests_per_minute", 0)
        answer_within_s = _from_to(options, "answer_within_s", 15, 1, 18)
        breaker = _breaker(options)
        for common in COMMON:
            options.pop(common, None)
        token = outside.keyring.hook_token(section.name)
        surroundings = Surroundings(
            f"{outside.hooks_base}/hooks/{hook_name}/{token}", outside.ciphers
        )
        if section.kind not in KINDS:
            raise OptionError("kind", f"{section.kind!r} isn't built in.", "Use another kind.")
        adapter = open_provider(section.kind, section.name, title, options, surroundings)
    except OptionError as error:
        _refuse(section, error)
    provider = Discreet(adapter)
    account = Account(
        provider,
        partial(outside.ask, deadline_s=answer_within_s),
        outside.now,
        outside.monotonic,
        Breaker(breaker),
        Pace(per_minute) if per_minute else None,
    )
    return Opened(adapter, provider, account, hook_name, HookDoor(provider, token, allowed))


def _breaker(options: Mapping[str, Any]) -> BreakerSettings:
    usual = BreakerSettings()
    return BreakerSettings(
        window=_from_to(options, "breaker_window_s", usual.window // SECOND, 10, 3600) * SECOND,
        minimum_requests=_from_to(
            options, "breaker_minimum_requests", usual.minimum_requests, 1, 1_000_000
        ),
        failure_ratio=_from_to(
            options, "breaker_failure_percent", round(usual.failure_ratio * 100), 1, 100
        )
        / 100,
        open_for=_from_to(options, "breaker_open_for_s", usual.open_for // SECOND, 1, 3600)
        * SECOND,
        permit_deadline=None,
    )


def _from_to(options: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    """A whole number between these. Raises OptionError."""
    number = Options(options).number(key, default)
    if not least <= number <= most:
        raise OptionError(key, f"must be {least} to {most}.", f"Write {key} = {default}, say.")
    return number


def open_sandbox_account(name: str, section: ProviderSection | None, title: str) -> SandboxProvider:
    """The account with the sandbox operator: `[provider.NAME]` of its kind, or None where nothing is configured.
    Raises SettingsError."""
    if section is None:
        return open_sandbox(name, title, {})
    options = _with_files_read(section)
    options.pop("title", None)
    try:
        return open_sandbox(name, title, options)
    except OptionError as error:
        _refuse(section, error)


def _with_files_read(section: ProviderSection) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in section.options.items():
        if not key.endswith(FILE_SUFFIX):
            if key in options:
                _twice(section, key)
            options[key] = value
            continue
        wanted = key.removesuffix(FILE_SUFFIX)
        if wanted in section.options:
            _twice(section, wanted)
        try:
            text = Path(str(value)).expanduser().read_bytes()[:SECRET_BYTES_MAX].decode()
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or "it is no text"
            _refuse(section, OptionError(key, f"can't be read ({what}).", "Name another file."))
        options[wanted] = text.strip()
    return options


def _networks(options: Mapping[str, Any]) -> tuple[Network, ...]:
    try:
        found: tuple[Network, ...] = NETWORKS.read(options.get("hooks_from", []))
    except ValueFault as fault:
        raise OptionError("hooks_from", f"{fault}.", "Leave it out for any address.") from None
    return found


def _twice(section: ProviderSection, key: str) -> NoReturn:
    remedy = f"Keep {key} or {key}{FILE_SUFFIX}."
    _refuse(section, OptionError(key, "is given itself and as a file.", remedy))


def _refuse(section: ProviderSection, error: OptionError) -> NoReturn:
    where = f"provider.{section.name}.{error.key}"
    variable = provider_variable(section.name, error.key)
    raise SettingsError(f"{where} ({variable})", error.what, error.remedy) from None
