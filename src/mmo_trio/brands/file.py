"""Defines the fields of `brands.toml`, the brands and their methods, and reads the file strictly: a
fault is named with its remedy.

Each field stands in one table, with its key, its meaning, and how its value is read and checked.
The file is read by these tables, the page of the documentation is made from them, and brands are
shown, compared and edited by their keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from attrs import Factory, evolve, field, fields, frozen

from mmo_sansio.http import egress_rules
from mmo_sansio.values import model
from mmo_sansio.values.fields import SettingsError, collected, raise_faults
from mmo_sansio.values.money import CURRENCIES, AmountError, Money, written_money
from mmo_sansio.values.near_match import near_match

# The largest limit on a brand's requests or pending payments.
BRAND_LIMIT_MAX = 1_000_000

# Shorter keys may be guessed; those that the gateway makes have 43 characters. Keys that the store
# has stay in use.
API_KEY_LENGTH_MIN = 24

# The same in a sandbox, where no money moves.
SANDBOX_API_KEY_LENGTH_MIN = 8

# So that the first view of the payment page stays below 20 KB, with the operator's sign as well.
LOGO_BYTES_MAX = 4_096

_API_KEY_PATTERN = re.compile(r"[!-~]{1,256}", re.ASCII)
_SCHEME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)


@frozen
class FileTable:
    """Reads the values of one table of the file, and knows its location."""

    location: str
    values: Mapping[str, Any]
    providers: Mapping[str, str] = Factory(dict)
    """The titles of the configured providers by name."""
    rules: egress_rules.EgressRules = egress_rules.EgressRules()
    """What push_result_url has to keep."""
    folder: Path = Path()
    """Where logos are found."""
    elsewhere: Collection[str] = ()
    """The names of the providers whose payers confirm at a page of the operator, or with a code."""

    def fail(self, key: str, fault: str, remedy: str) -> NoReturn:
        raise SettingsError(f"{self.location}, {key}", fault, remedy)

    def text(self, key: str, length_max: int = 255) -> str:
        """Return a text that is not blank."""
        value = self.values.get(key)
        # Blank is missing: a name of spaces would show nothing.
        if not isinstance(value, str) or not value.strip() or len(value) > length_max:
            self.fail(key, "it is missing or no text.", f"Give 1 to {length_max} characters.")
        return value

    def text_list(self, key: str) -> tuple[str, ...]:
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.fail(key, "it is no list of texts.", f'Write {key} = ["…"].')
        return tuple(values)

    def table(self, key: str, remedy: str) -> FileTable:
        value = self.values.get(key)
        if not isinstance(value, dict):
            self.fail(key, "it is no table.", remedy)
        return evolve(self, location=f"{self.location}, {key}", values=value)

    def tables(self, key: str, header: str) -> Sequence[FileTable]:
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            self.fail(key, "it is no list of tables.", f"Begin each with {header}.")
        return [
            evolve(self, location=f"{self.location}, {header} {n}", values=value)
            for n, value in enumerate(values, 1)
        ]

    def unknown_keys(self, known: Iterable[str]) -> Iterator[SettingsError]:
        """Yield a fault for each key that is none of these: misspelt, a limit of a brand would
        silently not apply."""
        for key in self.values:
            if key not in known:
                remedy = near_match(key, known)
                yield SettingsError(f"{self.location}, {key}", "there is no such key.", remedy)

    def attributes(self, known: Sequence[BrandField]) -> dict[str, Any]:
        """Return the attributes that the table sets; for what it leaves out the model has a
        default. Raises SettingsError, which names the faults of all keys."""
        faults = list(self.unknown_keys(key_names(known)))
        read: dict[str, Any] = {}
        for key in known:
            # A required key that is missing is read, too, which is the fault.
            if key.key in self.values or key.default == REQUIRED:
                with collected(faults):
                    read[key.attribute] = key.kind.read(self, key.key)

        raise_faults(faults)
        return read


@frozen
class FieldKind:
    """Says how a kind of value is read from a table, by its key; what can't be used raises
    SettingsError."""

    name: str
    """The form of its values, for people."""
    read: Callable[[FileTable, str], Any]


@frozen
class BrandField:
    """Describes one key."""

    key: str
    kind: FieldKind
    default: str
    """What holds without it, for people; REQUIRED: it may not be left out."""
    meaning: str
    attribute: str = field(default=Factory(lambda self: self.key, takes_self=True))
    """The name of its value in the model."""


REQUIRED: Final = "required"
_NO_LIMIT: Final = "no limit"
_NOT_SHOWN: Final = "nothing is shown"


def key_names(known: Iterable[BrandField]) -> tuple[str, ...]:
    """Return the keys of these fields."""
    return tuple(key.key for key in known)


def _text_matching(pattern: str, remedy: str) -> FieldKind:
    def read(table: FileTable, key: str) -> str:
        value = table.text(key)
        if not re.fullmatch(pattern, value, re.ASCII):
            table.fail(key, f"{value!r} can't be used.", remedy)
        return value

    return FieldKind("text", read)


def _kind(name: str) -> Callable[[Callable[[FileTable, str], Any]], FieldKind]:
    """Return a decorator that turns a function, the reader of a value, into its kind: `read` of
    that calls the function."""
    return partial(FieldKind, name)


_TEXT: Final = FieldKind("text", FileTable.text)
_TEXTS: Final = FieldKind("list of texts", FileTable.text_list)


@_kind("amount in quotes")
def _amount(table: FileTable, key: str) -> Money:
    """Read the exact amount at `limits.CURRENCY.NAME`; a TOML float would have lost digits already
    (G6)."""
    # The key is the whole place, `limits.KES.max`, as messages name it.
    _, currency, name = key.split(".")
    value = table.values["limits"][currency][name]

    # A whole number is exact, and true is none.
    if isinstance(value, bool) or not isinstance(value, str | int):
        table.fail(key, f"{value!r} is no exact amount.", f'Put it in quotes: "{value}".')
    try:
        return written_money(str(value), currency)
    except AmountError as error:
        table.fail(key, f"it {error}.", 'Write it like "10.50".')


# The keys of the largest sum of a day, by type of payment.
DAILY_LIMITS: Final[Mapping[str, model.Type]] = {
    f"daily_{type_.value}": type_ for type_ in model.Type
}

# The keys of a method's limits in one currency.
METHOD_LIMIT_FIELDS: Final = (
    BrandField("min", _amount, REQUIRED, "The smallest amount (C11)."),
    BrandField("max", _amount, REQUIRED, "The largest amount (C11)."),
    *(
        BrandField(
            key,
            _amount,
            _NO_LIMIT,
            f"The largest sum of the {type.value} payments of a day, by UTC (422 "
            f"`brand_daily_limit`).",
        )
        for key, type in DAILY_LIMITS.items()
    ),
)


def limit_amounts(limits: model.Limits) -> Mapping[str, Money]:
    """Return the limits of a method in one currency by their keys."""
    daily = {key: limits.daily[type] for key, type in DAILY_LIMITS.items() if type in limits.daily}
    return {"min": limits.minimum, "max": limits.maximum, **daily}


@_kind("table by currency")
def method_limits(table: FileTable, key: str) -> Mapping[str, model.Limits]:
    """Read the limits of a method by currency. Raises SettingsError."""
    values = table.values.get(key)
    example = 'Write limits.KES = { min = "10", max = "150000" }.'
    if not isinstance(values, dict) or not values:
        table.fail(key, "they are missing.", example)

    limits = {}
    for currency, bounds in values.items():
        where = f"{key}.{currency}"
        if currency not in CURRENCIES:
            table.fail(where, "ISO 4217 has no such currency.", near_match(currency, CURRENCIES))

        if not isinstance(bounds, dict) or not {"min", "max"} <= bounds.keys() <= set(
            key_names(METHOD_LIMIT_FIELDS)
        ):
            table.fail(
                where, f"it needs min and max, and may have {', '.join(DAILY_LIMITS)}.", example
            )

        amounts = {name: _amount.read(table, f"{where}.{name}") for name in bounds}
        # No payment would fit.
        if amounts["min"].minor > amounts["max"].minor:
            table.fail(where, "min is above max.", "Exchange them.")

        daily = {type: amounts[name] for name, type in DAILY_LIMITS.items() if name in amounts}
        limits[currency] = model.Limits(amounts["min"], amounts["max"], daily)

    return limits


@_kind("text")
def _provider(table: FileTable, key: str) -> str:
    provider = table.text(key)
    if provider not in table.providers:
        table.fail(key, f"{provider!r} isn't configured.", near_match(provider, table.providers))
    return provider


def flow_fault(
    flows: Collection[str], provider: str | None, elsewhere: Collection[str]
) -> str | None:
    """Return why a method of this provider can't have these flows, in a sentence; None: it can.
    `elsewhere` are the providers whose payers confirm at a page of the operator, or with a code."""
    if model.Operation.DIRECT_PAYIN not in flows or provider not in elsewhere:
        return None
    return (
        f"'direct/payin' has no page, and payers of {provider!r} confirm at a page or with a code."
    )


@_kind("list of texts")
def _flows(table: FileTable, key: str) -> frozenset[model.Operation]:
    operations = {operation.value: operation for operation in model.Operation}
    flows = table.text_list(key)
    for flow in flows:
        if flow not in operations:
            table.fail(key, f"{flow!r} is none.", near_match(flow, operations))

    if not flows:
        table.fail(key, "there are none.", 'Write flows = ["direct/payin"].')

    # Its own field reports a provider that is missing.
    provider = table.values.get("provider")
    if (fault := flow_fault(flows, provider, table.elsewhere)) is not None:
        table.fail(key, fault, 'Write flows = ["web/payin"].')

    return frozenset(operations[flow] for flow in flows)


# The keys of a `[[brand.method]]`.
METHOD_FIELDS: Final = (
    BrandField(
        "key",
        _text_matching(
            r"[^\x00-\x20\x7f-\x9f/]([^\x00-\x1f\x7f-\x9f/]{0,98}[^\x00-\x20\x7f-\x9f/])?",
            "Use 1 to 100 characters, no '/' and none of control.",
        ),
        REQUIRED,
        "The `{method}` of requests: 1 to 100 characters without `/`; capitals count (C10). A key "
        "may occur once for each country.",
    ),
    BrandField("provider", _provider, REQUIRED, "The `NAME` of a `[provider.NAME]` of `mmo.toml`."),
    BrandField(
        "country",
        _text_matching("[A-Z]{2}", 'Use ISO 3166-1 alpha-2, such as "KE".'),
        REQUIRED,
        "ISO 3166-1 alpha-2, in capitals.",
    ),
    BrandField(
        "flows",
        _flows,
        REQUIRED,
        "What requests may ask for: `direct/payin`, `direct/payout`, `qr/payin`, `web/payin`, "
        "`direct/taxpayout`.",
        attribute="operations",
    ),
    BrandField(
        "limits",
        method_limits,
        REQUIRED,
        "Limits in each currency that the method takes; see below.",
    ),
    BrandField(
        "tax_authority_id",
        _TEXT,
        "the method's key",
        "`party.id` of the tax payouts: the name of the authority (M5).",
    ),
    BrandField(
        "tax_authority_account",
        FieldKind("text", partial(FileTable.text, length_max=20)),
        f"`{fields(model.Method).tax_authority_account.default}`",
        "`party.msisdn` of the tax payouts: the authority's account, 1 to 20 characters (M5).",
    ),
    BrandField(
        "push_accounts",
        _TEXTS,
        "`[]`",
        "The offline deposits that belong to this method: `ACCOUNT`, or `ACCOUNT/PREFIX` for those "
        "whose bill reference begins so; the longest prefix counts (S4).",
    ),
)


@_kind("`[[brand.method]]` tables")
def _methods(table: FileTable, key: str) -> tuple[model.Method, ...]:
    faults: list[SettingsError] = []
    read: list[dict[str, Any]] = []
    for method in table.tables(key, "[[brand.method]]"):
        with collected(faults):
            read.append(method.attributes(METHOD_FIELDS))

    raise_faults(faults)
    _check_unique(
        table.location, key, (f"{method['key']} in {method['country']}" for method in read)
    )
    return tuple(
        model.Method(provider_title=table.providers[method["provider"]], **method)
        for method in read
    )


@_kind("number")
def _brand_limit(table: FileTable, key: str) -> int:
    number = table.values[key]
    if (
        isinstance(number, bool)
        or not isinstance(number, int)
        or not 1 <= number <= BRAND_LIMIT_MAX
    ):
        table.fail(
            key, f"{number!r} can't be used.", f"Give a whole number from 1 to {BRAND_LIMIT_MAX}."
        )
    return number


# The keys of a brand's `limits`.
BRAND_LIMIT_FIELDS: Final = (
    BrandField(
        "requests_per_second",
        _brand_limit,
        _NO_LIMIT,
        "Requests of any kind (429 `too_many_requests`).",
    ),
    BrandField(
        "requests_burst",
        _brand_limit,
        "those of one second",
        "Requests that may come at once after a pause; needs `requests_per_second`.",
    ),
    BrandField(
        "pending_payments",
        _brand_limit,
        _NO_LIMIT,
        "Payments that may be pending at the same time (422 `brand_pending_limit`).",
    ),
)


@_kind("table")
def brand_limits(table: FileTable, key: str) -> model.BrandLimits:
    """Read the limits of a brand as a whole. Raises SettingsError."""
    limits = table.table(key, "Write limits.pending_payments = 1000.")
    read = limits.attributes(BRAND_LIMIT_FIELDS)
    # Without a rate nothing would be limited.
    if "requests_burst" in read and "requests_per_second" not in read:
        limits.fail("requests_burst", "it needs requests_per_second.", "Give both.")
    return model.BrandLimits(**read)


# Media type, the place of the bytes by which its files are known, and these bytes. Every browser of
# the last ten years shows these three kinds.
_LOGO_SIGNATURES = (
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/webp", 8, b"WEBP"),
)


@_kind("`#rrggbb`")
def _colour(table: FileTable, key: str) -> str:
    colour: str = _text_matching("#[0-9A-Fa-f]{6}", 'Write it like "#0a6b48".').read(table, key)
    return colour.lower()


@_kind("file name")
def logo(table: FileTable, key: str) -> model.Logo:
    """Read a picture. The first bytes decide what it is, not its name. SVG is not accepted: it may
    hold scripts and addresses of other servers."""
    file = table.text(key, length_max=1024)

    def refuse(fault: str) -> NoReturn:
        table.fail(
            key,
            f"{file}: it {fault}",
            f"Name a PNG, JPEG or WebP file of at most {LOGO_BYTES_MAX:,} bytes.",
        )

    try:
        with (table.folder / file).open("rb") as opened:
            # One byte more tells that it is too large, whatever its size.
            content = opened.read(LOGO_BYTES_MAX + 1)
    except OSError as error:
        refuse(f"can't be read ({error.strerror}).")

    if len(content) > LOGO_BYTES_MAX:
        refuse(f"has more than {LOGO_BYTES_MAX:,} bytes.")

    media_type = next(
        (name for name, at, first in _LOGO_SIGNATURES if content[at : at + len(first)] == first),
        None,
    )
    if media_type is None:
        refuse("is neither PNG, JPEG nor WebP.")

    return model.Logo(media_type, content)


@_kind("https URL")
def _support_url(table: FileTable, key: str) -> str:
    """Read an address that a payer opens; the gateway itself never asks it."""
    url = table.text(key, length_max=egress_rules.URL_LENGTH_MAX)
    try:
        target = egress_rules.parse_url(url)
    except egress_rules.UrlError as error:
        table.fail(key, str(error), 'Write it like "https://acme.example/help".')
    if target.scheme != "https":
        table.fail(key, "it is no https URL.", 'Write it like "https://acme.example/help".')
    return url


# The keys of a brand's `page`.
PAGE_FIELDS: Final = (
    BrandField(
        "colour",
        _colour,
        "that of the gateway",
        "The colour of the button and the shop's mark, made darker or lighter as far as it has to "
        "be to be read.",
    ),
    BrandField(
        "logo",
        logo,
        "the initials of `name`",
        "A PNG, JPEG or WebP file of at most 4,096 bytes, from the folder of `brands.toml`; it is "
        "shown as a square.",
    ),
    BrandField(
        "order_label",
        _TEXT,
        "nothing is said",
        "The key of the label (M4) whose value the page shows as what is paid for, such "
        "as `order`.",
    ),
    BrandField(
        "support_phone",
        _text_matching(
            r"\+[1-9](?: ?[0-9]){5,14}",
            'Write it with the code of its country, like "+254 700 000 000".',
        ),
        _NOT_SHOWN,
        "The telephone of the shop, for payers: every ending but paid has a link that calls it.",
    ),
    BrandField(
        "support_url",
        _support_url,
        _NOT_SHOWN,
        "Where payers ask the shop: a page of help, or a chat such as "
        "`https://wa.me/254700000000`; every ending but paid has a link that opens it.",
    ),
)


@_kind("table")
def _page(table: FileTable, key: str) -> model.PageAppearance:
    return model.PageAppearance(
        **table.table(key, 'Write page.colour = "#0a6b48".').attributes(PAGE_FIELDS)
    )


@_kind("list of texts")
def _api_keys(table: FileTable, key: str) -> tuple[str, ...]:
    api_keys = table.text_list(key)
    for number, api_key in enumerate(api_keys, 1):  # The message never holds the key itself (A5).
        if len(api_key) < SANDBOX_API_KEY_LENGTH_MIN or not _API_KEY_PATTERN.fullmatch(api_key):
            table.fail(
                key,
                f"key {number} can't be used.",
                f"Use {API_KEY_LENGTH_MIN} to 256 visible ASCII characters, best from a generator;"
                " or leave api_keys out, and one is made.",
            )
    return api_keys


@_kind("true or false")
def _enabled(table: FileTable, key: str) -> bool:
    enabled = table.values[key]
    if not isinstance(enabled, bool):
        table.fail(key, "it is neither true nor false.", "Write enabled = true.")
    return enabled


@_kind("https URL")
def _push_result_url(table: FileTable, key: str) -> str:
    url = table.text(key, length_max=2048)
    host = None

    # A brand's own host leads to this gateway as well; its faults are those of its own key.
    if "host" in table.values:
        with suppress(SettingsError):
            host = _host.read(table, "host")

    if (
        fault := egress_rules.delivery_url_error(url, rules=table.rules, brand_host=host)
    ) is not None:
        table.fail(key, fault, "Give a URL as a merchant would as resultUrl.")
    return url


@_kind("host name")
def _host(table: FileTable, key: str) -> str:
    host = table.text(key)
    try:
        target = egress_rules.parse_url(f"https://{host}/")
    except egress_rules.UrlError as error:
        table.fail(key, str(error), 'Give a host name only, such as "acme.example".')
    # The parser takes a port and a path, which a name has not.
    if (target.path_and_query, target.port) != ("/", 443):
        table.fail(key, f"{host!r} is more than a name.", 'Write it like "acme.example".')
    return target.host


@_kind("text or table by type")
def _reuse_policy(table: FileTable, key: str) -> model.ReusePolicy:
    """Read one choice for every type of payment, or a table with a choice for each; the rest has
    the default."""
    value = table.values[key]
    if not isinstance(value, dict):
        return model.ReusePolicy.same_for_all(_read_reuse(table, key))

    choices = FileTable(f"{table.location}, {key}", value)
    types = [type_.value for type_ in model.Type]
    raise_faults(list(choices.unknown_keys(types)))
    return model.ReusePolicy(
        **{type: _read_reuse(choices, type) for type in types if type in value}
    )


def _read_reuse(table: FileTable, key: str) -> model.ReferenceReuse:
    value = table.values[key]
    known = [reuse.value for reuse in model.ReferenceReuse]
    if value not in known:
        table.fail(key, f"{value!r} is none.", f"Use one of: {', '.join(known)}.")
    return model.ReferenceReuse(value)


@_kind("list of texts")
def _redirect_schemes(table: FileTable, key: str) -> frozenset[str]:
    schemes = frozenset(scheme.lower() for scheme in table.text_list(key))
    for scheme in schemes:
        if not _SCHEME_PATTERN.fullmatch(scheme):
            table.fail(key, f"{scheme!r} is no scheme.", 'Write it like "acmeapp".')
        # `javascript:` would run in the payer's browser (C8).
        if scheme in egress_rules.FORBIDDEN_REDIRECT_SCHEMES:
            table.fail(key, f"{scheme} is dangerous in a browser.", "Leave it out.")
    return schemes


@_kind("list of host names")
def _result_hosts(table: FileTable, key: str) -> tuple[str, ...]:
    try:
        return tuple(
            sorted({egress_rules.parse_result_host(host) for host in table.text_list(key)})
        )
    except egress_rules.UrlError as error:
        table.fail(
            key, str(error), 'Give host names only, such as "pay.acme.example" or "*.acme.example".'
        )


_ID: Final = _text_matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "Use 1 to 64 ASCII letters, digits, '.', '_' and '-'."
)

# The keys of a `[[brand]]`; all but `api_keys` are attributes of the model.
BRAND_FIELDS: Final = (
    BrandField(
        "id",
        _ID,
        REQUIRED,
        "The name of the brand in commands, logs and metrics: 1 to 64 ASCII letters, digits, `.`, "
        "`_` and `-`.",
    ),
    BrandField("name", _TEXT, REQUIRED, "The name that payers see on the payment page."),
    BrandField(
        "api_keys",
        _api_keys,
        "one is made",
        "API keys of 24 to 256 visible ASCII characters. Better leave it out: a brand without a "
        "key gets one, which is shown once.",
    ),
    BrandField(
        "enabled",
        _enabled,
        "as it is; true for a new brand",
        "Whether requests of the brand are accepted (A2).",
    ),
    BrandField(
        "push_result_url",
        _push_result_url,
        "nothing is sent",
        "Where the results of offline deposits are sent (S4); the same rules as for `resultUrl`.",
    ),
    BrandField(
        "host",
        _host,
        "none",
        "A host of the brand's own: on it only the brand's keys work, and they work on the common "
        "host, too (A6).",
    ),
    BrandField(
        "reference_reuse",
        _reuse_policy,
        ", ".join(
            f"`{type.value} = {model.ReusePolicy().for_type(type).value}`" for type in model.Type
        ),
        "When a `merchantReference` may be used again after its window (C12): `unless_paid`, "
        "`never` or `after_window`, for all types of payment or for each.",
    ),
    BrandField(
        "redirect_schemes",
        _redirect_schemes,
        "`[]`: http and https",
        "Further schemes that redirect URLs may have, such as an app's (C8).",
    ),
    BrandField(
        "result_hosts",
        _result_hosts,
        "`[]`: any public host",
        "The only hosts that results and QR codes are sent to; `*.` before a name stands for all "
        "names below it.",
    ),
    BrandField("limits", brand_limits, _NO_LIMIT, "Limits of the brand as a whole; see below."),
    BrandField(
        "page",
        _page,
        "the same for all",
        "How the payment page of the brand looks; see below.",
        attribute="appearance",
    ),
    BrandField("method", _methods, "none", "The payment methods; see below.", attribute="methods"),
)


@frozen
class ConfiguredBrand:
    """Holds a brand as the file describes it."""

    brand: model.Brand
    api_keys: tuple[str, ...] = field(repr=False)
    """The keys of the brand; empty: one is made if it has none."""
    enabled: bool | None = None
    """What the file says about it; None: nothing, and a new brand is enabled."""


def read_brands_file(
    path: Path,
    *,
    providers: Mapping[str, str],
    rules: egress_rules.EgressRules,
    elsewhere: Collection[str] = (),
) -> Sequence[ConfiguredBrand]:
    """Read the brands in this file. Raises SettingsError.

    `providers` are the titles of the configured providers by name, and `elsewhere` the names of
    those whose payers do not confirm on the phone; `rules` check push_result_url.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        remedy = "Name a file in UTF-8 that the gateway's user may read."
        raise SettingsError(str(path), f"it can't be read ({error}).", remedy) from None

    return parse_brands(
        text, source=str(path), providers=providers, rules=rules, elsewhere=elsewhere
    )


def parse_brands(
    text: str,
    *,
    source: str,
    providers: Mapping[str, str],
    rules: egress_rules.EgressRules,
    elsewhere: Collection[str] = (),
) -> Sequence[ConfiguredBrand]:
    """Parse the brands in this text. Raises SettingsError, which names the faults of all brands.

    `source` names the text in messages; logos are found next to it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(source, f"it isn't TOML ({error}).", "Correct that place.") from None

    top = FileTable(source, document, providers, rules, Path(source).parent, elsewhere)
    faults = list(top.unknown_keys(("brand",)))
    tables: Sequence[FileTable] = ()
    with collected(faults):
        tables = top.tables("brand", "[[brand]]")

    brands: list[ConfiguredBrand] = []
    for table in tables:
        with collected(faults):
            brands.append(_parse_brand(source, table))

    # Across brands: each of these leads a request to one brand.
    names = {
        "id": [brand.brand.id for brand in brands],
        "host": [brand.brand.host for brand in brands if brand.brand.host],
        "api_key": [key for brand in brands for key in brand.api_keys],
    }
    for name, values in names.items():
        with collected(faults):
            _check_unique(source, name, values)

    raise_faults(faults)
    return tuple(brands)


def _parse_brand(source: str, table: FileTable) -> ConfiguredBrand:
    # The id first: from here on messages name the brand.
    table = evolve(table, location=f"{source}, brand {_ID.read(table, 'id')}")
    read = {"api_keys": (), "methods": (), **table.attributes(BRAND_FIELDS)}
    api_keys = read.pop("api_keys")
    return ConfiguredBrand(model.Brand(**read), api_keys, read.get("enabled"))


def _check_unique(location: str, name: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            named = f"{name} {value}"
            # No message holds a key itself (A5).
            if name == "api_key":
                named = "an API key"

            raise SettingsError(location, f"{named} stands there twice.", "Keep one of them.")
        seen.add(value)
