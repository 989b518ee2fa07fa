"""Describes every key of `brands.toml`: what the reader takes, and what the page of the documentation says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import fields, frozen

from mmo_sansio.values.model import Method, ReusePolicy, Type

_REUSE = ReusePolicy()
_NO_LIMIT = "no limit"


@frozen
class BrandKey:
    """Describes one key for people."""

    key: str
    kind: str
    """The form of its values."""
    default: str
    meaning: str


DAILY_LIMITS: Final[Mapping[str, Type]] = {f"daily_{each.value}": each for each in Type}
"""The keys of the largest sum of a day, by type of payment."""

BRAND_KEYS: Final = (
    BrandKey(
        "id",
        "text",
        "required",
        "The name of the brand in commands, logs and metrics: 1 to 64 ASCII letters, digits, `.`, `_` and `-`.",
    ),
    BrandKey("name", "text", "required", "The name that payers see on the payment page."),
    BrandKey(
        "api_keys",
        "list of texts",
        "one is made",
        "API keys of 24 to 256 visible ASCII characters. Better leave it out: a brand without a key gets one, which is"
        " shown once.",
    ),
    BrandKey(
        "enabled", "true or false", "as it is; true for a new brand", "Whether requests of the brand are accepted (A2)."
    ),
    BrandKey(
        "push_result_url",
        "https URL",
        "nothing is sent",
        "Where the results of offline deposits are sent (S4); the same rules as for `resultUrl`.",
    ),
    BrandKey(
        "host",
        "host name",
        "none",
        "A host of the brand's own: on it only the brand's keys work, and they work on the common host, too (A6).",
    ),
    BrandKey(
        "reference_reuse",
        "text or table by type",
        ", ".join(f"`{type.value} = {_REUSE.for_type(type).value}`" for type in Type),
        "When a `merchantReference` may be used again after its window (C12): `unless_paid`, `never` or"
        " `after_window`, for all types of payment or for each.",
    ),
    BrandKey(
        "redirect_schemes",
        "list of texts",
        "`[]`: http and https",
        "Further schemes that redirect URLs may have, such as an app's (C8).",
    ),
    BrandKey(
        "result_hosts",
        "list of host names",
        "`[]`: any public host",
        "The only hosts that results and QR codes are sent to; `*.` before a name stands for all names below it.",
    ),
    BrandKey("limits", "table", _NO_LIMIT, "Limits of the brand as a whole; see below."),
    BrandKey("page", "table", "the same for all", "How the payment page of the brand looks; see below."),
    BrandKey("method", "`[[brand.method]]` tables", "none", "The payment methods; see below."),
)
"""The keys of a `[[brand]]`."""

BRAND_LIMIT_KEYS: Final = (
    BrandKey("requests_per_second", "number", _NO_LIMIT, "Requests of any kind (429 `too_many_requests`)."),
    BrandKey(
        "requests_burst",
        "number",
        "those of one second",
        "Requests that may come at once after a pause; needs `requests_per_second`.",
    ),
    BrandKey(
        "pending_payments",
        "number",
        _NO_LIMIT,
        "Payments that may be pending at the same time (422 `brand_pending_limit`).",
    ),
)
"""The keys of a brand's `limits`."""

PAGE_KEYS: Final = (
    BrandKey(
        "colour",
        "`#rrggbb`",
        "that of the gateway",
        "The colour of the button and the shop's mark, made darker or lighter as far as it has to be to be read.",
    ),
    BrandKey(
        "logo",
        "file name",
        "the initials of `name`",
        "A PNG, JPEG or WebP file of at most 8,192 bytes, from the folder of `brands.toml`; it is shown as a square.",
    ),
    BrandKey(
        "order_label",
        "text",
        "nothing is said",
        "The key of the label (M4) whose value the page shows as what is paid for, such as `order`.",
    ),
)
"""The keys of a brand's `page`."""

METHOD_KEYS: Final = (
    BrandKey(
        "key",
        "text",
        "required",
        "The `{method}` of requests: 1 to 100 characters without `/`; capitals count (C10). A key may occur once for"
        " each country.",
    ),
    BrandKey("provider", "text", "required", "The `NAME` of a `[provider.NAME]` of `mmo.toml`."),
    BrandKey("country", "text", "required", "ISO 3166-1 alpha-2, in capitals."),
    BrandKey(
        "flows",
        "list of texts",
        "required",
        "What requests may ask for: `direct/payin`, `direct/payout`, `qr/payin`, `web/payin`, `direct/taxpayout`.",
    ),
    BrandKey("limits", "table by currency", "required", "Limits in each currency that the method takes; see below."),
    BrandKey(
        "tax_authority_id", "text", "the method's key", "`party.id` of the tax payouts: the name of the authority (M5)."
    ),
    BrandKey(
        "tax_authority_account",
        "text",
        f"`{fields(Method).tax_authority_account.default}`",
        "`party.msisdn` of the tax payouts: the authority's account, 1 to 20 characters (M5).",
    ),
    BrandKey(
        "push_accounts",
        "list of texts",
        "`[]`",
        "The offline deposits that belong to this method: `ACCOUNT`, or `ACCOUNT/PREFIX` for those whose bill reference"
        " begins so; the longest prefix counts (S4).",
    ),
)
"""The keys of a `[[brand.method]]`."""

METHOD_LIMIT_KEYS: Final = (
    BrandKey("min", "amount in quotes", "required", "The smallest amount (C11)."),
    BrandKey("max", "amount in quotes", "required", "The largest amount (C11)."),
    *(
        BrandKey(
            key,
            "amount in quotes",
            _NO_LIMIT,
            f"The largest sum of the {type.value} payments of a day, by UTC (422 `brand_daily_limit`).",
        )
        for key, type in DAILY_LIMITS.items()
    ),
)
"""The keys of a method's limits in one currency."""


def key_names(keys: tuple[BrandKey, ...]) -> tuple[str, ...]:
    """Return the names of these keys."""
    return tuple(each.key for each in keys)
