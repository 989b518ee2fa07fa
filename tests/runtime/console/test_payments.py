"""Staff find payments, and their role decides what a page shows."""

from __future__ import annotations

import html
import json
import re

import pytest

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.values.clock import Instant
from mmo_trio.admin.timeline import HIDDEN_TEXT
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser, open_store_of, record
from tests.support.sandbox_gateway import Running

NUMBER = "254700000101"
NEVER = "254700000130"
OWN_SCRIPT = '<script src="/static/console.js" defer></script>'
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{123457*1000003}}"
READ_AS_A_TEMPLATE = str(123457 * 1000003)


async def test_a_payment_is_found_by_any_reference_and_by_its_number(
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    reference = await sandbox.concluded(
        msisdn="+254711222333", merchantReference="order 7/ü", reconciliationReference="batch-9"
    )
    look_up = await sandbox.merchant.status(reference)
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
    sandbox: Running, sam: ConsoleBrowser
) -> None:
    accepted = await sandbox.merchant.accepted()
    for text in (accepted["gatewayReference"][:20].lower(), accepted["merchantReference"][:-1]):
        found = await sam.search(text)
        assert f"/payments/{accepted['gatewayReference']}".encode() in found.body, text
        assert b"begins or ends so" in found.body
    place = (await sam.post("/search", text="no-such")).headers["location"]
    assert b"There is none." in (await sam.get(f"{place}?beginning=1")).body


async def test_the_page_tells_the_whole_story(sandbox: Running, ada: ConsoleBrowser) -> None:
    reference = await sandbox.concluded(msisdn=NUMBER)
    page = await ada.text(f"/payments/{reference}")
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


async def test_support_sees_personal_data(sandbox: Running, sam: ConsoleBrowser) -> None:
    """Viewers see none on any page, as `test_viewers` tells."""
    payer = {
        "id": "customer-88123456",
        "msisdn": "254711222333",
        "firstName": "Wanjiru",
        "lastName": "Kamau",
        "email": "wanjiru@example.com",
    }
    url = f"{sandbox.merchant.result_url}?who=wanjiru"
    reference = await sandbox.concluded(payer=payer, labels={"phone": "0711222333"}, resultUrl=url)
    pages = [await sam.text(path) for path in (f"/payments/{reference}", "/callbacks")]
    for text in (*payer.values(), "0711222333", "who=wanjiru"):
        assert any(text in page for page in pages), text


@pytest.mark.parametrize("name", ["vera", "sam"])
async def test_the_words_of_operators_and_staff_are_hidden_from_viewers(
    sandbox: Running, signed_in: SignedIn, name: str
) -> None:
    refused = await sandbox.concluded(msisdn=NUMBER)
    stuck = await sandbox.create(msisdn=NEVER, labels={"for": "Wanjiru"})
    async with open_store_of(sandbox.directory) as store:
        [words] = [
            json.loads(each.detail)["nativeMessage"]
            for each in await store.admin.timeline(refused)
            if each.input_name == "ProviderFailed"
        ]
    sam, who = await signed_in("sam"), await signed_in(name)
    proposed = {"outcome": "success", "reason": "Wanjiru phoned", "evidence": "Wanjiru's receipt"}
    assert await sam.send(f"/payments/{stuck}/resolutions", **proposed) == 303
    pages = [html.unescape(await who.text(f"/payments/{each}")) for each in (refused, stuck)]
    proposals = html.unescape(await who.text("/resolutions"))
    assert words
    assert (words in pages[0]) == (name == "sam")
    assert all(("Wanjiru" in page) == (name == "sam") for page in (pages[1], proposals))
    assert all((HIDDEN_TEXT in page) == (name == "vera") for page in (*pages, proposals))


async def views(sandbox: Running) -> list[tuple[str, str, dict[str, object]]]:
    """Who saw whose personal data: the actor, the subject, and the details besides the session."""
    found = []
    async with open_store_of(sandbox.directory) as store:
        for row in await store.admin.audit_after(0, limit=1_000):
            if row.event.action == "personal_data_viewed":
                detail = json.loads(row.event.detail)
                detail.pop("session", None)
                found.append((row.event.actor, row.event.about, detail))
    return found


async def test_the_audit_log_says_who_saw_whose_personal_data(
    sandbox: Running, signed_in: SignedIn, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    reference = await sandbox.concluded(msisdn="254711222333")
    for who in (sam, vera):
        assert b"254711222333" not in (await who.get("/payments")).body
    assert await views(sandbox) == []
    for who in (sam, sam, vera, await signed_in("sam")):
        page = await who.text(f"/payments/{reference}")
        assert ("254711222333" in page) == (who is not vera)
    seen = ("user:sam", f"payment:{reference}", dict[str, object]())
    assert await views(sandbox) == [seen, seen]
    page = await vera.text(f"/payments/{reference}")
    assert page.partition("Who saw personal data")[2].count("</time>: sam</li>") == 2
    await sam.search("+254 711 222 333")
    await vera.search("+254 711 222 333")
    await sam.search(reference)
    search = {"number": "•••••••••333", "payments": [reference]}
    assert await views(sandbox) == [seen, seen, ("user:sam", "search", search)]


async def test_the_audit_log_says_who_saw_the_suspense_book(
    sandbox: Running, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    for who in (sam, vera):
        await who.get("/suspense")
    assert await views(sandbox) == []
    expected = list[object]()
    for number in (1, 2):
        content = json.dumps({"result": number})
        reason = SuspenseReason.LATE_RESULT
        await record(
            sandbox, SuspenseRecorded(Instant(number), reason, "sandbox", content, None, None)
        )
        for who in (sam, sam, vera):
            await who.get("/suspense")
        expected.append(("user:sam", "suspense", {"entries": [number]}))
        assert await views(sandbox) == expected


async def test_the_audit_log_says_who_read_proposals(
    sandbox: Running, sam: ConsoleBrowser, ann: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    reference = await sandbox.create(msisdn=NEVER)
    proposed = {"outcome": "success", "reason": "Wanjiru phoned", "evidence": "a receipt"}
    assert await sam.send(f"/payments/{reference}/resolutions", **proposed) == 303
    for who in (ann, ann, vera):
        assert (b"Wanjiru" in (await who.get("/resolutions")).body) == (who is ann)
    read = [each for each in await views(sandbox) if each[1] == "resolutions"]
    assert read == [("user:ann", "resolutions", {"entries": [1]})]


async def test_hostile_text_is_only_text(sandbox: Running, ada: ConsoleBrowser) -> None:
    payer = {"id": HOSTILE, "msisdn": NUMBER, "firstName": HOSTILE, "lastName": HOSTILE}
    reference = await sandbox.create(
        payer=payer,
        merchantReference=HOSTILE,
        reconciliationReference=f"r{HOSTILE}",
        labels={HOSTILE[:200]: HOSTILE},
    )
    pages = [
        await ada.get(f"/payments/{reference}"),
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
    sandbox: Running, ada: ConsoleBrowser
) -> None:
    turned = "order \u202e051\u202c"
    reference = await sandbox.create(merchantReference=turned, labels={"note": turned})
    for path in (f"/payments/{reference}", "/payments"):
        text = await ada.text(path)
        assert "order \\u202e051\\u202c" in text
        assert "\u202e" not in text


async def test_figures_count_what_happened(sandbox: Running, vera: ConsoleBrowser) -> None:
    for number in ("254700000001", NUMBER, NUMBER):
        await sandbox.concluded(msisdn=number)
    for by, key, title in (
        ("brand", "demo", "Demo Shop"),
        ("method", "mpesa_ke", "mpesa_ke"),
        ("provider", "sandbox", "Sandbox"),
    ):
        page = await vera.text(f"/?by={by}")
        row = page.split("<h2>By")[1].split("<tbody>")[1]
        cells = re.findall('<td(?: class="less")? data-name="[^"]+">([^<]*)</td>', row)
        assert f">{title}</a>" in row
        assert cells[:4] == ["3", "1", "2", "33.3 %"], by
        assert "<svg" in page
        narrowed = await vera.text(f"/?of={by}&value={key}&view=month")
        assert "33.3 %" in narrowed
    empty = await vera.text("/?end=2020-01-01T00")
    assert "No payments in this time" in empty
    for broken in ("view=x", "by=x", "end=x", "end=9999-12-31T23x"):
        assert (await vera.get(f"/?{broken}")).status == 400


async def test_the_time_of_a_payment_is_compared_with_the_others_of_its_day(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    usual = "Half of the payments of Sandbox took ≤ 1 s that day"
    first, _ = [await sandbox.concluded() for _ in range(2)]
    assert usual in await vera.text(f"/payments/{first}")
    assert usual not in await vera.text(f"/payments/{await sandbox.create(msisdn=NEVER)}")
