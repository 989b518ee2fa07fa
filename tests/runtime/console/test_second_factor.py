"""Users enrol a second factor and sign in with its codes; a setting requires it, and a command
resets it."""

from __future__ import annotations

import base64
import json
import re

import pytest
import trio
from attrs import Factory, define

from mmo_trio.admin.sealed_secrets import RESEAL, second_factor_owner
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.brands.master_key import load_master_keys
from mmo_trio.console import second_factor
from mmo_trio.console.sign_in import WRONG_CREDENTIALS_TEXT
from mmo_trio.console.sign_in_limit import FAILURES_PER_PAIR_MAX
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.storage.sqlite import SqliteStore
from mmo_trio.system.clock import GatewayClock, read_offset
from tests.runtime.console.conftest import STAFF, SignedIn
from tests.runtime.console.test_sign_in import ACTS, PAGES
from tests.support.console_browser import (
    PASSWORD,
    ConsoleBrowser,
    add_users,
    audit_events,
    open_store_of,
)
from tests.support.mmo_process import mmo
from tests.support.qr_reader import read_qr_svg
from tests.support.sandbox_gateway import Running, Serve

SECRET = re.compile(r'<code class="secret">([A-Z2-7 ]+)</code>')
RECOVERY_CODE = re.compile(r"<li><code>([a-z2-7-]+)</code></li>")


@define
class Device:
    """A user's phone: shows codes by the gateway's clock."""

    sandbox: Running
    secret: bytes = b""
    recovery_codes: list[str] = Factory(list)
    enrolled_with: str = ""
    """The code of a moment that may be over."""

    def code(self) -> str:
        clock = GatewayClock(offset=read_offset(self.sandbox.directory / CLOCK_OFFSET_FILE))
        return second_factor.code_at(self.secret, clock.wall_time())

    async def enrol(self, who: ConsoleBrowser, **proof: str) -> None:
        """Set it up in the console."""
        page = await who.answered(200, "/second-factor/enrol", **(proof or {"password": PASSWORD}))
        found = SECRET.search(page)
        assert found is not None, page
        shown = read_qr_svg(page)
        assert shown.startswith("otpauth://totp/")
        assert f"secret={found[1].replace(' ', '')}" in shown
        self.secret = base64.b32decode(found[1].replace(" ", ""))
        self.enrolled_with = self.code()
        confirmed = await who.answered(200, "/second-factor/confirm", code=self.enrolled_with)
        self.recovery_codes = RECOVERY_CODE.findall(confirmed)
        assert len(self.recovery_codes) == second_factor.RECOVERY_CODES


@pytest.fixture
async def device(sandbox: Running, ada: ConsoleBrowser) -> Device:
    """Ada's, once she has enrolled it."""
    device = Device(sandbox)
    await device.enrol(ada)
    return device


async def next_code(sandbox: Running, device: Device) -> str:
    """A code that was not used yet."""
    await sandbox.advance("1m")
    return device.code()


async def sign_in_elsewhere(sandbox: Running, name: str, code: str = "") -> int:
    """Sign in with another browser; return the status of the answer."""
    return (await ConsoleBrowser(sandbox.ready.console).sign_in(name, code=code)).status


async def acts(sandbox: Running) -> list[tuple[str, str]]:
    """Return the audit log: who, what."""
    return [(actor, act) for actor, act, _ in await audit_events(sandbox)]


async def test_who_has_enrolled_signs_in_with_a_code(
    sandbox: Running, signed_in: SignedIn, ada: ConsoleBrowser
) -> None:
    other, device = await signed_in("ada"), Device(sandbox)
    await device.enrol(ada)
    assert (await ada.get("/")).status == 200
    assert (await other.get("/")).status == 303
    person = ConsoleBrowser(sandbox.ready.console)
    refused = [
        await person.sign_in("ada"),
        await person.sign_in("ada", code="000000"),
        await person.sign_in("ada", code=device.enrolled_with),
        await person.sign_in("ada", "wrong horse battery", await next_code(sandbox, device)),
    ]
    assert [each.status for each in refused] == [403] * 4
    assert len({each.body for each in refused}) == 1
    code = device.code()
    assert (await person.sign_in("ada", code=code)).status == 303
    assert await sign_in_elsewhere(sandbox, "ada", code=code) == 403
    assert (await person.get("/")).status == 200
    recorded = await acts(sandbox)
    assert ("user:ada", "second_factor_enrolled") in recorded
    assert recorded.count(("user:ada", "second_factor_failed")) == 4
    assert recorded.count(("nobody", "sign_in_failed")) == 1


async def test_each_recovery_code_stands_in_once(sandbox: Running, device: Device) -> None:
    person = ConsoleBrowser(sandbox.ready.console)
    first, second = device.recovery_codes[:2]
    assert (await person.sign_in("ada", code=first.upper().replace("-", " "))).status == 303
    assert "Recovery codes left: 9." in await person.text("/second-factor")
    assert await sign_in_elsewhere(sandbox, "ada", code=first) == 403
    assert await sign_in_elsewhere(sandbox, "sam", code=second) == 303
    assert ("user:ada", "recovery_code_used") in await acts(sandbox)
    code = await next_code(sandbox, device)
    shown = await person.answered(200, "/second-factor/recovery-codes", code=code)
    renewed = RECOVERY_CODE.findall(shown)
    assert len({*renewed, *device.recovery_codes}) == 2 * second_factor.RECOVERY_CODES
    assert await sign_in_elsewhere(sandbox, "ada", code=second) == 403
    assert await sign_in_elsewhere(sandbox, "ada", code=renewed[0]) == 303


async def test_wrong_codes_are_limited_like_wrong_passwords(
    sandbox: Running, ada: ConsoleBrowser, device: Device
) -> None:
    for number in range(FAILURES_PER_PAIR_MAX):
        path = "/second-factor/remove" if number % 2 else "/second-factor/enrol"
        assert await ada.send(path, code="000000") == 403
    answer = await ada.post("/second-factor/remove", code=await next_code(sandbox, device))
    assert (answer.status, int(answer.headers["retry-after"]) > 0) == (429, True)
    assert (await ada.sign_in("ada", code=device.code())).status == 429
    await sandbox.advance("16m")
    await ada.get("/second-factor")
    assert await ada.send("/second-factor/remove", code=device.code()) == 303
    assert await sign_in_elsewhere(sandbox, "ada") == 303


async def guess_codes(sandbox: Running) -> None:
    """Know ada's password, and give as many wrong codes for her as a day allows."""
    stranger = ConsoleBrowser(sandbox.ready.console)
    for number in range(second_factor.WRONG_CODES_MAX):
        if number % FAILURES_PER_PAIR_MAX == 0:
            await sandbox.advance("16m")
        assert (await stranger.sign_in("ada", code="000000")).status == 403
    await sandbox.advance("16m")


async def test_too_many_wrong_codes_lock_a_second_factor_until_the_user_or_a_person_is_there(
    sandbox: Running, ada: ConsoleBrowser, device: Device
) -> None:
    for _ in range(2):
        await guess_codes(sandbox)
        elsewhere = ConsoleBrowser(sandbox.ready.console)
        for who, said in ((elsewhere, WRONG_CREDENTIALS_TEXT), (ada, second_factor.LOCKED_TEXT)):
            refused = await who.sign_in("ada", code=device.code())
            assert (refused.status, said in refused.body.decode()) == (403, True)
        await sandbox.advance("2d")
        assert (await elsewhere.sign_in("ada", code=device.code())).status == 403
        listed = json.loads(await mmo("users", "list", "--json", "--data", sandbox.directory))
        assert [each["name"] for each in listed if each["lockedAt"]] == ["ada"]

        if device.recovery_codes:
            assert (await elsewhere.sign_in("ada", code=device.recovery_codes[0])).status == 303
            device.recovery_codes.clear()
        else:
            await mmo("users", "enable", "ada", "--data", sandbox.directory)
        code = await next_code(sandbox, device)
        assert await sign_in_elsewhere(sandbox, "ada", code=code) == 303
    assert (await acts(sandbox)).count(("user:ada", "second_factor_locked")) == 2


async def test_a_session_that_was_left_open_changes_no_second_factor(
    sandbox: Running, signed_in: SignedIn
) -> None:
    device, ada = Device(sandbox), await signed_in("ada")
    assert await ada.send("/second-factor/enrol", password="wrong horse battery") == 403
    assert await ada.send("/second-factor/enrol") == 400
    assert await ada.send("/second-factor/confirm", code="123456") == 409
    for path in ("/second-factor/remove", "/second-factor/recovery-codes"):
        assert await ada.send(path, code="123456") == 409
    await device.enrol(ada)
    for path in ("/second-factor/enrol", "/second-factor/remove", "/second-factor/recovery-codes"):
        assert await ada.send(path, password=PASSWORD) == 400
        assert await ada.send(path, code="000000") == 403
    assert await ada.send("/second-factor/enrol", form_token="0" * 64, code=device.code()) == 403


async def test_another_device_counts_once_it_is_confirmed(
    sandbox: Running, signed_in: SignedIn
) -> None:
    old, new, ada = Device(sandbox), Device(sandbox), await signed_in("ada")
    await old.enrol(ada)
    code = await next_code(sandbox, old)
    assert SECRET.search(await ada.answered(200, "/second-factor/enrol", code=code)) is not None
    assert await ada.send("/second-factor/confirm", code="000000") == 403
    person = ConsoleBrowser(sandbox.ready.console)
    assert (await person.sign_in("ada", code=await next_code(sandbox, old))).status == 303
    await new.enrol(person, code=await next_code(sandbox, old))
    assert await sign_in_elsewhere(sandbox, "ada", code=await next_code(sandbox, old)) == 403
    assert await sign_in_elsewhere(sandbox, "ada", code=new.code()) == 303


async def test_where_it_is_required_a_user_without_it_sees_nothing_else(serve: Serve) -> None:
    async with serve(environment={"MMO_CONSOLE_SECOND_FACTOR": "required"}) as sandbox:
        await add_users(sandbox.directory, **STAFF)
        ada = ConsoleBrowser(sandbox.ready.console)
        assert (await ada.sign_in("ada")).status == 303
        for path in PAGES:
            answer = await ada.get(path)
            assert (answer.status, answer.headers.get("location")) == (303, "/second-factor"), path
        await ada.get("/second-factor")
        for path in (*ACTS, "/search"):
            answer = await ada.post(path, text="x", reason="x", outcome="success")
            assert (answer.status, answer.headers.get("location")) == (303, "/second-factor"), path
        assert "requires a second factor" in await ada.text("/second-factor")
        device = Device(sandbox)
        await device.enrol(ada)
        assert (await ada.get("/")).status == 200
        assert await ada.send("/second-factor/remove", code=await next_code(sandbox, device)) == 403
        assert (await ada.post("/sign-out")).headers["location"] == "/sign-in"


async def test_where_it_is_off_nobody_is_asked(serve: Serve) -> None:
    async with serve(environment={"MMO_CONSOLE_SECOND_FACTOR": "off"}) as sandbox:
        await add_users(sandbox.directory, ada="admin")
        ada = ConsoleBrowser(sandbox.ready.console)
        assert (await ada.sign_in("ada")).status == 303
        assert "second-factor" not in await ada.text("/")
        assert (await ada.get("/second-factor")).status == 404
        assert await ada.send("/second-factor/enrol", password=PASSWORD) == 404


async def test_a_lost_device_is_reset_on_a_machine_of_the_gateway(
    sandbox: Running, ada: ConsoleBrowser, device: Device
) -> None:
    listed = json.loads(await mmo("users", "list", "--json", "--data", sandbox.directory))
    assert [each["name"] for each in listed if each["secondFactorAt"]] == ["ada"]
    await mmo("users", "totp", "reset", "ada", "--data", sandbox.directory)
    assert (await ada.get("/")).status == 303
    assert (await ada.sign_in("ada")).status == 303
    assert [action for actor, action in await acts(sandbox) if actor.startswith("cli:")] == [
        "second_factor_reset"
    ]


async def test_secrets_and_recovery_codes_are_nowhere_in_the_store(
    sandbox: Running, device: Device
) -> None:
    raw = b"".join(each.read_bytes() for each in sandbox.directory.glob("gateway.db*"))
    base32 = base64.b32encode(device.secret)
    for secret in (device.secret, base32, *(each.encode() for each in device.recovery_codes)):
        assert secret not in raw
    async with open_store_of(sandbox.directory) as store:
        factor = await store.admin.second_factor("ada")
    assert factor is not None
    assert factor.sealed is not None
    keyring = KeyRing(*load_master_keys(sandbox.directory / "master.key"))
    assert keyring.unseal_secret(second_factor_owner("ada"), factor.sealed) == device.secret
    with pytest.raises(SealError):
        keyring.unseal_secret(second_factor_owner("sam"), factor.sealed)


async def test_a_change_of_the_master_key_seals_secrets_again(store: SqliteStore) -> None:
    admin = store.admin
    first, second = KeyRing(bytes(32)), KeyRing(bytes([1]) * 32)
    owner = second_factor_owner("ada")
    await admin.begin_enrolment("ada", first.seal_secret(owner, b"old"))
    factor = await admin.second_factor("ada")
    assert factor is not None
    assert factor.pending is not None
    now = GatewayClock().wall_time()
    assert await admin.confirm_second_factor(
        "ada", factor.pending, step=1, at=now, codes=[], session=b""
    )
    await admin.begin_enrolment("ada", first.seal_secret(owner, b"new"))

    class BothKeys:
        """A keyring of two generations."""

        audit_key, audit_keys = second.audit_key, (second.audit_key, first.audit_key)
        seal_secret = staticmethod(second.seal_secret)

        @staticmethod
        def unseal_secret(of: str, sealed: bytes) -> bytes:
            try:
                return second.unseal_secret(of, sealed)
            except SealError:
                return first.unseal_secret(of, sealed)

    for reseal in RESEAL:
        await reseal(admin, BothKeys())
    factor = await admin.second_factor("ada")
    assert factor is not None
    assert [
        second.unseal_secret(owner, each or b"") for each in (factor.sealed, factor.pending)
    ] == [b"old", b"new"]
    assert list(await admin.sealed_audit_keys()) == [first.audit_key.id]


async def test_of_two_who_use_one_code_at_once_one_signs_in(
    sandbox: Running, device: Device
) -> None:
    code, statuses = await next_code(sandbox, device), list[int]()

    async def sign_in() -> None:
        statuses.append(await sign_in_elsewhere(sandbox, "ada", code=code))

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(sign_in)
    assert sorted(statuses) == [303, 403]
