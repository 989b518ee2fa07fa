"""A payment and an approval as a screen reader reads them, with the keyboard alone, with scripts
and without."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser

from tests.support.browser import browser_page
from tests.support.browser_gateway import Sandbox, serving_sandbox
from tests.support.console_browser import PASSWORD
from tests.support.console_staff import add_staff
from tests.support.screen_reader import ScreenReader

with_and_without_scripts = pytest.mark.parametrize(
    "scripts", [True, False], ids=["scripts", "plain"]
)
_NUMBERS = (f"2546{number:05}180" for number in count(1))


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with two users who may change its configuration, and a payment of today."""
    with serving_sandbox(tmp_path_factory.mktemp("office")) as running:
        add_staff(running, {"ann": "approver", "abe": "approver"})
        running.create("direct/payin")
        yield running


@pytest.mark.spec("W1")
@with_and_without_scripts
def test_a_listener_pays(browser: Browser, sandbox: Sandbox, scripts: bool) -> None:
    number = next(_NUMBERS)
    created = sandbox.create(msisdn=number)
    with browser_page(browser, java_script_enabled=scripts) as page:
        paying, phone = ScreenReader(page), ScreenReader(page.context.new_page())
        page.goto(created["pageUrl"])
        paying.expect("Demo Shop", "KES 150.00", "A message from", "Sandbox")
        paying.expect("Sandbox", "ending in 1 8 0", "Pay KES 150.00")
        paying.check()
        paying.press("button", "Pay KES 150.00")
        paying.expect_announced("Confirm the payment on your phone")
        paying.check()
        phone.page.goto(f"{sandbox.pages}/phone/{number}")
        phone.expect(
            "A payment waits", f"Phone {number}", "Pay KES 150.00?", "PIN", "Approve", "Refuse"
        )
        phone.check()
        phone.write("PIN", "12")
        phone.press("button", "Approve")
        phone.expect_announced("A PIN has four digits")
        wrong = phone.focused()
        assert wrong.name.startswith("PIN")
        assert wrong.properties["invalid"] == "true"
        assert wrong.description == "A PIN has four digits; on this phone any four will do."
        phone.write("PIN", "4321")
        phone.press("button", "Approve")
        phone.expect_announced("Approved.")
        phone.expect("You have paid KES 150.00 to Demo Shop. Your balance is KES 999,850.00.")
        phone.check()
        paying.expect_announced("Paid")
        paying.check()
    assert sandbox.status(created["gatewayReference"])["status"] == "success"


@pytest.mark.spec("W1")
@with_and_without_scripts
def test_a_listener_is_told_not_to_pay_again(
    browser: Browser, sandbox: Sandbox, scripts: bool
) -> None:
    created = sandbox.create(scenario="duplicate_request")
    with browser_page(browser, java_script_enabled=scripts) as page:
        paying = ScreenReader(page)
        page.goto(created["pageUrl"])
        paying.press("button", "Pay KES 150.00")
        paying.expect_announced("It is not clear whether you paid")
        paying.expect_announced("Don't pay again")
        paying.check()
        assert page.title().startswith("It is not clear whether you paid")
        assert page.title().endswith("Don't pay again: the shop will tell you.")


def open_configuration(reader: ScreenReader, office: Sandbox, name: str) -> None:
    """Sign in, and follow the link to the configuration."""
    reader.page.goto(f"{office.console}/sign-in")
    reader.check()
    reader.write("Name", name)
    reader.write("Password", PASSWORD)
    reader.press("button", "Sign in")
    reader.expect("Overview")
    reader.check()
    reader.press("link", "Configuration", within="navigation")
    reader.expect("Configuration", "Demo")
    reader.check()


@with_and_without_scripts
def test_a_listener_proposes_a_change_and_another_applies_it(
    browser: Browser, office: Sandbox, scripts: bool
) -> None:
    with (
        browser_page(browser, java_script_enabled=scripts) as one,
        browser_page(browser, java_script_enabled=scripts) as two,
    ):
        ann, abe = ScreenReader(one), ScreenReader(two)
        open_configuration(ann, office, "ann")
        ann.press("link", "Demo", within="main")
        ann.expect("Change Demo", "The brand as a whole", "mpesa_ke")
        ann.expect("mpesa_ke", "Max KES", "Reason", "Check the change")
        ann.check()
        ann.write("Max KES", "much", within="group:mpesa_ke")
        ann.write("Reason", "fewer large payments")
        ann.press("button", "Check the change")
        ann.expect_announced("Nothing was proposed: one field needs another value.")
        wrong = ann.focused()
        assert wrong.name == "Max KES"
        assert wrong.properties["invalid"] == "true"
        remedy = 'It must be a decimal number such as 150.00. Write it like "10.50".'
        assert wrong.description == remedy
        ann.check()
        ann.write("Max KES", "200000", within="group:mpesa_ke")
        ann.press("button", "Check the change")
        ann.expect("What you have changed so far", "Setting", "Max KES", "Before", "After")
        ann.check()
        ann.press("button", "Propose the change")
        ann.expect("Change", "Proposed", "ann", "Reason", "fewer large payments")
        ann.expect("fewer large payments", "Another user has to apply it.")
        ann.check()
        number = one.url.rpartition("/")[2]
        open_configuration(abe, office, "abe")
        abe.press("link", f"Change {number}", within="main")
        abe.expect("Proposed", "ann", "Reject", "What changes")
        abe.expect("What changes", "Setting", "Before", "After", "Apply: ")
        abe.expect("What the requests of", "Back-test", "Accepted")
        abe.check()
        abe.press("button", "Apply: ")
        abe.expect(f"Change {number} of Demo", "applied", "Applied", "abe")
        abe.check()
        abe.write("Why", "the campaign is over")
        abe.press("button", "Go back to the version before")
        abe.expect(f"Change {number} of Demo", "reverted", "Reverted", "abe")
        abe.check()
