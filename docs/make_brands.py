"""Write `docs/brands.md` from the keys that the reader of `brands.toml` knows, so that none is
undocumented.

PYTHONPATH=src python docs/make_brands.py
"""

from __future__ import annotations

from pathlib import Path

from mmo_sansio.values.fields import Field
from mmo_trio.brands.file import (
    BRAND_FIELDS,
    BRAND_LIMIT_FIELDS,
    METHOD_FIELDS,
    METHOD_LIMIT_FIELDS,
    PAGE_FIELDS,
)

PAGE = Path(__file__).with_name("brands.md")

HEAD = """\
# brands.toml

This page is generated from the code by `docs/make_brands.py`; a test compares the two. The file
holds the brands, which are the merchants' accounts, and their payment methods. `mmo brands apply
FILE` puts it into force on every process, or nothing of it where something is wrong; `mmo brands show BRAND`
shows a brand as it is in the store. Numbers in parentheses are [clauses](clauses.md).

Limits and flows can also be changed in [the console](console.md#changing-limits-and-flows), by two users.

## A complete brand

```toml
[[brand]]
id = "acme"
name = "Acme Ltd"
host = "acme.pay.example"
push_result_url = "https://pay.acme.example/deposits"
result_hosts = ["pay.acme.example", "*.shop.acme.example"]
redirect_schemes = ["acmeapp"]
reference_reuse = { payin = "unless_paid", payout = "never", tax = "never" }
limits = { requests_per_second = 50, requests_burst = 100, pending_payments = 1000 }
page = { colour = "#0a6b48", order_label = "order", support_phone = "+254 700 123 456", support_url = "https://acme.example/help" }

  [[brand.method]]
  key = "mpesa_ke"
  provider = "mpesa"
  country = "KE"
  flows = ["direct/payin", "direct/payout", "web/payin", "qr/payin", "direct/taxpayout"]
  tax_authority_id = "KRA"
  tax_authority_account = "572572"
  push_accounts = ["174379/ACME", "174380"]

    [brand.method.limits.KES]
    min = "10"
    max = "150000"
    daily_payout = "5000000"
```
"""

AFTER_PAGE = """
A merchant that creates a
payment with `"labels": {"order": "2 tickets to Mombasa"}` has that text on the page of the payment when `order_label`
is `order`; at most 140 characters of it are shown.

The brand's page in the console shows an example of the payment page with its colour, logo and order, and how far its
payers come: how many pages were made, how many buttons pressed, and how many payments paid.

![The brand's page in the console: an example of its payment page, and how far its payers \
come](screenshots/console-brand-payers.png)
"""

AFTER_BRAND = """
**A host of its own** needs an entry in DNS and a name in the certificate of the API listener. The
gateway compares the `Host` of a request with the configured hosts only; behind a proxy it is taken
from `X-Forwarded-Host` of the proxies in `listen.proxy_trusted`, with `listen.proxy_host`.

**An app** that opens the payment page in a browser and wants the payer back gives `acmeapp://done` as
`successRedirectUrl`, once `redirect_schemes` has `acmeapp`. `javascript`, `data`, `vbscript` and
`file` are never allowed.

**Reference reuse** is explained [for merchants](api.md#repeat-a-request-without-paying-twice).
"""

AFTER_METHOD = """
**Offline deposits** (flow `push`) are payments that a payer begins with the operator, by the own phone
menu. They belong to the method of their provider whose `push_accounts` name the account that was paid:
a shortcode, a till, a wallet. `174379/ACME` takes those of 174379 whose bill reference begins with
ACME, in capital or small letters, so several brands can share an account.
Where no method of a provider names accounts, the only brand that uses the provider owns its deposits.
A bill reference with the last 12 characters of a gatewayReference names that payment, whoever owns the rest of the
account, and also where it is typed in groups, in small letters, or with O for 0 and I or L for 1.
A deposit that belongs to no method, or to two, goes to the
[suspense book](operating.md#the-suspense-book).
"""


def page() -> str:
    """Return the page as Markdown."""
    return "".join(
        (
            HEAD,
            _section("[[brand]]", BRAND_FIELDS),
            AFTER_BRAND,
            _section("limits of a brand", BRAND_LIMIT_FIELDS),
            "\nLimits are whole numbers from 1 to 1,000,000.\n",
            _section("page of a brand", PAGE_FIELDS),
            AFTER_PAGE,
            _section("[[brand.method]]", METHOD_FIELDS),
            AFTER_METHOD,
            _section("limits.CURRENCY of a method", METHOD_LIMIT_FIELDS),
            "\nA currency is taken exactly when it has limits. Write amounts in quotes, so that "
            "they stay exact.\n",
        )
    )


def _section(title: str, keys: tuple[Field, ...]) -> str:
    rows = (
        f"| `{each.name}` | {each.kind.name} | {each.default_words} | {each.meaning} |\n"
        for each in keys
    )
    return f"\n## {title}\n\n| Key | Kind | Default | Meaning |\n|---|---|---|---|\n{''.join(rows)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
