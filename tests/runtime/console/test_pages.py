"""Lists lead both ways, say which rows they show, and are searched and filtered."""

from __future__ import annotations

import re

from attrs import evolve

from mmo_trio.console.brands import BRANDS_OFFERED_MAX
from mmo_trio.console.overview import HEALTH_ROWS_MAX
from mmo_trio.console.parameters import PAGE_SIZE
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.sandbox_gateway import Running

BRANDS = 200


def link(person: ConsoleBrowser, rel: str) -> str:
    """Where the last page leads to; empty where it doesn't."""
    assert person.last is not None
    found = re.search(f'rel="{rel}" href="([^"]*)"', person.last.body.decode())
    return "" if found is None else found[1].replace("&amp;", "&")


def references(person: ConsoleBrowser) -> list[str]:
    """The payments of the last page."""
    assert person.last is not None
    return re.findall(r'<th scope="row"><a href="/payments/(\w+)"', person.last.body.decode())


async def test_payments_are_paged_both_ways_and_numbered(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    for _ in range(2 * PAGE_SIZE + 1):
        assert (await sandbox.merchant.create("direct/payin")).status == 200
    total = 2 * PAGE_SIZE + 1
    of_total = f"of {total} Older"
    assert f" 1 to {PAGE_SIZE} Older" in await vera.words("/payments")
    assert f" 1 to {PAGE_SIZE} {of_total}" in await vera.words("/payments?brand=demo")
    newest = references(vera)
    assert link(vera, "prev") == ""
    assert f"Newer {PAGE_SIZE + 1} to {2 * PAGE_SIZE} {of_total}" in await vera.words(
        link(vera, "next")
    )
    second = references(vera)
    assert f"Newer {total} to {total} of {total}" in await vera.words(link(vera, "next"))
    assert link(vera, "next") == ""
    assert f"Newer {PAGE_SIZE + 1} to {2 * PAGE_SIZE} {of_total}" in await vera.words(
        link(vera, "prev")
    )
    assert references(vera) == second
    assert "brand=demo" in link(vera, "prev")
    assert f" 1 to {PAGE_SIZE} {of_total}" in await vera.words(link(vera, "prev"))
    assert references(vera) == newest
    for broken in ("before=x", "before=9-%00", "before=9" * 30):
        assert (await vera.get(f"/payments?{broken}")).status == 400


async def test_whole_days_are_counted_without_a_scan(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    for _ in range(PAGE_SIZE + 1):
        assert (await sandbox.merchant.create("direct/payin")).status == 200
    day = (await vera.text("/payments")).split('<time datetime="')[1][:10]
    counted = f" 1 to {PAGE_SIZE} of {PAGE_SIZE + 1} Older"
    assert counted in await vera.words(f"/payments?from={day}&until={day}")
    assert counted in await vera.words(f"/payments?from={day}&until={day}&method=mpesa_ke")
    assert counted in await vera.words(f"/payments?from={day}")


async def test_payments_are_filtered_by_type_and_amount_and_summed(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    for value in (100, 250, 1500):
        amount = {"value": value, "currency": "KES"}
        assert (await sandbox.merchant.create("direct/payin", amount=amount)).status == 200
    assert "asked for" not in await vera.words("/payments")
    of_all = "3 payments, asked for pay-in KES 1,850.00"
    assert of_all in await vera.words("/payments?type=payin")
    assert "No payment fits" in await vera.words("/payments?type=payout")
    exact = await vera.words("/payments?amount_min=1,500&amount_max=1500.00")
    assert "1 payment, asked for pay-in KES 1,500.00" in exact
    assert "2 payments, asked for pay-in KES 350.00" in await vera.words("/payments?amount_max=250")
    for fault in ("type=gift", "amount_min=much"):
        assert (await vera.get(f"/payments?{fault}")).status == 400


async def test_a_row_names_the_merchants_reference_below_the_heading_of_its_day(
    sandbox: Running, signed_in: SignedIn
) -> None:
    for name in ("order-1", "order-2"):
        assert (await sandbox.merchant.create("direct/payin", merchantReference=name)).status == 200
        await sandbox.advance("24h")
    vera = await signed_in("vera")
    page = await vera.text("/payments")
    assert re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', page) == ["order-2", "order-1"]
    days = re.findall(r'scope="rowgroup">(\w+day, \d+ \w+ \d{4})</th>', page)
    assert len(set(days)) == 2
    assert re.search(r"<td><time [^>]*>\d\d:\d\d:\d\d</time></td>", page)


async def test_two_hundred_brands_are_paged_and_searched(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    async with open_store_of(sandbox.directory) as store:
        [record] = await store.admin.brands()
        many = [evolve(record.brand, id=f"shop{n:03}", name=f"Shop {n:03}") for n in range(BRANDS)]
        await store.admin.save_brands(many)
    assert f"{BRANDS + 1 - HEALTH_ROWS_MAX} more, which do no worse" in await ann.words("/")
    assert f" 1 to {PAGE_SIZE} of {BRANDS + 1} Next" in await ann.words("/brands")
    assert f"Previous {PAGE_SIZE + 1} to {2 * PAGE_SIZE} of {BRANDS + 1} Next" in await ann.words(
        link(ann, "next")
    )
    assert f" 1 to {PAGE_SIZE} of {BRANDS + 1} Next" in await ann.words(link(ann, "prev"))
    found = await ann.words("/brands?q=SHOP+117")
    assert "Shop 117" in found
    assert "Shop 118" not in found
    assert "No brand is found by" in await ann.words("/brands?q=nobody")
    changes = await ann.words("/configuration")
    assert f"{BRANDS + 1 - BRANDS_OFFERED_MAX} further brands are left out" in changes
    assert "Shop 117" not in changes
    assert "Shop 117" in await ann.words("/configuration?q=117")
    assert len((await ann.get("/brands")).body) < 40_000


async def test_the_audit_log_is_paged_both_ways_and_filtered(
    signed_in: SignedIn, ada: ConsoleBrowser
) -> None:
    for _ in range(PAGE_SIZE // 2 + 2):
        vera = await signed_in("vera")
        await vera.post("/sign-out")
    first = await ada.words("/audit")
    assert re.search(rf" 1 to {PAGE_SIZE} of \d+ Older", first)
    second = await ada.words(link(ada, "next"))
    assert re.search(
        rf"Newer {PAGE_SIZE + 1} to (\d+) of \1$",
        second.rpartition("Newer")[1] + second.rpartition("Newer")[2],
    )
    assert re.search(rf" 1 to {PAGE_SIZE} of \d+ Older", await ada.words(link(ada, "prev")))
    by_ada = await ada.words("/audit?actor=user:ada")
    assert "user vera" not in by_ada
    assert await ada.words("/audit?actor=ada") == by_ada.replace("user:ada", "ada")
    assert "signed in" in await ada.words("/audit?about=user+vera")
    about_vera = await ada.words("/audit?about=user:vera")
    assert "signed in" in about_vera
    assert "user ada" not in about_vera
    assert "No event here" in await ada.words("/audit?actor=user:nobody")


async def test_the_audit_log_shows_only_changes_on_demand(
    sandbox: Running, ada: ConsoleBrowser
) -> None:
    await ada.post("/providers/sandbox/disable", reason="out of order")
    await ada.post("/providers/sandbox/enable")
    assert "signed in" in await ada.words("/audit")
    changes = await ada.words("/audit?show=changes")
    assert "provider closed" in changes
    assert "signed in" not in changes
    assert re.search(r"\w+day, \d+ \w+ \d{4} 3 \d\d:\d\d:\d\d ada provider opened", changes)


async def test_what_is_no_page_says_so_in_its_heading(signed_in: SignedIn) -> None:
    page = (await (await signed_in("vera")).get("/nothing")).body.decode()
    assert "<h1>There is no such page</h1>" in page


async def test_changes_of_a_brand_are_paged(vera: ConsoleBrowser) -> None:
    assert "Nothing waits for a decision" in await vera.words("/configuration?brand=demo")
    assert "No provider is found by" in await vera.words("/providers?q=nobody")
    assert "not stopped" in await vera.words("/providers?q=SAND")
