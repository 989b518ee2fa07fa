"""The virtual phone and the guide: somebody who has never seen the gateway makes a whole web
payment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser import (
    OVERFLOW,
    browser_page,
    check_axe,
    check_axe_without_scripts,
    wait_for_end,
)
from tests.support.browser_gateway import Sandbox, fetch, serving_sandbox
from tests.support.pictures import screenshot

STATUS = "[role=status]"

_NUMBERS = (f"2547{number:05}180" for number in count(1))


def picture(page: Page, name: str) -> None:
    """Compare the page, light and dark."""
    screenshot(page, name)
    page.emulate_media(color_scheme="dark")
    check_axe(page)
    screenshot(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")


def phone_of(sandbox: Sandbox, number: str) -> str:
    return f"{sandbox.pages}/phone/{number}"


def rung(sandbox: Sandbox, number: str) -> str:
    """Let a phone ring for a payment; return the payment's reference."""
    return str(sandbox.create("direct/payin", msisdn=number)["gatewayReference"])


def type_pin(prompt: Page | Locator, digits: str) -> None:
    prompt.get_by_label("PIN").fill(digits)
    prompt.get_by_role("button", name="Approve").click()


@pytest.mark.spec("C4", "W1")
def test_a_first_time_user_pays_with_page_and_phone_side_by_side(
    page: Page, sandbox: Sandbox
) -> None:
    page.goto(sandbox.pages)
    check_axe(page)
    own = page.locator("main a[href^='/']").evaluate_all(
        "all => all.map(each => each.href.split('#')[0])"
    )
    assert len(own) >= 5
    assert {fetch(url).status for url in own} == {200}
    page.set_viewport_size({"width": 480, "height": 720})
    picture(page, "sandbox")
    page.get_by_label("Phone number").fill(next(_NUMBERS))
    page.get_by_role("button", name="Make this payment").click()
    check_axe(page)
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the payment page").click()
    paying = opened.value
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Open the phone").click()
    phone = opened.value
    expect(phone.locator(STATUS)).to_contain_text("Nothing waits")
    paying.get_by_role("button").click()
    expect(paying.locator(STATUS)).to_contain_text("Confirm the payment on your phone")
    expect(phone.get_by_role("heading", level=2)).to_have_text("Pay KES 10.00?")
    check_axe(phone)
    type_pin(phone, "1234")
    expect(phone.locator(STATUS)).to_contain_text("Approved")
    expect(paying.locator(".paid")).to_have_text("Paid")


@pytest.fixture
def own_sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    """A sandbox of which no callback has failed yet: after some, further ones are held back."""
    with serving_sandbox(tmp_path / "own") as running:
        yield running


TEXT_ORDER = """() =>
    [...document.querySelectorAll("article :is(strong, h1, li, [role=status], button, dt)")]
        .map(each => each.textContent.trim()).filter(Boolean)"""
"""What a screen reader reads of the payment, in its order."""


@pytest.mark.spec("C4", "W1")
def test_page_and_phone_are_one_screen_for_the_keyboard_alone(
    page: Page, own_sandbox: Sandbox
) -> None:
    number = next(_NUMBERS)
    page.set_viewport_size({"width": 1100, "height": 860})
    page.goto(own_sandbox.pages)
    field = page.get_by_label("Phone number")
    field.fill(number)
    field.press("Enter")
    expect(page.get_by_text("2 tickets, Nairobi to Mombasa")).to_be_visible()
    assert page.evaluate(TEXT_ORDER)[:3] == ["Demo Shop", "KES 10.00", "Sandbox"]
    while page.evaluate("document.activeElement.textContent.trim()") != "Pay KES 10.00":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    prompt = page.get_by_role("heading", name="Pay KES 10.00?")
    expect(prompt).to_be_visible()
    expect(page.locator("li[aria-current=step]")).to_have_text("PIN on your phone")
    check_axe(page)
    picture(page, "try")
    page.set_viewport_size({"width": 360, "height": 640})
    screenshot(page, "try-narrow")
    page.set_viewport_size({"width": 1100, "height": 860})
    pin = page.get_by_label("PIN")
    pin.fill("1234")
    page.keyboard.press("Enter")
    expect(page.locator(".paid")).to_have_text("Paid")
    expect(page.locator(".bubble")).to_contain_text("You have paid KES 10.00 to Demo Shop.")
    expect(page.locator(".bubble")).to_contain_text("Your balance is KES 999,990.00.")
    # Nobody listens at the address of the guide's results. The page follows that, too.
    expect(page.get_by_label("The callback", exact=True)).to_contain_text("X-API-KEY:")
    expect(page.get_by_text("transport_error")).to_be_visible()
    check_axe(page)
    # The answer to the PIN is shown again, as the page had to follow only if the payment ended
    # after that answer.
    page.goto(f"{page.url.partition('?')[0]}?done=approve")
    screenshot(page, "try-paid", full_page=True)


@pytest.mark.spec("W1", "E1")
@pytest.mark.parametrize(
    ("button", "told", "code"),
    [
        ("Refuse", "You cancelled the payment.", "user_cancelled"),
        ("Not enough money", "There is not enough money", "user_insufficient_funds"),
        ("Let it ring out", "The payment was not confirmed in time.", "user_timeout"),
    ],
)
def test_a_person_can_answer_otherwise(
    browser: Browser, sandbox: Sandbox, button: str, told: str, code: str
) -> None:
    number = next(_NUMBERS)
    created = sandbox.create(msisdn=number)
    # Without JavaScript, as it must work there, too.
    with browser_page(browser, java_script_enabled=False) as page:
        page.goto(phone_of(sandbox, number))
        check_axe_without_scripts(page)
        paying = page.context.new_page()
        paying.goto(created["pageUrl"])
        paying.get_by_role("button").click()
        check_axe_without_scripts(paying)
        page.get_by_role("button", name=button).click()
        expect(page.locator(STATUS)).to_contain_text("Nothing is paid.")
        check_axe_without_scripts(page)
        expect(paying.locator(STATUS)).to_contain_text(told)
    assert sandbox.status(created["gatewayReference"])["errorCode"] == code


def test_a_pin_has_four_digits_and_a_payment_can_wait(page: Page, sandbox: Sandbox) -> None:
    number = next(_NUMBERS)
    reference = rung(sandbox, number)
    page.goto(phone_of(sandbox, number))
    type_pin(page, "12")
    expect(page.get_by_role("alert")).to_contain_text("A PIN has four digits")
    check_axe(page)
    page.set_viewport_size({"width": 360, "height": 640})
    screenshot(page, "phone-wrong-pin")
    assert sandbox.status(reference)["status"] == "pending"
    type_pin(page, "4321")
    expect(page.locator(STATUS)).to_contain_text("Approved")


def test_a_wrong_pin_is_told_at_the_payment_for_which_it_was_typed(
    page: Page, sandbox: Sandbox
) -> None:
    number = next(_NUMBERS)
    for _ in range(2):
        rung(sandbox, number)
    page.goto(phone_of(sandbox, number))
    second = page.locator("form.prompt").nth(1)
    type_pin(second, "1")
    expect(second.get_by_role("alert")).to_contain_text("A PIN has four digits")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(second.get_by_label("PIN")).to_be_focused()


def refuse_all(browser: Browser, sandbox: Sandbox) -> None:
    """Answer what other tests have left waiting, so that a picture is the same in any order of
    tests; without scripts, as pages that follow their payments would go elsewhere in between."""
    with browser_page(browser, java_script_enabled=False) as page:
        waiting = page.locator("main ul a")
        page.goto(f"{sandbox.pages}/phone")
        while waiting.count():
            waiting.first.click()
            page.get_by_role("button", name="Refuse").first.click()
            page.wait_for_url("**done=refuse")
            page.goto(f"{sandbox.pages}/phone")


def test_a_number_is_picked_or_chosen_among_those_that_wait(
    browser: Browser, narrow_page: Page, sandbox: Sandbox
) -> None:
    page, number = narrow_page, next(_NUMBERS)
    refuse_all(browser, sandbox)
    page.goto(f"{sandbox.pages}/phone")
    check_axe(page)
    screenshot(page, "phone-numbers")
    page.get_by_label("Phone number").fill(f"+{number}")
    page.get_by_role("button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Phone {number}")
    screenshot(page, "phone-empty")
    reference = rung(sandbox, number)
    expect(page.get_by_role("heading", level=2)).to_have_text("Pay KES 150.00?")
    picture(page, "phone-narrow")
    page.get_by_role("link", name="Virtual phone").click()
    page.get_by_role("link", name=number).click()
    page.get_by_role("button", name="Refuse").click()
    expect(page.locator(STATUS)).to_contain_text("Nothing is paid.")
    wait_for_end(page, sandbox, reference)
    # The page follows by itself.
    expect(page.locator(".bubble")).to_contain_text("Nothing was paid.")
    screenshot(page, "phone-refused")


def test_an_answer_to_a_payment_of_another_phone_changes_nothing(
    page: Page, sandbox: Sandbox
) -> None:
    mine, other = next(_NUMBERS), next(_NUMBERS)
    reference = rung(sandbox, other)
    page.goto(phone_of(sandbox, other))
    expect(page.get_by_role("heading", level=2)).to_be_visible()
    page.evaluate(f"document.querySelector('form').action = '/phone/{mine}/{reference}'")
    page.get_by_role("button", name="Refuse").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Phone {mine}")
    assert sandbox.status(reference)["status"] == "pending"


def test_a_wrong_pin_leaves_the_guide_where_it_is(page: Page, sandbox: Sandbox) -> None:
    number = next(_NUMBERS)
    for _ in range(3):
        rung(sandbox, number)
    page.set_viewport_size({"width": 1100, "height": 900})
    page.goto(sandbox.pages)
    page.get_by_label("Phone number").fill(number)
    page.get_by_role("button", name="Make this payment").click()
    expect(page.locator("[data-phone-events]")).to_have_text("Your phone rings after Pay.")
    expect(page.locator("form.prompt")).to_have_count(0)
    page.get_by_role("button", name="Pay KES 10.00").click()
    own = page.locator("form.prompt")
    expect(own.get_by_role("heading")).to_have_text("Pay KES 10.00?")
    type_pin(own, "123")
    expect(own.get_by_role("alert")).to_contain_text("A PIN has four digits")
    expect(page.get_by_role("heading", level=1)).to_have_text("KES 10.00")
    own.get_by_label("PIN").fill("1234")
    page.keyboard.press("Enter")
    expect(page.locator(".paid")).to_have_text("Paid")
    expect(page.locator(".bubble")).to_contain_text("You have paid KES 10.00 to Demo Shop.")


def test_the_operators_message_comes_to_the_phone_by_itself(page: Page, sandbox: Sandbox) -> None:
    number = next(_NUMBERS)
    page.goto(phone_of(sandbox, number))
    rung(sandbox, number)
    type_pin(page, "1234")
    expect(page.locator(".bubble")).to_contain_text("You have paid KES 150.00 to Demo Shop.")
    expect(page.locator(STATUS)).to_have_text("Approved.")


def test_a_pin_that_is_typed_stays_when_another_prompt_comes(page: Page, sandbox: Sandbox) -> None:
    number = next(_NUMBERS)
    rung(sandbox, number)
    page.goto(phone_of(sandbox, number))
    page.get_by_label("PIN").fill("12")
    rung(sandbox, number)
    expect(page.locator(STATUS)).to_contain_text("something new")
    expect(page.get_by_label("PIN")).to_have_value("12")


def test_the_command_of_the_front_is_copied_whole_and_never_wraps(
    browser: Browser, sandbox: Sandbox
) -> None:
    with browser_page(
        browser,
        permissions=["clipboard-read", "clipboard-write"],
        viewport={"width": 390, "height": 800},
    ) as page:
        page.goto(sandbox.pages)
        lines, height = page.locator(".sample code").evaluate(
            "code => [code.textContent.split('\\n').length, code.getBoundingClientRect().height]"
        )
        line_height = page.locator(".sample pre").evaluate(
            "pre => parseFloat(getComputedStyle(pre).lineHeight)"
        )
        assert height < (lines + 1) * line_height
        assert page.evaluate(OVERFLOW) <= 0
        page.set_viewport_size({"width": 1440, "height": 900})
        is_cut = page.locator(".sample pre").evaluate("pre => pre.scrollWidth > pre.clientWidth")
        assert not is_cut
        page.set_viewport_size({"width": 390, "height": 800})
        pay, code = (page.locator(".split > .card").nth(at).bounding_box() for at in (0, 1))
        assert pay is not None
        assert code is not None
        assert code["y"] >= pay["y"] + pay["height"] + 8
        page.get_by_role("button", name="Copy").click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl {sandbox.api}/gateway/mmo/v2/web/payin/mpesa_ke")
        assert '"amount": {"value": 10.00, "currency": "KES"}' in copied


def test_a_test_number_fills_in_the_form_of_the_front(page: Page, sandbox: Sandbox) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(sandbox.pages)
    assert page.evaluate(OVERFLOW) <= 0
    cards = page.locator(".links .card").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().top)"
    )
    assert len(set(cards)) <= (len(cards) + 1) // 2, "two columns"
    page.get_by_role("link", name="101 user_insufficient_funds").click()
    expect(page.get_by_label("Phone number")).to_have_value("254700000101")
    page.get_by_role("button", name="Make this payment").click()
    page.get_by_role("button", name="Pay KES 10.00").click()
    expect(page.locator(STATUS).first).to_contain_text("not enough money")


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("name", ["callbacks", "requests", "suspense"])
def test_what_has_happened_is_a_page(page: Page, sandbox: Sandbox, name: str, width: int) -> None:
    """A success and then a failure are a callback, a request and an entry of the suspense book."""
    sandbox.create("direct/payin", msisdn="254700000160")
    page.set_viewport_size({"width": width, "height": 900})
    row = page.locator("tbody").first
    page.goto(f"{sandbox.pages}/sandbox/{name}")
    while not row.count():
        page.reload()
    row.locator("summary").click()
    expect(row.locator("pre").first).to_be_visible()
    assert page.evaluate(OVERFLOW) <= 0
    check_axe(page)


def test_the_only_request_is_listed(narrow_page: Page, tmp_path: Path) -> None:
    with serving_sandbox(tmp_path) as sandbox:
        sandbox.create("direct/payin")
        narrow_page.goto(f"{sandbox.pages}/sandbox/requests")
        expect(narrow_page.locator("tbody")).to_have_count(1)
        check_axe(narrow_page)
        broken = narrow_page.locator("th code").first.evaluate(
            "(path) => [...path.childNodes].filter((word) => {"
            " const range = document.createRange(); range.selectNodeContents(word);"
            " return word.nodeType === Node.TEXT_NODE && range.getClientRects().length > 1;"
            "}).map((word) => word.data)"
        )
        assert broken == [], "a path breaks before a stroke"
        line = narrow_page.locator("tbody tr").first.evaluate(
            "(row) => getComputedStyle(row).borderBottomStyle"
        )
        assert line == "none", "what belongs together has no line in between"
        screenshot(narrow_page, "requests-narrow")
