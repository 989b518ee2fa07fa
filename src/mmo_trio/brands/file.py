"""Defines the fields of `brands.toml`, the brands and their methods, and reads the file strictly.

The file is read by these fields, the page of the documentation is made from them, and brands are
shown, compared and edited by their names. The file is the only source: a value has the type of TOML
that is its own, and no environment variable replaces it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from attrs import Factory, evolve, field, fields, frozen

from mmo_sansio.http import egress_rules
from mmo_sansio.values import model
from mmo_sansio.values.fields import (
    REQUIRED,
    SWITCH,
    Field,
    InvalidValue,
    Kind,
    SettingsError,
    collected,
    matching,
    of_list,
    of_text,
    raise_faults,
    read_fields,
    table,
    tables,
    whole_number,
)
from mmo_sansio.values.money import CURRENCIES, AmountError, Money, written_money
from mmo_sansio.values.near_match import near_match
from mmo_trio.settings.toml_files import parse_toml, read_text

T = TypeVar("T")

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
_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_KEY_PATTERN = re.compile(
    r"[^\x00-\x20\x7f-\x9f/]([^\x00-\x1f\x7f-\x9f/]{0,98}[^\x00-\x20\x7f-\x9f/])?", re.ASCII
)
_COUNTRY_PATTERN = re.compile(r"[A-Z]{2}", re.ASCII)
_COLOUR_PATTERN = re.compile(r"#[0-9A-Fa-f]{6}", re.ASCII)
_PHONE_PATTERN = re.compile(r"\+[1-9](?: ?[0-9]){5,14}", re.ASCII)

_NO_LIMIT: Final = "no limit"
_NOT_SHOWN: Final = "nothing is shown"


@frozen
class FileContext:
    """Holds what a file of brands is judged by, beside itself."""

    providers: Mapping[str, str] = Factory(dict)
    """The titles of the configured providers by name."""
    rules: egress_rules.EgressRules = egress_rules.EgressRules()
    """What push_result_url has to keep."""
    folder: Path = Path()
    """Where logos are found."""
    elsewhere: Collection[str] = ()
    """The names of the providers whose payers confirm at a page of the operator, or with a code."""


def field_names(known: Iterable[Field]) -> tuple[str, ...]:
    """Return the names of these fields."""
    return tuple(known_field.name for known_field in known)


def _written(kind: Kind, type_: type) -> Kind:
    """Return the kind of the same values, where they have this type in TOML."""

    def parse(value: Any) -> Any:
        if type(value) is not type_:
            raise ValueError(f"it is no {type_.__name__}")
        return kind.parse(value)

    return evolve(kind, parse=parse)


def _text(
    parse: Callable[[str], Any] = str,
    demand: str | None = None,
    example: str = '"…"',
    *,
    name: str = "text",
    length_max: int = 255,
) -> Kind:
    def read(text: str) -> Any:
        if len(text) > length_max:
            raise ValueError("it is too long")
        return parse(text)

    demand = demand or f"text of 1 to {length_max} characters"
    return _written(Kind(name, of_text(read), demand, example), str)


def _matching(pattern: re.Pattern[str], demand: str, example: str) -> Kind:
    return _written(matching(pattern, demand, example), str)


def _texts(
    parse: Callable[[str], Any],
    demand: str,
    example: str,
    gather: Callable[[tuple[Any, ...]], Any] = tuple,
    *,
    name: str = "list of texts",
    is_secret: bool = False,
) -> Kind:
    """Return the kind of lists whose parsed texts this function puts together."""
    read = of_list(parse)
    kind = Kind(name, lambda values: gather(read(values)), demand, example, is_secret=is_secret)
    return _written(kind, list)


def _judged(parse: Callable[[str], T], remedy: str) -> Callable[[str], T]:
    """Return the parser that tells a fault in the words of the error."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except egress_rules.UrlError as error:
            raise InvalidValue(str(error), remedy) from None

    return read


def _amount(currency: str) -> Kind:
    """Return the kind of exact amounts; a TOML float would have lost digits already (G6)."""

    def parse(value: Any) -> Money:
        # A whole number is exact, and true is none.
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidValue("is no exact amount.", f'Put it in quotes: "{value}".')
        try:
            return written_money(str(value), currency)
        except AmountError as error:
            raise InvalidValue(f"{error}.", 'Write it like "10.50".') from None

    return Kind("amount in quotes", parse, "an amount", '"10"')


# The keys of the largest sum of a day, by type of payment.
DAILY_LIMITS: Final[Mapping[str, model.Type]] = {
    f"daily_{type_.value}": type_ for type_ in model.Type
}


def _method_limit_fields(currency: str) -> tuple[Field, ...]:
    amount = _amount(currency)
    return (
        Field("min", amount, REQUIRED, "The smallest amount (C11)."),
        Field("max", amount, REQUIRED, "The largest amount (C11)."),
        *(
            Field(
                name,
                amount,
                None,
                f"The largest sum of the {type.value} payments of a day, by UTC (422 "
                "`brand_daily_limit`).",
                _NO_LIMIT,
            )
            for name, type in DAILY_LIMITS.items()
        ),
    )


# The fields of a method's limits in one currency, here of any.
METHOD_LIMIT_FIELDS: Final = _method_limit_fields("KES")


def limit_amounts(limits: model.Limits) -> Mapping[str, Money]:
    """Return the limits of a method in one currency by their keys."""
    daily = {key: limits.daily[type] for key, type in DAILY_LIMITS.items() if type in limits.daily}
    return {"min": limits.minimum, "max": limits.maximum, **daily}


def _limits_in(currency: str, values: Mapping[str, Any]) -> model.Limits:
    if currency not in CURRENCIES:
        remedy = near_match(currency, CURRENCIES)
        raise InvalidValue("ISO 4217 has no such currency.", remedy)

    amounts = read_fields(_method_limit_fields(currency), values)
    # No payment would fit.
    if amounts["min"].minor > amounts["max"].minor:
        raise SettingsError("min", "is above max.", "Exchange them.")

    daily = {type: amounts[name] for name, type in DAILY_LIMITS.items() if name in amounts}
    return model.Limits(amounts["min"], amounts["max"], daily)


def read_method_limits(values: Mapping[str, Any]) -> Mapping[str, model.Limits]:
    """Read the limits of a method by currency. Raises SettingsError."""
    if not values:
        raise InvalidValue("has no currency.", 'Write limits.KES = { min = "10", max = "150000" }.')

    # Its fields are the currencies, each with its amounts.
    example = '{ min = "10", max = "150000" }'
    return read_fields(
        [
            Field(currency, table(partial(_limits_in, currency), example), None, "Its limits.")
            for currency in values
        ],
        values,
    )


def _provider(context: FileContext) -> Kind:
    def parse(name: str) -> str:
        if name not in context.providers:
            fault = f"{name!r} isn't configured."
            raise InvalidValue(fault, near_match(name, context.providers))
        return name

    return _text(parse)


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


def _flow(text: str) -> model.Operation:
    flows = {operation.value: operation for operation in model.Operation}
    if text not in flows:
        raise InvalidValue(f"{text!r} is none.", near_match(text, flows))
    return flows[text]


def _flows(flows: tuple[model.Operation, ...]) -> frozenset[model.Operation]:
    if not flows:
        raise InvalidValue("there are none.", 'Write it like ["direct/payin"].')
    return frozenset(flows)


def _method_fields(context: FileContext) -> tuple[Field, ...]:
    return (
        Field(
            "key",
            _matching(
                _KEY_PATTERN, "1 to 100 characters, no '/' and none of control", '"mpesa_ke"'
            ),
            REQUIRED,
            "The `{method}` of requests: 1 to 100 characters without `/`; capitals count (C10). A "
            "key may occur once for each country.",
        ),
        Field(
            "provider",
            _provider(context),
            REQUIRED,
            "The `NAME` of a `[provider.NAME]` of `mmo.toml`.",
        ),
        Field(
            "country",
            _matching(_COUNTRY_PATTERN, "a country of ISO 3166-1 alpha-2", '"KE"'),
            REQUIRED,
            "ISO 3166-1 alpha-2, in capitals.",
        ),
        Field(
            "flows",
            _texts(_flow, "a list of flows", '["direct/payin"]', _flows),
            REQUIRED,
            "What requests may ask for: `direct/payin`, `direct/payout`, `qr/payin`, `web/payin`, "
            "`direct/taxpayout`.",
            attribute="operations",
        ),
        Field(
            "limits",
            table(
                read_method_limits,
                '{ KES = { min = "10", max = "150000" } }',
                name="table by currency",
            ),
            REQUIRED,
            "Limits in each currency that the method takes; see below.",
        ),
        Field(
            "tax_authority_id",
            _text(),
            None,
            "`party.id` of the tax payouts: the name of the authority (M5).",
            "the method's key",
        ),
        Field(
            "tax_authority_account",
            _text(length_max=20),
            fields(model.Method).tax_authority_account.default,
            "`party.msisdn` of the tax payouts: the authority's account, 1 to 20 characters (M5).",
        ),
        Field(
            "push_accounts",
            _texts(str, "a list of accounts", '["174379/ACME", "174380"]'),
            (),
            "The offline deposits that belong to this method: `ACCOUNT`, or `ACCOUNT/PREFIX` for "
            "those whose bill reference begins so; the longest prefix counts (S4).",
            "`[]`",
        ),
    )


# The fields of a `[[brand.method]]`.
METHOD_FIELDS: Final = _method_fields(FileContext())


def _read_method(context: FileContext, values: Mapping[str, Any]) -> model.Method:
    read = read_fields(_method_fields(context), values)
    provider = read["provider"]
    if (fault := flow_fault(read["operations"], provider, context.elsewhere)) is not None:
        raise SettingsError("flows", fault, 'Write flows = ["web/payin"].')
    return model.Method(provider_title=context.providers[provider], **read)


_BRAND_LIMIT: Final = _written(whole_number(1, BRAND_LIMIT_MAX), int)

# The fields of a brand's `limits`.
BRAND_LIMIT_FIELDS: Final = (
    Field(
        "requests_per_second",
        _BRAND_LIMIT,
        None,
        "Requests of any kind (429 `too_many_requests`).",
        _NO_LIMIT,
    ),
    Field(
        "requests_burst",
        _BRAND_LIMIT,
        None,
        "Requests that may come at once after a pause; needs `requests_per_second`.",
        "those of one second",
    ),
    Field(
        "pending_payments",
        _BRAND_LIMIT,
        None,
        "Payments that may be pending at the same time (422 `brand_pending_limit`).",
        _NO_LIMIT,
    ),
)


def read_brand_limits(values: Mapping[str, Any]) -> model.BrandLimits:
    """Read the limits of a brand as a whole. Raises SettingsError."""
    read = read_fields(BRAND_LIMIT_FIELDS, values)
    # Without a rate nothing would be limited.
    if "requests_burst" in read and "requests_per_second" not in read:
        raise SettingsError("requests_burst", "needs requests_per_second.", "Give both.")
    return model.BrandLimits(**read)


# Media type, the place of the bytes by which its files are known, and these bytes. Every browser of
# the last ten years shows these three kinds.
_LOGO_SIGNATURES = (
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/webp", 8, b"WEBP"),
)


def read_logo(folder: Path, file: str) -> model.Logo:
    """Read a picture. The first bytes decide what it is, not its name. SVG is not accepted: it may
    hold scripts and addresses of other servers. Raises InvalidValue."""

    def refuse(fault: str) -> NoReturn:
        remedy = f"Name a PNG, JPEG or WebP file of at most {LOGO_BYTES_MAX:,} bytes."
        raise InvalidValue(f"{file} {fault}", remedy)

    try:
        with (folder / file).open("rb") as opened:
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


def _support_url(text: str) -> str:
    """Read an address that a payer opens; the gateway itself never asks it."""
    if egress_rules.parse_url(text).scheme != "https":
        raise InvalidValue("is no https URL.", _SUPPORT_REMEDY)
    return text


def _colour(text: str) -> str:
    if _COLOUR_PATTERN.fullmatch(text) is None:
        raise ValueError("it is no colour")
    return text.lower()


_SUPPORT_REMEDY: Final = 'Write it like "https://acme.example/help".'


def _page_fields(folder: Path) -> tuple[Field, ...]:
    return (
        Field(
            "colour",
            _text(_colour, "a colour", '"#0a6b48"', name="`#rrggbb`"),
            None,
            "The colour of the button and the shop's mark, made darker or lighter as far as it has "
            "to be to be read.",
            "that of the gateway",
        ),
        Field(
            "logo",
            _text(partial(read_logo, folder), name="file name", length_max=1024),
            None,
            "A PNG, JPEG or WebP file of at most 4,096 bytes, from the folder of `brands.toml`; it "
            "is shown as a square.",
            "the initials of `name`",
        ),
        Field(
            "order_label",
            _text(),
            None,
            "The key of the label (M4) whose value the page shows as what is paid for, such "
            "as `order`.",
            "nothing is said",
        ),
        Field(
            "support_phone",
            _matching(
                _PHONE_PATTERN,
                "a telephone number with the code of its country",
                '"+254 700 000 000"',
            ),
            None,
            "The telephone of the shop, for payers: every ending but paid has a link that calls "
            "it.",
            _NOT_SHOWN,
        ),
        Field(
            "support_url",
            _text(
                _judged(_support_url, _SUPPORT_REMEDY),
                name="https URL",
                length_max=egress_rules.URL_LENGTH_MAX,
            ),
            None,
            "Where payers ask the shop: a page of help, or a chat such as "
            "`https://wa.me/254700000000`; every ending but paid has a link that opens it.",
            _NOT_SHOWN,
        ),
    )


# The fields of a brand's `page`.
PAGE_FIELDS: Final = _page_fields(Path())


def _read_page(folder: Path, values: Mapping[str, Any]) -> model.PageAppearance:
    return model.PageAppearance(**read_fields(_page_fields(folder), values))


def _api_keys(api_keys: tuple[str, ...]) -> tuple[str, ...]:
    for number, api_key in enumerate(api_keys, 1):  # The message never holds the key itself (A5).
        if len(api_key) < SANDBOX_API_KEY_LENGTH_MIN or not _API_KEY_PATTERN.fullmatch(api_key):
            raise InvalidValue(
                f"key {number} can't be used.",
                f"Use {API_KEY_LENGTH_MIN} to 256 visible ASCII characters, best from a generator;"
                " or leave api_keys out, and one is made.",
            )
    return api_keys


_PUSH_REMEDY: Final = "Give a URL as a merchant would as resultUrl."


def _push_result_url(rules: egress_rules.EgressRules) -> Kind:
    def parse(url: str) -> str:
        if (fault := egress_rules.delivery_url_error(url, rules=rules)) is not None:
            raise InvalidValue(fault, _PUSH_REMEDY)
        return url

    return _text(parse, name="https URL", length_max=egress_rules.URL_LENGTH_MAX)


def _host(text: str) -> str:
    target = egress_rules.parse_url(f"https://{text}/")
    # The parser takes a port and a path, which a name has not.
    if (target.path_and_query, target.port) != ("/", 443):
        raise InvalidValue(f"{text!r} is more than a name.", 'Write it like "acme.example".')
    return target.host


_REUSE: Final = _text(
    model.ReferenceReuse,
    f"one of {', '.join(reuse.value for reuse in model.ReferenceReuse)}",
    '"unless_paid"',
)
_REUSE_FIELDS: Final = tuple(
    Field(type.value, _REUSE, None, "The choice for this type of payment.") for type in model.Type
)


def _reuse_policy(value: Any) -> model.ReusePolicy:
    """Read one choice for every type of payment, or a table with a choice for each; the rest has
    the default."""
    if isinstance(value, dict):
        return model.ReusePolicy(**read_fields(_REUSE_FIELDS, value))
    return model.ReusePolicy.same_for_all(_REUSE.parse(value))


def _redirect_scheme(text: str) -> str:
    scheme = text.lower()
    if not _SCHEME_PATTERN.fullmatch(scheme):
        raise InvalidValue(f"{scheme!r} is no scheme.", 'Write it like "acmeapp".')
    # `javascript:` would run in the payer's browser (C8).
    if scheme in egress_rules.FORBIDDEN_REDIRECT_SCHEMES:
        raise InvalidValue(f"{scheme} is dangerous in a browser.", "Leave it out.")
    return scheme


_RESULT_HOST: Final = _judged(
    egress_rules.parse_result_host,
    'Give host names only, such as "pay.acme.example" or "*.acme.example".',
)

_ID: Final = _matching(_ID_PATTERN, "1 to 64 ASCII letters, digits, '.', '_' and '-'", '"acme"')


def _brand_fields(context: FileContext) -> tuple[Field, ...]:
    return (
        Field(
            "id",
            _ID,
            REQUIRED,
            "The name of the brand in commands, logs and metrics: 1 to 64 ASCII letters, digits, "
            "`.`, `_` and `-`.",
        ),
        Field("name", _text(), REQUIRED, "The name that payers see on the payment page."),
        Field(
            "api_keys",
            _texts(str, "a list of keys", '["…"]', _api_keys, is_secret=True),
            (),
            "API keys of 24 to 256 visible ASCII characters. Better leave it out: a brand without "
            "a key gets one, which is shown once.",
            "one is made",
        ),
        Field(
            "enabled",
            _written(SWITCH, bool),
            None,
            "Whether requests of the brand are accepted (A2).",
            "as it is; true for a new brand",
        ),
        Field(
            "push_result_url",
            _push_result_url(context.rules),
            None,
            "Where the results of offline deposits are sent (S4); the same rules as for "
            "`resultUrl`.",
            "nothing is sent",
        ),
        Field(
            "host",
            _text(
                _judged(_host, 'Give a host name only, such as "acme.example".'), name="host name"
            ),
            None,
            "A host of the brand's own: on it only the brand's keys work, and they work on the "
            "common host, too (A6).",
        ),
        Field(
            "reference_reuse",
            Kind("text or table by type", _reuse_policy, _REUSE.demand, _REUSE.example),
            None,
            "When a `merchantReference` may be used again after its window (C12): `unless_paid`, "
            "`never` or `after_window`, for all types of payment or for each.",
            ", ".join(
                f"`{type.value} = {model.ReusePolicy().for_type(type).value}`"
                for type in model.Type
            ),
        ),
        Field(
            "redirect_schemes",
            _texts(_redirect_scheme, "a list of schemes", '["acmeapp"]', frozenset),
            (),
            "Further schemes that redirect URLs may have, such as an app's (C8).",
            "`[]`: http and https",
        ),
        Field(
            "result_hosts",
            _texts(
                _RESULT_HOST,
                "a list of host names",
                '["*.acme.example"]',
                lambda hosts: tuple(sorted(set(hosts))),
                name="list of host names",
            ),
            (),
            "The only hosts that results and QR codes are sent to; `*.` before a name stands for "
            "all names below it.",
            "`[]`: any public host",
        ),
        Field(
            "limits",
            table(read_brand_limits, "{ pending_payments = 1000 }"),
            None,
            "Limits of the brand as a whole; see below.",
            _NO_LIMIT,
        ),
        Field(
            "page",
            table(partial(_read_page, context.folder), '{ colour = "#0a6b48" }'),
            None,
            "How the payment page of the brand looks; see below.",
            "the same for all",
            attribute="appearance",
        ),
        Field(
            "method",
            tables(partial(_read_method, context), "[[brand.method]]"),
            (),
            "The payment methods; see below.",
            "none",
            attribute="methods",
        ),
    )


# The fields of a `[[brand]]`; all but `api_keys` are attributes of the model.
BRAND_FIELDS: Final = _brand_fields(FileContext())


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
    text = read_text(path, "Name a file in UTF-8 that the gateway's user may read.")
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
    document = parse_toml(text, source)
    context = FileContext(providers, rules, Path(source).parent, elsewhere)
    brands: list[ConfiguredBrand] = []

    # Those without a fault are compared, whatever the others have.
    def read(values: Mapping[str, Any]) -> None:
        brands.append(_read_brand(context, values))

    faults: list[SettingsError] = []
    with collected(faults):
        kind = tables(read, "[[brand]]", _brand_label)
        read_fields([Field("brand", kind, (), "The brands.")], document)

    # Across brands: each of these leads a request to one brand.
    names = {
        "id": [brand.brand.id for brand in brands],
        "host": [brand.brand.host for brand in brands if brand.brand.host],
        "api_key": [key for brand in brands for key in brand.api_keys],
    }
    for name, found in names.items():
        with collected(faults):
            _check_unique(name, found)

    raise_faults([fault.within(source, ", ") for fault in faults])
    return tuple(brands)


def _brand_label(values: Mapping[str, Any]) -> str | None:
    """Return the id, by which messages name a brand; None where it can't be used."""
    try:
        id_: str = _ID.read(values.get("id"))
    except SettingsError:
        return None
    return id_


def _read_brand(context: FileContext, values: Mapping[str, Any]) -> ConfiguredBrand:
    read = {"api_keys": (), "methods": (), **read_fields(_brand_fields(context), values)}
    api_keys = read.pop("api_keys")
    brand = model.Brand(**read)

    # A brand's own host leads to this gateway as well.
    if brand.push_result_url is not None:
        fault = egress_rules.delivery_url_error(
            brand.push_result_url, rules=context.rules, brand_host=brand.host
        )
        if fault is not None:
            raise SettingsError("push_result_url", fault, _PUSH_REMEDY)

    _check_unique("method", (f"{method.key} in {method.country}" for method in brand.methods))
    return ConfiguredBrand(brand, api_keys, read.get("enabled"))


def _check_unique(name: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            named = f"{name} {value}"
            # No message holds a key itself (A5).
            if name == "api_key":
                named = "an API key"

            raise InvalidValue(f"{named} stands there twice.", "Keep one of them.")
        seen.add(value)
