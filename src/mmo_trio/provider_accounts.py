"""The configured providers, opened: options checked, secrets read from their files, each with its own way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from attrs import frozen

from mmo_sansio.breaker import Breaker, BreakerSettings
from mmo_sansio.clock import Instant, Span
from mmo_sansio.pace import Pace
from mmo_sansio.providers.ciphers import Ciphers
from mmo_sansio.providers.conversation import Provider
from mmo_sansio.providers.options import OptionError, Options
from mmo_sansio.providers.registry import KINDS, Surroundings, open_provider, open_sandbox
from mmo_sansio.providers.sandbox import SandboxProvider
from mmo_trio.hooks import HookDoor
from mmo_trio.keys import KeyRing
from mmo_trio.settings import SettingsError
from mmo_trio.settings.errors import ValueFault
from mmo_trio.settings.model import ProviderSection
from mmo_trio.settings.providers import provider_variable
from mmo_trio.settings.values import NETWORKS, Network
from mmo_trio.workers.accounts import Account, Ask

FILE_SUFFIX = "_file"
"""`KEY_file` names a file whose text is the value of KEY: a secret then stands in neither settings nor environment."""

SECRET_BYTES_MAX = 64 * 1024


@frozen
class Opened:
    """One configured account, ready to be used."""

    provider: Provider
    account: Account
    hook_name: str
    door: HookDoor


@frozen
class Outside:
    """What accounts need of the process around them."""

    ask: Ask
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
    """The account of `[provider.NAME]`. Beside those of its kind it has the options of every kind: `title`,
    `hooks_name`, `hooks_from` and `requests_per_minute`. Raises SettingsError."""
    options = _with_files_read(section)
    options.pop("title", None)
    try:
        hook_name = Options(options).text("hooks_name", section.name)
        if not hook_name.replace("-", "").replace("_", "").isalnum() or not hook_name.isascii():
            raise OptionError("hooks_name", "can't stand in an address.", "Use letters and digits.")
        allowed = _networks(options)
        per_minute = Options(options).number("requests_per_minute", 0)
        for common in ("hooks_name", "hooks_from", "requests_per_minute"):
            options.pop(common, None)
        token = outside.keyring.hook_token(section.name)
        surroundings = Surroundings(
            f"{outside.hooks_base}/hooks/{hook_name}/{token}", outside.ciphers
        )
        if section.kind not in KINDS:
            raise OptionError("kind", f"{section.kind!r} isn't built in.", "Use another kind.")
        provider = open_provider(section.kind, section.name, title, options, surroundings)
    except OptionError as error:
        _refuse(section, error)
    account = Account(
        provider,
        outside.ask,
        outside.now,
        outside.monotonic,
        Breaker(BreakerSettings(permit_deadline=None)),
        Pace(per_minute) if per_minute else None,
    )
    return Opened(provider, account, hook_name, HookDoor(provider, token, allowed))


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
