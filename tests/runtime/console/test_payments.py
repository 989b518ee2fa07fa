"""Staff find payments, and their role decides what a page shows."""

from __future__ import annotations

import html
import json
import re
from functools import partial

import pytest

from mmo_sansio.messages.changes import Change, JournalEntry, SuspenseReason, SuspenseRecorded
from mmo_sansio.messages.replies import Ignored
from mmo_sansio.payments.decision import Decision
from mmo_sansio.payments.ledger import Ledger, Reads
from mmo_sansio.values.clock import Instant
from mmo_trio.admin.timeline import HIDDEN_TEXT
from mmo_trio.console.parameters import PAGE_SIZE
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import open_store_of
from tests.support.sandbox_gateway import Running

NUMBER = "254700000101"
NEVER = "254700000130"
OWN_SCRIPT = '<script src="/static/console.js" defer></script>'
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{123457*1000003}}"
READ_AS_A_TEMPLATE = str(123457 * 1000003)


async def made(sandbox: Running, **changes: object) -> dict[str, str]:
    """A payment, and its answer."""
    answer = await sandbox.merchant.create("direct/payin", **changes)
    assert answer.status == 200, answer.body
    return dict(answer.json)


async def ended(sandbox: Running, reference: str) -> None:
    """Wait for its callback to be recorded."""
    await sandbox.outcome_of(reference)


async def test_a_payment_is_found_by_any_reference_and_by_its_number(
    sandbox: Running, signed_in: SignedIn
) -> None:
    payer = {"id": "customer-1", "msisdn": "+254711222333"}
    answer = await made(
        sandbox, payer=payer, merchantReference="order 7/ü", reconciliationReference="batch-9"
    )
    reference = answer["gatewayReference"]
    await ended(sandbox, reference)
    look_up = await sandbox.merchant.status(reference)
    sam = await signed_in("sam")
    for text in (
        reference,
        reference.lower(),
        "order 7/ü",
        "batch-9",
        look_up["providerReference"],
        "254711222333",
        "+254 711 222-333",
        "00254711222333",
        "0711222333",
        "711 222 333",
    ):
        found = await sam.search(text)
        assert found.status == 200
        assert f"/payments/{reference}".encode() in found.body, text
    assert b"There is none." in (await sam.search("nobody")).body


async def test_the_beginning_of_a_reference_is_enough(
    sandbox: Running, signed_in: SignedIn
) -> None:
    accepted = await made(sandbox)
    sam = await signed_in("sam")
    for text in (accepted["gatewayReference"][:20].lower(), accepted["merchantReference"][:-1]):
        found = await sam.search(text)
        assert f"/payments/{accepted['gatewayReference']}".encode() in found.body, text
        assert b"begins or ends so" in found.body
    place = (await sam.post("/search", text="no-such")).headers["location"]
    assert b"There is none." in (await sam.get(f"{place}?beginning=1")).body


async def test_only_who_sees_personal_data_finds_by_number(
    sandbox: Running, signed_in: SignedIn
) -> None:
    payer = {"id": "customer-1", "msisdn": "254711222333"}
    await made(sandbox, payer=payer)
    vera = await signed_in("vera")
    found = await vera.search("254711222333")
    assert "can't search by a phone number" in html.unescape(found.body.decode())
    assert b"/payments/01" not in found.body


async def test_the_page_tells_the_whole_story(sandbox: Running, signed_in: SignedIn) -> None:
    payer = {"id": "customer-1", "msisdn": NUMBER}
    reference = (await made(sandbox, payer=payer))["gatewayReference"]
    await ended(sandbox, reference)
    page = (await (await signed_in("ada")).get(f"/payments/{reference}")).body.decode()
    for text in (
        "found the request valid",
        "routed it to Sandbox",
        "asked for the payment",
        "is about to send the payment to its provider",
        "failed</span>",
        "says that the money will not move",
        "user insufficient funds",
        "callback: delivered",
        "&#34;value&#34;: 150.00,",
        "delivered</span> HTTP 20",
    ):
        assert text in page, text
    assert re.search(r">[0-9-]{10} [0-9:]{8} UTC</time>", page)
    assert "SANDBOX" in page
    assert "again</button>" not in page


@pytest.mark.parametrize("name", ["vera", "sam"])
async def test_personal_data_is_masked_unless_the_role_allows(
    sandbox: Running, signed_in: SignedIn, name: str
) -> None:
    payer = {
        "id": "customer-88123456",
        "msisdn": "254711222333",
        "firstName": "Wanjiru",
        "lastName": "Kamau",
        "email": "wanjiru@example.com",
    }
    answer = await made(
        sandbox, payer=payer, labels={"phone": "0711222333"}, resultUrl=_with_query(sandbox)
    )
    reference = answer["gatewayReference"]
    await ended(sandbox, reference)
    who = await signed_in(name)
    pages = [
        (await who.get(f"/payments/{reference}")).body.decode(),
        (await who.get("/payments")).body.decode(),
        (await who.get("/callbacks")).body.decode(),
    ]
    secrets = (
        "254711222333",
        "0711222333",
        "Wanjiru",
        "Kamau",
        "wanjiru@",
        "88123456",
        "who=wanjiru",
    )
    for secret in secrets:
        shown = any(secret in page for page in pages)
        assert shown == (name == "sam"), secret
    assert "333" in pages[0]


@pytest.mark.parametrize("name", ["vera", "sam"])
async def test_the_words_of_operators_and_staff_are_hidden_from_viewers(
    sandbox: Running, signed_in: SignedIn, name: str
) -> None:
    refused = (await made(sandbox, payer={"id": "c", "msisdn": NUMBER}))["gatewayReference"]
    await ended(sandbox, refused)
    stuck = (await made(sandbox, payer={"id": "c", "msisdn": NEVER}, labels={"for": "Wanjiru"}))[
        "gatewayReference"
    ]
    async with open_store_of(sandbox.directory) as store:
        [words] = [
            json.loads(each.detail)["nativeMessage"]
            for each in await store.admin.timeline(refused)
            if each.input_name == "ProviderFailed"
        ]
    sam, who = await signed_in("sam"), await signed_in(name)
    await sam.post(
        f"/payments/{stuck}/resolutions",
        outcome="success",
        reason="Wanjiru phoned",
        evidence="Wanjiru's receipt",
    )
    pages = [
        html.unescape((await who.get(f"/payments/{each}")).body.decode())
        for each in (refused, stuck)
    ]
    proposals = html.unescape((await who.get("/resolutions")).body.decode())
    assert words
    assert (words in pages[0]) == (name == "sam")
    assert all(("Wanjiru" in page) == (name == "sam") for page in (pages[1], proposals))
    assert all((HIDDEN_TEXT in page) == (name == "vera") for page in (*pages, proposals))


async def views(sandbox: Running) -> list[tuple[str, str, str]]:
    """Who saw whose personal data: the actor, the subject, and the details besides the session."""
    async with open_store_of(sandbox.directory) as store:
        events = [row.event for row in await store.admin.audit_after(0, limit=1_000)]
    found = []
    for each in events:
        if each.action == "personal_data_viewed":
            detail = {
                name: value for name, value in json.loads(each.detail).items() if name != "session"
            }
            found.append((each.actor, each.about, json.dumps(detail, ensure_ascii=False)))
    return found


async def test_the_audit_log_says_who_saw_whose_personal_data(
    sandbox: Running, signed_in: SignedIn
) -> None:
    reference = (await made(sandbox, payer={"id": "c", "msisdn": "254711222333"}))[
        "gatewayReference"
    ]
    await ended(sandbox, reference)
    sam, vera = await signed_in("sam"), await signed_in("vera")
    for who in (sam, vera):
        assert b"254711222333" not in (await who.get("/payments")).body
    assert await views(sandbox) == []
    for who in (sam, sam, vera, await signed_in("sam")):
        assert (b"254711222333" in (await who.get(f"/payments/{reference}")).body) == (
            who is not vera
        )
    seen = ("user:sam", f"payment:{reference}", "{}")
    assert await views(sandbox) == [seen, seen]
    page = (await vera.get(f"/payments/{reference}")).body.decode()
    assert page.partition("Who saw personal data")[2].count("</time>: sam</li>") == 2
    await sam.search("+254 711 222 333")
    await vera.search("+254 711 222 333")
    await sam.search(reference)
    search = json.dumps({"number": "•••••••••333", "payments": [reference]}, ensure_ascii=False)
    assert await views(sandbox) == [seen, seen, ("user:sam", "search", search)]


async def test_the_audit_log_says_who_saw_the_suspense_book(
    sandbox: Running, signed_in: SignedIn
) -> None:
    sam, vera = await signed_in("sam"), await signed_in("vera")
    for who in (sam, vera):
        await who.get("/suspense")
    assert await views(sandbox) == []
    expected = []
    for number in (1, 2):
        recorded = SuspenseRecorded(
            Instant(number),
            SuspenseReason.LATE_RESULT,
            "sandbox",
            f'{{"result": {number}}}',
            None,
            None,
        )
        line = JournalEntry(
            Instant(number), "ProviderFailed", "provider:sandbox", None, None, None, None, "{}"
        )
        async with open_store_of(sandbox.directory) as store:
            await store.transact(Reads(), partial(_decide, (recorded, line)))
        for who in (sam, sam, vera):
            await who.get("/suspense")
        expected.append(("user:sam", "suspense", json.dumps({"entries": [number]})))
        assert await views(sandbox) == expected


async def test_the_audit_log_says_who_read_proposals(sandbox: Running, signed_in: SignedIn) -> None:
    reference = (await made(sandbox, payer={"id": "c", "msisdn": NEVER}))["gatewayReference"]
    sam, ann, vera = await signed_in("sam"), await signed_in("ann"), await signed_in("vera")
    proposed = {"outcome": "success", "reason": "Wanjiru phoned", "evidence": "a receipt"}
    assert (await sam.post(f"/payments/{reference}/resolutions", **proposed)).status == 303
    for who in (ann, ann, vera):
        assert (b"Wanjiru" in (await who.get("/resolutions")).body) == (who is ann)
    read = [each for each in await views(sandbox) if each[1] == "resolutions"]
    assert read == [("user:ann", "resolutions", json.dumps({"entries": [1]}))]


def _decide(changes: tuple[Change, ...], _: Ledger) -> tuple[Decision, ...]:
    return (Decision(Ignored("late"), changes),)


def _with_query(sandbox: Running) -> str:
    return f"{sandbox.merchant.result_url}?who=wanjiru"


async def test_hostile_text_is_only_text(sandbox: Running, signed_in: SignedIn) -> None:
    payer = {"id": HOSTILE, "msisdn": NUMBER, "firstName": HOSTILE, "lastName": HOSTILE}
    answer = await made(
        sandbox,
        payer=payer,
        merchantReference=HOSTILE,
        reconciliationReference=f"r{HOSTILE}",
        labels={HOSTILE[:200]: HOSTILE},
    )
    ada = await signed_in("ada")
    pages = [
        await ada.get(f"/payments/{answer['gatewayReference']}"),
        await ada.get("/payments"),
        await ada.search(HOSTILE),
        await ada.get("/overview?value=%3Cscript%3E"),
        await ada.get("/?of=brand&value=%3Cscript%3Ealert(1)%3C/script%3E"),
        await ada.get("/payments?brand=%3Cscript%3E&method=%22%3E%3Cscript%3E"),
        await ada.get("/%3Cscript%3E"),
    ]
    for page in pages:
        text = page.body.decode().replace(OWN_SCRIPT, "")
        assert "<script" not in text
        assert "<img" not in text
        assert READ_AS_A_TEMPLATE not in text
    assert "&lt;script&gt;" in pages[2].body.decode()


async def test_text_that_would_turn_the_line_around_is_shown_as_its_escape(
    sandbox: Running, signed_in: SignedIn
) -> None:
    turned = "order \u202e051\u202c"
    answer = await made(sandbox, merchantReference=turned, labels={"note": turned})
    ada = await signed_in("ada")
    for path in (f"/payments/{answer['gatewayReference']}", "/payments"):
        text = (await ada.get(path)).body.decode()
        assert "order \\u202e051\\u202c" in text
        assert "\u202e" not in text


async def test_lists_are_read_a_page_at_a_time(sandbox: Running, signed_in: SignedIn) -> None:
    references = [(await made(sandbox))["gatewayReference"] for _ in range(PAGE_SIZE + 3)]
    vera = await signed_in("vera")
    first = (await vera.get("/payments?brand=demo")).body.decode()
    links = [f'"/payments/{each}"' for each in references]
    assert sum(each in first for each in links) == PAGE_SIZE
    older = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    second = (await vera.get(older)).body.decode()
    assert all((each in first) != (each in second) for each in links)
    assert 'rel="next"' not in second
    for broken in ("before=x", "before=9-%00", "before=9" * 30, "status=odd"):
        assert (await vera.get(f"/payments?{broken}")).status == 400


async def test_figures_count_what_happened(sandbox: Running, signed_in: SignedIn) -> None:
    for number in ("254700000001", NUMBER, NUMBER):
        answer = await made(sandbox, payer={"id": "c", "msisdn": number})
        await ended(sandbox, answer["gatewayReference"])
    vera = await signed_in("vera")
    for by, key, title in (
        ("brand", "demo", "Demo Shop"),
        ("method", "mpesa_ke", "mpesa_ke"),
        ("provider", "sandbox", "Sandbox"),
    ):
        page = (await vera.get(f"/?by={by}")).body.decode()
        row = page.split("<h2>By")[1].split("<tbody>")[1]
        cells = re.findall('<td(?: class="less")? data-name="[^"]+">([^<]*)</td>', row)
        assert f">{title}</a>" in row
        assert cells[:4] == ["3", "1", "2", "33.3 %"], by
        assert "<svg" in page
        narrowed = (await vera.get(f"/?of={by}&value={key}&view=month")).body.decode()
        assert "33.3 %" in narrowed
    empty = (await vera.get("/?end=2020-01-01T00")).body.decode()
    assert "No payments in this time" in empty
    for broken in ("view=x", "by=x", "end=x", "end=9999-12-31T23x"):
        assert (await vera.get(f"/?{broken}")).status == 400


async def test_the_time_of_a_payment_is_compared_with_the_others_of_its_day(
    sandbox: Running, signed_in: SignedIn
) -> None:
    vera = await signed_in("vera")
    first, second = [(await made(sandbox))["gatewayReference"] for _ in range(2)]
    usual = "Half of the payments of Sandbox took ≤ 1 s that day"
    await ended(sandbox, first)
    await ended(sandbox, second)
    assert usual in (await vera.get(f"/payments/{first}")).body.decode()

    never = await made(sandbox, payer={"id": "customer-1", "msisdn": "254700000130"})
    assert usual not in (await vera.get(f"/payments/{never['gatewayReference']}")).body.decode()
