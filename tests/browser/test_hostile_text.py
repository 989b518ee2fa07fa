"""Hostile text never runs: in names, labels, redirect URLs and addresses (the `page` fixtures fail
on any dialog, on any request to another machine, and on anything that the content security policy
had to stop)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import browser_page, check_axe
from tests.support.browser_gateway import Sandbox, Shop, fetch, serving_sandbox

EVIL = (
    "</title></h1><script>alert('title')</script>",
    '"><img src=http://evil.example/x onerror=alert(1)>',
    "<svg/onload=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "';alert(1)//",
    "<meta http-equiv=refresh content=0;url=http://evil.example/>",
    "\u202egnp.exe\u202c <b>bold</b>",
)

BRAND = """
[[brand]]
id = "evil-{number}"
name = {name}
api_keys = ["an-evil-key-{number:06}"]

  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["direct/payin", "web/payin"]
  limits.KES = {{ min = "10", max = "150000" }}
"""

FOREIGN = "img:not(.qr img), svg:not([class]), b, iframe, object, main script"
"""Elements that no page has by itself: icons and marks have a class, and the one picture is the
page's own QR code."""


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox with a brand of each of these names."""
    directory: Path = tmp_path_factory.mktemp("evil")
    brands = directory / "brands.toml"
    named = (BRAND.format(number=n, name=json.dumps(name)) for n, name in enumerate(EVIL))
    brands.write_text("".join(named), encoding="utf-8")
    with serving_sandbox(directory, "--brands", str(brands)) as sandbox:
        yield sandbox


@pytest.mark.spec("W3")
@pytest.mark.parametrize("number", range(len(EVIL)))
def test_names_and_labels_are_text(page: Page, evil: Sandbox, number: int) -> None:
    text, merchant = EVIL[number], evolve(evil, api_key=f"an-evil-key-{number:06}")
    created = merchant.create(
        payer={"id": text, "msisdn": "254712345678", "firstName": text, "lastName": text},
        labels={text: text},
        merchantReference=text,
        scenario="cancelled",
    )
    page.goto(created["pageUrl"])
    expect(page.locator(".shop strong")).to_have_text(text)
    assert page.locator(FOREIGN).count() == 0
    check_axe(page)
    page.locator("main button").click()
    expect(page.locator("[role=status]")).to_contain_text("Not paid")


@pytest.mark.spec("W3")
def test_the_guide_shows_names_as_text(page: Page, evil: Sandbox) -> None:
    page.goto(evil.pages)
    expect(page.locator("form p").first).to_contain_text(EVIL[0])


@pytest.mark.spec("W2", "W3")
@pytest.mark.parametrize(
    "target",
    [
        "/?a='alert(1)'&b=%3Cscript%3Ealert(1)%3C/script%3E#:~:text=x",
        "/$(alert)/%7B%7B7*7%7D%7D?next=http://evil.example/",
        "/a%0d%0aSet-Cookie:%20x=1?y=%22",
        "/;url=http://evil.example/,0",
    ],
)
def test_a_redirect_leads_where_it_was_given_and_nowhere_else(
    browser: Browser, sandbox: Sandbox, shop: Shop, target: str
) -> None:
    given = f"{shop.url}{target}"
    created = sandbox.create(successRedirectUrl=given)
    with browser_page(browser) as page:
        page.goto(created["pageUrl"])
        page.locator("main button").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Back in the shop")
        assert page.context.cookies() == []
    answer = fetch(created["pageUrl"])
    assert (answer.status, answer.headers["location"]) == (303, given)
    assert "set-cookie" not in answer.headers
    # It stands in no page: the button's own answer leads to it by way of this address.
    pressed = fetch(f"{created['pageUrl']}?pressed=1")
    assert shop.url.encode() not in pressed.body


@pytest.mark.spec("W3")
@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_addresses_are_text_too(page: Page, sandbox: Sandbox, text: str) -> None:
    created = sandbox.create()
    for url in (
        f"{sandbox.pages}/pay/{quote(text, safe='')}",
        f"{created['pageUrl']}?lang={quote(text)}&pressed={quote(text)}",
        f"{sandbox.pages}/phone/{quote(text, safe='')}",
        f"{sandbox.pages}/phone?number={quote(text)}",
        f"{sandbox.pages}/phone/254700000180?done={quote(text)}",
        f"{sandbox.pages}/try/{quote(text, safe='')}",
    ):
        page.goto(url)
        assert page.locator(FOREIGN).count() == 0, url
