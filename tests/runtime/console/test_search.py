"""A search has an address of its own, which tells nothing of what was typed, and finds what people
mean."""

from __future__ import annotations

import re

from tests.support.console_browser import ConsoleBrowser
from tests.support.sandbox_gateway import Running


async def test_what_a_search_has_found_has_an_address_without_the_text(
    sandbox: Running, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    for _ in range(2):
        await sandbox.create(msisdn="254711222333")
    answer = await sam.post("/search", text="0711 222 333")
    assert answer.status == 303
    assert re.fullmatch(r"/search/[\w-]{8}", answer.headers["location"])
    first, again = [await sam.get(answer.headers["location"]) for _ in range(2)]
    assert first.body.count(b'<th scope="row"><a href="/payments/') == 2
    assert again.status == 200
    assert b"0711 222 333" in again.body
    other = answer.headers["location"].rpartition("/")[2]
    assert (await sam.get(f"/payments?typed={other}")).status == 200
    assert (await vera.get(answer.headers["location"])).status == 404


async def test_the_search_has_a_page_of_its_own(sam: ConsoleBrowser) -> None:
    page = await sam.get("/search?text=order-1")
    assert page.status == 200
    assert b'value="order-1"' in page.body


async def test_a_search_is_kept_beyond_the_end_of_its_session(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    place = (await sam.post("/search", text="nobody")).headers["location"]
    await sandbox.advance("31m")
    assert (await sam.get(place)).status == 303
    assert (await sam.sign_in("sam")).status == 303
    assert b"nobody" in (await sam.get(place)).body


async def test_one_exact_hit_leads_to_the_payment_however_it_is_written(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    reference = await sandbox.create(merchantReference="shop-4711")
    for text in ("shop-4711", "SHOP-4711", " shop-4711 ", "Shop 4711", "#shop-4711"):
        await sam.search(text)
        assert sam.last is not None
        assert f"<title>{reference} ".encode() in sam.last.body, text
    for text in ("#4711", "4711", "order 4711"):
        found = await sam.search(text)
        is_found = f'<th scope="row"><a href="/payments/{reference}"'.encode() in found.body
        assert is_found == ("order" not in text), text
