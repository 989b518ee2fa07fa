"""The payment page on the smallest phones, at 200 %, in forced colours and with reduced motion, and
while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.browser import OVERFLOW, browser_page, check_axe
from tests.support.browser_gateway import Sandbox, Shop, fetch, serving_sandbox
from tests.support.pictures import screenshot

LARGE = {"value": 149_999, "currency": "KES"}
BUTTON = "main button"
STATUS = "[role=status]"

SIZES = {"320": (320, 640, 1), "240": (240, 320, 1), "zoomed": (195, 422, 2)}
"""Width and height in CSS pixels, and device pixels for each; `zoomed` is a phone of 390 px at 200
%."""

NUMBER_LINES = r"""() => [...document.querySelectorAll(
    ".amount, dd .sum, main button")].flatMap(part => {
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT), lines = [];
    while (texts.nextNode())
    for (const found of texts.currentNode.data.matchAll(/[\d٠-٩][\d٠-٩.,٬٫\u202f]*/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, found.index);
        range.setEnd(texts.currentNode, found.index + found[0].length);
        lines.push(new Set([...range.getClientRects()].map(each => Math.round(each.top))).size);
    }
    return lines;
})"""
"""On how many lines each number of an amount stands."""


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox whose clock these tests move."""
    with serving_sandbox(tmp_path_factory.mktemp("patient")) as running:
        yield running


@contextmanager
def small_page(browser: Browser, size: str, locale: str) -> Iterator[Page]:
    width, height, scale = SIZES[size]
    viewport = {"width": width, "height": height}
    with browser_page(browser, viewport=viewport, device_scale_factor=scale, locale=locale) as page:
        yield page


@pytest.mark.spec("W1")
@pytest.mark.parametrize("locale", ["en-KE", "fr-CI", "sw-TZ", "pt-MZ", "ar-EG", "ar-MA"])
@pytest.mark.parametrize("size", SIZES)
def test_no_number_is_broken_on_a_small_screen(
    browser: Browser, sandbox: Sandbox, size: str, locale: str
) -> None:
    with small_page(browser, size, locale) as page:
        page.goto(sandbox.create(amount=LARGE, scenario="phone")["pageUrl"])
        assert page.evaluate(NUMBER_LINES) == [1, 1]
        assert page.evaluate(OVERFLOW) <= 0
        check_axe(page)
        if locale == "en-KE":
            screenshot(page, f"payment-{size}", full_page=True)
        page.locator(BUTTON).click()
        expect(page.locator(STATUS)).to_be_visible()
        assert page.evaluate(NUMBER_LINES) == [1]
        assert page.evaluate(OVERFLOW) <= 0


@pytest.mark.spec("W1")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("locale", ["en-KE", "ar-EG"])
def test_every_ending_fits_a_small_screen(
    browser: Browser, sandbox: Sandbox, size: str, locale: str
) -> None:
    with small_page(browser, size, locale) as page:
        for scenario, ending in (
            ("success", ".paid"),
            ("cancelled", ".failed"),
            ("duplicate_request", ".unclear"),
        ):
            page.goto(sandbox.create(amount=LARGE, scenario=scenario)["pageUrl"])
            page.locator(BUTTON).click()
            expect(page.locator(ending)).to_be_visible()
            assert page.evaluate(NUMBER_LINES) == [1]
            assert page.evaluate(OVERFLOW) <= 0
        for path in ("/pay/nothing", "/nothing"):
            page.goto(f"{sandbox.pages}{path}")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.evaluate(OVERFLOW) <= 0


@pytest.mark.spec("W1", "M1")
@pytest.mark.parametrize("width", [240, 320, 360, 1024])
def test_the_largest_amount_stands_on_one_line(
    browser: Browser, named_at_length: Sandbox, width: int
) -> None:
    largest = {"value": 999_999_999_999_999, "currency": "KES"}
    created = named_at_length.create(amount=largest)
    with browser_page(browser, viewport={"width": width, "height": 640}) as page:
        page.goto(created["pageUrl"])
        assert page.evaluate(NUMBER_LINES) == [1, 1]
        assert page.evaluate(OVERFLOW) <= 0


@pytest.mark.spec("W1")
def test_after_a_minute_the_payer_may_leave(browser: Browser, patient: Sandbox, shop: Shop) -> None:
    created = patient.create(scenario="phone", errorRedirectUrl=f"{shop.url}/sorry?order=7")
    with browser_page(browser, viewport={"width": 360, "height": 640}) as page:
        page.goto(created["pageUrl"])
        expect(page.get_by_role("link", name="Back to the shop")).to_be_visible()
        page.locator(BUTTON).click()
        expect(page.locator(STATUS)).to_contain_text("This page updates by itself.")
        expect(page.get_by_role("link", name="Back to the shop")).to_be_visible()
        patient.advance("61s")
        expect(page.locator(STATUS)).to_contain_text(
            "Still waiting. You can close this page: the shop learns the result."
        )
        expect(page.get_by_text("Waiting for 1 min")).to_be_visible()
        patient.advance("2m")
        expect(page.get_by_text("Waiting for 3 min")).to_be_visible()
        check_axe(page)
        screenshot(page, "payment-slow")
        # Neither page of the merchant's fits, as both tell of an end: the way leads to the front of
        # the shop.
        page.get_by_role("link", name="Back to the shop").click()
        page.wait_for_url(f"{shop.url}/")
    assert patient.status(created["gatewayReference"])["status"] == "pending"


@pytest.mark.spec("W1")
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
def test_after_twenty_seconds_the_page_says_what_helps(
    browser: Browser, patient: Sandbox, scripts: bool
) -> None:
    created = patient.create(scenario="phone")
    viewport = {"width": 320, "height": 480}
    with browser_page(browser, viewport=viewport, java_script_enabled=scripts) as page:
        page.goto(created["pageUrl"])
        page.locator(BUTTON).click()
        expect(page.locator(".waiting")).to_be_visible()
        told = page.get_by_text("No message? Check that +254 ••• ••• 678")
        expect(told).to_be_hidden()
        patient.advance("21s")
        expect(told).to_be_visible()


ABOVE = """() => {
    const top = document.querySelector("main button").getBoundingClientRect();
    const parts = [...document.querySelectorAll(".amount, .shop, article > p strong")];
    const bottoms = parts.map(part => part.getBoundingClientRect().bottom);
    return [parts.length, Math.max(...bottoms) <= top.top, top.bottom <= innerHeight];
}"""
"""How many parts there are that one should check, and whether all are above the button, and the
button on the screen."""


@pytest.mark.spec("W1")
@pytest.mark.parametrize("locale", ["en-KE", "fr-CI", "sw-TZ", "pt-MZ", "ar-EG"])
@pytest.mark.parametrize("width", [320, 360, 1280])
def test_what_is_to_be_checked_stands_above_the_button(
    browser: Browser, named_at_length: Sandbox, width: int, locale: str
) -> None:
    created = named_at_length.create(labels={"order": "Order 4711: a kettle of 1.7 l"})
    viewport = {"width": width, "height": 480}
    with browser_page(browser, viewport=viewport, locale=locale) as page:
        page.goto(created["pageUrl"])
        assert page.evaluate(ABOVE) == [4, True, True]


LONG_NAME = """
[[brand]]
id = "mama"
name = "Mama Njeri Electronics & Home Appliances, Nakuru"
api_keys = ["a-key-for-mama-njeri"]
page.order_label = "order"
page.support_phone = "+254 700 123 456"
page.support_url = "https://wa.me/254700123456"

  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["web/payin"]
  limits.KES = { min = "10", max = "999999999999999" }
"""


@pytest.fixture(scope="module")
def named_at_length(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with a brand that has a long name, and people who answer."""
    directory = tmp_path_factory.mktemp("long")
    (directory / "brands.toml").write_text(LONG_NAME, encoding="utf-8")
    with serving_sandbox(directory, "--brands", str(directory / "brands.toml")) as running:
        yield evolve(running, api_key="a-key-for-mama-njeri")


@pytest.mark.spec("W1")
def test_a_payer_reads_when_it_was_by_the_own_clock(browser: Browser, sandbox: Sandbox) -> None:
    created = sandbox.create()
    with browser_page(browser, timezone_id="Africa/Nairobi") as page:
        page.goto(created["pageUrl"])
        page.locator(BUTTON).click()
        time = page.locator("time")
        written = time.get_attribute("datetime")
        assert written is not None
        local = datetime.fromisoformat(written).astimezone(ZoneInfo("Africa/Nairobi"))
        expect(time).to_have_text(f"{local.day} {local:%b %Y, %H:%M}")
    with browser_page(browser, java_script_enabled=False) as page:
        page.goto(created["pageUrl"])
        utc = datetime.fromisoformat(written)
        expect(page.locator("time")).to_have_text(f"{utc.day} {utc:%b %Y, %H:%M} UTC")


@pytest.mark.spec("W1")
def test_without_scripts_the_payer_may_leave_as_well(browser: Browser, patient: Sandbox) -> None:
    created = patient.create(scenario="phone")
    fetch(created["pageUrl"], method="POST", body=b"")
    patient.advance("61s")
    with browser_page(browser, java_script_enabled=False) as page:
        page.goto(created["pageUrl"])
        expect(page.locator(STATUS)).to_contain_text("Still waiting.")
        assert 'content="10;url=' in page.content()
        expect(page.get_by_role("link", name="Back to the shop")).to_have_count(0)


@pytest.mark.spec("W1")
def test_a_page_without_a_connection_says_so_and_goes_on(page: Page, sandbox: Sandbox) -> None:
    page.goto(sandbox.create(scenario="phone")["pageUrl"])
    page.locator(BUTTON).click()
    expect(page.locator(STATUS)).to_contain_text("Confirm the payment on your phone")
    told = page.get_by_text("No connection. This page goes on as soon as there is one.")
    expect(told).to_be_hidden()
    page.context.set_offline(True)
    expect(told).to_be_visible()
    check_axe(page)
    page.context.set_offline(False)
    expect(told).to_be_hidden()


@pytest.mark.spec("W1")
@pytest.mark.parametrize("is_refused", [False, True], ids=["cut", "502"])
def test_a_stream_that_fails_is_no_connection_either(
    page: Page, sandbox: Sandbox, is_refused: bool
) -> None:
    created = sandbox.create(scenario="phone")
    fetch(created["pageUrl"], method="POST", body=b"")

    def block(route: Route) -> None:
        if route.request.method == "GET" and "/events" not in route.request.url:
            route.continue_()
        elif is_refused:
            route.fulfill(status=502)
        else:
            route.abort()

    page.route("**/pay/**", block)
    page.goto(created["pageUrl"])
    expect(page.get_by_text("No connection.")).to_be_visible()
    page.unroute("**/pay/**")
    expect(page.get_by_text("No connection.")).to_be_hidden()
    expect(page.locator(STATUS)).to_contain_text("Confirm the payment on your phone")


@pytest.mark.spec("W1")
def test_the_title_says_the_state(page: Page, sandbox: Sandbox) -> None:
    created = sandbox.create(scenario="phone")
    page.goto(created["pageUrl"])
    expect(page).to_have_title("Pay KES 150.00 to Demo Shop")
    page.locator(BUTTON).click()
    expect(page).to_have_title("PIN on your phone: KES 150.00 · Demo Shop")
    for scenario, title in (("success", "Paid"), ("cancelled", "Not paid")):
        page.goto(sandbox.create(scenario=scenario)["pageUrl"])
        page.locator(BUTTON).click()
        expect(page).to_have_title(f"{title}: KES 150.00 · Demo Shop")


@pytest.mark.spec("W1")
def test_nothing_moves_for_whom_motion_is_reduced(browser: Browser, sandbox: Sandbox) -> None:
    with browser_page(browser, reduced_motion="reduce") as page:
        page.goto(sandbox.create(scenario="phone")["pageUrl"])
        expect(page.locator(".meter")).to_be_visible()
        expect(page.locator(".meter .share + path")).to_have_css("display", "none")
        page.locator(BUTTON).click()
        expect(page.locator(".live")).to_be_visible()
        assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.spec("W1")
def test_the_card_stays_where_it_is(page: Page, sandbox: Sandbox) -> None:
    places = []
    for scenario in ("phone", "cancelled"):
        page.goto(sandbox.create(scenario=scenario)["pageUrl"])
        for wanted in (".open", ".waiting" if scenario == "phone" else ".failed"):
            expect(page.locator(wanted)).to_have_count(1)
            box = page.locator("article").bounding_box()
            assert box is not None
            places.append((box["x"], box["y"], box["width"]))
            if wanted == ".open":
                page.locator(BUTTON).click()
    assert len(set(places)) == 1


@pytest.mark.parametrize(
    ("locale", "title"),
    [
        ("en", "There is no such page"),
        ("fr", "Cette page n’existe pas"),
        ("sw", "Ukurasa huu haupo"),
        ("pt", "Esta página não existe"),
        ("ar", "هذه الصفحة غير موجودة"),
    ],
)
def test_an_address_without_a_page_is_answered_in_the_payers_language(
    browser: Browser, sandbox: Sandbox, locale: str, title: str
) -> None:
    with browser_page(browser, locale=locale, viewport={"width": 360, "height": 640}) as page:
        page.goto(f"{sandbox.pages}/nothing-here")
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page).to_have_title(title)
        check_axe(page)
        page.get_by_role("link", name="English" if locale != "en" else "Français").click()
        expect(page.locator("html")).to_have_attribute("lang", "en" if locale != "en" else "fr")


def test_the_legend_of_a_chart_has_its_colours_where_colours_are_forced(
    browser: Browser, sandbox: Sandbox
) -> None:
    with browser_page(browser, forced_colors="active") as page:
        page.goto(f"{sandbox.pages}/sandbox/design")
        drawn = "key => getComputedStyle(key, '::before').backgroundColor"
        legend = page.locator(".key").evaluate_all(f"keys => keys.slice(0, 2).map({drawn})")
        bars = page.locator(".chart path.col").evaluate_all(
            "bars => bars.map(bar => getComputedStyle(bar).stroke)"
        )
        assert len(set(legend)) == 2
        assert set(legend) <= set(bars)
