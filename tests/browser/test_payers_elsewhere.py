"""A payer on a phone who approves at the operator's page, or with its code, without scripts, in
three languages; and the back button, two tabs and a second return."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Page, expect

from mmo_simulators.operators.pawapay.api import PawapaySimulator
from tests.browser.conftest import NARROW
from tests.support.browser import browser_page, check_axe, check_axe_without_scripts
from tests.support.browser_gateway import Sandbox, Shop, serving_sandbox
from tests.support.pawapay_elsewhere import (
    API_KEY,
    CODE,
    PAGE,
    ElsewhereMarket,
    python_path,
    serving_operator,
    write_configuration,
)
from tests.support.pictures import screenshot


@pytest.fixture(scope="module")
def operator() -> Iterator[tuple[PawapaySimulator, str]]:
    """The operator, whose payers need no time, and its address."""
    with serving_operator() as running:
        yield running


@pytest.fixture(scope="module")
def elsewhere(
    tmp_path_factory: pytest.TempPathFactory, operator: tuple[PawapaySimulator, str]
) -> Iterator[Sandbox]:
    """A gateway with accounts in both markets."""
    directory: Path = tmp_path_factory.mktemp("elsewhere")
    settings, brands = write_configuration(directory, operator[1])
    with serving_sandbox(
        directory / "data",
        f"--config={settings}",
        f"--brands={brands}",
        PYTHONPATH=python_path(directory / "kind"),
    ) as running:
        yield evolve(running, api_key=API_KEY)


def create(sandbox: Sandbox, market: ElsewhereMarket, shop: Shop) -> tuple[str, str]:
    created = sandbox.create(
        method=market.method,
        country=market.country,
        msisdn=market.msisdn,
        amount={"value": 150, "currency": "XOF"},
        successRedirectUrl=f"{shop.url}/thanks",
        errorRedirectUrl=f"{shop.url}/sorry",
    )
    return created["gatewayReference"], created["pageUrl"]


LANGUAGES = {
    "en": ("Continue to Wave", "Type the code that Orange Money", "Dial *144*4*6*AMOUNT#"),
    "fr": ("Continuer vers Wave", "Saisissez le code que Orange Money", "Composez le *144*4*6"),
    "ar": ("المتابعة إلى Wave", "اكتب الرمز الذي يعطيك إياه Orange Money", "Dial *144*4*6*AMOUNT#"),
}


@pytest.mark.spec("W1", "W2")
@pytest.mark.parametrize("scripts", [False, True], ids=["without scripts", "with scripts"])
@pytest.mark.parametrize("locale", LANGUAGES)
def test_there_and_back(
    browser: Browser, elsewhere: Sandbox, shop: Shop, locale: str, scripts: bool
) -> None:
    reference, page_url = create(elsewhere, PAGE, shop)
    with browser_page(browser, viewport=NARROW, locale=locale, java_script_enabled=scripts) as page:
        page.goto(page_url)
        page.locator("main button").click()
        link = page.get_by_role("link", name=LANGUAGES[locale][0])
        expect(link).to_be_visible()
        (check_axe if scripts else check_axe_without_scripts)(page)
        assert elsewhere.status(reference)["status"] == "pending"
        link.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Wave")
        assert page_url.rpartition("/")[2] not in page.content()
        page.get_by_role("button", name="Approve").click()
        page.wait_for_url(f"{shop.url}/thanks")
    assert elsewhere.status(reference)["status"] == "success"


@pytest.mark.spec("W1")
@pytest.mark.parametrize("scripts", [False, True], ids=["without scripts", "with scripts"])
@pytest.mark.parametrize("locale", LANGUAGES)
def test_a_code(
    browser: Browser, elsewhere: Sandbox, shop: Shop, locale: str, scripts: bool
) -> None:
    reference, page_url = create(elsewhere, CODE, shop)
    with browser_page(browser, viewport=NARROW, locale=locale, java_script_enabled=scripts) as page:
        page.goto(page_url)
        page.locator("main button").click()
        field = page.get_by_role("textbox")
        expect(field).to_be_visible()
        for words in LANGUAGES[locale][1:]:
            expect(page.get_by_text(words)).to_be_visible()
        (check_axe if scripts else check_axe_without_scripts)(page)
        field.fill("١٢٣٤ ٥٦")
        page.locator("main button").click()
        expect(field).to_be_hidden()
        elsewhere.advance("10s")
        page.wait_for_url(f"{shop.url}/thanks")
    assert elsewhere.status(reference)["status"] == "success"


@pytest.mark.spec("W1")
def test_both_pages_look_as_the_documentation_shows_them(
    narrow_page: Page, elsewhere: Sandbox, shop: Shop
) -> None:
    page = narrow_page
    for market, name, wanted in (
        (PAGE, "payment-elsewhere", page.get_by_role("link", name="Continue to Wave")),
        (CODE, "payment-code", page.get_by_role("textbox")),
    ):
        page.goto(create(elsewhere, market, shop)[1])
        page.locator("main button").click()
        expect(wanted).to_be_visible()
        host = page.get_by_text("The button opens")
        if host.count():  # The simulator has another one each time.
            host.evaluate("line => line.textContent = 'The button opens pay.wave.com.'")
        screenshot(page, name, full_page=True)


@pytest.mark.spec("W1", "W2", "S6")
def test_the_back_button_two_tabs_and_a_second_return_do_no_harm(
    page: Page, elsewhere: Sandbox, shop: Shop, operator: tuple[PawapaySimulator, str]
) -> None:
    reference, page_url = create(elsewhere, PAGE, shop)
    second = page.context.new_page()
    for tab in (page, second):
        tab.goto(page_url)
    page.locator("main button").click()
    link = page.get_by_role("link", name="Continue to Wave")
    expect(link).to_be_visible()
    expect(second.get_by_role("link", name="Continue to Wave")).to_be_visible()

    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Wave")
    page.go_back()
    expect(link).to_be_visible()
    page.reload()
    expect(link).to_be_visible()
    assert elsewhere.status(reference)["status"] == "pending"

    second.get_by_role("link", name="Continue to Wave").click()
    second.get_by_role("button", name="Approve").click()
    second.wait_for_url(f"{shop.url}/thanks")
    page.wait_for_url(f"{shop.url}/thanks")
    payments = operator[0].snapshot()["payments"]
    assert [each["result"] for each in payments if each["reference"] == reference] == ["success"]
    [deposit] = [
        each
        for each in operator[0].accounts.payments.values()
        if each.document["clientReferenceId"] == reference
    ]
    for _ in range(2):
        page.goto(deposit.document["successfulUrl"])
        page.wait_for_url(f"{shop.url}/thanks")
    assert elsewhere.status(reference)["status"] == "success"


@pytest.mark.spec("W2")
def test_who_declines_there_is_told_so_and_never_that_he_has_paid(
    plain_page: Page, elsewhere: Sandbox, shop: Shop
) -> None:
    page = plain_page
    reference, page_url = create(elsewhere, PAGE, shop)
    page.goto(page_url)
    page.locator("main button").click()
    page.get_by_role("link", name="Continue to Wave").click()
    page.get_by_role("button", name="Decline").click()
    page.wait_for_url(f"{shop.url}/sorry")
    assert elsewhere.status(reference)["errorCode"] == "user_timeout"


@pytest.mark.spec("W3")
def test_the_operators_page_learns_no_referrer(page: Page, elsewhere: Sandbox, shop: Shop) -> None:
    _, page_url = create(elsewhere, PAGE, shop)
    page.goto(page_url)
    page.locator("main button").click()
    link = page.get_by_role("link", name="Continue to Wave")
    expect(link).to_have_attribute("href", re.compile(r"http://127\.0\.0\.1:\d+/approve/"))
    with page.expect_request(re.compile("/approve/")) as seen:
        link.click()
    assert "referer" not in seen.value.all_headers()
