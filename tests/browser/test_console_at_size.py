"""The console with two hundred brands, one of which has twenty methods, and with full lists: each
page is small, not higher than four screens, fits any width and scrolls as one; a change is checked
before it is proposed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from mmo_trio.console.reversals import PAYMENTS_PAGE_SIZE
from tests.support.browser import browser_page, check_axe
from tests.support.browser_gateway import Sandbox, serving_sandbox
from tests.support.console_staff import (
    add_staff,
    administer,
    ask_money_back,
    signed_in_page,
)
from tests.support.pictures import screenshot

DESK: ViewportSize = {"width": 1440, "height": 900}
WIDTHS = (1440, 1280, 1160, 1100, 1024, 820, 720, 390, 320, 240)
"""200 % of 1440 is 720; between 720 and 820, and at 1024 and 1100, columns once lay out of
sight."""
SCREENS_MAX = 4
BYTES_MAX = 60_000
BRANDS, METHODS, PAYMENTS = 200, 20, 42

PATHS = """/ /?view=month /?table=1 /payments /stuck /suspense /suspense?show=all /callbacks
/resolutions /reversals?show=all /providers /breakers /brands /brands/shop000
/brands/shop000/configuration /configuration /audit"""

OUT_OF_SIGHT = """() => [...document.querySelectorAll("main *")].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width > 0 && !each.closest(".spoken, svg") && box.right > innerWidth + 1;
}).map((each) => each.outerHTML.slice(0, 80)).slice(0, 3)"""
NESTED = """() => [...document.querySelectorAll("main *")].filter((each) =>
    each.scrollHeight > each.clientHeight + 2
    && ["auto", "scroll"].includes(getComputedStyle(each).overflowY)
    && each.checkVisibility()).map((each) => each.outerHTML.slice(0, 80))"""
"""What scrolls by itself within the page."""


def brand(number: int) -> str:
    """A brand in brands.toml; the first has twenty methods."""
    methods = ["mpesa_ke", "airtel_ke"]
    if number == 0:
        methods = [f"wallet{each:02}" for each in range(METHODS)]
    head = f'[[brand]]\nid = "shop{number:03}"\nname = "Shop {number:03}"\n'
    head += "limits = { pending_payments = 1000 }\n"
    flows = '["direct/payin", "direct/payout", "web/payin", "qr/payin"]'
    return head + "".join(
        f'[[brand.method]]\nkey = "{each}"\nprovider = "sandbox"\ncountry = "KE"\nflows = {flows}\n'
        '[brand.method.limits.KES]\nmin = "10"\nmax = "150000"\ndaily_payout = "5000000"\n'
        for each in methods
    )


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with brands, staff and lists of more than a page."""
    directory = tmp_path_factory.mktemp("crowded")
    with serving_sandbox(directory) as running:
        add_staff(running, {"ada": "admin", "ann": "approver", "abe": "approver"})
        file = directory / "brands.toml"
        file.write_text("".join(map(brand, range(BRANDS))), encoding="utf-8")
        administer(running, f"brands apply {file}")
        for digits in ("160", "130") * PAYMENTS:
            running.create("direct/payin", msisdn=f"254700000{digits}")
        running.advance("2h")
        running.advance("2h")
        yield running


def ask_back(page: Page, crowded: Sandbox) -> None:
    """Ask money of so many payments back that their list has two pages."""
    page.goto(f"{crowded.console}/payments?status=success")
    links = page.locator("tbody th a").all()[: PAYMENTS_PAGE_SIZE + 1]
    ask_money_back(page, [f"{crowded.console}{link.get_attribute('href')}" for link in links])


def fits_any_width(page: Page) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (page.url, width)
        assert page.evaluate(OUT_OF_SIGHT) == [], (page.url, width)
        assert page.evaluate(NESTED) == [], (page.url, width)
    page.set_viewport_size(DESK)


def test_each_page_is_small_low_and_scrolls_as_one(browser: Browser, crowded: Sandbox) -> None:
    with signed_in_page(browser, crowded, "ada", viewport=DESK) as page:
        ask_back(page, crowded)
        for path in PATHS.split():
            page.goto(crowded.console + path)
            sizes = page.evaluate(
                "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
                ".filter((each) => !each.name.includes('/events')).map((each) => "
                "each.decodedBodySize)"
            )
            assert sum(sizes) <= BYTES_MAX, (path, sizes)
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height <= SCREENS_MAX * DESK["height"], (path, height)
            fits_any_width(page)


def test_tables_outside_the_console_fit_any_width(browser: Browser, crowded: Sandbox) -> None:
    with browser_page(browser, viewport=DESK) as page:
        for path in ("/", "/errors"):
            page.goto(crowded.pages + path)
            for width in WIDTHS[:-1]:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
                hidden = page.locator(".table").evaluate_all(
                    "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).length"
                )
                assert hidden == 0, (path, width)


def test_the_head_of_a_list_stays_below_the_bar(browser: Browser, crowded: Sandbox) -> None:
    with signed_in_page(browser, crowded, "ada", viewport=DESK) as page:
        page.goto(f"{crowded.console}/payments")
        page.evaluate("scrollTo(0, 1200)")
        head = page.locator("thead th").first.bounding_box()
        bar = page.locator("header.bar").bounding_box()
        assert head is not None
        assert bar is not None
        assert bar["y"] + bar["height"] - 2 <= head["y"] <= bar["y"] + bar["height"] + 2


def change_form(page: Page, crowded: Sandbox) -> None:
    page.goto(f"{crowded.console}/brands")
    page.get_by_label("Name, id or method").fill("shop 000")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Shop 000").click()
    page.get_by_role("link", name="Change limits and flows").click()


def test_a_change_of_one_method_of_twenty_is_checked_and_proposed_within_reach(
    browser: Browser, crowded: Sandbox
) -> None:
    with signed_in_page(browser, crowded, "ann", viewport=DESK) as page:
        change_form(page, crowded)
        assert page.locator("details[open]").count() == 0
        expect(page.get_by_role("button", name="Check the change")).to_be_in_viewport()
        page.locator("summary", has_text="wallet17").click()
        method = page.get_by_role("group", name="wallet17 (KE), Sandbox")
        method.get_by_label("Max KES").fill("much")
        page.get_by_role("button", name="Check the change").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was proposed")
        expect(method.get_by_label("Max KES")).to_be_focused()
        method.get_by_label("Max KES").fill("15000")
        page.get_by_role("button", name="Check the change").click()
        changed = page.get_by_role("region", name="What you have changed so far")
        expect(changed.get_by_role("rowheader")).to_have_text(["wallet17 (KE)", "Max KES"])
        expect(changed).to_contain_text("KES 150,000.00")
        expect(changed).to_contain_text("KES 15,000.00")
        expect(page.locator("details[open]")).to_have_count(1)
        expect(page.get_by_role("button", name="Propose the change")).to_be_in_viewport()
        check_axe(page)
        screenshot(page, "console-configuration-checked")
        method.get_by_label("Max KES").fill("1500000")
        page.get_by_label("Reason").fill("larger payments")
        page.get_by_role("button", name="Propose the change").click()
        expect(changed).to_contain_text("KES 1,500,000.00")  # What is proposed is what was seen.
        page.get_by_role("button", name="Propose the change").click()
        expect(page.get_by_text("Another user has to apply it.")).to_be_visible()
        fits_any_width(page)
