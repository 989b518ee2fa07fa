"""The page about brands: whether they are enabled or on hold, and what they use of their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quart import Blueprint, render_template

from mmo_sansio.payments.brand_usage import PENDING_COUNTER, daily_counter
from mmo_sansio.values.clock import DAY
from mmo_sansio.values.model import Brand
from mmo_sansio.values.money import Money
from mmo_trio.console.context import console
from mmo_trio.storage.interface.admin_types import BrandUsage

pages = Blueprint("brand_limits", __name__)


@pages.get("/brands")
async def list_brands() -> str:
    """List the brands with their holds, and their limits with what is used of them."""
    admin, today = console().store.admin, console().now() // DAY
    holds = {each.brand: each for each in await admin.brand_holds()}
    used = {(each.brand, each.counter): each for each in await admin.brand_usage()}
    rows = [
        (
            record.brand,
            holds.get(record.brand.id),
            sum(key.retired_at is None for key in record.keys),
            list(_usage_rows(record.brand, used, today)),
        )
        for record in await admin.brands()
    ]
    return await render_template("brands.html", rows=rows)


def _usage_rows(
    brand: Brand, used: Mapping[tuple[str, str], BrandUsage], today: int
) -> Iterator[tuple[str, str | int, str | int]]:
    """Yield each limit of a brand: what it bounds, what is used of it, and the limit."""

    def amount(counter: str, day: int) -> int:
        found = used.get((brand.id, counter))
        return 0 if found is None else found.on_day(day).amount

    if (rate := brand.limits.requests_per_second) is not None:
        yield "requests a second", "", rate
    if (pending_max := brand.limits.pending_payments) is not None:
        yield "pending payments", amount(PENDING_COUNTER, 0), pending_max
    for method in brand.methods:
        for currency, limits in method.limits.items():
            for type, most in limits.daily.items():
                spent = Money(amount(daily_counter(method, type, currency), today), currency)
                yield f"{type.value} by {method.key} ({method.country}) today", str(spent), str(most)
