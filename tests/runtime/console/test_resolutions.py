"""Staff resolve payments with four eyes, close suspense entries and providers; all is audited."""

from __future__ import annotations

import re

import pytest
import trio

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Order
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.api.forwarded import TrustedProxies
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.console.app import create_console_app
from mmo_trio.console.context import ConsoleContext
from mmo_trio.console.passwords import PasswordVerifier
from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.metrics.prometheus import PrometheusExporter
from mmo_trio.settings import ConsoleSection
from mmo_trio.storage.interface.admin_types import AuditKey
from mmo_trio.storage.sqlite import SqliteStore
from tests.runtime.console.conftest import SignedIn
from tests.support.console_browser import ConsoleBrowser, add_users, audit_events, open_store_of
from tests.support.password_hasher import CHEAP_HASHER
from tests.support.sandbox_gateway import Running, Serve
from tests.support.time_limits import HANGS_AFTER_S

NEVER = "254700000130"
CONFLICTING = "254700000160"
PROPOSED = {"outcome": "success", "reason": "asked by phone", "evidence": "statement, page 3"}


async def submitted_payment(sandbox: Running, number: str = NEVER) -> str:
    """A payment that its provider has and says nothing about."""
    payer = {"id": "c", "msisdn": number}
    answer = await sandbox.merchant.create("direct/payin", payer=payer)
    reference = str(answer.json["gatewayReference"])
    async with open_store_of(sandbox.directory) as store:
        with trio.fail_after(HANGS_AFTER_S):
            while True:
                found = await store.transaction(reference)
                if found is not None and found.progress.submitted_at is not None:
                    return reference
                await trio.sleep(0.02)


async def status_of(sandbox: Running, reference: str) -> str:
    """As the merchant sees it."""
    return str((await sandbox.merchant.status(reference))["status"])


async def test_a_second_user_approves(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    reference = await submitted_payment(sandbox)
    page = await ann.get(f"/payments/{reference}")
    assert b"Another user has to approve it." in page.body
    assert await ann.send(f"/payments/{reference}/resolutions", **PROPOSED) == 303
    assert await status_of(sandbox, reference) == "pending"
    own = await ann.get("/resolutions")
    assert b"/resolutions/1/approve" not in own.body
    assert await ann.send("/resolutions/1/approve") == 403
    assert await status_of(sandbox, reference) == "pending"
    assert b"/resolutions/1/approve" in (await abe.get("/resolutions")).body
    assert await abe.send("/resolutions/1/approve") == 303
    assert await status_of(sandbox, reference) == "success"
    assert await abe.send("/resolutions/1/approve") == 409
    await sandbox.callback_for(reference)
    shown = await abe.text(f"/payments/{reference}")
    assert "<strong>ann, approved by abe (proposal 1)</strong>" in shown
    about = f"payment:{reference}"
    events = [each for each in await audit_events(sandbox) if each[2] == about]
    assert [each for each in events if each[1] != "personal_data_viewed"] == [
        ("user:ann", "resolution_proposed", about),
        ("user:ann", "refused", about),
        ("user:abe", "resolution_approved", about),
        ("user:abe", "payment_resolved", about),
        ("user:abe", "refused", about),
    ]


async def test_reason_and_evidence_are_needed(sandbox: Running, ann: ConsoleBrowser) -> None:
    path = f"/payments/{await submitted_payment(sandbox)}/resolutions"
    for name in PROPOSED:
        for wrong in ("", "  ", "odd" if name == "outcome" else "x" * 2_001):
            assert await ann.send(path, **PROPOSED | {name: wrong}) == 400, (name, wrong)
    assert await ann.send("/resolutions/1/approve") == 404


async def test_a_proposal_is_rejected_or_taken_back(
    sandbox: Running, sam: ConsoleBrowser, ann: ConsoleBrowser
) -> None:
    propose = f"/payments/{await submitted_payment(sandbox)}/resolutions"
    assert await sam.send(propose, **PROPOSED) == 303
    assert await ann.send("/resolutions/1/reject") == 400
    assert await ann.send("/resolutions/1/reject", remark="no such line") == 303
    assert await sam.send(propose, **PROPOSED) == 303
    assert await sam.send("/resolutions/2/reject", remark="my mistake") == 303


async def test_without_four_eyes_an_approver_ends_it_at_once(serve: Serve) -> None:
    async with serve(environment={"MMO_CONSOLE_FOUR_EYES": "false"}) as sandbox:
        await add_users(sandbox.directory, ann="approver")
        reference = await submitted_payment(sandbox)
        ann = ConsoleBrowser(sandbox.ready.console)
        await ann.sign_in("ann")
        assert await ann.send(f"/payments/{reference}/resolutions", **PROPOSED) == 303
        assert await status_of(sandbox, reference) == "success"


async def test_stuck_payments_are_listed(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    assert reference not in await (await signed_in("vera")).text("/stuck")
    await sandbox.advance("61m")
    assert reference in await (await signed_in("vera")).text("/stuck")


async def test_a_suspense_entry_is_closed_with_a_note(
    sandbox: Running, sam: ConsoleBrowser, vera: ConsoleBrowser
) -> None:
    reference = await submitted_payment(sandbox, CONFLICTING)
    with trio.fail_after(HANGS_AFTER_S):
        while not await sandbox.seen("suspense"):
            await sandbox.advance("1s")
    assert "Entry 1: conflicting result" in await sam.text("/suspense")
    for page in ("/suspense?show=told-wrong", f"/payments/{reference}"):
        text = await sam.text(page)
        assert "A text to send to the merchant" in text
        assert "please correct your own books" in text
    hidden = "hidden from your role"
    assert [hidden in await who.text("/suspense") for who in (vera, sam)] == [True, False]

    assert await sam.send("/suspense/1/close", note=" ") == 400
    assert await sam.send("/suspense/1/close", note="informed the merchant") == 303
    assert await sam.send("/suspense/1/close", note="again") == 409
    assert "informed the merchant" not in await sam.text("/suspense")
    assert "No merchant was told wrong" in await sam.text("/suspense?show=told-wrong")
    assert "informed the merchant" in await sam.text("/suspense?show=all")
    assert "informed the merchant" in await sam.text(f"/payments/{reference}")


async def test_a_provider_is_closed_and_opened(sandbox: Running, ada: ConsoleBrowser) -> None:
    assert await ada.send("/providers/nobody/disable", reason="x") == 404
    assert await ada.send("/providers/sandbox/disable", reason="out of order") == 303
    assert await ada.send("/providers/sandbox/disable", reason="again") == 409
    assert "out of order" in await ada.text("/providers")
    async with open_store_of(sandbox.directory) as store:
        [closed] = await store.admin.closed_providers()
        assert (closed.name, closed.closed_by) == ("sandbox", "ada")
    assert await ada.send("/providers/sandbox/enable") == 303
    assert await ada.send("/providers/sandbox/enable") == 409
    history = await ada.text("/providers")
    assert "provider closed" in history
    assert "provider opened" in history


async def test_a_proposal_says_in_wall_time_when_its_payment_was_sent(
    sandbox: Running, ann: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the gateway's own time is another."""
    reference = await submitted_payment(sandbox)
    assert await ann.send(f"/payments/{reference}/resolutions", **PROPOSED) == 303
    monkeypatch.setattr(Order, "to_utc", lambda *_: Instant(0))
    page = await ann.text("/resolutions")
    assert '<dt>Sent to the provider</dt><dd><time datetime="1970-01-01T' in page


async def test_failed_callbacks_and_the_breaker_are_shown(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    sandbox.merchant.result_url = "https://localhost:1/nobody"
    for _ in range(6):
        answer = await sandbox.merchant.create("direct/payin")
        await sandbox.outcome_of(answer.json["gatewayReference"])
    page = await vera.text("/callbacks?brand=demo")
    assert page.count("not delivered (not reached)</span>") >= 5
    assert "again</button>" not in page
    breakers = await vera.text("/breakers")
    assert breakers.count("stopped</span></td>") == 2
    assert breakers.count('<tr class="day">') == 1, "the date stands once, not in each row"
    stopped = await vera.text(f"/payments/{answer.json['gatewayReference']}")
    assert "not delivered (callbacks stopped)</span>" in stopped
    assert re.search(r"<strong>The callback was not delivered: [^<]+</strong>", stopped)


async def test_every_act_stands_in_the_audit_log(
    sandbox: Running, signed_in: SignedIn, ada: ConsoleBrowser
) -> None:
    await ConsoleBrowser(sandbox.ready.console).sign_in("eve<script>", "wrong horse battery")
    await ada.post("/providers/sandbox/disable", reason="a <test>")
    await ada.post("/sign-out")
    assert await audit_events(sandbox) == [
        ("user:ada", "signed_in", "user:ada"),
        ("nobody", "sign_in_failed", ""),
        ("user:ada", "provider_closed", "provider:sandbox"),
        ("user:ada", "signed_out", "user:ada"),
    ]
    page = (await (await signed_in("ada")).get("/audit")).body.decode()
    assert "sign in failed" in page
    assert ">ada</a></td>" in page
    assert "unknown:" in page
    assert "eve&lt;script" not in page
    assert "a &lt;test&gt;" in page


def an_app(store: SqliteStore) -> WebApp:
    audit_log = AuditLog(store.admin, AuditKey("k1", bytes(32)), lambda: Instant(0))
    context = ConsoleContext(
        store,
        _nothing,
        audit_log,
        KeyRing(bytes(32)),
        audit_log.wall_time,
        audit_log.wall_time,
        ConsoleSection(),
        {},
        dict,
        TrustedProxies(),
        PasswordVerifier(CHEAP_HASHER),
    )
    return create_console_app(PrometheusExporter.__new__(PrometheusExporter), context)


async def test_no_page_waits_for_its_template_once_all_are_compiled(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = an_app(store)
    await app.compile_templates()
    monkeypatch.setattr(app.jinja_env, "compile", None)
    for name in ("overview.html", "providers.html", "brands.html", "payments.html"):
        assert app.jinja_env.get_template(name).name == name


async def test_nothing_sends_a_callback_again(store: SqliteStore) -> None:
    """Every form there is; none of them sends anything (K3)."""
    app = an_app(store)
    posts = {str(rule) for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())}
    assert posts == {
        "/sign-in",
        "/sign-out",
        "/brands/<brand>/configuration",
        "/configuration/<int:id>/approve",
        "/configuration/<int:id>/reject",
        "/configuration/<int:id>/revert",
        "/second-factor/enrol",
        "/second-factor/confirm",
        "/second-factor/recovery-codes",
        "/second-factor/remove",
        "/search",
        "/payments/<reference>/payee",
        "/payments/<reference>/resolutions",
        "/payments/<reference>/reversals",
        "/payments/<reference>/reversals/<int:number>/approve",
        "/payments/<reference>/reversals/<int:number>/refuse",
        "/payments/<reference>/reversals/<int:number>/resolve",
        "/resolutions/<int:id>/approve",
        "/resolutions/<int:id>/reject",
        "/suspense/<int:id>/close",
        "/providers/<name>/disable",
        "/providers/<name>/enable",
    }


async def _nothing(_: Input) -> Reply:
    raise AssertionError("nothing is decided")
