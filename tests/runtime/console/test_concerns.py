"""Lists and the head of a payment's page say beside the status what a person has to look at."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.values.clock import HOUR, Instant, Span, later
from mmo_sansio.values.model import Order
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.views import SUSPENSE_ADVICE
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser, record
from tests.support.sandbox_gateway import Running

SUCCESS, NEVER = "254700000001", "254700000130"
OTHERWISE = "provider says otherwise"


async def payment(sandbox: Running, name: str, msisdn: str = SUCCESS, **changes: Any) -> str:
    return await sandbox.create(merchantReference=name, msisdn=msisdn, **changes)


async def report(
    sandbox: Running, reference: str, reason: SuspenseReason, content: str = '{"result": "failed"}'
) -> None:
    """Put a report about a payment into the suspense book."""
    await record(
        sandbox, SuspenseRecorded(Instant(0), reason, "sandbox", content, reference, "demo")
    )


def row_of(page: str, name: str) -> str:
    """The words of a payment's row."""
    [row] = [each for each in re.findall("<tr>.*?</tr>", page, re.S) if f">{name}</a>" in each]
    return " ".join(re.sub("<[^>]*>", " ", row).split())


@pytest.mark.spec("S5")
async def test_no_list_shows_a_plain_success_where_the_provider_says_otherwise(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    fine, told = [await payment(sandbox, name) for name in ("order-1", "order-2")]
    for reference in (fine, told):
        await sandbox.outcome_of(reference)
    await report(sandbox, told, SuspenseReason.CONFLICTING_RESULT)

    for path in ("/payments", "/payments?status=success", "/payments?look=1"):
        page = await vera.text(path)
        assert OTHERWISE in row_of(page, "order-2"), path
    page = await vera.text("/payments")
    assert OTHERWISE not in row_of(page, "order-1")
    found = (await vera.search("order")).body.decode()
    assert OTHERWISE in row_of(found, "order-2")
    head = (await vera.text(f"/payments/{told}")).split("</h1>")[1].split("</div>")[0]
    assert OTHERWISE in head


async def test_what_needs_a_look_is_counted_and_listed(
    sandbox: Running, signed_in: SignedIn
) -> None:
    names = ("fine", "told", "less", "dumb", "late")
    numbers = (SUCCESS, SUCCESS, SUCCESS, SUCCESS, NEVER)
    urls: tuple[dict[str, str], ...] = ({}, {}, {}, {"resultUrl": "https://127.0.0.1:9/no"}, {})
    references = {
        name: await payment(sandbox, name, number, **url)
        for name, number, url in zip(names, numbers, urls, strict=True)
    }
    for name in names[:-1]:
        await sandbox.outcome_of(references[name])
    await report(sandbox, references["told"], SuspenseReason.LATE_RESULT)
    await report(sandbox, references["less"], SuspenseReason.UNMATCHED_DEPOSIT, "{}")
    await sandbox.advance("2h")

    vera = await signed_in("vera")
    assert "Needs a look 4 " in await vera.words("/payments")
    assert "Needs a look CSV" in await vera.words("/payments?brand=nobody")
    page = await vera.text("/payments?look=1")
    assert "in the suspense book" in row_of(page, "less")
    assert "callback not delivered" in row_of(page, "dumb")
    assert "outcome unknown" in row_of(page, "late")
    assert ">fine</a>" not in page
    assert page.count('<th scope="row">') == 4
    assert "4 payments, asked for pay-in KES" in await vera.words("/payments?look=1")
    assert "4 rows" in f"{(await vera.get('/payments.csv?look=1')).body.count(b'demo,')} rows"

    await sandbox.advance("24h")
    vera = await signed_in("vera")
    assert ">dumb</a>" not in await vera.text("/payments?look=1")


@pytest.mark.spec("S6")
async def test_a_stuck_payment_says_since_when_and_what_to_do(
    sandbox: Running, signed_in: SignedIn, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    reference = await payment(sandbox, "late", NEVER)
    assert "Nobody knows" not in await sam.words(f"/payments/{reference}")
    for _ in range(2):
        await sandbox.advance("15m")
    await sandbox.advance("91m")

    sam, vera = await signed_in("sam"), await signed_in("vera")
    page = await sam.words(f"/payments/{reference}")
    assert re.search(
        r"Nobody knows for 2 h \d min whether it was paid\. Asked (once|\d+ times), "
        r"last at \d\d:\d\d UTC\. Next at \d\d:\d\d UTC\. Do not let the payer pay again\. "
        r"Look \w+ up in the portal of Sandbox, then end it by hand\. End it by hand",
        page,
    )
    assert b'href="#end-by-hand"' not in (await vera.get(f"/payments/{reference}")).body


async def test_stuck_payments_are_summed_and_grouped_by_provider(
    sandbox: Running, signed_in: SignedIn
) -> None:
    for name, value in (("late-1", 100), ("late-2", 250)):
        await payment(sandbox, name, NEVER, amount={"value": value, "currency": "KES"})
    await sandbox.advance("2h")
    page = await (await signed_in("vera")).words("/stuck")
    assert "KES 350.00 unknown Sandbox (sandbox) : 2, KES 350.00, " in page


async def test_a_stuck_payment_was_sent_at_the_same_time_in_its_row_and_in_its_group(
    sandbox: Running, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are wall time, also where the gateway's own time is another."""
    await payment(sandbox, "late", NEVER)
    await sandbox.advance("2h")
    monkeypatch.setattr(Order, "to_utc", lambda _, moment: later(moment, Span(3 * HOUR)))
    page = (await (await signed_in("vera")).get("/stuck")).body.decode()
    rows = page[page.index('id="rows"') :]
    assert len(set(re.findall(r'datetime="([^"]+)"', rows))) == 1


async def test_stuck_simulated_payments_stand_in_no_sum_beside_an_account_that_moves_money(
    sandbox: Running, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await payment(sandbox, "late", NEVER)
    await sandbox.advance("2h")
    monkeypatch.setattr(ConsoleContext, "moves_no_money", False)
    page = await (await signed_in("vera")).words("/stuck")
    assert "unknown Sandbox" not in page
    assert "Sandbox (sandbox) : 1, since " in page


async def test_lists_of_work_name_the_merchants_reference_and_what_to_do(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    reference = await payment(sandbox, "order-7", resultUrl="https://127.0.0.1:9/no")
    await sandbox.outcome_of(reference)
    await report(sandbox, reference, SuspenseReason.LATE_RESULT)
    for path in ("/suspense", "/callbacks"):
        page = await sam.text(path)
        assert f'href="/payments/{reference}">order-7</a>' in page, path
    assert "Ask the provider which result is right" in await sam.words("/suspense")


@pytest.mark.parametrize("reason", SuspenseReason)
def test_each_reason_of_the_suspense_book_says_what_to_do(reason: SuspenseReason) -> None:
    assert SUSPENSE_ADVICE[reason].endswith(".")
