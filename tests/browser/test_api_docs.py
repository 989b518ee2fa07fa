"""Error pages and documentation in a real browser: readable narrow and wide, without JavaScript, in
the dark."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NARROW
from tests.support.browser import OVERFLOW, browser_page, check_axe
from tests.support.browser_gateway import Sandbox
from tests.support.pictures import screenshot

PATHS = (
    "/errors",
    "/errors/validation_failed",
    "/errors/merchant_transactionid_duplicate",
    "/errors/nonsense",
    "/docs",
    "/docs/search?q=payer",
    "/docs/try/createWebPayin",
    "/docs/try/listRecords",
)


TORN_WORDS = """() => {
    const names = [...document.querySelectorAll(".rows td code, h1 code, .codes a")];
    return names.flatMap(each => {
    const torn = [];
    const walk = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(walk.currentNode);
        if (/^\\w+$/.test(walk.currentNode.data) && range.getClientRects().length > 1)
            torn.push(walk.currentNode.data);
    }
    return torn;
    });
}"""
"""The names whose words are on two lines each."""


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_readable_at_any_width_and_tears_no_name(
    page: Page, sandbox: Sandbox, path: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(sandbox.pages + path)
    expect(page.locator("h1")).to_have_count(1)
    assert page.evaluate(TORN_WORDS) == []
    assert page.evaluate(OVERFLOW) <= 0
    check_axe(page)


def test_the_dark_is_as_readable(browser: Browser, sandbox: Sandbox) -> None:
    with browser_page(browser, color_scheme="dark") as page:
        for path in ("/errors/validation_failed", "/docs", "/docs/try/createWebPayin"):
            page.goto(sandbox.pages + path)
            check_axe(page)


def test_a_developer_finds_the_way_without_javascript(plain_page: Page, sandbox: Sandbox) -> None:
    plain_page.goto(f"{sandbox.pages}/docs")
    expect(plain_page.get_by_role("navigation", name="API reference")).not_to_be_visible()
    plain_page.get_by_text("Contents", exact=True).click()
    plain_page.get_by_role("link", name="Take a payment", exact=True).first.click()
    expect(plain_page).to_have_url(re.compile("#createDirectPayin$"))
    section = plain_page.locator("#createDirectPayin")
    section.get_by_text("PHP", exact=True).click()
    expect(section.get_by_text("curl_init")).to_be_visible()
    expect(section.get_by_text("import requests")).not_to_be_visible()
    plain_page.get_by_role("link", name="config_unsupported_currency").first.click()
    expect(plain_page.locator("h1")).to_have_text("config_unsupported_currency")
    plain_page.get_by_role("link", name="All error codes").click()
    expect(plain_page.locator("h1")).to_have_text("Error codes")
    plain_page.get_by_role("searchbox").fill("hosted page")
    plain_page.get_by_role("searchbox").press("Enter")
    plain_page.locator("main").get_by_role(
        "link", name="Take a payment on the hosted page"
    ).first.click()
    expect(plain_page).to_have_url(re.compile("/docs#createWebPayin$"))


def test_a_payment_is_tried_without_javascript(plain_page: Page, sandbox: Sandbox) -> None:
    plain_page.goto(f"{sandbox.pages}/docs#createDirectPayin")
    plain_page.get_by_role("link", name="Try it: Take a payment", exact=True).click()
    plain_page.get_by_role("button", name="Send the request").click()
    expect(plain_page.get_by_role("status")).to_contain_text("Answer 200")
    plain_page.get_by_role("link", name="Look this payment up").click()
    plain_page.get_by_role("button", name="Send the request").click()
    expect(plain_page.get_by_role("status")).to_contain_text("Answer 200")


def test_the_language_is_chosen_by_keyboard_once_for_all_examples(
    page: Page, sandbox: Sandbox
) -> None:
    page.goto(f"{sandbox.pages}/docs")
    page.locator("#createDirectPayin-bash").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    for name in ("createDirectPayin", "listRecords"):
        expect(page.locator(f"#{name}").get_by_text("await fetch").first).to_be_visible()
    page.reload()
    expect(page.locator("#lookUp-javascript")).to_be_checked()


def test_an_example_is_copied(browser: Browser, sandbox: Sandbox) -> None:
    with browser_page(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.clock.install(
            time=0
        )  # It stands still, as the button tells of the copy for two seconds only.
        page.goto(f"{sandbox.pages}/docs")
        page.clock.pause_at(60_000)
        section = page.locator("#createQrPayin")
        section.get_by_text("Python", exact=True).click()
        section.get_by_role("button", name="Copy").first.click()
        expect(section.get_by_role("button", name="Copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("import requests\n\nanswer = requests.post(\n")
        assert copied.endswith("print(answer.status_code, answer.text)")
        page.clock.run_for(2_000)
        expect(section.get_by_role("button", name="Copied")).to_have_count(0)


def test_results_appear_while_typing_and_are_reached_by_keyboard(
    page: Page, sandbox: Sandbox
) -> None:
    page.goto(f"{sandbox.pages}/docs")
    page.keyboard.press("/")
    page.keyboard.type("duplicate")
    expect(
        page.locator("#found").get_by_role("link", name="merchant_transactionid_duplicate")
    ).to_be_visible()
    check_axe(page, part=".search")
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()
    page.get_by_role("searchbox").fill("duplicate_request")
    expect(page.locator("#found").get_by_role("link").first).to_contain_text(
        "duplicate_request error"
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("duplicate_request")


def test_the_place_is_marked_in_the_navigation(page: Page, sandbox: Sandbox) -> None:
    """Chromium marks it by the stylesheet alone; others by the script."""
    page.goto(f"{sandbox.pages}/docs#lookUp")
    link = page.get_by_role("navigation", name="API reference").get_by_role(
        "link", name="Look up a payment", exact=True
    )
    expect(link).to_have_css("font-weight", "600")


def test_paper_has_the_text_and_the_chosen_examples(page: Page, sandbox: Sandbox) -> None:
    page.goto(f"{sandbox.pages}/docs")
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="API reference")).not_to_be_visible()
    expect(page.get_by_role("searchbox")).not_to_be_visible()
    expect(page.locator("#createDirectPayin pre").first).to_be_visible()
    heights = page.evaluate(
        "[...document.querySelectorAll('pre')].filter((each) => each.checkVisibility())"
        ".filter((each) => each.scrollHeight > each.clientHeight + 1).length"
    )
    assert heights == 0, "nothing is cut on paper"


STEADY_TEXTS = """(texts) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    for (const [found, shown] of texts)
        walker.currentNode.data = walker.currentNode.data.replaceAll(found, shown);
}"""


def show(page: Page, sandbox: Sandbox, path: str, *, height: int) -> None:
    """Open a page with texts that are the same in every run; addresses and key of a sandbox are
    not. It scrolls to its anchor after that, as other texts may change the height of what is
    above."""
    page.set_viewport_size(
        {"width": (page.viewport_size or {"width": 0})["width"], "height": height}
    )
    path, _, anchor = path.partition("#")
    answer = page.goto(sandbox.pages + path)
    assert answer is not None
    assert answer.status == 200
    texts = (
        (sandbox.api_key, "EoaOzYpYXcGdej3AxeEy88ez0H2Ju9aW"),
        (sandbox.api, "http://127.0.0.1:8080"),
    )
    page.evaluate(STEADY_TEXTS, [*texts, (sandbox.pages, "http://127.0.0.1:8081")])
    if anchor:
        page.evaluate("anchor => { location.hash = anchor; }", anchor)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_the_reference_looks_like(
    browser: Browser, sandbox: Sandbox, scheme: Literal["light", "dark"]
) -> None:
    suffix = "" if scheme == "light" else "-dark"
    with browser_page(
        browser, viewport={"width": 1280, "height": 720}, color_scheme=scheme
    ) as page:
        show(page, sandbox, "/docs#createDirectPayin", height=640)
        screenshot(page, f"api-docs{suffix}")
    with browser_page(browser, viewport=NARROW, color_scheme=scheme) as page:
        show(page, sandbox, "/docs#lookUp", height=640)
        screenshot(page, f"api-docs-narrow{suffix}")


def test_what_search_and_trial_look_like(page: Page, sandbox: Sandbox) -> None:
    show(page, sandbox, "/docs", height=480)
    page.keyboard.press("/")
    page.keyboard.type("msisdn")
    expect(page.locator("#found a").first).to_contain_text("msisdn field")
    screenshot(page, "api-docs-search")
    show(page, sandbox, "/docs/try/createDirectPayin", height=640)
    body = page.locator("textarea").input_value()
    page.locator("textarea").fill(body.replace("254700000007", "2547"))
    page.get_by_label("method").fill("mpesa_kee")
    page.get_by_role("button", name="Send the request").click()
    expect(page.get_by_role("status")).to_contain_text("Answer 400")
    reference = json.loads(body)["merchantReference"]
    page.locator("textarea").fill(
        page.locator("textarea").input_value().replace(reference, "try-4c9tb001")
    )
    texts = [(sandbox.pages, "http://127.0.0.1:8081")]
    page.evaluate(STEADY_TEXTS, texts)
    identifiers = page.locator(".sample", has_text="urn:x-request-id")
    request_id = page.locator("dd", has_text="-0000").inner_text()
    page.evaluate(STEADY_TEXTS, [(request_id, "9f3c51ab07-0000002a")])
    expect(identifiers).to_contain_text("9f3c51ab07-0000002a")
    took = page.get_by_role("status").inner_text().splitlines()[-1].partition(" after ")[2]
    page.evaluate(STEADY_TEXTS, [(f"after {took}", "after 5 ms")])
    screenshot(page, "api-docs-try")


def test_what_the_error_pages_look_like(page: Page, narrow_page: Page, sandbox: Sandbox) -> None:
    for each, suffix in ((page, ""), (narrow_page, "-narrow")):
        show(each, sandbox, "/errors/user_insufficient_funds", height=640)
        screenshot(each, f"error-page{suffix}")
    page.emulate_media(color_scheme="dark")
    screenshot(page, "error-page-dark")
    page.emulate_media(color_scheme="light")
    page.goto(f"{sandbox.pages}/errors/nonsense")
    screenshot(page, "error-page-unknown")


def test_what_lists_of_the_documentation_look_like(
    page: Page, narrow_page: Page, sandbox: Sandbox
) -> None:
    for path, name in (
        ("/errors", "errors"),
        ("/docs/search?q=duplicate", "results"),
        ("/docs/search?q=nothing+of+this", "no-results"),
        ("/docs#numbers", "test-numbers"),
    ):
        show(page, sandbox, path, height=640)
        screenshot(page, f"api-docs-{name}")
    show(narrow_page, sandbox, "/docs", height=640)
    narrow_page.get_by_text("Contents", exact=True).click()
    screenshot(narrow_page, "api-docs-contents-narrow")


@pytest.mark.parametrize("width", [320, 1280])
def test_the_life_of_a_payment_is_drawn_on_the_first_screen(
    page: Page, sandbox: Sandbox, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{sandbox.pages}/docs")
    drawn = page.get_by_role("img", name=re.compile("^The life of a payment"))
    assert drawn.evaluate("img => img.complete && img.naturalWidth") == 288
    assert drawn.evaluate("img => img.getBoundingClientRect().width >= 284"), "12 px letters"
    assert page.evaluate(OVERFLOW) <= 0
    box = drawn.bounding_box()
    assert box is not None
    assert box["y"] + (box["height"] if width == 1280 else 0) <= 900


def test_errors_are_listed_by_who_acts(page: Page, sandbox: Sandbox) -> None:
    page.goto(f"{sandbox.pages}/errors")
    acting = page.get_by_role("heading", level=3).all_inner_texts()
    assert acting == [
        "You act",
        "The staff who run the gateway act",
        "Nobody acts: it passes",
        "You act",
        "The payer acts",
        "The staff who run the gateway act",
    ]
    payers = page.get_by_role("region", name="Failed payments: The payer acts")
    expect(payers.get_by_role("link", name="user_wrong_pin")).to_be_visible()
