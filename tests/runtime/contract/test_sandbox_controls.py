"""The sandbox's controls, as the outside contract has them: paths, shapes, refusals; and none of it
in production."""

from __future__ import annotations

import html
import json
import subprocess
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from mmo_sansio.values.clock import Instant
from mmo_trio.sandbox.demo_brand import build_demo_brand
from mmo_trio.service.process import run_service
from mmo_trio.settings import load_settings
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig, sandbox_presets
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sqlite.store import SqliteStore
from tests.support.http_version import http_version
from tests.support.merchant import TIMEOUT_S, Answer, Merchant, ask
from tests.support.merchants import ACME, ACME_KEY, a_brand, deposit
from tests.support.mmo_process import COMMAND, mmo
from tests.support.receivers import receiver, url_of, wait_for_requests
from tests.support.sandbox_gateway import Running, Serve
from tests.support.storages import storages


def _moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


async def test_the_clock_moves_forward_by_what_it_is_told_and_says_where_it_is(
    sandbox: Running,
) -> None:
    answer = await sandbox.control("clock", advance="3d")
    assert answer.status == 200
    assert set(answer.json) == {"now"}
    ahead = _moment(answer.json["now"]) - datetime.now(UTC)
    assert timedelta(days=2, hours=23) < ahead < timedelta(days=3, hours=1)

    further = await sandbox.control("clock", advance="1h30m")
    assert _moment(further.json["now"]) > _moment(answer.json["now"]) + timedelta(minutes=89)


async def test_a_clock_that_was_moved_stays_moved_after_a_restart(serve: Serve) -> None:
    async with serve() as sandbox:
        await sandbox.advance("3d")
    async with serve() as sandbox:
        accepted = await sandbox.merchant.accepted()
        ahead = datetime.fromisoformat(accepted["createdAt"]) - datetime.now(UTC)
        assert timedelta(days=2, hours=23) < ahead < timedelta(days=3, hours=1)


async def test_a_clock_moves_by_spans_above_zero_only(sandbox: Running) -> None:
    for span in ("-1s", "0s", "yesterday", "", "3", 3, None):
        refused = await sandbox.control("clock", advance=span)
        assert (refused.status, refused.json["errorCode"]) == (400, "validation_failed"), span
        assert refused.json["errors"][0]["field"] == "advance"


async def test_a_control_needs_a_json_object(sandbox: Running) -> None:
    for name, body in product(("clock", "push", "pay"), (b"", b"[]", b"advance=3d")):
        refused = await ask(f"{sandbox.ready.pages}/sandbox/{name}", method="POST", body=body)
        assert (refused.status, refused.json["errorCode"]) == (400, "bad_request"), (name, body)
        assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.spec("S3", "W1")
async def test_what_is_due_on_the_way_happens_at_its_own_time_and_in_that_order(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    never = await merchant.accepted(scenario="never")
    page = await merchant.accepted("web/payin")
    slow = await merchant.accepted(scenario="slow")
    await sandbox.advance("4d")

    spans = []
    for accepted in (slow, page, never):
        found = await merchant.status(accepted["gatewayReference"])
        spans.append(_moment(found["completedAt"]) - _moment(found["createdAt"]))
    due = (timedelta(seconds=10), timedelta(minutes=30), timedelta(days=3))
    for span, at in zip(spans, due, strict=True):
        assert at <= span < at + timedelta(minutes=5)


@pytest.mark.spec("S3", "S5")
async def test_what_is_due_a_moment_later_does_not_overtake_on_a_slow_machine(
    sandbox: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_due = SqliteStore.due

    async def find_due_slowly(store: SqliteStore, now: Instant, *, limit: int) -> Sequence[str]:
        await trio.sleep(0.02)
        return await find_due(store, now, limit=limit)

    accepted = await sandbox.merchant.accepted(scenario="after_expiry")
    monkeypatch.setattr(SqliteStore, "due", find_due_slowly)
    await sandbox.advance("73h")
    ended = await sandbox.merchant.status(accepted["gatewayReference"])
    assert ended["errorCode"] == "transaction_expired"
    assert len(await sandbox.seen("suspense")) == 1


async def test_the_clock_moves_while_payments_come_in_without_a_pause(sandbox: Running) -> None:
    by_poll = await sandbox.merchant.accepted(scenario="by_poll")

    async def create_for_ever() -> None:
        while True:
            await sandbox.merchant.accepted()

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(create_for_ever)
        await sandbox.advance("2s")
        nursery.cancel_scope.cancel()
    assert (await sandbox.merchant.status(by_poll["gatewayReference"]))["status"] == "success"


async def test_a_push_to_an_unknown_brand_or_method_is_404(sandbox: Running) -> None:
    for unknown in ({"brand": "nobody"}, {"method": "no_such"}):
        answer = await deposit(sandbox, **unknown)
        assert (answer.status, answer.json["errorCode"]) == (404, "not_found")


async def test_a_push_that_says_too_little_is_400_and_names_the_field(sandbox: Running) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"brand": None}, "brand"),
        ({"providerReference": None}, "providerReference"),
        ({"amount": {"value": 1.001, "currency": "KES"}}, "amount.value"),
        ({"amount": {"value": 1, "currency": "ZZZ"}}, "amount.currency"),
        ({"party": {"id": "ACC-7"}}, "msisdn"),
    ]
    for fault, field in faults:
        answer = await deposit(sandbox, **fault)
        assert (answer.status, answer.json["errorCode"]) == (400, "validation_failed"), fault
        assert answer.json["errors"][0]["field"] == field


@pytest.mark.spec("W1")
async def test_paying_submits_the_hosted_page_once(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin")
    reference = accepted["gatewayReference"]
    assert (await sandbox.control("pay", gatewayReference=reference)).status == 200
    assert (await sandbox.merchant.ended(reference))["status"] == "success"
    again = await sandbox.control("pay", gatewayReference=reference)
    assert again.status == 200
    assert again.json["gatewayReference"] == reference
    assert "ended" in again.json["ignored"]


async def test_paying_what_has_no_page_is_404(sandbox: Running) -> None:
    direct = await sandbox.merchant.accepted()
    for reference in (direct["gatewayReference"], "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        answer = await sandbox.control("pay", gatewayReference=reference)
        assert (answer.status, answer.json["errorCode"]) == (404, "not_found")


@pytest.mark.spec("K2", "K3")
async def test_the_callbacks_that_were_recorded_are_shown(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted()
    shown = await sandbox.outcome_of(accepted["gatewayReference"])
    assert set(shown) == {"gatewayReference", "url", "outcome", "status", "durationMs", "at"}
    assert (shown["url"], shown["outcome"], shown["status"]) == (
        sandbox.merchant.result_url,
        "delivered",
        204,
    )
    assert shown["durationMs"] >= 0
    assert _moment(shown["at"])
    assert await sandbox.seen("callbacks?brand=demo") == [shown]
    assert await sandbox.seen("callbacks?brand=nobody") == []


async def test_the_requests_that_merchants_sent_are_shown_with_what_was_wrong(
    sandbox: Running,
) -> None:
    merchant, before = sandbox.merchant, (await sandbox.seen("requests"))[-1:]
    after = before[0]["number"] if before else 0
    await merchant.accepted()
    refused = await merchant.create(amount={"value": "250", "currency": "KES"})
    wrong_key = await Merchant(sandbox.ready.api, "no-key", result_url=merchant.result_url).create()
    taken, faulty, unknown = await sandbox.seen(f"requests?after={after}")
    assert (taken["method"], taken["status"], taken["brand"]) == ("POST", 200, "demo")
    assert taken["path"].endswith("/direct/payin/mpesa_ke")
    assert "problem" not in taken
    assert (faulty["status"], faulty["problem"], faulty["errors"]) == (
        400,
        "validation_failed",
        refused.json["errors"],
    )
    assert refused.headers["x-request-id"] == faulty["requestId"]
    assert (unknown["status"], unknown["brand"]) == (wrong_key.status, None)
    assert await sandbox.seen(f"requests?after={unknown['number'] + 1}") == await sandbox.seen(
        "requests"
    )
    assert (await ask(f"{sandbox.ready.pages}/sandbox/requests?after=x")).json["errors"][0][
        "field"
    ] == "after"
    shown = (await mmo("requests", "--data", sandbox.directory)).splitlines()[-5:]
    assert "POST /gateway/mmo/v2/direct/payin/mpesa_ke  -> 200  " in shown[0]
    assert "  -> 400 validation_failed  " in shown[1]
    assert "  -> 401 " in shown[3]
    assert shown[2].strip() == faulty["errors"][0]["detail"]


async def test_each_request_is_followed_once(sandbox: Running) -> None:
    command = [*COMMAND, "requests", "--follow", "--json", "--data", str(sandbox.directory)]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
        )
        before = len(await sandbox.seen("requests"))
        numbers = _numbers(process.stdout)
        with trio.fail_after(TIMEOUT_S):
            seen = [await anext(numbers) for _ in range(before)]
            for _ in range(3):
                await sandbox.merchant.accepted()
                seen.append(await anext(numbers))
        process.terminate()
    assert seen == list(range(seen[0], seen[0] + before + 3))


async def _numbers(stream: trio.abc.ReceiveStream) -> AsyncGenerator[int, None]:
    """The number of each request that the command prints, as it comes."""
    rest = b""
    async for chunk in stream:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)["number"]


async def test_requests_without_a_sandbox_name_the_command_that_starts_one(tmp_path: Path) -> None:
    assert await mmo("requests", "--follow", "--data", tmp_path, exit_code=1) == ""


@pytest.mark.spec("K1", "S1")
async def test_in_production_a_payment_goes_through_and_no_control_exists(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(brands=ACME):
        pass  # It leaves a master key, an authority and a brand.
    settings = load_settings(
        environment=http_version.environment
        | {
            "MMO_PROVIDER__SANDBOX__KIND": "sandbox",
            # The receiver's; only a sandbox trusts its own.
            "MMO_EGRESS_EXTRA_CA_FILE": f"{tmp_path / 'ca.pem'}",
        },
        presets=sandbox_presets(tmp_path, free_ports=True) | storages.of(tmp_path).presets,
    )
    drain = trio.Event()
    told, heard = trio.open_memory_channel[ServiceAddresses](1)
    serving = partial(
        run_service,
        ServiceConfig(settings, is_sandbox=False),
        on_ready=told.send_nowait,
        drain=drain,
    )
    async with receiver(tmp_path) as found, trio.open_nursery() as nursery:
        nursery.start_soon(serving)
        with trio.fail_after(TIMEOUT_S):
            ready = await heard.receive()
            http_version.learn({"api": ready.api, "http2": ready.http2})
            assert ready.api_key is None
            for method, name in (
                ("POST", "clock"),
                ("POST", "push"),
                ("POST", "pay"),
                ("GET", "callbacks"),
                ("GET", "requests"),
                ("GET", "suspense"),
            ):
                url = f"{ready.pages}/sandbox/{name}"
                assert (await ask(url, method=method)).status == 404
            for path in ("/", "/phone", "/phone/254700000180", "/try/x"):
                assert (await ask(f"{ready.pages}{path}")).status == 404
            merchant = Merchant(ready.api, ACME_KEY, result_url=url_of(found))
            accepted = await merchant.accepted(scenario="no_such")  # A header like any other.
            ended = await merchant.ended(accepted["gatewayReference"])
            assert ended["status"] == "success"
            await wait_for_requests(found)
        drain.set()


async def _prompted(sandbox: Running, number: str) -> str:
    """The reference of a payment that this phone shows."""
    accepted = await sandbox.merchant.accepted(msisdn=number)
    reference = str(accepted["gatewayReference"])
    with trio.fail_after(TIMEOUT_S):
        while True:
            if reference.encode() in (await ask(f"{sandbox.ready.pages}/phone/{number}")).body:
                return reference
            await trio.sleep(0.02)


async def _answer_at_phone(sandbox: Running, path: str, form: str) -> Answer:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return await ask(
        f"{sandbox.ready.pages}/phone/{path}", method="POST", headers=kind, body=form.encode()
    )


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("form", "status", "code"),
    [
        ("action=approve&pin=0000", "success", None),
        ("action=refuse", "failed", "user_cancelled"),
        ("action=no-money", "failed", "user_insufficient_funds"),
        ("action=ignore", "failed", "user_timeout"),
    ],
)
async def test_a_person_at_the_virtual_phone_decides(
    sandbox: Running, form: str, status: str, code: str | None
) -> None:
    number = "254700000180"
    reference = await _prompted(sandbox, number)
    order = (await sandbox.merchant.status(reference))["merchantReference"]
    shown = (await ask(f"{sandbox.ready.pages}/phone/{number}")).body.decode()
    assert f"<p>Demo Shop, {order}</p>" in shown
    done = await _answer_at_phone(sandbox, f"{number}/{reference}", form)
    assert done.status == 303
    assert done.headers["location"].startswith(f"/phone/{number}?done=")
    ended = await sandbox.merchant.ended(reference)
    assert (ended["status"], ended["errorCode"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("254700000180/{}", "action=approve&pin=12", 303),
        ("254700000180/{}", "action=approve&pin=%D9%A1%D9%A2%D9%A3%D9%A4", 303),
        ("254700000180/{}", "guide=x%0d%0aSet-Cookie:a&action=approve&pin=12", 303),
        ("254700000180/{}", "action=x%0d%0aSet-Cookie:a&pin=1234", 404),
        ("x%0d%0aSet-Cookie:a=1/{}", "action=refuse", 404),
        ("254700000999/{}", "action=refuse", 303),
        ("254700000180/nothing", "action=refuse", 303),
    ],
)
async def test_anything_else_changes_nothing_there(
    sandbox: Running, path: str, form: str, status: int
) -> None:
    number = "254700000180"
    reference = await _prompted(sandbox, number)
    answer = await _answer_at_phone(sandbox, path.format(reference), form)
    assert answer.status == status
    assert "set-cookie" not in answer.headers
    assert "done=" not in answer.headers.get("location", "")
    assert (await sandbox.merchant.status(reference))["status"] == "pending"


async def test_a_number_is_picked_up_however_it_is_written(sandbox: Running) -> None:
    for written in ("254700000180", "%2B254700000180", "254%20700%20000180"):
        answer = await ask(f"{sandbox.ready.pages}/phone?number={written}")
        assert (answer.status, answer.headers["location"]) == (303, "/phone/254700000180")
    assert (await ask(f"{sandbox.ready.pages}/phone?number=%0d%0a")).status == 200


@pytest.mark.spec("C4")
async def test_the_guide_makes_a_payment(sandbox: Running) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    pages = sandbox.ready.pages
    wrong = await ask(f"{pages}/try", method="POST", headers=kind, body=b"number=x")
    assert wrong.status == 422
    made = await ask(f"{pages}/try", method="POST", headers=kind, body=b"number=254700000001")
    assert made.status == 303
    reference = made.headers["location"].removeprefix("/try/")
    shown = await ask(f"{pages}/try/{reference}")
    assert b'href="/pay/' in shown.body
    assert b'href="/phone/254700000001"' in shown.body
    found = await sandbox.merchant.status(reference)
    assert (found["flow"], found["status"]) == ("web", "pending")
    assert (await ask(f"{pages}/try/nothing")).status == 404


async def test_another_site_cannot_use_the_controls_through_a_browser(sandbox: Running) -> None:
    url, own = f"{sandbox.ready.pages}/sandbox/clock", sandbox.ready.pages
    body = b'{"advance": "1s"}'
    for headers, status in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": own}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": own}, 200),
        ({}, 200),
    ):
        answer = await ask(url, method="POST", headers=headers, body=body)
        assert answer.status == status, headers
    for path in ("try", "phone/254712345678/01JD0000000000000000000000"):
        answer = await ask(
            f"{own}/{path}",
            method="POST",
            headers={"Sec-Fetch-Site": "cross-site"},
            body=b"number=254712345678",
        )
        assert answer.status == 403, path


async def test_the_colour_of_a_shop_stays_within_its_page(serve: Serve) -> None:
    """Neither the phone beside it nor the site around it has that colour."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    async with serve(
        brands=a_brand("acme", ACME_KEY, more='page.colour = "#ffd400"\n'), api_key=ACME_KEY
    ) as sandbox:
        pages = sandbox.ready.pages
        made = await ask(f"{pages}/try", method="POST", headers=kind, body=b"number=254700000001")
        shown = (await ask(f"{pages}{made.headers['location']}")).body.decode()
        assert '<link rel="stylesheet" href="/colour/ffd400.css">' not in shown
        assert '<link rel="stylesheet" href="/colour/ffd400.css?part">' in shown
        assert '<section aria-label="Payment page" class="branded">' in shown
        part = (await ask(f"{pages}/colour/ffd400.css?part")).body.decode()
        whole = (await ask(f"{pages}/colour/ffd400.css")).body.decode()
        assert part == whole.replace(":root", ".branded")
        assert ":root" in whole


async def test_the_guide_and_its_command_are_about_one_shop_and_one_amount(
    sandbox: Running,
) -> None:
    """The demo brand, also where another one stands before it in the alphabet."""
    presets = sandbox_presets(sandbox.directory) | storages.of(sandbox.directory).presets
    async with open_store(presets["database.url"], serving=False) as store:
        other = evolve(
            build_demo_brand(provider="sandbox", title="Sandbox"), id="acme", name="Acme Ltd"
        )
        await store.admin.save_brands([other])
    front = (await ask(f"{sandbox.ready.pages}/")).body.decode()
    assert "Demo Shop asks for <strong>KES 10.00</strong>" in front
    assert "/gateway/mmo/v2/web/payin/mpesa_ke" in front
    assert '"amount": {"value": 10.00, "currency": "KES"}' in front


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def test_people_get_pages_of_what_has_happened_and_programs_json(sandbox: Running) -> None:
    await sandbox.merchant.create(amount={"value": "250", "currency": "KES"})
    for name in ("callbacks", "requests", "suspense"):
        url = f"{sandbox.ready.pages}/sandbox/{name}"
        shown = await ask(url, headers=BROWSER)
        assert (shown.status, shown.headers["vary"]) == (200, "Accept")
        assert shown.headers["content-type"].startswith("text/html")
        for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
            assert isinstance((await ask(url, headers=headers)).json, list)
        assert isinstance((await ask(f"{url}?as=json", headers=BROWSER)).json, list)
    requests = (await ask(f"{sandbox.ready.pages}/sandbox/requests", headers=BROWSER)).body
    assert b'<a href="/errors/validation_failed">validation_failed</a>' in requests
    assert b"&#39;amount.value&#39; must be a number" in requests
    assert b"&#34;value&#34;: &#34;250&#34;" in requests, "its body"


async def test_an_entry_in_suspense_has_the_reference_that_its_merchant_knows(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted(
        scenario="conflicting", merchantReference="order-4712"
    )
    reference = accepted["gatewayReference"]
    await sandbox.merchant.ended(reference)
    await sandbox.advance("5s")
    shown = (await ask(f"{sandbox.ready.pages}/sandbox/suspense", headers=BROWSER)).body.decode()
    assert f'<strong>order-4712</strong><br><span class="small dim">{reference}</span>' in shown


async def test_a_callback_is_shown_with_headers_body_and_the_shops_answer(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted("web/payin")
    reference = accepted["gatewayReference"]
    tour = f"{sandbox.ready.pages}/try/{reference}"
    assert b"It appears here at that moment" in (await ask(tour)).body
    await sandbox.control("pay", gatewayReference=reference)
    await sandbox.callback_for(reference)
    with trio.fail_after(TIMEOUT_S):
        while "HTTP 204" not in (await ask(tour)).body.decode():  # noqa: ASYNC110
            await trio.sleep(0.02)
    for url in (tour, f"{sandbox.ready.pages}/sandbox/callbacks"):
        shown = html.unescape((await ask(url, headers=BROWSER)).body.decode())
        assert "POST /" in shown
        assert f"X-API-KEY: {sandbox.merchant.key}" in shown
        assert f'"gatewayReference": "{reference}"' in shown
        assert "HTTP 204" in shown
