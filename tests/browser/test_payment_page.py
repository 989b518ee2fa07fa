"""The hosted payment page as payers meet it: on a wide screen, a small phone, a slow link, without
scripts."""

from __future__ import annotations

import io
import random
import re
import zlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from attrs import evolve
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import (
    browser_page,
    check_axe,
    check_axe_without_scripts,
    loaded_bytes,
    wait_for_end,
)
from tests.support.browser_gateway import Sandbox, Shop, fetch, serving_sandbox
from tests.support.pictures import screenshot

FIRST_VIEW_BYTES_MAX = 20_000
FIRST_VIEW_S_MAX = 1.0
FIRST_VIEW_ATTEMPTS_MAX = 30

STATUS = "[role=status]"
BUTTON = "main button"


@pytest.mark.spec("W1", "W2")
def test_a_payer_pays_and_is_taken_back_to_the_shop(
    page: Page, sandbox: Sandbox, shop: Shop
) -> None:
    created = sandbox.create(successRedirectUrl=f"{shop.url}/thanks?order=7")
    page.goto(created["pageUrl"])
    expect(page.get_by_role("heading", level=1)).to_have_text("KES 150.00")
    expect(page.get_by_role("article").get_by_text("Demo Shop")).to_be_visible()
    expect(page.get_by_text("+254 ••• ••• 678")).to_be_visible()
    assert "254712345678" not in page.content()
    page.get_by_role("button", name="Pay KES").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Back in the shop")
    assert page.url == f"{shop.url}/thanks?order=7"
    assert sandbox.status(created["gatewayReference"])["status"] == "success"


@pytest.mark.spec("W1", "W2")
def test_without_javascript_the_payment_works_to_the_end(
    plain_page: Page, sandbox: Sandbox, shop: Shop
) -> None:
    page = plain_page
    created = sandbox.create(successRedirectUrl=f"{shop.url}/thanks")
    page.goto(created["pageUrl"])
    check_axe_without_scripts(page)
    page.locator(BUTTON).click()
    page.wait_for_url(f"{shop.url}/thanks")

    created = sandbox.create(scenario="cancelled")
    page.goto(created["pageUrl"])
    page.locator(BUTTON).click()
    expect(page.locator(STATUS)).to_have_text(
        re.compile(
            "Not paid.*No money was taken.*You cancelled the payment.*You can try again", re.S
        )
    )
    check_axe_without_scripts(page)


@pytest.mark.spec("W1")
def test_a_double_click_two_tabs_and_the_back_button_do_no_harm(
    page: Page, sandbox: Sandbox, shop: Shop
) -> None:
    created = sandbox.create(scenario="phone", successRedirectUrl=f"{shop.url}/thanks")
    reference, url = created["gatewayReference"], created["pageUrl"]
    other = page.context.new_page()
    other.goto(url)
    page.goto(url)
    page.locator(BUTTON).dblclick()
    expect(page.locator(STATUS)).to_contain_text("Confirm the payment on your phone")
    # The other tab has followed by itself, and shows no button any more.
    expect(other.locator(STATUS)).to_contain_text("Confirm the payment on your phone")
    expect(other.locator(BUTTON)).to_have_count(0)
    page.go_back()
    page.goto(url)
    expect(page.locator(BUTTON)).to_have_count(0)
    assert sandbox.status(reference)["status"] == "pending"
    submitted = (sandbox.directory / "sandbox-provider.ndjson").read_text(encoding="utf-8")
    lines = [line for line in submitted.splitlines() if reference in line and "submitted" in line]
    assert len(lines) == 1


@pytest.mark.spec("W2")
@pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "plain"])
def test_pressing_after_the_end_still_leads_back(
    browser: Browser, sandbox: Sandbox, shop: Shop, javascript: bool
) -> None:
    # An old tab whose button is pressed late: browsers forbid a form's answer to lead elsewhere, so
    # the page leads on.
    created = sandbox.create(successRedirectUrl=f"{shop.url}/late")
    with browser_page(browser, java_script_enabled=javascript) as page:
        page.route("**/events*", lambda route: route.abort())
        page.goto(created["pageUrl"])
        fetch(created["pageUrl"], method="POST", body=b"")
        wait_for_end(page, sandbox, created["gatewayReference"])
        page.locator(BUTTON).click()
        page.wait_for_url(f"{shop.url}/late")


@pytest.mark.spec("W1")
def test_it_is_used_with_the_keyboard_alone_and_tells_its_state(
    page: Page, sandbox: Sandbox
) -> None:
    created = sandbox.create(scenario="phone")
    page.goto(created["pageUrl"])
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.textContent.trim()")
    assert focused.startswith("Pay")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator(STATUS)).to_contain_text("Confirm the payment on your phone")
    expect(page.locator(STATUS)).to_have_attribute("aria-live", "polite")
    check_axe(page)


@pytest.mark.spec("W1")
@pytest.mark.parametrize(
    ("locale", "language", "direction", "amount"),
    [
        ("en-KE", "en", "ltr", "KES 150.00"),
        ("fr-CI", "fr", "ltr", "150,00 KES"),
        ("sw-TZ", "sw", "ltr", "KES 150.00"),
        ("pt-MZ", "pt", "ltr", "150,00 KES"),
        ("ar-EG", "ar", "rtl", "١٥٠٫٠٠ KES"),
        ("ar-MA", "ar", "rtl", "150,00 KES"),
        ("de-DE", "en", "ltr", "KES 150.00"),
    ],
)
def test_the_browsers_language_is_spoken(
    browser: Browser, sandbox: Sandbox, locale: str, language: str, direction: str, amount: str
) -> None:
    created = sandbox.create()
    with browser_page(browser, locale=locale, viewport={"width": 360, "height": 640}) as page:
        page.goto(created["pageUrl"])
        html = page.locator("html")
        expect(html).to_have_attribute("lang", language)
        expect(html).to_have_attribute("dir", direction)
        expect(page.get_by_role("heading", level=1)).to_have_text(amount)
        check_axe(page)
        if language in ("fr", "sw", "pt"):
            screenshot(page, f"payment-{language}")


@pytest.mark.spec("W1")
def test_the_language_is_switched_and_kept(plain_page: Page, sandbox: Sandbox) -> None:
    page = plain_page
    created = sandbox.create(scenario="insufficient_funds")
    page.goto(created["pageUrl"])
    page.get_by_role("link", name="Français").click()
    expect(page.locator("html")).to_have_attribute("lang", "fr")
    page.locator(BUTTON).click()
    expect(page.locator(STATUS)).to_contain_text("Aucun argent n’a été prélevé.")
    expect(page.locator(STATUS)).to_contain_text("Il n’y a pas assez d’argent sur votre compte.")
    assert page.context.cookies() == []


@pytest.mark.spec("W1")
def test_the_first_view_is_below_20_kb_over_the_wire(browser: Browser, sandbox: Sandbox) -> None:
    created = sandbox.create()
    with browser_page(browser) as page, loaded_bytes(page) as sizes:
        page.goto(created["pageUrl"], wait_until="load")
    assert len(sizes) >= 3, "the page, its sheet and its script"
    assert sum(sizes) < FIRST_VIEW_BYTES_MAX


BRANDED = """
[[brand]]
id = "safari"
name = "Safari Coaches"
api_keys = ["a-key-for-safari-coaches"]
page = { colour = "#f7a417", logo = "logo.png", order_label = "order" }

  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["web/payin"]
  limits.KES = { min = "10", max = "150000" }
"""


def _logo() -> bytes:
    """Return a logo that is nearly as large as one may be."""
    picture = Image.new("RGB", (96, 96), "#f7a417")
    pen = ImageDraw.Draw(picture)
    pen.polygon([(16, 72), (48, 20), (80, 72)], fill="#5b2c06")
    found = io.BytesIO()
    picture.save(found, "PNG")
    # A note in the file, which nobody sees, makes it large.
    end = found.getvalue().rindex(b"\x00\x00\x00\x00IEND")
    note = b"tEXt" + b"note\x00" + random.Random(1).randbytes(4_000 - end)
    chunk = (len(note) - 4).to_bytes(4, "big") + note + zlib.crc32(note).to_bytes(4, "big")
    return found.getvalue()[:end] + chunk + found.getvalue()[end:]


@pytest.fixture(scope="module")
def branded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with a brand that has a look of its own."""
    directory = tmp_path_factory.mktemp("branded")
    (directory / "brands.toml").write_text(BRANDED, encoding="utf-8")
    (directory / "logo.png").write_bytes(_logo())
    with serving_sandbox(directory, "--brands", str(directory / "brands.toml")) as running:
        yield evolve(running, api_key="a-key-for-safari-coaches")


OPERATOR = """
[gateway]
title = "Lipa Gateway"

[provider.sandbox]
kind = "sandbox"
title = "M-Pesa"
colour = "#3cb44a"
approvals_code = "*334#"
"""


@pytest.mark.spec("W1")
@pytest.mark.parametrize("has_logo", [True, False], ids=["logo", "colour"])
def test_the_operator_is_known_by_its_sign_and_the_gateway_by_its_name(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, has_logo: bool
) -> None:
    directory = tmp_path_factory.mktemp("signs")
    (directory / "brands.toml").write_text(BRANDED, encoding="utf-8")
    (directory / "logo.png").write_bytes(_logo())
    written = OPERATOR
    if has_logo:
        (directory / "operator.png").write_bytes(_logo())
        written += f"logo = '{directory / 'operator.png'}'\n"
    (directory / "mmo.toml").write_text(written, encoding="utf-8")
    options = (f"--config={directory / 'mmo.toml'}", f"--brands={directory / 'brands.toml'}")
    with serving_sandbox(directory / "data", *options) as running:
        running = evolve(running, api_key="a-key-for-safari-coaches")
        created = running.create(scenario="phone")
        with browser_page(browser, viewport={"width": 320, "height": 480}) as page:
            with loaded_bytes(page) as sizes:
                page.goto(created["pageUrl"], wait_until="load")
            assert sum(sizes) < FIRST_VIEW_BYTES_MAX
            sign = page.locator("article > p .sign")
            if has_logo:
                assert sign.evaluate("sign => sign.naturalWidth") == 96
            else:
                expect(sign.locator("circle")).to_have_attribute("fill", "#3cb44a")
            expect(page.locator("article > p").first).to_contain_text("A message from M-Pesa")
            expect(
                page.get_by_text("Payment page of Lipa Gateway for Safari Coaches")
            ).to_be_visible()
            check_axe(page)
            page.locator(BUTTON).click()
            expect(page.locator(".waiting")).to_be_visible()
            running.advance("21s")
            dial = page.get_by_role("link", name="*334#")
            expect(dial).to_have_attribute("href", "tel:*334%23")
            check_axe(page)


@pytest.mark.spec("W1", "M4")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_the_look_of_its_shop(browser: Browser, branded: Sandbox, scheme: str) -> None:
    created = branded.create(labels={"order": "2 tickets, Nairobi to Mombasa"})
    with browser_page(browser, viewport={"width": 360, "height": 640}, color_scheme=scheme) as page:
        with loaded_bytes(page) as sizes:
            page.goto(created["pageUrl"], wait_until="load")
        expect(page.get_by_text("2 tickets, Nairobi to Mombasa")).to_be_visible()
        assert page.locator("img.mark").evaluate("mark => mark.naturalWidth") == 96
        check_axe(page)
        screenshot(page, "payment-branded" if scheme == "light" else "payment-branded-dark")
        assert 4_000 < sum(sizes) < FIRST_VIEW_BYTES_MAX


FIRST_PAINT_MS = """() => new Promise((resolve) => new PerformanceObserver((list) => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) resolve(entry.startTime);
}).observe({type: "paint", buffered: true}))"""
"""Waits for the first paint, as a page may be loaded before it; the page's policy permits no
expression that is evaluated again and again."""


@pytest.mark.spec("W1")
def test_on_a_link_like_3g_the_page_is_seen_within_a_second(
    browser: Browser, sandbox: Sandbox
) -> None:
    # The best of many: what is measured is the page, not what else this machine has to do.
    created = sandbox.create()
    best = float("inf")
    for _ in range(FIRST_VIEW_ATTEMPTS_MAX):
        with browser_page(browser, slow=True, viewport={"width": 360, "height": 640}) as page:
            page.goto(created["pageUrl"], wait_until="load")
            best = min(best, page.evaluate(FIRST_PAINT_MS) / 1000)
        if best < FIRST_VIEW_S_MAX:
            return
    raise AssertionError(f"{best:.2f} s")


@pytest.mark.spec("W1")
def test_an_open_page_closes_by_itself(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with serving_sandbox(tmp_path_factory.mktemp("expiry")) as sandbox:
        created = sandbox.create()
        with browser_page(browser) as page:
            page.goto(created["pageUrl"])
            expect(page.get_by_text("Time left to pay: 30 min")).to_be_visible()
            sandbox.advance("10m")
            expect(page.get_by_text("Time left to pay: 20 min")).to_be_visible()
            sandbox.advance("20m")
            expect(page.get_by_role("heading", level=1)).to_have_text("Not paid")
            expect(page.get_by_text("No money was taken.")).to_be_visible()
            expect(page.get_by_text("KES 150.00")).to_be_visible()
            places = [
                page.locator(each).evaluate("part => getComputedStyle(part).textAlign")
                for each in (".shop", ".shop strong")
            ]
            assert set(places) == {"start"}, "the shop's name is where it was"
            check_axe(page)
            screenshot(page, "payment-expired")


@pytest.mark.spec("W3")
def test_a_guess_is_shown_nothing(page: Page, sandbox: Sandbox) -> None:
    created = sandbox.create()
    answer = page.goto(created["pageUrl"][:-1])
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing to pay here")
    assert "KES" not in page.content()
    check_axe(page)
    screenshot(page, "payment-unknown")


def picture(page: Page, name: str, scheme: str = "light") -> None:
    """Compare the page in this colour scheme, and judge it."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    check_axe(page)
    screenshot(page, name)


def test_what_it_looks_like(
    page: Page, narrow_page: Page, rtl_page: Page, sandbox: Sandbox
) -> None:
    url = sandbox.create()["pageUrl"]
    assert urlsplit(url).path.startswith("/pay/")
    named = {"payment": page, "payment-narrow": narrow_page, "payment-rtl": rtl_page}
    for name, shown in named.items():
        shown.goto(url)
        picture(shown, name)
    picture(narrow_page, "payment-dark", "dark")

    for scenario, wanted, name in (
        ("phone", ".waiting", "payment-waiting"),
        ("success", ".paid", "payment-paid"),
        ("cancelled", ".failed", "payment-failed"),
        ("user_account_blocked", ".failed", "payment-no-retry"),
        ("duplicate_request", ".unclear", "payment-unclear"),
    ):
        url = sandbox.create(scenario=scenario)["pageUrl"]
        narrow_page.goto(url)
        narrow_page.locator(BUTTON).click()
        for shown, suffix in ((narrow_page, ""), (rtl_page, "-rtl")):
            if shown is rtl_page:
                shown.goto(url)
            expect(shown.locator(wanted)).to_be_visible()
            picture(shown, f"{name}{suffix}")
        picture(narrow_page, f"{name}-dark", "dark")
