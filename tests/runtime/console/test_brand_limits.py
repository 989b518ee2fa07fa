"""The page about brands: holds, and what is used of limits."""

from __future__ import annotations

from attrs import evolve

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import BrandLimits, Type
from mmo_sansio.values.money import Money
from mmo_trio.storage.interface.admin_types import BrandHold
from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.sandbox_gateway import Running


async def test_brands_are_shown_with_their_holds_and_limits(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    async with open_store_of(sandbox.directory) as store:
        [record] = await store.admin.brands()
        method = record.brand.methods[0]
        [(currency, bounds)] = method.limits.items()
        daily = evolve(bounds, daily={Type.PAYOUT: Money(500_000, currency)})
        limited = evolve(method, limits={currency: daily})
        methods = (limited, *record.brand.methods[1:])
        limits = BrandLimits(20, None, 7)
        await store.admin.save_brands(
            [evolve(record.brand, id="few", name="Few", methods=methods, limits=limits)]
        )
        await store.admin.hold_brand(BrandHold("few", Instant(0), "root"))
    text = await vera.words("/brands/few")
    assert "on hold" in text
    listed = await vera.words("/brands")
    assert "Few few on hold" in listed
    assert "0 % pending payments" in listed
    assert "On hold since 1970-01-01 00:00:00 UTC by root" in text
    assert "0 of 7" in text
    assert f"{currency} 0.00 of {currency} 5,000.00" in text
    assert "KES 10.00 to KES 150,000.00" in text
    assert "It has no key" in text


async def test_a_key_shows_when_it_was_used_and_nothing_secret(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    assert "none of the newest payments" in await vera.text("/brands/demo")
    assert (await sandbox.merchant.create("direct/payin")).status == 200
    page = await vera.text("/brands/demo")
    assert "newest payment" in page
    assert sandbox.merchant.key not in page
