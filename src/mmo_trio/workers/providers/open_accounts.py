"""Opens the configured providers: checks their options, reads secrets from files, and gives each
its own way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.balances import FloatWatch
from mmo_sansio.providers.common.interface import Ciphers, Provider
from mmo_sansio.providers.common.payer_urls import GatewaySettingError
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext, ProviderKind, open_sandbox
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.resilience.circuit_breaker import CircuitBreaker
from mmo_sansio.values.clock import Moment, MonotonicInstant
from mmo_sansio.values.fields import SettingsError, collected
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings.operator_signs import SIGN_FIELDS, read_operator_sign
from mmo_trio.settings.providers import (
    SHARED_FIELDS,
    ProviderSection,
    SharedSettings,
    provider_variable,
    read_shared_settings,
)
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.workers.providers.account import ProviderAccount, WebhookEndpoint, rate_limit
from mmo_trio.workers.providers.shared_tokens import SharedTokens

# `KEY_file` names a file whose text is the value of KEY, so that a secret is neither in the
# settings nor in the environment.
FILE_SUFFIX = "_file"

SECRET_BYTES_MAX = 64 * 1024

# The settings of every kind of provider.
_SHARED_NAMES = ("kind", *(field.name for field in SHARED_FIELDS))


class SendWithDeadline(Protocol):
    """Sends one request; raises ExchangeFailed when there is no usable response by the deadline."""

    async def __call__(self, request: HttpRequest, *, deadline_s: float) -> HttpResponse: ...


@frozen
class OpenAccount:
    """Holds one configured account, ready for use."""

    adapter: Provider
    """The adapter itself, for what only its kind can do."""
    provider: RedactingProvider
    """The adapter for all other uses: it redacts the account's secrets."""
    account: ProviderAccount
    webhook_name: str
    webhook_endpoint: WebhookEndpoint
    recorded_members: Sequence[str] = ()
    """The members that a recording keeps besides the common ones."""
    float_watch: FloatWatch = FloatWatch()


@frozen
class AccountEnvironment:
    """Holds what accounts need of the process around them."""

    send_request: SendWithDeadline
    moment: Callable[[], Moment]
    monotonic: Callable[[], MonotonicInstant]
    ciphers: Ciphers
    keyring: KeyRing
    webhooks_base_url: str
    """Scheme and host under which notifications arrive, no slash at the end."""
    provider_kinds: Mapping[str, ProviderKind] = PROVIDER_KINDS
    """The kinds that an account may have, by name."""
    store: AdminStore | None = None
    """Through which processes share tokens; None: there is one process."""
    send_question: SendWithDeadline | None = None
    """Sends what moves no money; None: as all other requests."""
    pages_url: str = ""
    """The address of the payment pages, no slash at the end; empty: no payment is sent."""


def open_accounts(
    sections: Mapping[str, ProviderSection],
    titles: Mapping[str, str],
    environment: AccountEnvironment,
) -> Mapping[str, OpenAccount]:
    """Open every account with an operator, by name. Raises SettingsError."""
    opened: dict[str, OpenAccount] = {}
    for name, section in sections.items():
        if section.kind == "sandbox":
            continue

        # Two with one name would get each other's notifications.
        account = open_account(section, titles[name], environment)
        if any(other.webhook_name == account.webhook_name for other in opened.values()):
            remedy = "Give each of them another one."
            fault = f"{account.webhook_name!r} stands in another provider's addresses."
            raise _of_section(section, [SettingsError("hooks_name", fault, remedy)])

        opened[name] = account

    return opened


def open_account(
    section: ProviderSection, title: str, environment: AccountEnvironment
) -> OpenAccount:
    """Open the account of `[provider.NAME]`. In addition to the options of its kind it takes
    `title` and the options of every kind. Raises SettingsError."""
    faults: list[SettingsError] = []
    try:
        options = _read_option_files(section.options)
        kind = _find_kind(section.kind, environment.provider_kinds)
    except SettingsError as error:
        raise _of_section(section, error.each) from None

    # 1. The settings of every kind. An operator's sign is read for its faults alone: each stops the
    #    start.
    shared = SharedSettings()
    with collected(faults):
        shared = read_shared_settings(options)
    with collected(faults):
        read_operator_sign(options)

    # 2. The adapter, which judges its own options. An account is simulated where its kind says so
    #    of it, unless `production` says otherwise.
    webhook_name = shared.hooks_name or section.name
    tokens = environment.keyring.webhook_tokens(section.name, shared.hooks_generation)
    context = AdapterContext(
        f"{environment.webhooks_base_url}/hooks/{webhook_name}/{tokens[0]}",
        environment.ciphers,
        checks_sender=bool(shared.hooks_from),
        pages_url=environment.pages_url,
    )
    own = {key: value for key, value in options.items() if key not in _SHARED_NAMES}
    with collected(faults):
        adapter = kind.open_adapter(section.name, title, own, context)
    if faults:
        raise _of_section(section, faults)

    moves_money = shared.production
    if moves_money is None:
        moves_money = not kind.is_simulated(adapter)

    declared = [str(own[key]) for key in kind.secrets if own.get(key)]

    # 3. The account around it: what it sends with, within which limits, and what is kept secret.
    provider = RedactingProvider(adapter, (*declared, *tokens), is_simulated=not moves_money)
    send_question = environment.send_question or environment.send_request
    limit = None
    if shared.requests_per_minute is not None:
        limit = rate_limit(shared.requests_per_minute)

    shared_tokens = None
    if environment.store is not None:
        shared_tokens = SharedTokens(environment.store, environment.keyring, provider)

    account = ProviderAccount(
        provider,
        partial(environment.send_request, deadline_s=shared.answer_within_s),
        environment.moment,
        environment.monotonic,
        CircuitBreaker(shared.breaker_settings),
        limit,
        shared_tokens=shared_tokens,
        send_question=partial(send_question, deadline_s=shared.answer_within_s),
    )
    return OpenAccount(
        adapter=adapter,
        provider=provider,
        account=account,
        webhook_name=webhook_name,
        webhook_endpoint=WebhookEndpoint(provider, tokens, shared.hooks_from),
        recorded_members=kind.recorded,
        float_watch=shared.float_watch,
    )


def _find_kind(name: str, kinds: Mapping[str, ProviderKind]) -> ProviderKind:
    if name not in kinds:
        raise SettingsError("kind", f"{name!r} is unknown.", "Use another kind.")

    # A kind that comes from a package of its own may take a key that means something here.
    kind = kinds[name]
    names = [option.name for option in kind.options]
    taken = [name for name in names if name in _SHARED_NAMES or name.endswith(FILE_SUFFIX)]
    if taken:
        fault = f"{name!r} declares keys with a meaning for every kind: {', '.join(taken)}."
        raise SettingsError("kind", fault, f"Rename them in {kind.origin or 'its table'}.")

    return kind


def open_sandbox_account(
    section: ProviderSection, title: str, *, is_lenient: bool
) -> SandboxProvider:
    """Open the account with the sandbox operator. Raises SettingsError."""
    try:
        options = _read_option_files(section.options)
        read_operator_sign(options)
        for name in ("title", *(field.name for field in SIGN_FIELDS)):
            options.pop(name, None)

        return open_sandbox(section.name, title, options, is_lenient=is_lenient)
    except SettingsError as error:
        raise _of_section(section, error.each) from None


def _read_option_files(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, each `KEY_file` replaced by its file's text. Raises SettingsError."""
    options: dict[str, Any] = {}
    for key, value in written.items():
        if not key.endswith(FILE_SUFFIX):
            options[key] = value
            continue

        option = key.removesuffix(FILE_SUFFIX)
        if option in written:
            remedy = f"Keep {option} or {key}."
            raise SettingsError(option, "is given itself and as a file.", remedy)

        # An editor ends a file with a line break, which belongs to no secret.
        try:
            text = Path(str(value)).expanduser().read_bytes()[:SECRET_BYTES_MAX].decode()
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or "it is no text"
            raise SettingsError(key, f"can't be read ({what}).", "Name another file.") from None

        options[option] = text.strip()

    return options


def _of_section(section: ProviderSection, faults: Sequence[SettingsError]) -> SettingsError:
    """Return the error of a provider's table with these faults."""
    first, *others = (_placed(section, fault) for fault in faults)
    return SettingsError(first.location, first.fault, first.remedy, others=others)


def _placed(section: ProviderSection, fault: SettingsError) -> SettingsError:
    # An adapter may lack a setting of the gateway, such as the address of the payment pages.
    if isinstance(fault, GatewaySettingError):
        needed = f"{fault.fault} The account provider.{section.name} needs that."
        return SettingsError(fault.location, needed, fault.remedy)

    variable = provider_variable(section.name, fault.location)
    return SettingsError(
        f"provider.{section.name}.{fault.location} ({variable})", fault.fault, fault.remedy
    )
