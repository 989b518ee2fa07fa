"""Users sign in and out; sessions and forms are checked, and failures reveal nothing."""

from __future__ import annotations

import json
import re

import pytest
from argon2 import PasswordHasher
from attrs import evolve

from mmo_sansio.values.clock import Instant
from mmo_trio.console.passwords import hash_password
from mmo_trio.console.sign_in_limit import FAILURES_PER_NETWORK_MAX, FAILURES_PER_PAIR_MAX
from mmo_trio.storage.interface.admin_types import ConsoleUser, Role
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.storage.sql.admin_store import AdminStore
from tests.support.console_browser import PASSWORD, ConsoleBrowser, add_users, open_store_of
from tests.support.sandbox_gateway import Running, Serve

PAGES = (
    "/",
    "/payments",
    "/stuck",
    "/suspense",
    "/callbacks",
    "/resolutions",
    "/reversals",
    "/providers",
    "/breakers",
    "/brands",
    "/brands/demo",
    "/payments/01JD0000000000000000000000",
)
ACTS = (
    "/payments/01JD0000000000000000000000/resolutions",
    "/resolutions/1/approve",
    "/suspense/1/close",
    "/providers/sandbox/disable",
    "/providers/sandbox/enable",
)


async def test_nobody_sees_anything_without_signing_in(person: ConsoleBrowser) -> None:
    for path in (*PAGES, "/audit"):
        answer = await person.get(path)
        place = "/sign-in" if path == "/" else f"/sign-in?to={path}"
        assert (answer.status, answer.headers["location"]) == (303, place), path
    for path in (*ACTS, "/search", "/sign-out"):
        assert (await person.post(path)).headers["location"] == "/sign-in"


async def test_the_session_is_in_a_cookie_that_no_script_and_no_other_site_gets(
    person: ConsoleBrowser,
) -> None:
    answer = await person.sign_in("ada")
    session, browser = answer.headers["set-cookie"].splitlines()
    assert session.startswith("mmo_console=")
    assert browser.startswith("mmo_console_browser=")
    for flags in (session, browser):
        assert {"HttpOnly", "Path=/", "SameSite=Strict"} <= set(flags.split("; "))
        assert "Secure" not in flags
    for path in PAGES[:-1]:
        assert (await person.get(path)).status == 200, path
    assert (await person.get("/payments/01JD0000000000000000000000")).status == 404


async def test_the_hash_of_production_fits_only_its_password(serve: Serve) -> None:
    async with serve(password_hasher=None) as running:
        user = ConsoleUser("ada", Role.ADMIN, hash_password(PasswordHasher(), PASSWORD), Instant(0))
        async with open_store_of(running.directory) as store:
            assert await store.admin.add_user(user)
        person = ConsoleBrowser(running.ready.console)
        assert (await person.sign_in("ada", "wrong horse battery")).status == 403
        assert (await person.sign_in("nobody")).status == 403
        assert (await person.sign_in("ada")).status == 303


async def test_behind_a_trusted_proxy_with_tls_the_cookie_is_secure(serve: Serve) -> None:
    environment = {"MMO_LISTEN_PROXY_TRUSTED": "127.0.0.1/32", "MMO_LISTEN_PROXY_HOST": "true"}
    async with serve(environment=environment) as running:
        await add_users(running.directory, ada="admin")
        person = ConsoleBrowser(running.ready.console, headers={"X-Forwarded-Proto": "https"})
        answer = await person.sign_in("ada")
        session, browser = answer.headers["set-cookie"].splitlines()
        assert session.startswith("__Host-mmo_console=")
        assert browser.startswith("__Host-mmo_console_browser=")
        assert "Secure" in session.split("; ")
        assert (await person.get("/")).status == 200


async def test_headers_let_only_a_script_of_the_console_run(person: ConsoleBrowser) -> None:
    for path in ("/sign-in", "/", "/nothing", "/static/console.js", "/design.css"):
        answer = await person.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none';")
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert b"<script" not in answer.body
        assert b"style=" not in answer.body


async def test_unknown_disabled_and_wrong_are_told_the_same(
    sandbox: Running, person: ConsoleBrowser
) -> None:
    await add_users(sandbox.directory, old="admin")
    async with open_store_of(sandbox.directory) as store:
        [old] = [each for each in await store.admin.users() if each.name == "old"]
        assert await store.admin.replace_user(evolve(old, disabled_at=Instant(1)))
    bodies = set()
    for name, password in (("ada", "wrong horse battery"), ("nobody", PASSWORD), ("old", PASSWORD)):
        answer = await person.sign_in(name, password)
        assert answer.status == 403
        bodies.add(answer.body.replace(f'value="{name}"'.encode(), b""))
    assert len(bodies) == 1
    assert (await person.get("/")).status == 303


@pytest.mark.parametrize(
    "method", ["sign_in_attempts", "record_sign_in_attempt", "forget_sign_in_attempts"]
)
async def test_nobody_signs_in_while_attempts_can_not_be_counted(
    person: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("The store does not answer.")

    monkeypatch.setattr(AdminStore, method, fail)
    answer = await person.sign_in("ada")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert (await person.get("/")).status == 303
    monkeypatch.undo()
    assert (await person.sign_in("ada")).status == 303


@pytest.mark.spec("A5")
async def test_a_password_in_the_field_of_the_name_is_not_kept(
    sandbox: Running, person: ConsoleBrowser
) -> None:
    for name in (PASSWORD, PASSWORD, "ada"):
        assert (await person.sign_in(name, "wrong horse battery")).status == 403
    async with open_store_of(sandbox.directory) as store:
        details = [each.event.detail for each in await store.admin.audit()]
    assert not any(PASSWORD in detail for detail in details)
    known, *unknown = [json.loads(detail)["name"] for detail in details]
    assert known == "ada"
    assert unknown[0] == unknown[1]
    assert re.fullmatch("unknown:[0-9a-f]{16}", unknown[0])


async def test_a_neighbour_locks_nobody_out_of_a_browser_that_is_known(
    sandbox: Running, person: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.sign_in_limit.FAILURES_PER_NETWORK_MAX", 3)
    await add_users(sandbox.directory, bob="viewer")
    assert (await person.sign_in("ada")).status == 303
    neighbour = ConsoleBrowser(sandbox.ready.console)
    for number in range(4):
        last = await neighbour.sign_in(f"nobody {number}")
    assert last.status == 429
    assert (await ConsoleBrowser(sandbox.ready.console).sign_in("ada")).status == 429
    assert (await person.sign_in("bob")).status == 429, "ada's browser is not bob's"
    assert (await person.sign_in("ada")).status == 303
    for _ in range(FAILURES_PER_PAIR_MAX):
        assert (await person.sign_in("ada", "wrong horse battery")).status == 403
    assert (await person.sign_in("ada")).status == 429


async def test_signing_out_ends_the_session_on_the_server(person: ConsoleBrowser) -> None:
    await person.sign_in("ada")
    old_cookies = dict(person.cookies)
    assert await person.send("/sign-out") == 303
    person.cookies = old_cookies
    assert (await person.get("/")).status == 303


async def test_a_session_ends_when_it_rests_and_when_it_grows_old(
    sandbox: Running, person: ConsoleBrowser
) -> None:
    await person.sign_in("ada")
    await sandbox.advance("20m")
    assert (await person.get("/")).status == 200
    await sandbox.advance("20m")
    assert (await person.get("/")).status == 200
    await sandbox.advance("31m")
    assert (await person.get("/")).status == 303
    await person.sign_in("ada")
    for _ in range(26):
        await sandbox.advance("29m")
        still = (await person.get("/")).status
    assert still == 303


async def test_a_changed_password_or_a_disabled_user_ends_sessions(
    sandbox: Running, person: ConsoleBrowser
) -> None:
    await person.sign_in("ada")
    async with open_store_of(sandbox.directory) as store:
        ada = await store.admin.user("ada")
        assert ada is not None
        assert await store.admin.replace_user(ada)
    assert (await person.get("/")).status == 303


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
async def test_a_form_that_we_did_not_give_to_this_browser_is_refused(
    ada: ConsoleBrowser, token: str
) -> None:
    answer = await ada.post("/providers/sandbox/disable", form_token=token, reason="no")
    assert answer.status == 403
    ada.headers = {"Sec-Fetch-Site": "cross-site"}
    await ada.get("/")
    assert await ada.send("/providers/sandbox/disable", reason="no") == 403


async def test_a_guessed_session_is_nobodys(person: ConsoleBrowser) -> None:
    for guess in ("x", "x" * 43, "x" * 4000, "\xe9" * 8):
        person.cookies = {"mmo_console": guess}
        assert (await person.get("/")).status == 303


async def test_metrics_need_no_session(person: ConsoleBrowser) -> None:
    assert b"mmo_engine_batches" in (await person.get("/metrics")).body


async def test_a_forged_line_before_the_proxys_escapes_no_limit(serve: Serve) -> None:
    async with serve(environment={"MMO_LISTEN_PROXY_TRUSTED": "127.0.0.1/32"}) as running:
        await add_users(running.directory, ada="admin")
        statuses = []
        for number in range(FAILURES_PER_NETWORK_MAX + 1):
            lines = {"X-Forwarded-For": f"198.51.100.{number}", "x-forwarded-for": "203.0.113.9"}
            person = ConsoleBrowser(running.ready.console, headers=lines)
            statuses.append((await person.sign_in(f"guess{number}")).status)
        assert statuses == [403] * FAILURES_PER_NETWORK_MAX + [429]
