"""The console in a browser: every page wide, narrow and without scripts, and a payment
ended by hand."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, expect

from mmo_trio.console.parameters import CARDS_PAGE_SIZE, PAGE_SIZE
from mmo_trio.console.reversals import PAYMENTS_PAGE_SIZE
from mmo_trio.console.second_factor import code_at
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.system.clock import GatewayClock, read_offset
from tests.runtime.cli.test_listen import listening
from tests.support.browser import browser_page, check_axe, check_axe_without_scripts
from tests.support.browser_gateway import Sandbox, serving_sandbox
from tests.support.console_browser import PASSWORD
from tests.support.console_staff import add_staff, ask_money_back, sign_in, signed_in_page, tab_to
from tests.support.pictures import screenshot
from tests.support.qr_reader import read_qr_rows

STAFF = {"vera": "viewer", "ann": "approver", "abe": "approver", "ada": "admin", "zoe": "admin"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
WIDE: ViewportSize = {"width": 1024, "height": 720}
FIRST_VIEW_BYTES_MAX = 60_000
"""Bytes of a page with its stylesheet, script and icon."""
NARROW: ViewportSize = {"width": 360, "height": 640}
PAGES = {
    "overview": "/",
    "payments": "/payments",
    "stuck": "/stuck",
    "suspense": "/suspense",
    "callbacks": "/callbacks",
    "proposals": "/resolutions",
    "reversals": "/reversals",
    "providers": "/providers",
    "breakers": "/breakers",
    "brands": "/brands",
    "brand": "/brands/demo",
    "audit": "/audit",
}


BEGIN = time(1, 10, tzinfo=UTC)
"""The time of day in the sandbox when the first payment is made: charts look different at another
one."""


def seconds_until_tomorrow(moment: time) -> int:
    """Return the whole seconds until it is this time of the next day. What was done before lies on
    another day then, whenever a test begins: lists have a heading for each."""
    now = datetime.now(UTC)
    tomorrow = datetime.combine(now + timedelta(days=1), moment)
    return round((tomorrow - now).total_seconds())


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with staff, and with a bit of everything to see."""
    folder = tmp_path_factory.mktemp("office")
    rate = {"MMO_GATEWAY_PAYEES_PER_MINUTE": "60"}
    with (
        serving_sandbox(folder, **rate) as running,
        listening("--data", str(folder)) as (address, _),
    ):
        add_staff(running, STAFF)
        running.advance(f"{seconds_until_tomorrow(BEGIN)}s")
        running.create("direct/payin", merchantReference=HOSTILE, labels={HOSTILE: HOSTILE})
        for digits in ("001", "101", "002", "110", "120", "160", "170", "130", "003", "103"):
            running.create("direct/payin", msisdn=f"254700000{digits}")
            running.create("direct/payin", msisdn="254700000004", resultUrl=f"{address}callback")
            running.advance("30s")
            running.advance("1h")
        yield running


def sign_out(page: Page, name: str) -> None:
    """Open the menu with the user's name and sign out."""
    page.locator("summary", has_text=name).click()
    page.get_by_role("button", name="Sign out").click()


def payment(page: Page, office: Sandbox, text: str) -> None:
    """Search for it, and open the newest where there are several."""
    page.get_by_label("Reference or number").fill(text)
    page.get_by_role("button", name="Search").click()
    if page.get_by_role("heading", name="Found by").count():
        page.locator("tbody a").first.click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def picture(page: Page, name: str, scheme: str) -> None:
    """Compare the page in this colour scheme; the proposals and reversals have pictures of their
    own."""
    if name not in ("console-proposals", "console-reversals"):
        screenshot(page, name if scheme == "light" else f"{name}-dark")


def wait_for_balance(page: Page) -> None:
    """Load the providers until the first look at their accounts, half a minute after the start, is
    among them."""
    for _ in range(120):
        if page.locator("#rows").get_by_text("KES ").count():
            return
        page.wait_for_timeout(500)
        page.reload()
    raise AssertionError("no balance was recorded")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_by_everybody(
    browser: Browser, office: Sandbox, scheme: str
) -> None:
    with browser_page(browser, viewport=WIDE, color_scheme=scheme) as page:
        page.goto(f"{office.console}/sign-in")
        check_axe(page)
        picture(page, "console-sign-in", scheme)
        sign_in(page, office, "ada")
        for name, path in PAGES.items():
            page.goto(office.console + path)
            expect(page.get_by_role("heading", level=1)).to_have_count(1)
            if name == "providers":
                wait_for_balance(page)
            check_axe(page)
            picture(page, f"console-{name}", scheme)
        page.get_by_label("Reference or number").fill("254700000004")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Found by")
        check_axe(page)
        picture(page, "console-found", scheme)
        payment(page, office, "254700000101")
        check_axe(page)
        picture(page, "console-payment", scheme)


def test_a_small_screen_shows_all_of_it(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "ada", viewport=NARROW) as page:
        for name in PAGES:
            page.goto(office.console + PAGES[name])
            check_axe(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], name
        page.goto(f"{office.console}/")
        screenshot(page, "console-overview-narrow")
        payment(page, office, "254700000101")
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        screenshot(page, "console-payment-narrow")
        for name in [each for each in PAGES if each not in ("overview", "proposals", "reversals")]:
            page.goto(office.console + PAGES[name])
            if name == "providers":
                wait_for_balance(page)
            check_axe(page)
            screenshot(page, f"console-{name}-narrow")
        page.goto(f"{office.console}/payments?brand=nobody")
        check_axe(page)
        screenshot(page, "console-empty-narrow")
        page.goto(f"{office.console}/nothing")
        check_axe(page)
        screenshot(page, "console-fault-narrow")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 1280])
def test_charts_are_read_at_any_width_with_scripts_or_without(
    browser: Browser, office: Sandbox, width: int, scheme: str
) -> None:
    size: ViewportSize = {"width": width, "height": 640}
    with signed_in_page(
        browser, office, "ada", viewport=size, color_scheme=scheme, java_script_enabled=False
    ) as page:
        for name in ("overview", "providers", "brands"):
            page.goto(office.console + PAGES[name])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.goto(f"{office.console}/")
        expect(page.get_by_role("heading", name="Needs a person now")).to_be_visible()
        expect(page.get_by_role("img", name="Sandbox: ")).to_be_visible()
        heights = page.locator(".chart svg > text").evaluate_all(
            "(texts) => texts.map((each) => 12 * each.getScreenCTM().a)"
        )
        assert heights
        assert min(heights) >= 10.5, heights


def open_place(page: Page, name: str) -> None:
    """By the menu, which a phone has instead of the column at the side."""
    page.get_by_role("button", name="Menu: ").click()
    page.get_by_role("navigation").get_by_role("link", name=name).click()


@pytest.mark.parametrize("with_scripts", [True, False])
@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_shows_where_one_is_and_all_places_behind_one_button(
    browser: Browser, office: Sandbox, width: int, with_scripts: bool
) -> None:
    size: ViewportSize = {"width": width, "height": 640}
    with signed_in_page(
        browser, office, "ada", viewport=size, java_script_enabled=with_scripts
    ) as page:
        page.goto(f"{office.console}/payments")
        places = page.get_by_role("navigation", name="Console").get_by_role("link")
        expect(places).to_have_count(0)
        bar = page.locator("header.bar").bounding_box()
        assert bar is not None
        assert bar["height"] <= 104

        tab_to(page, "Menu:")
        page.keyboard.press("Enter")
        expect(places).to_have_count(12)
        expect(page.get_by_role("link", name="Payments")).to_have_attribute("aria-current", "page")
        for place in places.all():
            expect(place).to_be_in_viewport(ratio=1)
        if with_scripts:
            check_axe(page)
        else:
            check_axe_without_scripts(page)

        page.keyboard.press("Escape")
        expect(places).to_have_count(0)
        open_place(page, "Audit log")
        expect(page.get_by_role("heading", level=1)).to_have_text("Audit log")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_desk_shows_all_places(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "ada", viewport={"width": 1280, "height": 800}) as page:
        places = page.get_by_role("navigation", name="Console").get_by_role("link")
        expect(places).to_have_count(12)
        expect(page.get_by_role("button", name="Menu")).to_have_count(0)


def test_the_first_screen_of_a_phone_says_what_is_wrong(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "ada", viewport=NARROW) as page:
        needs = page.locator(".needs").first
        for text in ("unknown", "in doubt"):
            expect(needs.get_by_text(text).first).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollHeight") <= 2_800
        charts = page.locator(".chart:visible")
        expect(charts).to_have_count(1)
        page.get_by_text("Time", exact=True).click()
        expect(charts).to_have_count(1)
        expect(charts).to_contain_text("Time to a result")


def test_a_desk_leaves_no_hole_between_the_cards(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "ada", viewport={"width": 1280, "height": 800}) as page:
        for cards in (".pair > .card", ".charts .chart"):
            boxes = [card.bounding_box() for card in page.locator(cards).all()]
            around = page.locator(cards.partition(" ")[0]).bounding_box()
            assert around is not None
            right = around["x"] + around["width"]

            ends, heights = {}, set()
            for box in boxes:
                assert box is not None
                ends[box["y"]] = box["x"] + box["width"]
                heights.add((box["y"], box["height"]))

            assert list(ends.values()) == [pytest.approx(right, abs=1)] * len(ends)
            assert len(heights) == len(ends), "the cards of a row are equally high"

        tops = page.locator(".kpi").evaluate_all("cells => cells.map(cell => cell.offsetTop)")
        assert len(tops) >= 4
        assert len(set(tops)) == 1, "none of the key figures stands alone below the others"


def test_a_payment_is_one_line_whatever_there_is_to_say(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "ada", viewport={"width": 1280, "height": 800}) as page:
        page.goto(f"{office.console}/payments")
        heights = page.locator("tbody tr:not(.day)").evaluate_all(
            "(rows) => rows.map((row) => row.getBoundingClientRect().height)"
        )
        assert len(heights) > 10
        assert max(heights) <= 41
        unclear = page.locator("tr", has_text="provider says otherwise")
        title = unclear.first.locator(".state div").get_attribute("title") or ""
        assert title.startswith("success, provider says otherwise")


def test_two_users_end_a_payment_by_hand_without_scripts(browser: Browser, office: Sandbox) -> None:
    with (
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as one,
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as two,
    ):
        sign_in(one, office, "ann")
        open_place(one, "Stuck")
        one.locator("tbody a").first.click()
        expect(one.get_by_role("heading", name="Timeline")).to_be_visible()
        reference = one.url.rpartition("/")[2]
        one.get_by_role("link", name="End it by hand").click()
        expect(one.get_by_label("Outcome")).to_be_visible()
        check_axe_without_scripts(one)
        one.get_by_label("Outcome").select_option("success")
        one.get_by_label("Reason").fill("the customer has a receipt")
        one.get_by_label("Evidence").fill("statement of today, line 17")
        one.get_by_role("button", name="Propose").click()
        expect(one.get_by_role("heading", name="Proposal 1: to do")).to_be_visible()
        expect(one.get_by_role("button", name="Approve")).to_have_count(0)
        sign_in(two, office, "abe")
        open_place(two, "Proposals")
        check_axe_without_scripts(two)
        screenshot(two, "console-proposals")
        two.get_by_role("button", name="Approve").click()
        expect(two.get_by_role("heading", name="Proposal 1: done")).to_be_visible()
        assert office.status(reference)["status"] == "success"
        sign_out(two, "abe")
        expect(two.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_two_users_send_money_back_without_scripts(browser: Browser, office: Sandbox) -> None:
    with (
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as one,
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as two,
    ):
        sign_in(one, office, "ann")
        payment(one, office, "254700000001")
        tab_to(one, "Ask money back")
        one.keyboard.press("Enter")
        expect(one.get_by_text("A part is possible.", exact=False)).to_be_visible()
        check_axe_without_scripts(one)
        one.get_by_label("Amount in KES").fill("50.00")
        one.get_by_label("Reason").fill("the customer has paid twice")
        one.get_by_role("button", name="Ask money back").click()
        expect(one.get_by_role("heading", name="Reversal 1: requested")).to_be_visible()
        expect(one.get_by_role("button", name="Approve")).to_have_count(0)
        check_axe_without_scripts(one)
        sign_in(two, office, "abe")
        open_place(two, "Reversals")
        check_axe_without_scripts(two)
        assert two.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        screenshot(two, "console-reversals")
        two.get_by_role("button", name="Approve: KES 50.00 goes back").click()
        expect(two.get_by_role("heading", name="Reversal 1:")).to_be_visible()
        expect(two.get_by_role("button", name="Approve")).to_have_count(0)


def test_the_keyboard_alone_suffices_for_an_approval(browser: Browser, office: Sandbox) -> None:
    reference = office.create("direct/payin", msisdn="254700000130")["gatewayReference"]
    with browser_page(browser, viewport=WIDE) as one, browser_page(browser, viewport=WIDE) as two:
        sign_in(one, office, "ann")
        one.wait_for_load_state()
        one.keyboard.press("/")
        one.keyboard.type(reference)
        one.keyboard.press("Enter")
        expect(one.get_by_role("heading", name="Timeline")).to_be_visible()
        tab_to(one, "End it by hand")
        one.keyboard.press("Enter")
        tab_to(one, "Outcome")
        one.keyboard.type("success")
        tab_to(one, "Reason")
        one.keyboard.type("the customer has a receipt")
        tab_to(one, "Evidence")
        one.keyboard.type("statement of today, line 17")
        tab_to(one, "Propose")
        one.keyboard.press("Enter")
        expect(one.get_by_role("heading", name=": to do")).to_be_visible()
        check_axe(one)
        sign_in(two, office, "abe")
        two.wait_for_load_state()
        two.keyboard.type("gr")  # The page waits only a moment for the second key.
        expect(two.get_by_role("heading", level=1)).to_have_text("Proposals")
        expect(two.get_by_text("KES 150.00", exact=True)).to_be_visible()
        expect(two.get_by_text("254700000130", exact=True)).to_be_visible()
        check_axe(two)
        tab_to(two, "Approve: KES 150.00 was paid")
        two.keyboard.press("Enter")
        expect(two.get_by_role("heading", name=": done")).to_be_visible()
        assert office.status(reference)["status"] == "success"


def test_scripts_add_local_times_copying_and_a_list_of_shortcuts(
    browser: Browser, office: Sandbox
) -> None:
    with signed_in_page(
        browser, office, "ada", viewport=WIDE, timezone_id="Africa/Nairobi"
    ) as page:
        payment(page, office, "254700000101")
        moment = page.locator(".timeline time").first
        hour = int(moment.inner_text()[:2])
        expect(page.locator(".timeline .local").first).to_contain_text(f"{(hour + 3) % 24:02}:")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy").nth(1).click()
        expect(page.get_by_text("Copied", exact=False)).to_have_attribute("role", "status")
        assert page.evaluate("navigator.clipboard.readText()") == page.url.rpartition("/")[2]
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("find a payment")
        expect(page.get_by_role("button", name="Close")).to_be_focused()
        check_axe(page)
        page.get_by_role("button", name="Switch shortcuts off").click()
        page.get_by_role("button", name="Close").click()
        page.locator("h1").click()
        page.keyboard.press("/")
        expect(page.get_by_label("Reference or number")).not_to_be_focused()
        page.goto(f"{office.console}/")
        chart = page.locator(".chart").first
        steps = chart.locator("rect[tabindex]")
        assert steps.locator("xpath=self::*[@tabindex='0']").count() == 1
        steps.last.focus()
        page.keyboard.press("ArrowLeft")
        expect(steps.nth(steps.count() - 2)).to_be_focused()
        expect(chart.locator(".tip")).to_have_count(1)
        expect(chart.locator(".tip text").nth(1)).to_contain_text("taken: ")


def test_an_open_page_shows_what_happens(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "vera", viewport=WIDE) as page:
        page.goto(f"{office.console}/payments")
        expect(page.locator("[data-live].good")).to_contain_text("Up to date:")
        created = office.create("direct/payin")["merchantReference"]
        expect(page.get_by_role("link", name=created, exact=True)).to_be_visible()


@contextmanager
def live_payments(browser: Browser, office: Sandbox) -> Iterator[Page]:
    """Open the list of payments, once it says that it is up to date."""
    with signed_in_page(browser, office, "vera", viewport=WIDE) as page:
        page.goto(f"{office.console}/payments")
        expect(page.locator("[data-live].good")).to_be_visible()
        yield page


def test_a_payment_made_between_two_streams_is_shown(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "vera", viewport=WIDE) as page:
        page.route(
            "**/events",
            lambda route: route.fulfill(body="retry: 500\n\n", content_type="text/event-stream"),
        )
        page.goto(f"{office.console}/payments")
        created = office.create("direct/payin")["merchantReference"]
        expect(page.locator("[data-live].good")).to_have_count(0)
        page.unroute("**/events")
        expect(page.get_by_role("link", name=created, exact=True)).to_be_visible()
        expect(page.locator("[data-live].good")).to_be_visible()


def test_a_page_without_a_connection_does_not_say_that_it_is_up_to_date(
    browser: Browser, office: Sandbox
) -> None:
    with live_payments(browser, office) as page:
        page.context.set_offline(True)
        expect(page.locator("[data-live].bad")).to_contain_text("May be out of date: as of")
        expect(page.get_by_role("status")).to_contain_text("May be out of date")
        created = office.create("direct/payin")["merchantReference"]
        page.context.set_offline(False)
        expect(page.locator("[data-live].good")).to_be_visible()
        expect(page.get_by_role("link", name=created, exact=True)).to_be_visible()


def test_a_page_that_nobody_has_seen_for_a_while_makes_up_for_it(
    browser: Browser, office: Sandbox
) -> None:
    with live_payments(browser, office) as page:
        show = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true});"
        show += "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate(show % "true")
        created = office.create("direct/payin")["merchantReference"]
        page.wait_for_timeout(3_000)
        expect(page.locator("[data-live].good")).to_have_count(0)
        expect(page.get_by_role("link", name=created, exact=True)).to_have_count(0)
        page.evaluate(show % "false")
        expect(page.get_by_role("link", name=created, exact=True)).to_be_visible()
        expect(page.locator("[data-live].good")).to_be_visible()


def test_what_is_new_is_announced_where_the_list_is_in_use(
    browser: Browser, office: Sandbox
) -> None:
    with live_payments(browser, office) as page:
        page.keyboard.press("j")
        created = [office.create("direct/payin")["merchantReference"] for _ in range(2)]
        news = page.get_by_role("button", name="2 new payments · show")
        expect(news).to_be_visible()
        expect(page.locator("[data-live].good")).to_have_count(0)
        expect(page.get_by_role("link", name=created[1], exact=True)).to_have_count(0)
        check_axe(page)
        news.click()
        for each in created:
            expect(page.get_by_role("link", name=each, exact=True)).to_be_visible()
        expect(page.locator("[data-live].good")).to_be_visible()


def test_back_leads_from_a_payment_to_what_the_search_found(
    browser: Browser, office: Sandbox
) -> None:
    with signed_in_page(browser, office, "ada", viewport=WIDE) as page:
        page.get_by_label("Reference or number").fill("254700000004")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Found by")
        assert "254700000004" not in page.url
        page.wait_for_load_state()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Found by “254700000004”")


def test_a_link_on_another_site_leads_to_its_page(browser: Browser, office: Sandbox) -> None:
    link = f"{office.console}/payments?status=failed"
    with browser_page(browser) as page:
        page.route(
            "http://localhost/", lambda route: route.fulfill(body=f'<a href="{link}">look</a>')
        )
        page.goto("http://localhost/")
        page.get_by_text("look").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Payments")
        assert page.url == link
        page.goto("http://localhost/")
        page.get_by_text("look").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Payments")
        assert page.url == link


@pytest.mark.parametrize("with_scripts", [True, False])
def test_what_was_typed_comes_back_after_the_end_of_a_session(
    browser: Browser, office: Sandbox, with_scripts: bool
) -> None:
    reference = office.create("direct/payin", msisdn="254700000130")["gatewayReference"]
    with signed_in_page(
        browser, office, "ann", viewport=NARROW, java_script_enabled=with_scripts
    ) as page:
        page.goto(f"{office.console}/payments/{reference}")
        page.locator("summary", has_text="End it by hand").click()
        page.get_by_label("Outcome").select_option("success")
        page.get_by_label("Reason").first.fill("she has a receipt")
        page.get_by_label("Evidence").fill('line "17"\nof today')
        office.advance("31m")
        page.get_by_role("button", name="Propose").click()
        expect(
            page.get_by_text("Your session has ended. Nothing was sent", exact=False)
        ).to_be_visible()
        expect(page.get_by_label("Name")).to_have_value("ann")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_label("Outcome")).to_have_value("success")
        expect(page.get_by_label("Evidence")).to_have_value('line "17"\nof today')
        expect(
            page.get_by_text("Your session had ended, and nothing was sent.", exact=False)
        ).to_be_visible()
        assert urlsplit(page.url).path == f"/payments/{reference}"
        page.get_by_role("button", name="Propose").click()
        expect(page.get_by_role("heading", name=": to do")).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="Proposal")).to_be_visible()


def wait_until_stuck(page: Page, crowded: Sandbox) -> None:
    """Let hours pass, as often as the simulated operator needs until it has more of the payments
    than a page shows."""
    for _ in range(20):
        crowded.advance("2h")
        sign_in(page, crowded, "ada")
        page.goto(f"{crowded.console}/stuck")
        if page.locator("tbody th[scope=row]").count() == PAGE_SIZE:
            return
        page.wait_for_timeout(500)
    raise AssertionError(page.locator("tbody th[scope=row]").count())


def ask_back(page: Page, crowded: Sandbox, references: Iterable[str]) -> None:
    """Ask money of these payments back, one after the other."""
    ask_money_back(page, [f"{crowded.console}/payments/{each}" for each in references])


def test_a_full_page_is_small_at_first_view(browser: Browser, tmp_path: Path) -> None:
    with serving_sandbox(tmp_path) as crowded, browser_page(browser, viewport=WIDE) as page:
        add_staff(crowded, {"ada": "admin"})
        labels = {f"label {number}": "a label of a merchant" for number in range(10)}
        references = [
            # The first have a callback that fails and an entry in the suspense book, the others
            # become stuck.
            crowded.create("direct/payin", msisdn=f"254700000{digits}", labels=labels)[
                "gatewayReference"
            ]
            for digits in ("160", "130") * (PAGE_SIZE + 10)
        ]
        wait_until_stuck(page, crowded)
        ask_back(page, crowded, references[: 2 * PAYMENTS_PAGE_SIZE + 2 : 2])
        page.locator("tbody a").first.click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        payment_path = urlsplit(page.url).path
        brand = "/brands/demo/configuration"
        for path in (
            *PAGES.values(),
            "/?view=month",
            "/configuration",
            brand,
            payment_path,
            "/second-factor",
        ):
            page.goto(crowded.console + path)
            # Without what a page fetches later, when something has happened.
            sizes = page.evaluate(
                "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
                ".filter((entry) => !entry.name.endsWith('/events'))"
                ".filter((entry) => entry.initiatorType !== 'fetch')"
                ".map((entry) => entry.decodedBodySize)"
            )
            assert len(sizes) >= 3, path
            assert sum(sizes) <= FIRST_VIEW_BYTES_MAX, (path, sizes)
            if path in ("/payments", "/stuck", "/callbacks"):
                assert page.locator("tbody th[scope=row]").count() == PAGE_SIZE, path
            if path == "/suspense":
                assert page.locator("main section").count() == CARDS_PAGE_SIZE
            if path == "/reversals":
                assert page.locator("main section").count() == PAYMENTS_PAGE_SIZE


def test_a_user_sets_up_a_second_factor_without_scripts(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "zoe", viewport=NARROW, java_script_enabled=False) as page:
        page.locator("summary", has_text="zoe").click()
        page.get_by_role("link", name="Second factor").click()
        page.get_by_label("Your password").fill(PASSWORD)
        page.get_by_role("button", name="Set up a second factor").click()
        expect(page.get_by_role("img", name="QR code")).to_be_visible()
        box = page.locator(".scan svg").bounding_box()
        assert box is not None
        assert 150 < box["width"] <= NARROW["width"]
        assert box["height"] == pytest.approx(box["width"], abs=1)
        assert read_screenshot(page.locator(".scan svg").screenshot()).startswith("otpauth://totp/")
        check_axe_without_scripts(page)
        screenshot(
            page, "console-enrol-narrow", hidden=[page.locator(".scan"), page.locator(".secret")]
        )
        secret = base64.b32decode(page.locator(".secret").inner_text().replace(" ", ""))
        page.get_by_label("Code that the app shows").fill(device_code(office, secret))
        page.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
        codes = page.locator(".codes code").all_inner_texts()
        assert len(codes) == 10
        check_axe_without_scripts(page)
        screenshot(page, "console-recovery-codes-narrow", hidden=[page.locator(".codes")])
        sign_out(page, "zoe")
        fill_sign_in(page, "zoe", "000000")
        expect(page.get_by_role("alert")).to_have_text("Name, password or code is wrong.")
        check_axe_without_scripts(page)
        screenshot(page, "console-sign-in-wrong-narrow")
        fill_sign_in(page, "zoe", codes[0])
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    with browser_page(browser, viewport=WIDE, color_scheme="dark") as page:
        page.goto(f"{office.console}/sign-in")
        fill_sign_in(page, "zoe", codes[1])
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        page.goto(f"{office.console}/second-factor")
        expect(page.get_by_text("Recovery codes left: 8.")).to_be_visible()
        check_axe(page)
        screenshot(page, "console-second-factor-dark")
        page.get_by_label("Code of your present device").fill(codes[2])
        page.get_by_role("button", name="Set up another device").click()
        expect(page.get_by_role("img", name="QR code")).to_be_visible()
        check_axe(page)


def read_screenshot(picture: bytes) -> str:
    """The text of the QR code in a screenshot."""
    grey = Image.open(io.BytesIO(picture)).convert("L")
    dark = [level < 128 for level in grey.tobytes()]
    return read_qr_rows(
        [dark[start : start + grey.width] for start in range(0, len(dark), grey.width)]
    )


def fill_sign_in(page: Page, name: str, code: str) -> None:
    """By keyboard, with a second factor."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Code, only with a second factor").fill(code)
    page.keyboard.press("Enter")


def device_code(office: Sandbox, secret: bytes) -> str:
    """The code that a device shows by the sandbox's clock."""
    return code_at(
        secret, GatewayClock(offset=read_offset(office.directory / CLOCK_OFFSET_FILE)).wall_time()
    )


def test_staff_ask_whose_account_a_number_is(browser: Browser, office: Sandbox) -> None:
    payee = {"id": "user-1", "msisdn": "254700000130"}
    reference = office.create("direct/payout", payer=None, payee=payee)["gatewayReference"]
    with signed_in_page(browser, office, "ada", viewport=NARROW) as page:
        page.goto(f"{office.console}/payments/{reference}")
        page.get_by_role("button", name="Ask whose account the number is").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Whose account it is")
        check_axe(page)
        screenshot(page, "console-payee-narrow")
