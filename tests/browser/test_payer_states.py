"""Every state of a payment as its payer sees it, at each width, light and dark, and with text twice
as large: what it says of the money, and that all of it can be seen and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve, frozen
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import OVERFLOW, browser_page, check_axe
from tests.support.browser_gateway import Sandbox, Shop, fetch, open_shop, serving_sandbox
from tests.support.pawapay_elsewhere import (
    API_KEY,
    CODE,
    PAGE,
    ElsewhereMarket,
    python_path,
    serving_operator,
    write_configuration,
)

WIDTHS = (320, 360, 1280)
HEIGHT = 568
SCHEMES: Final = ("light", "dark")

NOT_TAKEN = "No money was taken."

PHONE = ElsewhereMarket("mpesa_ke", "M-Pesa", "KE", "+254712345678", {})

# The operator of the sandbox beside those whose payers confirm elsewhere, and people who answer.
SANDBOX_PROVIDER = """
[gateway]
title = "Lipa Gateway"

[provider.sandbox]
kind = "sandbox"
title = "M-Pesa"
colour = "#3cb44a"
approvals_code = "*334#"
"""

SANDBOX_METHOD = """
[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["web/payin"]
limits.KES = { min = "10", max = "150000" }

[brand.page]
order_label = "order"
support_phone = "+254 700 123 456"
support_url = "https://wa.me/254700123456"
"""


AMOUNT = "KES 2,450.00"
AMOUNT_ELSEWHERE = "XOF 2,450"
UNCLEAR = "It is not clear whether you paid"
DONT_PAY_AGAIN = "Don't pay again: the shop will tell you."
HEADINGS: Final = {
    **dict.fromkeys(("open", "waiting", "slow"), AMOUNT),
    **dict.fromkeys(("elsewhere", "code"), AMOUNT_ELSEWHERE),
    "paid": "Paid",
    "failed": "Not paid",
    "unclear": UNCLEAR,
}
"""What a page says first, by how its payment stands: the amount until it has ended."""


@frozen
class PayerState:
    """Describes a state: how a payment gets there, and what its page says then."""

    name: str
    standing: str
    """How the payment stands then."""
    says: tuple[str, ...] = ()
    market: ElsewhereMarket = PHONE
    scenario: str | None = "phone"
    is_pressed: bool = True
    waits_for: str | None = None
    """The standing that the page has before time passes; None: that of `standing`."""
    pin_after: str | None = None
    """How long the payer leaves the prompt on the phone; None: it is not answered there."""
    passes: str | None = None
    """The time that passes then."""
    checked_above: str | None = None
    """The button or field above which amount, number and operator stand."""


STATES = (
    PayerState(
        "open",
        "open",
        ("A message from M-Pesa will come to +254 ••• ••• 678", "Time left to pay: 30 min"),
        is_pressed=False,
        checked_above="main button",
    ),
    PayerState("waiting", "waiting", ("Confirm the payment on your phone",)),
    PayerState(
        "without a prompt",
        "waiting",
        ("No message? Check that +254 ••• ••• 678", "is your number", "Or dial *334#"),
        passes="21s",
    ),
    PayerState(
        "slow",
        "slow",
        ("Still waiting. You can close this page: the shop learns the result.", "Back to the shop"),
        passes="61s",
        waits_for="waiting",
    ),
    PayerState(
        "elsewhere",
        "elsewhere",
        ("Confirm the payment with Wave", "The button opens 127.0.0.1"),
        market=PAGE,
        scenario=None,
        checked_above="main a.button",
    ),
    PayerState(
        "awaiting code",
        "code",
        ("Type the code that Orange Money gives you",),
        market=CODE,
        scenario=None,
        checked_above="main input",
    ),
    PayerState("paid", "paid", ("Receipt number", AMOUNT), scenario="success"),
    PayerState(
        "paid late", "paid", ("Receipt number", AMOUNT), waits_for="waiting", pin_after="31m"
    ),
    PayerState("paid less", "paid", ("Receipt number", "KES 2,449.99"), scenario="other_amount"),
    PayerState("cancelled", "failed", ("You cancelled the payment.", AMOUNT), scenario="cancelled"),
    PayerState(
        "failed",
        "failed",
        ("There is not enough money in your account.", "Add money to your account, then start"),
        scenario="insufficient_funds",
    ),
    PayerState(
        "failed but unclear",
        "unclear",
        (DONT_PAY_AGAIN, "Payment reference"),
        scenario="duplicate_request",
    ),
    PayerState("expired", "failed", (AMOUNT,), is_pressed=False, passes="31m"),
    PayerState("paid, an hour over", "paid", scenario="success", waits_for="paid", passes="91m"),
    PayerState(
        "cancelled, an hour over",
        "failed",
        ("You cancelled the payment.",),
        scenario="cancelled",
        waits_for="failed",
        passes="91m",
    ),
    PayerState(
        "unclear, an hour over",
        "unclear",
        (DONT_PAY_AGAIN, "Payment reference"),
        scenario="duplicate_request",
        waits_for="unclear",
        passes="91m",
    ),
    PayerState(
        "ended without a result, then paid",
        "unclear",
        (DONT_PAY_AGAIN, "Payment reference"),
        scenario="after_expiry",
        waits_for="waiting",
        passes="73h",
    ),
)


@pytest.fixture(scope="module")
def shop_site() -> Iterator[Shop]:
    with open_shop() as running:
        yield running


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A gateway with an operator for each way to confirm."""
    directory = tmp_path_factory.mktemp("states")
    with serving_operator() as (_, origin):
        settings, brands = write_configuration(directory, origin)
        _append(settings, SANDBOX_PROVIDER)
        _append(brands, SANDBOX_METHOD)
        with serving_sandbox(
            directory / "data",
            f"--config={settings}",
            f"--brands={brands}",
            PYTHONPATH=python_path(directory / "kind"),
        ) as running:
            yield evolve(running, api_key=API_KEY)


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text("utf-8") + text, "utf-8")


def bring_about(page: Page, sandbox: Sandbox, state: PayerState, shop: Shop) -> None:
    """Open the page of a payment that stands so."""
    market = state.market
    is_phone = market is PHONE
    created = sandbox.create(
        method=market.method,
        country=market.country,
        msisdn=market.msisdn,
        scenario=state.scenario,
        amount={"value": 2450, "currency": "KES" if is_phone else "XOF"},
        labels={"order": "2 tickets, Nairobi to Mombasa"},
        successRedirectUrl=f"{shop.url}/thanks" if state.standing == "slow" else None,
    )
    page.goto(created["pageUrl"])
    if state.is_pressed:
        page.locator("main button").click()
        page.locator(f".{state.waits_for or state.standing}").wait_for(state="attached")
    if state.pin_after is not None:
        sandbox.advance(state.pin_after)
        number = market.msisdn.removeprefix("+")
        url = f"{sandbox.pages}/phone/{number}/{created['gatewayReference']}"
        fetch(
            url,
            method="POST",
            body=b"action=approve&pin=1234",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
    if state.passes is not None:
        sandbox.advance(state.passes)
        page.goto(created["pageUrl"])
    page.locator(f".{state.standing}").wait_for(state="attached")


CHECKED_ABOVE = """selector => {
    const end = document.querySelector(selector).getBoundingClientRect();
    const parts = [...document.querySelectorAll(".amount, .shop, main strong.sum")];
    const bottoms = parts.map(part => part.getBoundingClientRect().bottom);
    return [parts.length, Math.max(...bottoms) <= end.top, end.bottom <= innerHeight];
}"""
"""How many parts there are that one should check, whether all are above the button, and whether the
button is on the screen without scrolling."""


def check_screens(page: Page, checked_above: str | None = None) -> None:
    """Look at the page at each width, light and dark, and with text twice as large."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        if checked_above is not None:
            assert page.evaluate(CHECKED_ABOVE, checked_above) == [4, True, True]
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(OVERFLOW) <= 0
            check_axe(page)

        page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert page.evaluate(OVERFLOW) <= 0
        page.evaluate("document.documentElement.style.fontSize = ''")


@pytest.mark.spec("W1", "W2", "W3")
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_a_payer_sees_how_it_stands_on_every_screen(
    browser: Browser, market: Sandbox, shop_site: Shop, state: PayerState
) -> None:
    with browser_page(browser, viewport={"width": WIDTHS[0], "height": HEIGHT}) as page:
        bring_about(page, market, state, shop_site)
        expect(page.get_by_role("heading", level=1)).to_have_text(HEADINGS[state.standing])
        said = " ".join(page.locator("main").inner_text().split())
        for text in state.says:
            assert text in said
        assert (NOT_TAKEN in said) is (state.standing == "failed")

        has_failed = state.standing in ("failed", "unclear")
        if has_failed or state.standing == "paid":
            call = page.get_by_role("link", name="Call +254 700 123 456")
            expect(call).to_have_count(int(has_failed))
            expect(page.get_by_role("link", name="Ask the shop")).to_have_count(int(has_failed))
            if has_failed:
                expect(call).to_have_attribute("href", "tel:+254700123456")
        check_screens(page, state.checked_above)


@pytest.mark.spec("W3")
@pytest.mark.parametrize(
    ("path", "heading"),
    [("/pay/nothing", "There is nothing to pay here"), ("/nothing", "There is no such page")],
)
def test_a_page_of_no_payment_fits_every_screen(
    browser: Browser, market: Sandbox, path: str, heading: str
) -> None:
    with browser_page(browser) as page:
        page.goto(f"{market.pages}{path}")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        check_screens(page)
