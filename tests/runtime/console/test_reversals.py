"""Staff ask money of a payment back, another user approves it, and each step is audited."""

from __future__ import annotations

import pytest
import trio

from mmo_sansio.messages.replies import Ignored
from mmo_sansio.messages.reversals import DecideReversal, ReversalCannotTell, ReversalWoke
from mmo_sansio.providers.common.operations import ReversalOperation
from mmo_sansio.providers.sandbox import adapter
from mmo_sansio.values.clock import SECOND, Span
from mmo_sansio.values.money import Money
from mmo_sansio.values.reversals import Reversal, ReversalState
from mmo_trio.console import attention, reversals
from mmo_trio.console.context import ConsoleContext
from mmo_trio.engine.engine import submit_batch_once
from mmo_trio.system.clock import GatewayClock
from tests.runtime.console.conftest import STAFF, SignedIn
from tests.support.console_browser import ConsoleBrowser, add_users, audit_events, open_store_of
from tests.support.sandbox_gateway import Running, Serve
from tests.support.time_limits import HANGS_AFTER_S

ASKED = {"amount": "50.00", "reason": "paid twice", "number": "1"}
TOLD_FAILED = "254700000140"


async def paid_payment(sandbox: Running) -> str:
    accepted = await sandbox.merchant.accepted()
    return str((await sandbox.merchant.ended(accepted["gatewayReference"]))["gatewayReference"])


async def reversals_of(sandbox: Running, reference: str) -> list[Reversal]:
    async with open_store_of(sandbox.directory) as store:
        return list(await store.reversals(reference))


async def succeeded_reversal(sandbox: Running, reference: str) -> Reversal:
    """The payment's first reversal, once the operator has moved the money."""
    with trio.fail_after(HANGS_AFTER_S):
        while (
            found := (await reversals_of(sandbox, reference))[0]
        ).state is not ReversalState.SUCCEEDED:
            await sandbox.advance("2s")
            await trio.sleep(0.1)
    return found


@pytest.mark.spec("S1", "S2")
async def test_a_second_user_approves_and_the_money_goes_back_once(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    reference = await paid_payment(sandbox)
    before = await sandbox.merchant.status(reference)
    path = f"/payments/{reference}"
    page = await ann.text(path)
    assert "At most KES 150.00, which has not been asked back. A part is possible." in page
    assert await ann.send(f"{path}/reversals", **ASKED) == 303
    page = await ann.text(path)
    assert "Reversal 1: requested" in page
    assert "At most KES 100.00" in page
    assert "Another user has to approve it." in page
    assert 'Reversals <span class="count">1<' in page
    assert '<a href="/reversals">1 reversal waits</a>' in await ann.text("/")
    own = await ann.text("/reversals")
    assert "paid twice" in own
    assert f"{path}/reversals/1/approve" not in own
    assert await ann.send(f"{path}/reversals/1/approve") == 409
    assert [each.state for each in await reversals_of(sandbox, reference)] == [
        ReversalState.REQUESTED
    ]
    assert f"{path}/reversals/1/approve" in await abe.text("/reversals")
    assert await abe.send(f"{path}/reversals/1/approve") == 303
    again = await abe.answered(409, f"{path}/reversals/1/approve")
    assert "abe approved it already, at " in again
    assert f'<a class="button plain" href="{path}">The payment</a>' in again
    moved = await succeeded_reversal(sandbox, reference)
    assert (moved.asked_by, moved.approved_by, moved.amount) == ("ann", "abe", Money(5_000, "KES"))
    assert moved.submissions == 1
    shown = await abe.text(path)
    assert "Reversal 1: succeeded" in shown
    assert "<p>KES 50.00 went back to the payer at 20" in shown
    assert "says that the money was moved back" in " ".join(shown.split())
    assert await sandbox.merchant.status(reference) == before
    about = f"payment:{reference}"
    assert [
        each
        for each in await audit_events(sandbox)
        if each[2] == about and each[1] != "personal_data_viewed"
    ] == [
        ("user:ann", "reversal_requested", about),
        ("user:ann", "refused", about),
        ("user:abe", "reversal_approved", about),
        ("user:abe", "refused", about),
    ]
    assert ("user:abe", "personal_data_viewed", "reversals") in await audit_events(sandbox)


@pytest.mark.spec("S6")
async def test_a_form_that_is_sent_twice_asks_once(serve: Serve) -> None:
    async with serve(environment={"MMO_CONSOLE_FOUR_EYES": "false"}) as sandbox:
        await add_users(sandbox.directory, **STAFF)
        reference = await paid_payment(sandbox)
        ann = ConsoleBrowser(sandbox.ready.console)
        await ann.sign_in("ann")
        assert "It is sent at once." in await ann.text(f"/payments/{reference}")
        statuses = [await ann.send(f"/payments/{reference}/reversals", **ASKED) for _ in range(2)]
        assert statuses == [303, 409]
        assert (await succeeded_reversal(sandbox, reference)).amount == Money(5_000, "KES")
        assert len(await reversals_of(sandbox, reference)) == 1


async def test_what_is_missing_or_too_much_is_refused(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    reference = await paid_payment(sandbox)
    path = f"/payments/{reference}/reversals"
    for name, wrong in {"reason": [" "], "number": ["", "x"], "amount": ["many", "1.234"]}.items():
        for each in wrong:
            assert await ann.send(path, **ASKED | {name: each}) == 400, (name, each)
    too_much = await ann.answered(409, path, **ASKED | {"amount": "150.01"})
    assert "at most 150.00 KES" in too_much
    assert await ann.send("/payments/01JD0000000000000000000000/reversals", **ASKED) == 404
    assert await ann.send(f"{path}/7/approve") == 404
    assert await ann.send(f"{path}/1/refuse", remark=" ") == 400
    assert await ann.send(f"{path}/1/resolve", outcome="odd", evidence="none") == 400
    assert await ann.send(f"{path}/1/resolve", outcome="succeeded", evidence="") == 400
    assert (await ann.get("/reversals?show=odd")).status == 400
    assert await reversals_of(sandbox, reference) == []


@pytest.mark.parametrize(
    ("takes_whole", "said"),
    [
        (True, "KES 150.00: the provider moves back all of a payment"),
        (False, "No provider that is configured takes reversals of this payment"),
    ],
)
async def test_the_form_says_what_the_operator_takes(
    sandbox: Running,
    ann: ConsoleBrowser,
    monkeypatch: pytest.MonkeyPatch,
    takes_whole: bool,
    said: str,
) -> None:
    whole = ReversalOperation(False, True, Span(0), [SECOND])
    offered = dict.fromkeys(adapter.OPERATIONS, whole) if takes_whole else {}
    monkeypatch.setattr(adapter.SandboxProvider, "reversal_operations", offered)
    page = await ann.text(f"/payments/{await paid_payment(sandbox)}")
    assert said in page
    assert 'name="amount"' not in page


@pytest.mark.spec("S5")
async def test_money_that_came_although_the_merchant_was_told_failed_goes_back(
    sandbox: Running, signed_in: SignedIn
) -> None:
    payer = {"id": "c", "msisdn": TOLD_FAILED}
    reference = await sandbox.create(payer=payer)
    await sandbox.advance("73h")
    assert len(await sandbox.seen("suspense")) == 1
    sam, vera = await signed_in("sam"), await signed_in("vera")
    way = f'href="/payments/{reference}#ask-back"'
    for page in ("/suspense", "/suspense?show=told-wrong"):
        assert way in await sam.text(page)
        assert way not in await vera.text(page)
    assert "At most KES 150.00" in await sam.text(f"/payments/{reference}")
    assert await sam.send(f"/payments/{reference}/reversals", **ASKED | {"amount": "150.00"}) == 303
    page = await sam.text(f"/payments/{reference}")
    assert 'id="ask-back"' not in page
    assert "KES 150.00 is asked back, and waits for an approval." in page
    assert "reported after the merchant was told of a failure" in page
    assert (await sandbox.merchant.status(reference))["status"] == "failed"


async def test_another_user_ends_by_hand_what_nobody_tells(
    sandbox: Running, signed_in: SignedIn, ann: ConsoleBrowser
) -> None:
    reference = await paid_payment(sandbox)
    assert await ann.send(f"/payments/{reference}/reversals", **ASKED) == 303
    id = f"{reference}-1"
    async with open_store_of(sandbox.directory) as store:
        decided = DecideReversal(id, "abe", is_approved=True, four_eyes=True)
        unknown = (decided, ReversalWoke(id, "one"), ReversalCannotTell(id, "sandbox", version=3))
        replies = await submit_batch_once(store, unknown, GatewayClock())
        assert not [each for each in replies if isinstance(each, Ignored)]
    await sandbox.advance("1m")
    ann, abe = await signed_in("ann"), await signed_in("abe")
    path = f"/payments/{reference}/reversals/1/resolve"
    proof = {"outcome": "succeeded", "evidence": "statement, line 7", "provider_reference": "R-7"}
    for who in (ann, abe):
        page = await who.text("/reversals?show=sent")
        assert (path in page) is ("The gateway can't ask sandbox about it." in page) is (who is abe)
    assert await ann.send(path, **proof) == 409
    assert await abe.send(path, **proof) == 303
    [ended] = await reversals_of(sandbox, reference)
    assert (ended.state, ended.ended_by) == (ReversalState.SUCCEEDED, "abe")
    assert (ended.remark, ended.provider_reference) == ("statement, line 7", "R-7")
    assert ("user:abe", "reversal_resolved", f"payment:{reference}") in await audit_events(sandbox)


async def test_the_list_says_how_much_waits_and_asks_for_a_reason_only_to_reject(
    sandbox: Running, sam: ConsoleBrowser, ann: ConsoleBrowser
) -> None:
    assert "to give back" not in await ann.text("/reversals")
    for _ in range(2):
        reference = await paid_payment(sandbox)
        assert await sam.send(f"/payments/{reference}/reversals", **ASKED) == 303
    page = await ann.text("/reversals")
    assert "<strong>KES 100.00</strong> to give back" in page
    folded = page.split("<summary>Reject</summary>")[1].partition("</details>")[0]
    assert "Reason to reject" in folded


async def test_the_list_shows_states_and_goes_on_with_older_ones(
    sandbox: Running, sam: ConsoleBrowser, ann: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reversals, "PAYMENTS_PAGE_SIZE", 1)
    older, newer = await paid_payment(sandbox), await paid_payment(sandbox)
    for reference in (older, newer):
        assert await sam.send(f"/payments/{reference}/reversals", **ASKED) == 303
    assert "Withdraw" in await sam.text("/reversals")
    assert await sam.send(f"/payments/{newer}/reversals/1/refuse", remark="a mistake") == 303
    assert "a mistake" in await sam.text(f"/payments/{newer}")
    for shown, found in (("requested", older), ("failed", newer), ("", older)):
        page = await sam.text(f"/reversals?show={shown}")
        assert f'/payments/{found}">' in page, shown
        assert page.count("<section") == 1
    assert "No reversal here" in await sam.text("/reversals?show=succeeded")
    page = await sam.text("/reversals?show=all")
    assert f'/payments/{newer}">' in page
    assert f'/payments/{older}">' not in page
    [link] = [each for each in page.split('"') if "before=" in each]
    page = await sam.text(link.replace("&amp;", "&"))
    assert f'/payments/{older}">' in page
    assert 'rel="next"' not in page
    assert (await sam.get("/reversals?before=nowhere")).status == 400


async def test_a_simulated_reversal_stands_in_no_sum_beside_an_account_that_moves_money(
    sandbox: Running, ann: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = await paid_payment(sandbox)
    assert await ann.send(f"/payments/{reference}/reversals", **ASKED) == 303
    assert "<strong>KES 50.00</strong> to give back" in await ann.text("/reversals")
    monkeypatch.setattr(ConsoleContext, "moves_no_money", False)
    page = await ann.text("/reversals")
    assert f"/payments/{reference}" in page
    assert "to give back" not in page


async def test_a_sum_of_what_was_read_says_that_there_may_be_more(
    sandbox: Running, ann: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payment may have several reversals: what is read is bounded by payments."""
    monkeypatch.setattr(attention, "READ_MAX", 1)
    older, newer = await paid_payment(sandbox), await paid_payment(sandbox)
    for reference, number in ((older, "1"), (newer, "1"), (newer, "2")):
        asked = {**ASKED, "number": number}
        assert await ann.send(f"/payments/{reference}/reversals", **asked) == 303
    assert "<strong>KES 100.00 or more</strong> to give back" in await ann.text("/reversals")
    assert "2+ reversals wait" in await ann.text("/")
