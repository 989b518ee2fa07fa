"""A brand's page in the console: what its payers see and how far they come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve
from playwright.sync_api import Browser, expect

from tests.support.browser import OVERFLOW, check_axe, check_axe_without_scripts
from tests.support.browser_gateway import Sandbox, fetch, serving_sandbox
from tests.support.console_staff import add_staff, signed_in_page
from tests.support.pictures import screenshot

BRAND = """
[[brand]]
id = "safari"
name = "Safari Coaches"
api_keys = ["a-key-for-safari-coaches"]
page.colour = "#f7a417"
page.order_label = "order"
page.support_phone = "+254 700 123 456"
page.support_url = "https://safari.example/help"

  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["web/payin"]
  limits.KES = { min = "10", max = "150000" }
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with staff, and a brand whose payers have come differently far."""
    directory = tmp_path_factory.mktemp("office")
    (directory / "brands.toml").write_text(BRAND, encoding="utf-8")
    with serving_sandbox(directory, "--brands", str(directory / "brands.toml")) as running:
        add_staff(running, {"vera": "viewer"})
        shop = evolve(running, api_key="a-key-for-safari-coaches")
        for scenario in ("success", "success", "cancelled", "phone", None):
            created = shop.create(scenario=scenario)
            if scenario is not None:
                fetch(created["pageUrl"], method="POST", body=b"")
        running.advance("10s")
        yield running


@pytest.mark.spec("W1")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 1280])
def test_staff_see_what_payers_see(
    browser: Browser, office: Sandbox, width: int, scheme: str
) -> None:
    viewport = {"width": width, "height": 900}
    with signed_in_page(browser, office, "vera", viewport=viewport, color_scheme=scheme) as page:
        page.goto(f"{office.console}/brands/safari")
        button = page.get_by_text("Pay KES 10.00", exact=True)
        expect(button).to_have_css("background-color", "rgb(247, 164, 23)")
        expect(page.get_by_text("Button pressed, sent to the operator")).to_be_visible()
        expect(page.locator("meter[aria-label=Paid]")).to_have_attribute("value", "40")
        assert page.evaluate(OVERFLOW) <= 0
        check_axe(page)
        if width == 1280:
            suffix = "" if scheme == "light" else "-dark"
            screenshot(page, f"console-brand-payers{suffix}", full_page=True)


def test_it_needs_no_scripts(browser: Browser, office: Sandbox) -> None:
    with signed_in_page(browser, office, "vera", java_script_enabled=False) as page:
        page.goto(f"{office.console}/brands/safari")
        expect(page.get_by_text("An example: no payment is made.")).to_be_visible()
        check_axe_without_scripts(page)
