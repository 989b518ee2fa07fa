"""A change of configuration in a browser: by two users, with the keyboard alone, and without
scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.support.browser import browser_page, check_axe, check_axe_without_scripts
from tests.support.browser_gateway import Sandbox, serving_sandbox
from tests.support.console_staff import add_staff, sign_in, tab_to
from tests.support.pictures import screenshot

WIDE: ViewportSize = {"width": 1024, "height": 720}
NARROW: ViewportSize = {"width": 360, "height": 640}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with two users who may change its configuration, and a payment of today."""
    with serving_sandbox(tmp_path_factory.mktemp("configuration")) as running:
        add_staff(running, {"ann": "approver", "abe": "approver"})
        running.create("direct/payin")
        yield running


def check(page: Page, name: str) -> None:
    """Axe finds nothing, and the page looks as pictured, light and dark."""
    check_axe(page)
    screenshot(page, name)
    page.emulate_media(color_scheme="dark")
    check_axe(page)
    screenshot(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")


def check_everywhere(page: Page, name: str) -> None:
    """The same as `check`, and on a phone."""
    check(page, name)
    page.set_viewport_size(NARROW)
    check_axe(page)
    screenshot(page, f"{name}-narrow")
    page.set_viewport_size(WIDE)


def open_list(page: Page, office: Sandbox, name: str) -> None:
    """Sign in and open the list of changes by keyboard."""
    sign_in(page, office, name)
    page.wait_for_load_state()
    page.keyboard.type("gf")  # The page waits only a moment for the second key.
    expect(page.get_by_role("heading", level=1)).to_have_text("Configuration")


def test_the_keyboard_alone_suffices_to_change_a_limit_and_to_go_back(
    browser: Browser, office: Sandbox
) -> None:
    with browser_page(browser, viewport=WIDE) as one, browser_page(browser, viewport=WIDE) as two:
        open_list(one, office, "ann")
        check(one, "console-configuration-empty")
        tab_to(one, "Demo")
        one.keyboard.press("Enter")
        expect(one.get_by_role("heading", level=1)).to_contain_text("Change Demo")
        check(one, "console-configuration-form")
        tab_to(one, "Max KES")
        one.keyboard.type("much")
        tab_to(one, "Reason")
        one.keyboard.type("fewer large payments")
        one.keyboard.press("Enter")
        expect(one.get_by_role("alert")).to_contain_text("Nothing was proposed")
        wrong = one.get_by_label("Max KES").first
        expect(wrong).to_be_focused()
        expect(wrong).to_have_accessible_description(
            'It must be a decimal number such as 150.00. Write it like "10.50".'
        )
        check(one, "console-configuration-error")
        one.keyboard.press("Control+a")
        one.keyboard.type("100")
        one.keyboard.press("Enter")
        expect(one.get_by_role("region", name="What you have changed so far")).to_contain_text(
            "KES 100.00"
        )
        tab_to(one, "Propose the change")
        one.keyboard.press("Enter")
        expect(one.get_by_role("heading", level=1)).to_contain_text("Change 1 of")
        expect(one.get_by_text("Another user has to apply it.")).to_be_visible()
        check(one, "console-change-own")
        open_list(two, office, "abe")
        check(two, "console-configuration")
        tab_to(two, "Change 1")
        two.keyboard.press("Enter")
        expect(two.get_by_role("heading", name="What changes")).to_be_visible()
        check(two, "console-change")
        tab_to(two, "Apply: ")
        two.keyboard.press("Enter")
        expect(two.get_by_role("heading", level=1)).to_contain_text("applied")
        check(two, "console-change-applied")
        tab_to(two, "Why")
        two.keyboard.type("the campaign is over")
        tab_to(two, "Propose to go back")
        two.keyboard.press("Enter")
        expect(two.get_by_role("heading", level=1)).to_contain_text("Change 2 of")
        expect(two.get_by_text("Another user has to apply it.")).to_be_visible()


def test_a_change_needs_no_scripts_and_fits_a_phone(browser: Browser, office: Sandbox) -> None:
    with (
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as one,
        browser_page(browser, viewport=NARROW, java_script_enabled=False) as two,
    ):
        sign_in(one, office, "ann")
        one.goto(f"{office.console}/configuration")
        one.get_by_role("link", name="Demo").first.click()
        check_axe_without_scripts(one)
        screenshot(one, "console-configuration-form-narrow")
        one.get_by_label("Max KES").first.fill("")
        one.get_by_label("Reason").fill("fewer large payments")
        one.get_by_role("button", name="Check the change").click()
        expect(
            one.get_by_text("It is missing. Give a smallest and a largest amount.")
        ).to_be_visible()
        check_axe_without_scripts(one)
        screenshot(one, "console-configuration-error-narrow")
        one.get_by_label("Max KES").first.fill("200000")
        one.get_by_role("button", name="Check the change").click()
        one.get_by_role("button", name="Propose the change").click()
        expect(one.get_by_text("Another user has to apply it.")).to_be_visible()
        number = one.url.rpartition("/")[2]
        sign_in(two, office, "abe")
        two.goto(f"{office.console}/configuration")
        two.get_by_role("link", name=f"Change {number}", exact=True).click()
        check_axe_without_scripts(two)
        screenshot(two, "console-change-narrow")
        two.get_by_role("button", name="Apply: ").click()
        expect(two.get_by_role("heading", level=1)).to_contain_text("applied")
        go_back(two)


def go_back(page: Page) -> None:
    """Bring the lower limit before a change into force again, which one user may do alone."""
    page.get_by_label("Why", exact=True).fill("the campaign is over")
    page.get_by_role("button", name="Go back to the version before").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("reverted")


def propose(page: Page, office: Sandbox, most: str) -> str:
    """Propose another maximum, and return the number of the change."""
    page.goto(f"{office.console}/configuration")
    page.get_by_role("link", name="Demo").first.click()
    page.get_by_label("Max KES").first.fill(most)
    page.get_by_label("Reason").fill("fewer large payments")
    page.get_by_role("button", name="Check the change").click()
    page.get_by_role("button", name="Propose the change").click()
    expect(page.get_by_text("Another user has to apply it.")).to_be_visible()
    return page.url.rpartition("/")[2]


def test_each_end_of_a_change_is_told(browser: Browser, tmp_path: Path) -> None:
    with (
        serving_sandbox(tmp_path) as office,
        browser_page(browser, viewport=WIDE) as one,
        browser_page(browser, viewport=WIDE) as two,
    ):
        add_staff(office, {"ann": "approver", "abe": "approver"})
        sign_in(one, office, "ann")
        sign_in(two, office, "abe")
        overtaken, applied = propose(one, office, "100"), propose(one, office, "200000")
        two.goto(f"{office.console}/configuration/{applied}")
        two.get_by_role("button", name="Apply: ").click()
        expect(two.get_by_role("heading", level=1)).to_contain_text("applied")
        one.goto(f"{office.console}/configuration/{overtaken}")
        expect(one.get_by_text("The brand was changed meanwhile")).to_be_visible()
        check_everywhere(one, "console-change-overtaken")
        go_back(two)
        check_everywhere(two, "console-change-reverted")
        two.goto(f"{office.console}/configuration/{propose(one, office, '80')}")
        two.get_by_label("Reason to reject").fill("the shop needs it")
        two.get_by_role("button", name="Reject").click()
        expect(two.get_by_role("heading", level=1)).to_contain_text("rejected")
        check_everywhere(two, "console-change-rejected")
        expired = propose(one, office, "70")
        office.advance("8d")
        sign_in(two, office, "abe")
        two.goto(f"{office.console}/configuration/{expired}")
        expect(two.get_by_text("It is older than seven days")).to_be_visible()
        check_everywhere(two, "console-change-expired")
