"""Reads `brands.toml`, the brands and their methods, strictly; a fault is named with its remedy."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from attrs import field, frozen

from mmo_sansio.http.egress_rules import (
    FORBIDDEN_REDIRECT_SCHEMES,
    EgressRules,
    UrlError,
    delivery_url_error,
    parse_result_host,
    parse_url,
)
from mmo_sansio.values.currencies import CURRENCIES
from mmo_sansio.values.model import (
    Brand,
    BrandLimits,
    Limits,
    Method,
    Operation,
    PageAppearance,
    ReferenceReuse,
    ReusePolicy,
    Type,
)
from mmo_sansio.values.money import AmountError, Money, check_amount, parse_number, to_money
from mmo_sansio.values.near_match import near_match
from mmo_trio.brands.file_keys import (
    BRAND_KEYS,
    BRAND_LIMIT_KEYS,
    DAILY_LIMITS,
    METHOD_KEYS,
    METHOD_LIMIT_KEYS,
    PAGE_KEYS,
    key_names,
)
from mmo_trio.brands.logo import LOGO_BYTES_MAX, LogoError, read_logo
from mmo_trio.settings.values import SettingsError

BRAND_LIMIT_MAX = 1_000_000
"""The largest limit on a brand's requests or pending payments."""

API_KEY_LENGTH_MIN = 24
"""Shorter keys may be guessed; those that the gateway makes have 43 characters. Keys that the store has stay in use."""
SANDBOX_API_KEY_LENGTH_MIN = 8
"""The same in a sandbox, where no money moves."""

_API_KEY_PATTERN = re.compile(r"[!-~]{1,256}", re.ASCII)
_BRAND_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_METHOD_KEY_PATTERN = re.compile(r"[^\x00-\x20\x7f-\x9f/]([^\x00-\x1f\x7f-\x9f/]{0,98}[^\x00-\x20\x7f-\x9f/])?")
_COUNTRY_PATTERN = re.compile(r"[A-Z]{2}", re.ASCII)
_COLOUR_PATTERN = re.compile(r"#[0-9A-Fa-f]{6}", re.ASCII)
_SCHEME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)


@frozen
class ConfiguredBrand:
    """Holds a brand as the file describes it."""

    brand: Brand
    api_keys: tuple[str, ...] = field(repr=False)
    """The keys of the brand; empty: one is made if it has none."""
    enabled: bool | None = None
    """What the file says about it; None: nothing, and a new brand is enabled."""


def read_brands_file(path: Path, *, providers: Mapping[str, str], rules: EgressRules) -> Sequence[ConfiguredBrand]:
    """Read the brands in this file. Raises SettingsError.

    `providers` are the titles of the configured providers by name; `rules` check push_result_url.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = "Name a file in UTF-8 that the gateway's user may read."
        raise SettingsError(str(path), f"it can't be read ({error}).", remedy) from None
    return parse_brands(text, source=str(path), providers=providers, rules=rules)


def parse_brands(
    text: str, *, source: str, providers: Mapping[str, str], rules: EgressRules
) -> Sequence[ConfiguredBrand]:
    """Parse the brands in this text. Raises SettingsError.

    `source` names the text in messages; logos are found next to it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(source, f"it isn't TOML ({error}).", "Correct that place.") from None
    top = _TomlTable(source, document)
    top.allow_only(("brand",))
    brands = tuple(
        _parse_brand(each, providers, rules, Path(source).parent) for each in top.tables("brand", "[[brand]]")
    )
    _check_unique(source, "id", (each.brand.id for each in brands))
    _check_unique(source, "host", (each.brand.host for each in brands if each.brand.host))
    _check_unique(source, "api_key", (key for each in brands for key in each.api_keys))
    return brands


@frozen
class _TomlTable:
    """Reads the values of one table of the file, and knows its location."""

    location: str
    values: Mapping[str, Any]

    def fail(self, key: str, fault: str, remedy: str) -> NoReturn:
        raise SettingsError(f"{self.location}, {key}", fault, remedy)

    def allow_only(self, known: Iterable[str]) -> None:
        for key in self.values:
            if key not in known:
                self.fail(key, "there is no such key.", near_match(key, known))

    def text(self, key: str, length_max: int = 255) -> str:
        """Return a required text that is not blank."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip() or len(value) > length_max:
            self.fail(key, "it is missing or no text.", f"Give 1 to {length_max} characters.")
        return value

    def optional_text(self, key: str, length_max: int = 255) -> str | None:
        return None if key not in self.values else self.text(key, length_max)

    def text_list(self, key: str) -> tuple[str, ...]:
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            self.fail(key, "it is no list of texts.", f'Write {key} = ["…"].')
        return tuple(values)

    def tables(self, key: str, header: str) -> Sequence[_TomlTable]:
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
            self.fail(key, "it is no list of tables.", f"Begin each with {header}.")
        return [_TomlTable(f"{self.location}, {header} {n}", each) for n, each in enumerate(values, 1)]

    def text_matching(self, key: str, pattern: re.Pattern[str], remedy: str) -> str:
        value = self.text(key)
        if not pattern.fullmatch(value):
            self.fail(key, f"{value!r} can't be used.", remedy)
        return value


def _parse_brand(table: _TomlTable, providers: Mapping[str, str], rules: EgressRules, folder: Path) -> ConfiguredBrand:
    id = table.text_matching("id", _BRAND_ID_PATTERN, "Use 1 to 64 ASCII letters, digits, '.', '_' and '-'.")
    table = _TomlTable(table.location.partition(", [[brand]]")[0] + f", brand {id}", table.values)
    table.allow_only(key_names(BRAND_KEYS))
    enabled = table.values.get("enabled")
    if enabled is not None and not isinstance(enabled, bool):
        table.fail("enabled", "it is neither true nor false.", "Write enabled = true.")
    methods = tuple(_parse_method(each, providers) for each in table.tables("method", "[[brand.method]]"))
    pairs = (f"{method.key} in {method.country}" for method in methods)
    _check_unique(table.location, "method", pairs)
    brand = Brand(
        id=id,
        name=table.text("name"),
        methods=methods,
        enabled=enabled is not False,
        push_result_url=_parse_push_result_url(table, rules),
        host=_parse_host(table),
        reference_reuse=_parse_reuse_policy(table),
        limits=_parse_brand_limits(table),
        redirect_schemes=_parse_redirect_schemes(table),
        result_hosts=_parse_result_hosts(table),
        appearance=_parse_appearance(table, folder),
    )
    return ConfiguredBrand(brand, _parse_api_keys(table), enabled)


def _parse_push_result_url(table: _TomlTable, rules: EgressRules) -> str | None:
    url = table.optional_text("push_result_url", 2048)
    if url is None:
        return None
    if (fault := delivery_url_error(url, rules=rules, brand_host=_parse_host(table))) is not None:
        table.fail("push_result_url", fault, "Give a URL as a merchant would as resultUrl.")
    return url


def _parse_host(table: _TomlTable) -> str | None:
    host = table.optional_text("host")
    if host is None:
        return None
    try:
        target = parse_url(f"https://{host}/")
    except UrlError as error:
        table.fail("host", str(error), 'Give a host name only, such as "acme.example".')
    if (target.path_and_query, target.port) != ("/", 443):
        table.fail("host", f"{host!r} is more than a name.", 'Write it like "acme.example".')
    return target.host


def _parse_reuse_policy(table: _TomlTable) -> ReusePolicy:
    """Parse one choice for every type of payment, or a table with a choice for each; the rest has the default."""
    value = table.values.get("reference_reuse", {})
    if not isinstance(value, dict):
        return ReusePolicy.same_for_all(_parse_reuse(table, "reference_reuse", value))
    types = [each.value for each in Type]
    choices = _TomlTable(f"{table.location}, reference_reuse", value)
    choices.allow_only(types)
    return ReusePolicy(**{type: _parse_reuse(choices, type, value[type]) for type in types if type in value})


def _parse_reuse(table: _TomlTable, key: str, value: object) -> ReferenceReuse:
    known = [each.value for each in ReferenceReuse]
    if value not in known:
        table.fail(key, f"{value!r} is none.", f"Use one of: {', '.join(known)}.")
    return ReferenceReuse(value)


def parse_brand_limits(brand: str, limits: Mapping[str, object]) -> BrandLimits:
    """Return limits of a brand as a whole that were not written in a file, by its rules. Raises SettingsError."""
    return _parse_brand_limits(_TomlTable(f"brand {brand}", {"limits": limits}))


def parse_method_limits(brand: str, method: str, limits: Mapping[str, object]) -> Mapping[str, Limits]:
    """Return limits of a method by currency that were not written in a file, by its rules. Raises SettingsError."""
    return _parse_limits(_TomlTable(f"brand {brand}, method {method}", {"limits": limits}))


def _parse_brand_limits(table: _TomlTable) -> BrandLimits:
    """Parse the limits of a brand as a whole; what is left out is not limited."""
    value = table.values.get("limits", {})
    if not isinstance(value, dict):
        table.fail("limits", "it is no table.", "Write limits.pending_payments = 1000.")
    limits = _TomlTable(f"{table.location}, limits", value)
    limits.allow_only(key_names(BRAND_LIMIT_KEYS))
    for key, number in value.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= BRAND_LIMIT_MAX:
            limits.fail(key, f"{number!r} can't be used.", f"Give a whole number from 1 to {BRAND_LIMIT_MAX}.")
    if "requests_burst" in value and "requests_per_second" not in value:
        limits.fail("requests_burst", "it needs requests_per_second.", "Give both.")
    return BrandLimits(**value)


def _parse_appearance(table: _TomlTable, folder: Path) -> PageAppearance:
    """Parse how the payment page looks; what is left out looks as it does for every brand."""
    value = table.values.get("page", {})
    if not isinstance(value, dict):
        table.fail("page", "it is no table.", 'Write page.colour = "#0a6b48".')
    page = _TomlTable(f"{table.location}, page", value)
    page.allow_only(key_names(PAGE_KEYS))
    colour = None
    if "colour" in value:
        colour = page.text_matching("colour", _COLOUR_PATTERN, 'Write it like "#0a6b48".').lower()
    logo, file = None, page.optional_text("logo", 1024)
    if file is not None:
        try:
            logo = read_logo(folder / file)
        except LogoError as error:
            remedy = f"Name a PNG, JPEG or WebP file of at most {LOGO_BYTES_MAX:,} bytes."
            page.fail("logo", f"{file}: {error}", remedy)
    return PageAppearance(colour, logo, page.optional_text("order_label"))


def _parse_redirect_schemes(table: _TomlTable) -> frozenset[str]:
    schemes = frozenset(each.lower() for each in table.text_list("redirect_schemes"))
    for scheme in schemes:
        if not _SCHEME_PATTERN.fullmatch(scheme):
            table.fail("redirect_schemes", f"{scheme!r} is no scheme.", 'Write it like "acmeapp".')
        if scheme in FORBIDDEN_REDIRECT_SCHEMES:
            table.fail("redirect_schemes", f"{scheme} is dangerous in a browser.", "Leave it out.")
    return schemes


def _parse_result_hosts(table: _TomlTable) -> tuple[str, ...]:
    hosts = set()
    for host in table.text_list("result_hosts"):
        try:
            hosts.add(parse_result_host(host))
        except UrlError as error:
            remedy = 'Give host names only, such as "pay.acme.example" or "*.acme.example".'
            table.fail("result_hosts", str(error), remedy)
    return tuple(sorted(hosts))


def _parse_api_keys(table: _TomlTable) -> tuple[str, ...]:
    keys = table.text_list("api_keys")
    for number, key in enumerate(keys, 1):  # The message never holds the key itself (A5).
        if len(key) < SANDBOX_API_KEY_LENGTH_MIN or not _API_KEY_PATTERN.fullmatch(key):
            table.fail(
                "api_keys",
                f"key {number} can't be used.",
                f"Use {API_KEY_LENGTH_MIN} to 256 visible ASCII characters, best from a generator;"
                " or leave api_keys out, and one is made.",
            )
    return keys


def _parse_method(table: _TomlTable, providers: Mapping[str, str]) -> Method:
    table.allow_only(key_names(METHOD_KEYS))
    key = table.text_matching("key", _METHOD_KEY_PATTERN, "Use 1 to 100 characters, no '/' and none of control.")
    country = table.text_matching("country", _COUNTRY_PATTERN, 'Use ISO 3166-1 alpha-2, such as "KE".')
    provider = table.text("provider")
    if provider not in providers:
        table.fail("provider", f"{provider!r} isn't configured.", near_match(provider, providers))
    operations = {each.value: each for each in Operation}
    flows = table.text_list("flows")
    for flow in flows:
        if flow not in operations:
            table.fail("flows", f"{flow!r} is none.", near_match(flow, operations))
    if not flows:
        table.fail("flows", "there are none.", 'Write flows = ["direct/payin"].')
    return Method(
        key=key,
        provider=provider,
        provider_title=providers[provider],
        country=country,
        operations=frozenset(operations[flow] for flow in flows),
        limits=_parse_limits(table),
        tax_authority_id=table.optional_text("tax_authority_id"),
        tax_authority_account=table.optional_text("tax_authority_account", 20) or "000",
        push_accounts=table.text_list("push_accounts"),
    )


def _parse_limits(table: _TomlTable) -> Mapping[str, Limits]:
    values = table.values.get("limits")
    example = 'Write limits.KES = { min = "10", max = "150000" }.'
    if not isinstance(values, dict) or not values:
        table.fail("limits", "they are missing.", example)
    limits = {}
    for currency, bounds in values.items():
        where = f"limits.{currency}"
        if currency not in CURRENCIES:
            table.fail(where, "ISO 4217 has no such currency.", near_match(currency, CURRENCIES))
        if not isinstance(bounds, dict) or not {"min", "max"} <= bounds.keys() <= set(key_names(METHOD_LIMIT_KEYS)):
            table.fail(where, f"it needs min and max, and may have {', '.join(DAILY_LIMITS)}.", example)
        minimum = _parse_amount(table, f"{where}.min", bounds["min"], currency)
        maximum = _parse_amount(table, f"{where}.max", bounds["max"], currency)
        if minimum.minor > maximum.minor:
            table.fail(where, "min is above max.", "Exchange them.")
        daily = {
            type: _parse_amount(table, f"{where}.{key}", bounds[key], currency)
            for key, type in DAILY_LIMITS.items()
            if key in bounds
        }
        limits[currency] = Limits(minimum, maximum, daily)
    return limits


def _parse_amount(table: _TomlTable, key: str, value: object, currency: str) -> Money:
    """Parse an exact amount; a TOML float would have lost digits already (G6)."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        table.fail(key, f"{value!r} is no exact amount.", f'Put it in quotes: "{value}".')
    try:
        return to_money(check_amount(parse_number(str(value))), currency)
    except AmountError as error:
        table.fail(key, f"it {error}.", 'Write it like "10.50".')


def _check_unique(location: str, name: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            named = "an API key" if name == "api_key" else f"{name} {value}"
            raise SettingsError(location, f"{named} stands there twice.", "Keep one of them.")
        seen.add(value)
