"""The page about brands: their methods, limits with what is used of them, keys and holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen
from quart import Blueprint, render_template

from mmo_sansio.payments.brand_usage import PENDING_COUNTER, daily_counter
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Brand, Transaction
from mmo_sansio.values.money import Money
from mmo_trio.brands.description import method_name
from mmo_trio.console.context import console
from mmo_trio.console.views import format_money
from mmo_trio.storage.interface.admin_types import BrandHold, BrandUsage, PaymentFilter, StoredApiKey

NEWEST_READ_MAX = 200
"""The newest payments of a brand in which the latest use of its keys is looked for."""
BRANDS_WITH_KEYS_MAX = 25
"""Brands whose newest payments one page reads."""

pages = Blueprint("brand_limits", __name__)


@frozen
class LimitUse:
    """Describes a limit and what is used of it."""

    title: str
    text: str
    share: int | None
    """What is used, in per cent; None where nothing is counted."""


@frozen
class BrandRow:
    """Describes a brand."""

    brand: Brand
    hold: BrandHold | None
    breaker: str | None
    """The state of the breaker of its callbacks; None before the first callback."""
    usage: Sequence[LimitUse]
    keys: Sequence[tuple[StoredApiKey, Instant | None]]
    """Each with when the newest payment with it was created; None when none of the newest has it."""


@pages.get("/brands")
async def list_brands() -> str:
    """List the brands with their methods, limits, keys and holds."""
    store, today = console().store, console().now() // DAY
    holds = {each.brand: each for each in await store.admin.brand_holds()}
    used = {(each.brand, each.counter): each for each in await store.admin.brand_usage()}
    breakers = await store.breakers()
    rows = []
    for number, record in enumerate(await store.admin.brands()):
        newest: Sequence[Transaction] = ()
        if record.keys and number < BRANDS_WITH_KEYS_MAX:
            selection = PaymentFilter(brand=record.brand.id, limit=NEWEST_READ_MAX)
            newest = (await store.admin.list_payments(selection)).transactions
        breaker = breakers.get(record.brand.id)
        rows.append(
            BrandRow(
                record.brand,
                holds.get(record.brand.id),
                None if breaker is None else breaker.state.value,
                list(_limit_uses(record.brand, used, today)),
                [(each, _last_use(each, newest)) for each in record.keys],
            )
        )
    return await render_template("brands.html", rows=rows)


def _last_use(key: StoredApiKey, newest: Sequence[Transaction]) -> Instant | None:
    return next((each.order.created_at for each in newest if each.order.api_key_id == str(key.id)), None)


def _limit_uses(brand: Brand, used: Mapping[tuple[str, str], BrandUsage], today: int) -> Iterator[LimitUse]:
    """Yield each limit of a brand with what is used of it."""

    def amount(counter: str, day: int) -> int:
        found = used.get((brand.id, counter))
        return 0 if found is None else found.on_day(day).amount

    if (rate := brand.limits.requests_per_second) is not None:
        yield LimitUse("requests a second", f"at most {rate:,}", None)
    if (pending_max := brand.limits.pending_payments) is not None:
        pending = amount(PENDING_COUNTER, 0)
        yield LimitUse("pending payments", f"{pending:,} of {pending_max:,}", _share(pending, pending_max))
    for method in brand.methods:
        for currency, limits in method.limits.items():
            for type, most in limits.daily.items():
                spent = Money(amount(daily_counter(method, type, currency), today), currency)
                yield LimitUse(
                    f"{type.value} by {method_name(method)} today",
                    f"{format_money(spent)} of {format_money(most)}",
                    _share(spent.minor, most.minor),
                )


def _share(used: int, most: int) -> int:
    return min(100, round(used / most * 100)) if most else 100
