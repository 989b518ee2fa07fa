"""Each act of the console is for the roles that have its permission: others see no form for it, are
refused, and that is noted."""

from __future__ import annotations

from typing import Final

from mmo_sansio.messages.changes import SuspenseReason, SuspenseRecorded
from mmo_sansio.values.clock import Instant
from mmo_trio.console.permissions import Permission, is_permitted
from mmo_trio.storage.interface.admin_types import Role
from tests.runtime.console.conftest import STAFF
from tests.runtime.console.test_configuration_pages import PATH, filled_form
from tests.runtime.console.test_resolutions import NEVER, PROPOSED
from tests.runtime.console.test_reversals import ASKED, paid_payment
from tests.support.console_browser import ConsoleBrowser, add_users, audit_events, record
from tests.support.sandbox_gateway import Running, Serve

PROPOSE, APPROVE = Permission.PROPOSE, Permission.APPROVE
REMARK: Final = {"remark": "no"}
RESOLVED: Final = {"outcome": "succeeded", "evidence": "a statement"}
ACTS: Final = [
    ("/payments/{stuck}", "/payments/{stuck}/resolutions", PROPOSE, PROPOSED),
    ("/payments/{paid}", "/payments/{paid}/reversals", PROPOSE, ASKED | {"number": "2"}),
    ("/payments/{payout}", "/payments/{payout}/payee", Permission.SEE_PERSONAL_DATA, {}),
    ("/suspense", "/suspense/1/close", Permission.CLOSE_SUSPENSE, {"note": "seen"}),
    ("/resolutions", "/resolutions/1/approve", APPROVE, {}),
    ("/resolutions", "/resolutions/1/reject", APPROVE, REMARK),
    ("/reversals", "/payments/{paid}/reversals/1/approve", APPROVE, {}),
    ("/reversals", "/payments/{paid}/reversals/1/refuse", APPROVE, REMARK),
    ("", "/payments/{paid}/reversals/1/resolve", APPROVE, RESOLVED),
    ("/brands/demo", "/brands/demo/configuration", Permission.CHANGE_CONFIGURATION, {}),
    ("/configuration/1", "/configuration/1/approve", Permission.CHANGE_CONFIGURATION, {}),
    ("/configuration/1", "/configuration/1/reject", Permission.CHANGE_CONFIGURATION, REMARK),
    ("", "/configuration/1/revert", Permission.CHANGE_CONFIGURATION, REMARK),
    ("/providers", "/providers/sandbox/disable", Permission.SWITCH_PROVIDERS, {"reason": "no"}),
    ("", "/providers/sandbox/enable", Permission.SWITCH_PROVIDERS, {}),
]
"""A page, the act whose form it has if it has one now, the permission, and the fields of the
form."""

PAGES: Final = {
    "/audit": Permission.READ_AUDIT,
    "/brands/demo/configuration": Permission.CHANGE_CONFIGURATION,
}


async def signed_in_as(sandbox: Running, name: str) -> ConsoleBrowser:
    person = ConsoleBrowser(sandbox.ready.console)
    assert (await person.sign_in(name)).status == 303
    return person


async def prepare(sandbox: Running) -> dict[str, str]:
    """Have ann propose something of each kind; return the payments by their names."""
    await add_users(sandbox.directory, **STAFF)
    ann = await signed_in_as(sandbox, "ann")
    never = {"id": "c", "msisdn": NEVER}
    made = {
        "paid": await paid_payment(sandbox),
        "proposed": await sandbox.create(payer=never),
        "stuck": await sandbox.create(payer=never),
        "payout": await sandbox.create("direct/payout", payee=never),
    }
    form = await filled_form(ann) | {"pending_payments": "7"}
    for path, fields in (
        (f"/payments/{made['proposed']}/resolutions", PROPOSED),
        (f"/payments/{made['paid']}/reversals", ASKED),
        (PATH, form),
    ):
        assert await ann.send(path, **fields) == 303
    late = SuspenseRecorded(Instant(1), SuspenseReason.LATE_RESULT, "sandbox", "{}", None, None)
    await record(sandbox, late)
    return made


async def test_each_act_is_for_the_roles_that_have_its_permission(serve: Serve) -> None:
    async with serve(environment={"MMO_GATEWAY_PAYEES_PER_MINUTE": "60"}) as sandbox:
        made = await prepare(sandbox)
        refused: list[tuple[str, str]] = []
        for name in ("vera", "sam", "abe", "ada"):
            person = await signed_in_as(sandbox, name)
            for page, act, permission, fields in ACTS:
                path, is_allowed = act.format(**made), is_permitted(Role(STAFF[name]), permission)
                if page:
                    shown = f'"{path}"' in await person.text(page.format(**made))
                    assert shown is is_allowed, (name, act)
                if not is_allowed:
                    assert await person.send(path, **fields) == 403, (name, act)
                    refused.append((f"user:{name}", "refused"))
            for page, permission in PAGES.items():
                may_read = is_permitted(Role(STAFF[name]), permission)
                assert (await person.get(page)).status == (200 if may_read else 403), (name, page)
                refused += [] if may_read else [(f"user:{name}", "refused")]
            assert ('"/audit"' in await person.text("/")) is (name == "ada")
        events = await audit_events(sandbox)
        assert [event[:2] for event in events if event[1] == "refused"] == refused
