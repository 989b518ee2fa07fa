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
from mmo_trio.storage.interface.audit_chain import AuditChainVerifier
from mmo_trio.storage.sqlite import SqliteStore
from tests.runtime.console.conftest import STAFF, SignedIn
from tests.runtime.console.test_sign_in import ACTS
from tests.support.console_browser import ConsoleBrowser, add_users, open_store_of
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


async def audit_events(sandbox: Running) -> list[tuple[str, str, str]]:
    """The audit log: who, what, to what."""
    async with open_store_of(sandbox.directory) as store:
        rows = await store.admin.audit_after(0, limit=1_000)
        chain = AuditChainVerifier(None)
        assert chain.verify(rows) is None
        assert chain.verify_end(await store.admin.audit_head()) is None
        return [(row.event.actor, row.event.action, row.event.about) for row in rows]


async def test_a_second_user_approves(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    ann, abe = await signed_in("ann"), await signed_in("abe")
    page = await ann.get(f"/payments/{reference}")
    assert b"Another user has to approve it." in page.body
    assert (await ann.post(f"/payments/{reference}/resolutions", **PROPOSED)).status == 303
    assert await status_of(sandbox, reference) == "pending"
    own = await ann.get("/resolutions")
    assert b"/resolutions/1/approve" not in own.body
    assert (await ann.post("/resolutions/1/approve")).status == 403
    assert await status_of(sandbox, reference) == "pending"
    assert b"/resolutions/1/approve" in (await abe.get("/resolutions")).body
    assert (await abe.post("/resolutions/1/approve")).status == 303
    assert await status_of(sandbox, reference) == "success"
    assert (await abe.post("/resolutions/1/approve")).status == 409
    await sandbox.callback_for(reference)
    shown = (await abe.get(f"/payments/{reference}")).body.decode()
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


async def test_a_proposal_is_rejected_or_taken_back(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    sam, ann = await signed_in("sam"), await signed_in("ann")
    propose = f"/payments/{reference}/resolutions"
    assert (await sam.post(propose, **PROPOSED)).status == 303
    assert (await ann.post(propose, **PROPOSED)).status == 409
    assert (await ann.post("/resolutions/1/reject")).status == 400
    assert (await ann.post("/resolutions/1/reject", remark="no such line")).status == 303
    assert (await ann.post("/resolutions/1/approve")).status == 409
    assert (await sam.post(propose, **PROPOSED)).status == 303
    assert (await sam.post("/resolutions/2/reject", remark="my mistake")).status == 303
    assert (await ann.post(propose, **PROPOSED)).status == 303
    assert (await sam.post("/resolutions/3/reject", remark="not mine")).status == 403
    assert await status_of(sandbox, reference) == "pending"


async def test_without_four_eyes_an_approver_ends_it_at_once(serve: Serve) -> None:
    async with serve(environment={"MMO_CONSOLE_FOUR_EYES": "false"}) as sandbox:
        await add_users(sandbox.directory, **STAFF)
        reference = await submitted_payment(sandbox)
        ann = ConsoleBrowser(sandbox.ready.console)
        await ann.sign_in("ann")
        assert (await ann.post(f"/payments/{reference}/resolutions", **PROPOSED)).status == 303
        assert await status_of(sandbox, reference) == "success"


async def test_reason_and_evidence_are_needed(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    ann = await signed_in("ann")
    for missing in PROPOSED:
        for nothing in ("", "  "):
            fields = PROPOSED | {missing: nothing}
            answer = await ann.post(f"/payments/{reference}/resolutions", **fields)
            assert answer.status == 400, missing
    odd = PROPOSED | {"outcome": "odd"}
    assert (await ann.post(f"/payments/{reference}/resolutions", **odd)).status == 400
    long = PROPOSED | {"evidence": "x" * 2_001}
    assert (await ann.post(f"/payments/{reference}/resolutions", **long)).status == 400
    assert (await ann.post("/resolutions/1/approve")).status == 404


async def test_an_ended_payment_stays_as_it_ended(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    ann, abe = await signed_in("ann"), await signed_in("abe")
    await ann.post(f"/payments/{reference}/resolutions", **PROPOSED)
    await sandbox.advance("4d")
    assert await status_of(sandbox, reference) == "failed"
    ann, abe = await signed_in("ann"), await signed_in("abe")
    assert (await abe.post("/resolutions/1/approve")).status == 303
    assert b"has ended meanwhile" in (await abe.get(f"/payments/{reference}")).body
    assert (await ann.post(f"/payments/{reference}/resolutions", **PROPOSED)).status == 409
    assert await status_of(sandbox, reference) == "failed"


async def test_stuck_payments_are_listed(sandbox: Running, signed_in: SignedIn) -> None:
    reference = await submitted_payment(sandbox)
    assert reference.encode() not in (await (await signed_in("vera")).get("/stuck")).body
    await sandbox.advance("61m")
    assert reference.encode() in (await (await signed_in("vera")).get("/stuck")).body


async def test_a_suspense_entry_is_closed_with_a_note(
    sandbox: Running, signed_in: SignedIn
) -> None:
    reference = await submitted_payment(sandbox, CONFLICTING)
    await sandbox.advance("1m")
    sam, vera = await signed_in("sam"), await signed_in("vera")
    with trio.fail_after(HANGS_AFTER_S):
        while not await sandbox.seen("suspense"):
            await sandbox.advance("1s")
    assert b"Entry 1: conflicting result" in (await sam.get("/suspense")).body
    for page in ("/suspense?show=told-wrong", f"/payments/{reference}"):
        assert b"A text to send to the merchant" in (await sam.get(page)).body
        assert b"please correct your own books" in (await sam.get(page)).body
    hidden = b"hidden from your role"
    assert [hidden in (await who.get("/suspense")).body for who in (vera, sam)] == [True, False]
    assert (await sam.post("/suspense/1/close", note=" ")).status == 400
    assert (await sam.post("/suspense/1/close", note="informed the merchant")).status == 303
    assert (await sam.post("/suspense/1/close", note="again")).status == 409
    assert b"informed the merchant" not in (await sam.get("/suspense")).body
    assert b"No merchant was told wrong" in (await sam.get("/suspense?show=told-wrong")).body
    assert b"informed the merchant" in (await sam.get("/suspense?show=all")).body
    assert b"informed the merchant" in (await sam.get(f"/payments/{reference}")).body


async def test_a_provider_is_closed_and_opened(sandbox: Running, signed_in: SignedIn) -> None:
    ada = await signed_in("ada")
    assert (await ada.post("/providers/nobody/disable", reason="x")).status == 404
    assert (await ada.post("/providers/sandbox/disable", reason="out of order")).status == 303
    assert (await ada.post("/providers/sandbox/disable", reason="again")).status == 409
    page = (await ada.get("/providers")).body
    assert b"out of order" in page
    async with open_store_of(sandbox.directory) as store:
        [closed] = await store.admin.closed_providers()
        assert (closed.name, closed.closed_by) == ("sandbox", "ada")
    assert (await ada.post("/providers/sandbox/enable")).status == 303
    assert (await ada.post("/providers/sandbox/enable")).status == 409
    history = (await ada.get("/providers")).body
    assert b"provider closed" in history
    assert b"provider opened" in history


async def test_a_proposal_says_in_wall_time_when_its_payment_was_sent(
    sandbox: Running, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the gateway's own time is another."""
    reference = await submitted_payment(sandbox)
    ann = await signed_in("ann")
    assert (await ann.post(f"/payments/{reference}/resolutions", **PROPOSED)).status == 303
    monkeypatch.setattr(Order, "to_utc", lambda *_: Instant(0))
    page = (await ann.get("/resolutions")).body.decode()
    assert '<dt>Sent to the provider</dt><dd><time datetime="1970-01-01T' in page


async def test_failed_callbacks_and_the_breaker_are_shown(
    sandbox: Running, signed_in: SignedIn
) -> None:
    vera = await signed_in("vera")
    sandbox.merchant.result_url = "https://localhost:1/nobody"
    for _ in range(6):
        answer = await sandbox.merchant.create("direct/payin")
        await sandbox.outcome_of(answer.json["gatewayReference"])
    page = (await vera.get("/callbacks?brand=demo")).body.decode()
    assert page.count("not delivered (not reached)</span>") >= 5
    assert "again</button>" not in page
    breakers = (await vera.get("/breakers")).body.decode()
    assert breakers.count("stopped</span></td>") == 2
    assert breakers.count('<tr class="day">') == 1, "the date stands once, not in each row"
    stopped = (await vera.get(f"/payments/{answer.json['gatewayReference']}")).body.decode()
    assert "not delivered (callbacks stopped)</span>" in stopped
    assert re.search(r"<strong>The callback was not delivered: [^<]+</strong>", stopped)


async def test_another_roles_act_is_refused_and_noted(
    sandbox: Running, signed_in: SignedIn
) -> None:
    reference = await submitted_payment(sandbox)
    vera, sam, ann = await signed_in("vera"), await signed_in("sam"), await signed_in("ann")
    propose = f"/payments/{reference}/resolutions"
    fields = PROPOSED | {"note": "n", "remark": "r"}
    for path in (propose, *ACTS[1:]):
        assert (await vera.post(path, **fields)).status == 403, path
    assert (await sam.post(propose, **fields)).status == 303
    for path in (*ACTS[1:2], *ACTS[3:]):
        assert (await sam.post(path, **fields)).status == 403, path
    for path in ACTS[3:]:
        assert (await ann.post(path, **fields)).status == 403, path
    for who in (vera, sam, ann):
        assert (await who.get("/audit")).status == 403
        assert b"/audit" not in (await who.get("/")).body
    refused = [actor for actor, act, _ in await audit_events(sandbox) if act == "refused"]
    assert refused.count("user:vera") == 6
    assert await status_of(sandbox, reference) == "pending"


async def test_every_act_stands_in_the_audit_log(sandbox: Running, signed_in: SignedIn) -> None:
    ada = await signed_in("ada")
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
