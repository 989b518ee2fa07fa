"""Opens the configured providers: checks their options, reads secrets from files, and gives each
its own way out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.balances import FloatWatch
from mmo_sansio.providers.common.interface import Ciphers, Provider
from mmo_sansio.providers.common.options import OptionError, Options, SettingError
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.providers.registry import PROVIDER_KINDS, AdapterContext, ProviderKind, open_sandbox
from mmo_sansio.providers.sandbox.adapter import SandboxProvider
from mmo_sansio.resilience.circuit_breaker import BreakerSettings, CircuitBreaker
from mmo_sansio.values.clock import SECOND, Moment, MonotonicInstant, Span
from mmo_sansio.values.fields import Kind
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings import SettingsError
from mmo_trio.settings import providers as common
from mmo_trio.settings.operator_signs import SIGN_KEYS, read_operator_sign
from mmo_trio.settings.providers import CommonOption, ProviderSection, provider_variable
from mmo_trio.settings.values import AMOUNTS, NETWORKS
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.workers.providers.account import ProviderAccount, WebhookEndpoint, rate_limit
from mmo_trio.workers.providers.shared_tokens import SharedTokens

# `KEY_file` names a file whose text is the value of KEY, so that a secret is neither in the
# settings nor in the environment.
FILE_SUFFIX = "_file"

SECRET_BYTES_MAX = 64 * 1024

_OTHER_KEYS = (
    "kind",
    "title",
    "production",
    "hooks_name",
    "hooks_from",
    "requests_per_minute",
    "float_minimums",
    *SIGN_KEYS,
)

# Options of every kind of provider.
COMMON_OPTION_KEYS = (*_OTHER_KEYS, *(common_option.key for common_option in common.COMMON_OPTIONS))


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
            _raise_settings_error(section, OptionError("hooks_name", fault, remedy))

        opened[name] = account

    return opened


def open_account(
    section: ProviderSection, title: str, environment: AccountEnvironment
) -> OpenAccount:
    """Open the account of `[provider.NAME]`. In addition to the options of its kind it takes
    `title` and the options of every kind. Raises SettingsError."""
    # 1. The options of every kind, and what the adapter is told of its notifications' address.
    try:
        options = _read_option_files(section.options)
        webhook_name = Options(options).text("hooks_name", section.name)
        if re.fullmatch(r"[_-]*[A-Za-z0-9][A-Za-z0-9_-]*", webhook_name) is None:
            raise OptionError("hooks_name", "can't stand in an address.", "Use letters and digits.")

        webhook_generation = _integer_in_range(options, common.HOOKS_GENERATION)
        allowed = _list(options, "hooks_from", NETWORKS)
        per_minute = Options(options).integer("requests_per_minute", 0)
        answer_within_s = _integer_in_range(options, common.ANSWER_TIMEOUT)
        breaker = _breaker_settings(options)
        float_watch = _float_watch(options)

        # Read for its faults alone: each stops the start.
        read_operator_sign(options)
        own = {key: value for key, value in options.items() if key not in COMMON_OPTION_KEYS}
        tokens = environment.keyring.webhook_tokens(section.name, webhook_generation)
        hooks_url = f"{environment.webhooks_base_url}/hooks/{webhook_name}/{tokens[0]}"
        context = AdapterContext(
            hooks_url,
            environment.ciphers,
            checks_sender=bool(allowed),
            pages_url=environment.pages_url,
        )

        # 2. The adapter, which judges its own options. An account is simulated where its kind says
        #    so of it, unless `production` says otherwise.
        kind = _find_kind(section.kind, environment.provider_kinds)
        adapter = kind.open_adapter(section.name, title, own, context)
        moves_money = Options(options).boolean("production", not kind.is_simulated(adapter))
        declared = [str(own[key]) for key in kind.secrets if own.get(key)]
    except OptionError as error:
        _raise_settings_error(section, error)

    # 3. The account around it: what it sends with, within which limits, and what is kept secret.
    provider = RedactingProvider(adapter, (*declared, *tokens), is_simulated=not moves_money)
    send_question = environment.send_question or environment.send_request
    limit = None
    if per_minute:
        limit = rate_limit(per_minute)

    shared_tokens = None
    if environment.store is not None:
        shared_tokens = SharedTokens(environment.store, environment.keyring, provider)

    account = ProviderAccount(
        provider,
        partial(environment.send_request, deadline_s=answer_within_s),
        environment.moment,
        environment.monotonic,
        CircuitBreaker(breaker),
        limit,
        shared_tokens=shared_tokens,
        send_question=partial(send_question, deadline_s=answer_within_s),
    )
    return OpenAccount(
        adapter,
        provider,
        account,
        webhook_name,
        WebhookEndpoint(provider, tokens, allowed),
        kind.recorded,
        float_watch,
    )


def _find_kind(name: str, kinds: Mapping[str, ProviderKind]) -> ProviderKind:
    if name not in kinds:
        raise OptionError("kind", f"{name!r} is unknown.", "Use another kind.")

    # A kind that comes from a package of its own may take a key that means something here.
    kind = kinds[name]
    keys = (*kind.options, *kind.secrets)
    taken = [key for key in keys if key in COMMON_OPTION_KEYS or key.endswith(FILE_SUFFIX)]
    if taken:
        fault = f"{name!r} declares keys with a meaning for every kind: {', '.join(taken)}."
        raise OptionError("kind", fault, f"Rename them in {kind.origin or 'its table'}.")

    return kind


def _breaker_settings(options: Mapping[str, Any]) -> BreakerSettings:
    return BreakerSettings(
        window=Span(_integer_in_range(options, common.BREAKER_WINDOW) * SECOND),
        minimum_requests=_integer_in_range(options, common.BREAKER_MINIMUM_REQUESTS),
        failure_ratio=_integer_in_range(options, common.BREAKER_FAILURE_PERCENT) / 100,
        open_for=Span(_integer_in_range(options, common.BREAKER_OPEN_FOR) * SECOND),
        # Every permit ends with its request, which has a deadline of its own.
        permit_deadline=None,
    )


def _float_watch(options: Mapping[str, Any]) -> FloatWatch:
    interval = Span(_integer_in_range(options, common.BALANCE_INTERVAL) * SECOND)
    minimums = _list(options, "float_minimums", AMOUNTS)
    return FloatWatch(interval, minimums, _integer_in_range(options, common.FLOAT_HOURS))


def _integer_in_range(options: Mapping[str, Any], option: CommonOption) -> int:
    """Return the value of this option. Raises OptionError when it is outside the option's range."""
    number = Options(options).integer(option.key, option.default)
    if not option.minimum <= number <= option.maximum:
        fault = f"must be {option.minimum} to {option.maximum}."
        raise OptionError(option.key, fault, f"Write {option.key} = {option.default}, say.")

    return number


def open_sandbox_account(
    section: ProviderSection, title: str, *, is_lenient: bool
) -> SandboxProvider:
    """Open the account with the sandbox operator. Raises SettingsError."""
    try:
        options = _read_option_files(section.options)
        read_operator_sign(options)
        for key in ("title", *SIGN_KEYS):
            options.pop(key, None)

        return open_sandbox(section.name, title, options, is_lenient=is_lenient)
    except OptionError as error:
        _raise_settings_error(section, error)


def _read_option_files(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, each `KEY_file` replaced by its file's text. Raises OptionError."""
    options: dict[str, Any] = {}
    for key, value in written.items():
        if not key.endswith(FILE_SUFFIX):
            options[key] = value
            continue

        option = key.removesuffix(FILE_SUFFIX)
        if option in written:
            remedy = f"Keep {option} or {key}."
            raise OptionError(option, "is given itself and as a file.", remedy)

        # An editor ends a file with a line break, which belongs to no secret.
        try:
            text = Path(str(value)).expanduser().read_bytes()[:SECRET_BYTES_MAX].decode()
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or "it is no text"
            raise OptionError(key, f"can't be read ({what}).", "Name another file.") from None

        options[option] = text.strip()

    return options


def _list(options: Mapping[str, Any], key: str, kind: Kind) -> Any:
    try:
        return kind.read(options.get(key, []))
    except SettingsError as error:
        raise OptionError(key, error.fault, error.remedy) from None


def _raise_settings_error(section: ProviderSection, error: OptionError) -> NoReturn:
    # An adapter may lack a setting of the gateway, such as the address of the payment pages.
    if isinstance(error, SettingError):
        needed = f"{error.problem} The account provider.{section.name} needs that."
        raise SettingsError(error.key, needed, error.remedy) from None

    where = f"provider.{section.name}.{error.key}"
    variable = provider_variable(section.name, error.key)
    raise SettingsError(f"{where} ({variable})", error.problem, error.remedy) from None
