"""Who may not see personal data meets none, on whichever page the console leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.console_browser import ConsoleBrowser
from tests.support.private_texts import decoded_forms
from tests.support.sandbox_gateway import Running

# Ends of numbers: paid and then reported as failed, failed, without a result, settled less.
ENDS = ("160", "101", "130", "120")
NUMBER = "254712349"
PRIVATE = (NUMBER, NUMBER[3:], "Wanjiku", "Otieno", "private.person", "customer-998877")

# Pages of a kind that are opened, as of a hundred payments with the same page.
PAGES_OF_A_KIND_MAX = 12


def kind_of(path: str) -> str:
    """Return the address without what differs from payment to payment, and without its query."""
    return re.sub("[0-9A-Z]{26}", "REFERENCE", path.partition("?")[0])


def links_of(body: str) -> Iterator[str]:
    """Yield where a page leads on this console."""
    for link in re.findall(r'(?:href|src)="(/[^"#]*)', body):
        if "sign-out" not in link:
            yield link.replace("&amp;", "&")


@pytest.mark.spec("W3")
async def test_no_page_shows_a_viewer_whose_payment_it_is(
    sandbox: Running, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    for end in ENDS:
        party = {
            "id": "customer-998877",
            "msisdn": f"{NUMBER}{end}",
            "firstName": "Wanjiku",
            "lastName": "Otieno",
            "email": "private.person@mail.example",
        }
        url = f"https://localhost:9/told?who=Wanjiku&number={NUMBER}{end}"
        reference = await sandbox.create(payer=party, labels={"for": "Wanjiku"}, resultUrl=url)
        path = f"/payments/{reference}"
        await sam.get(path)
        await sam.post(
            f"{path}/resolutions",
            outcome="success",
            reason=f"Wanjiku Otieno called from {NUMBER}{end}",
            evidence=f"private.person@mail.example has sent a receipt of {NUMBER}{end}",
        )

    await sam.get("/suspense")
    await sam.post("/suspense/1/close", note=f"Wanjiku has it, {NUMBER}160")

    waiting, opened, leaks = ["/"], dict[str, list[str]](), []
    while waiting:
        path = waiting.pop()
        known = opened.setdefault(kind_of(path), [])
        if path in known or len(known) == PAGES_OF_A_KIND_MAX:
            continue

        known.append(path)
        shown = await vera.get(path)
        body = shown.body.decode("utf-8", "replace")
        said = f"{path} {sorted(shown.headers.items())} {body}"
        leaks += [(path, text) for form in decoded_forms(said) for text in PRIVATE if text in form]
        waiting += links_of(body)

    assert leaks == []
    assert {"/payments/REFERENCE", "/payments.csv", "/suspense", "/resolutions"} <= opened.keys()

    for text in (f"{NUMBER}160", f"0{NUMBER[3:]}160", "Wanjiku", "customer-998877"):
        found = (await vera.search(text)).body.decode().split("<main")[1]
        assert "/payments/" not in found
    assert "can&#39;t search by a phone number" in (await vera.search(NUMBER)).body.decode()
