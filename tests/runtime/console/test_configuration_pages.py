"""Limits and flows of a brand are changed in the console by two users, after a back-test; one click
goes back."""

from __future__ import annotations

import re

import pytest
import trio
from attrs import evolve

from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.admin_types import ChangeState
from tests.support.console_browser import ConsoleBrowser, audit_events, open_store_of
from tests.support.sandbox_gateway import Running
from tests.support.time_limits import HANGS_AFTER_S

PATH = "/brands/demo/configuration"


async def first_brand(sandbox: Running) -> Brand:
    """The version in force of the sandbox's first brand."""
    async with open_store_of(sandbox.directory) as store:
        return (await store.admin.brands())[0].brand


async def filled_form(person: ConsoleBrowser) -> dict[str, str]:
    """What a browser would send of the form as it is."""
    page = await person.text(PATH)
    fields: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", page):
        given = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
        if given.get("type") == "checkbox":
            if " checked" in tag:
                fields[given["name"]] = "on"
        elif given.get("name") not in (None, "text", "form_token"):
            fields[given["name"]] = given.get("value", "")
    return fields | {"reason": "fewer large payments"}


def fault_beside(page: str, field: str) -> str:
    """What the page says beside a field."""
    return page.partition(f'id="{field}-error"')[2].partition("</span>")[0]


def lowered(form: dict[str, str], brand: Brand) -> dict[str, str]:
    """The form with a maximum of 100 for each currency of the first method."""
    return form | {f"0.{currency}.max": "100" for currency in brand.methods[0].limits}


async def test_two_users_change_a_limit_and_one_goes_back(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser, ada: ConsoleBrowser
) -> None:
    before = await first_brand(sandbox)
    form = lowered(await filled_form(ann), before)
    assert await ann.send(PATH, **form) == 303
    assert await first_brand(sandbox) == before
    own = await ann.text("/configuration/1")
    assert "Another user has to apply it." in own
    assert "/configuration/1/approve" not in own
    assert await ann.send("/configuration/1/approve") == 403
    assert await first_brand(sandbox) == before
    shown = await abe.text("/configuration/1?day=today")
    assert '<th scope="row" rowspan="2">Max KES</th>' in shown
    assert "<mark>" in shown
    assert await abe.send("/configuration/1/approve") == 303
    after = await first_brand(sandbox)
    highest = {each.maximum.text for each in after.methods[0].limits.values()}
    assert highest <= {"100", "100.00", "100.000"}
    assert evolve(after, methods=before.methods) == before
    assert await abe.send("/configuration/1/approve") == 409
    assert "Propose to go back" in await ada.text("/configuration/1")
    assert "Say why." in await ada.answered(400, "/configuration/1/revert")
    back = await ada.post("/configuration/1/revert", remark="the campaign is over")
    assert back.headers["location"].endswith("/configuration/2")
    assert await first_brand(sandbox) == after, "it allows more, so another user has to apply it"
    assert await ada.send("/configuration/2/approve") == 403
    assert await abe.send("/configuration/2/approve") == 303
    assert await first_brand(sandbox) == before
    assert await ada.send("/configuration/1/revert", remark="again") == 409
    about = "brand:demo"
    events = [each[:2] for each in await audit_events(sandbox) if each[2] == about]
    assert events[-7:] == [
        ("user:ann", "configuration_proposed"),
        ("user:ann", "refused"),
        ("user:abe", "configuration_applied"),
        ("user:abe", "refused"),
        ("user:ada", "configuration_proposed"),
        ("user:ada", "refused"),
        ("user:abe", "configuration_applied"),
    ]


async def test_the_list_says_what_changed_and_who_approved_it(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    before = await first_brand(sandbox)
    form = lowered(await filled_form(ann), before)
    assert await ann.send(PATH, **form) == 303
    assert await abe.send("/configuration/1/approve") == 303
    [row] = re.findall(r"<tr><th scope=\"row\">.*?</tr>", await abe.text("/configuration"))
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", row))
    assert re.search(r": Max KES [\d,]+\.00 → 100\.00", text), text
    assert re.search(r" ann, [-0-9]+ [:0-9]+ ", text), text
    assert re.search(r" applied abe, [-0-9]+ [:0-9]+", text), text


async def test_one_user_alone_goes_back_only_to_what_is_tighter_and_was_not_theirs(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    before = await first_brand(sandbox)
    form = await filled_form(ann)
    wider = form | {
        f"0.{currency}.min": str(each.minimum.text)
        for currency, each in before.methods[0].limits.items()
    }
    wider |= {f"0.{currency}.max": "900000" for currency in before.methods[0].limits}
    assert await ann.send(PATH, **wider) == 303
    assert await abe.send("/configuration/1/approve") == 303
    after = await first_brand(sandbox)
    own = await ann.post("/configuration/1/revert", remark="too much")
    assert own.headers["location"].endswith("/configuration/2")
    assert await first_brand(sandbox) == after
    assert "Go back to the version before" in await abe.text("/configuration/1")
    assert await abe.send("/configuration/1/revert", remark="too much") == 303
    assert await first_brand(sandbox) == before


async def test_a_back_test_tells_what_todays_payments_would_have_met(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    await sandbox.merchant.create("direct/payin")
    form = await filled_form(ann)
    without_flows = {name: value for name, value in form.items() if "/" not in name}
    assert await ann.send(PATH, **without_flows) == 303
    shown = await ann.text("/configuration/1?day=today")
    rows = re.findall(
        r'<code>([a-z_]+)</code></th><td class="num">(\d+)</td><td class="num">(\d+)</td>', shown
    )
    assert rows == [("config_unsupported_payment_method", "0", "1")]


async def test_a_back_test_tells_which_refused_requests_a_wider_limit_accepts(
    sandbox: Running, ann: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.workers.housekeeping.REFUSALS_INTERVAL_S", 0.0)
    form = await filled_form(ann)
    assert await ann.send(PATH, **form | {"0.KES.min": "0.01"}) == 303
    half = {"value": 0.5, "currency": "KES"}
    assert (await sandbox.merchant.create("direct/payin", amount=half)).status == 400
    with trio.fail_after(HANGS_AFTER_S):
        while True:
            shown = await ann.text("/configuration/1?day=today")
            if "and 1 requests that" in shown:
                break
            await trio.sleep(0.02)
    row = r'Accepted, though refused then</th><td class="num">(\d+)</td><td class="num">(\d+)</td>'
    assert re.findall(row, shown) == [("0", "1")]


async def test_a_wrong_limit_is_explained_beside_its_field(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    before = await first_brand(sandbox)
    form = await filled_form(ann)
    currency = next(iter(before.methods[0].limits))
    minimum, maximum = f"0.{currency}.min", f"0.{currency}.max"
    for changed, invalid, fault in (
        ({maximum: "much"}, maximum, "It must be a decimal number such as 150.00."),
        ({maximum: ""}, maximum, "It is missing. Give a smallest and a largest amount."),
        ({maximum: "1", minimum: "2"}, minimum, "It is above max. Exchange them."),
        ({f"0.{currency}.daily_payin": "0"}, f"0.{currency}.daily_payin", "0"),
        (
            {"pending_payments": "many"},
            "pending_payments",
            "&#39;many&#39; is no whole number. Write digits only.",
        ),
        ({"pending_payments": "0"}, "pending_payments", "must be a whole number from 1 to 1000000"),
        ({"requests_burst": "5"}, "requests_burst", "It needs requests_per_second. Give both."),
    ):
        page = await ann.answered(400, PATH, **(form | changed))
        assert re.findall(r'<input id="([^"]+)"[^>]* aria-invalid="true"', page) == [invalid]
        assert f'aria-describedby="{invalid}-error" aria-invalid="true"' in page
        assert fault in fault_beside(page, invalid)
        for name, text in changed.items():
            assert re.search(f'name="{name}"[^>]* value="{text}"', page), "what was typed is kept"
        assert 'value="fewer large payments"' in page
    stale = lowered(form, before) | {"version": "0"}
    assert await ann.send(PATH, **stale) == 409
    assert (await ann.get("/brands/nobody/configuration")).status == 404


async def test_an_edit_without_a_change_or_a_reason_keeps_what_was_typed(
    sandbox: Running, ann: ConsoleBrowser
) -> None:
    form = await filled_form(ann)
    page = await ann.answered(400, PATH, **form)
    assert re.search(r'role="alert".*Nothing would change: edit a limit or a flow first\.', page)
    assert 'value="fewer large payments"' in page
    page = await ann.answered(400, PATH, **form | {"pending_payments": "7", "reason": "  "})
    assert re.findall(r'<input id="([^"]+)"[^>]* aria-invalid="true"[^>]* autofocus', page) == [
        "reason"
    ]
    assert "Say why it is to change." in fault_beside(page, "reason")
    assert re.search('name="pending_payments"[^>]* value="7"', page)
    async with open_store_of(sandbox.directory) as store:
        assert not await store.admin.configuration_changes()


async def test_what_is_proposed_is_what_was_seen(sandbox: Running, ann: ConsoleBrowser) -> None:
    form = await filled_form(ann)
    assert "Nothing would change" in await ann.answered(400, PATH, **form, act="check")
    unsaid = form | {"pending_payments": "7", "reason": "", "act": "check"}
    page = await ann.answered(200, PATH, **unsaid)
    assert "What you have changed so far" in page
    assert ">Pending payments</th>" in page
    found = re.search('name="checked" value="([0-9a-f]+)"', page)
    assert found is not None
    other = form | {"pending_payments": "8"}
    assert "What you have changed" in await ann.answered(200, PATH, **other, checked=found[1])
    async with open_store_of(sandbox.directory) as store:
        assert not await store.admin.configuration_changes()
    assert await ann.send(PATH, **(form | {"pending_payments": "7"}), checked=found[1]) == 303


async def test_a_rejection_needs_a_remark(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    form = await filled_form(ann)
    await ann.post(PATH, **(form | {"pending_payments": "10"}))
    page = await abe.answered(400, "/configuration/1/reject", remark=" ")
    assert "Say why." in fault_beside(page, "remark")
    async with open_store_of(sandbox.directory) as store:
        [left] = await store.admin.configuration_changes()
    assert left.state is ChangeState.OPEN


async def test_an_overtaken_change_is_not_applied_but_can_be_withdrawn(
    sandbox: Running, ann: ConsoleBrowser, abe: ConsoleBrowser
) -> None:
    form = await filled_form(ann)
    for pending in ("10", "20"):
        await ann.post(PATH, **(form | {"pending_payments": pending}))
    assert await abe.send("/configuration/1/approve") == 303
    assert "changed meanwhile" in await abe.text("/configuration/2")
    assert await abe.send("/configuration/2/approve") == 409
    assert (await first_brand(sandbox)).limits.pending_payments == 10
    assert await ann.send("/configuration/2/reject", remark="overtaken") == 303
    assert await abe.send("/configuration/2/approve") == 409
