"""What a duty officer sees first: what needs a person, money by currency, why payments failed, and
what is wrong with an account."""

from __future__ import annotations

import re

from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Instant, Span, earlier
from mmo_sansio.values.money import Money
from mmo_trio.console.attention import Attention
from mmo_trio.console.overview import MOST_FAIL_TEXT, Health, HealthLevel, weak_operators
from mmo_trio.console.providers import age_text, show_float
from mmo_trio.storage.sql.store import Store
from mmo_trio.workers.providers.account_notes import finding_note
from mmo_trio.workers.providers.float_monitor import known_floats
from tests.runtime.console.conftest import SignedIn
from tests.runtime.console.test_payments import NUMBER
from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.sandbox_gateway import Running

SUCCEEDS, FAILS = "254700000001", NUMBER


async def pay(sandbox: Running, msisdn: str, count: int) -> None:
    for _ in range(count):
        await sandbox.concluded(msisdn=msisdn)


async def note_findings(store: Store, now: Instant, *findings: AccountFinding) -> None:
    for found in findings:
        await store.admin.note_provider(finding_note(found, earlier(now, Span(42 * MINUTE))))


async def sandbox_time(store: Store) -> Instant:
    """The gateway's own time, by its newest payment."""
    [payment] = await store.admin.find_transactions(limit=1)
    return payment.order.created_at


async def test_money_and_reasons_are_on_the_first_page(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    await pay(sandbox, SUCCEEDS, 2)
    await pay(sandbox, FAILS, 3)
    text = await vera.words("/")
    assert "Needs a person now" in text
    assert re.search(r"Taken, KES [\d,]+\.00 \d payments?", text)
    page = await vera.text("/")
    [link] = re.findall(r'href="(/payments\?status=failed&amp;code=[^"]*)"', page)
    listed = await vera.text(link.replace("&amp;", "&"))
    assert len(set(re.findall(r'href="(/payments/\w+)"', listed))) == 3
    assert "3 failed: 3 by the payer." in text
    assert "KES by the hour" in text
    assert "KES by the day" in await vera.words("/?view=month")


async def test_an_operator_that_fails_now_is_first_with_the_reason(
    sandbox: Running, signed_in: SignedIn, vera: ConsoleBrowser
) -> None:
    await pay(sandbox, SUCCEEDS, 1)
    await pay(sandbox, FAILS, 8)
    assert "payments failed" not in (await vera.words("/")).partition("Taken, KES")[0]
    await pay(sandbox, FAILS, 1)
    first, _, rest = (await vera.words("/")).partition("Taken, KES")
    assert re.search(r"now Sandbox: 9 of 10 payments failed [a-z ]+: 9 of 9 failures", first), first
    assert re.search(r"Most failed .* to [\d:]+; [a-z ]+: 9 of 9 failures", rest), rest
    await sandbox.advance("3h")
    page = await (await signed_in("vera")).words("/")
    assert "payments failed" not in page.partition("Taken, KES")[0]


async def test_a_failing_sign_in_is_news_on_both_pages(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    await pay(sandbox, SUCCEEDS, 1)
    words = "The token service does not work."
    async with open_store_of(sandbox.directory) as store:
        now = await sandbox_time(store)
        await note_findings(
            store,
            now,
            AccountFinding("sandbox", SIGN_IN, AccountState.UNKNOWN, "HTTP 500", words),
            AccountFinding("sandbox", "initiator", AccountState.WORKS, "2032", "It is accepted."),
        )
    assert f"Sandbox: sign-in fails {words} (HTTP 500)" in await vera.words("/")
    text = await vera.words("/providers")
    assert "not stopped sign-in fails" in text
    assert "1 of 2 checks work, 42 min ago" in text
    page = await vera.text("/providers")
    before, _, folded = page.partition('<details data-keep id="checks-sandbox"')
    assert "2032" not in before
    assert "2032" in folded.partition("</details>")[0]


async def test_nothing_is_drawn_where_nothing_happened(
    sandbox: Running, signed_in: SignedIn
) -> None:
    page = (await (await signed_in("vera")).get("/")).body.decode()
    assert "No payment has ended in this time." in page
    assert 'class="chart' not in page


async def test_brands_show_success_money_and_the_keys_in_use(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    await pay(sandbox, SUCCEEDS, 1)
    await pay(sandbox, FAILS, 1)
    text = await vera.words("/brands")
    assert re.search(r"50\.0 % of 2 KES [\d,]+\.00 no limit delivered 1$", text)
    async with open_store_of(sandbox.directory) as store:
        [record] = await store.admin.brands()
        assert await store.admin.retire_key("demo", record.keys[0].id, now=Instant(1))
    assert re.search(r"delivered 0$", await vera.words("/brands"))


async def test_a_line_says_its_least_and_when_it_runs_out(sandbox: Running) -> None:
    now = Instant(20_000 * DAY)
    spent = []
    for hour in range(25):
        left, at = Money(100_000 - 4_000 * hour, "KES"), earlier(now, Span((24 - hour) * HOUR))
        spent.append(AccountBalance("momo", "KES", left, at, True))
    async with open_store_of(sandbox.directory) as store:
        await store.admin.record_balances(spent)
        [known] = await known_floats(store.admin, ["momo"], now)
    drawn = show_float(known, spent, now)
    assert drawn.line_text == "Last 24 hours, at least KES 40.00, runs out in about 1 hour"
    assert drawn.time_left == "1 hour left"
    assert drawn.line.forecast


def test_an_age_is_short() -> None:
    now = Instant(20_000 * DAY)
    ages = [Span(5), Span(42 * MINUTE), Span(3 * HOUR + MINUTE), Span(2 * DAY)]
    told = [age_text(earlier(now, age), now) for age in ages]
    assert told == ["just now", "42 min ago", "3 h ago", "2 d ago"]


def test_what_is_told_of_a_provider_says_nothing_of_another_with_its_title() -> None:
    failing = [
        Health(name, "M-Pesa", HealthLevel.FAILING, MOST_FAIL_TEXT, 20, "10 %")
        for name in ("kenya", "tanzania")
    ]
    told = Attention(True, "M-Pesa: sign-in fails", "", "providers.list_providers", "kenya")
    assert [need.provider for need in weak_operators(failing, [told])] == ["tanzania"]
