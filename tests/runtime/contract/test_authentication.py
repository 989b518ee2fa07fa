"""Who asks? Clauses A1 to A6, through the merchant's door (rows 1 to 9, 93, 126 of the hardening
tables)."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest
import trio

from mmo_trio.sandbox.callback_receiver import ReceivedRequest, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.merchant import ROOT, Merchant, ask
from tests.support.merchants import a_brand
from tests.support.receivers import sort_requests
from tests.support.rejections import ENDPOINTS, anonymous, assert_problem, connected, head, send_raw
from tests.support.sandbox_gateway import Running, Serve
from tests.support.store_admin import brand_admin

WRONG_KEYS = (
    ("row 1: no key", b"X-Other: 1"),
    ("row 3: an unknown key", b"X-Api-Key: mmo_no_such_key_was_ever_made"),
    ("row 5: a key of Latin-1", b"X-Api-Key: \xe9\xff"),
)
WINDOW = "records?from=2026-01-01&to=2026-01-02"


@pytest.mark.spec("A1")
@pytest.mark.http1("sends bytes")
async def test_a_wrong_key_is_a_401_before_the_body_is_looked_at(sandbox: Running) -> None:
    bodies = set()
    for note, line in WRONG_KEYS:
        announced = head("POST", "/direct/payin/mpesa_ke", line, b"Content-Length: 1000")
        async with connected(sandbox) as client:  # Not one byte of the body is sent.
            answer = await client.ask(announced)
            assert_problem(answer, 401, "unauthorized", note=note)
            bodies.add(anonymous(answer))
    assert len(bodies) == 1, "what is wrong with a key is nobody's business"


@pytest.mark.spec("A1", "G2")
@pytest.mark.http1("sends bytes")
async def test_every_endpoint_wants_the_key_in_its_header(sandbox: Running) -> None:
    for method, path in ENDPOINTS:
        assert_problem(await send_raw(sandbox, head(method, path)), 401, "unauthorized", note=path)


@pytest.mark.spec("A1")
@pytest.mark.http1("sends bytes")
async def test_a_client_with_a_wrong_key_is_not_invited_to_send_its_body(sandbox: Running) -> None:
    lines = (b"Content-Type: application/json", b"Content-Length: 10", b"Expect: 100-continue")
    async with connected(sandbox) as client:
        answer = await client.ask(head("POST", "/direct/payin/mpesa_ke", *lines, key="wrong"))
        assert_problem(answer, 401, "unauthorized", note="row 93: the first answer is the last")
        assert await client.rest() == b""
    async with connected(sandbox) as client:
        key = sandbox.merchant.key
        answer = await client.ask(head("POST", "/direct/payin/mpesa_ke", *lines, key=key))
        assert answer.status == 100


@pytest.mark.spec("A2")
@pytest.mark.http1("sends bytes")
async def test_the_key_of_a_disabled_brand_is_a_400_everywhere_before_the_body(
    serve: Serve,
) -> None:
    key = "the-key-of-a-disabled-brand"
    async with serve(brands=a_brand("shut", key, more="enabled = false\n")) as sandbox:
        for method, path in ENDPOINTS:
            lines = [b"Content-Length: 1000"] if method == "POST" else []
            answer = await send_raw(sandbox, head(method, path, *lines, key=key))
            problem = assert_problem(answer, 400, "merchant_disabled", note=f"row 8, {path}")
            assert problem["errorCode"] == "validation_failed"


@pytest.mark.spec("A2", "A3")
async def test_disabling_stops_requests_but_neither_payments_nor_their_callbacks(
    sandbox: Running,
) -> None:
    reference = (await sandbox.merchant.accepted(scenario="slow"))["gatewayReference"]
    async with brand_admin(sandbox) as administration:
        await administration.change("demo", enabled=False)
    await sandbox.advance("60s")
    assert_problem(await sandbox.merchant.create(), 400, "merchant_disabled")
    assert_problem(await sandbox.merchant.get(f"status/{reference}"), 400, "merchant_disabled")
    callback = await sandbox.callback_for(reference)
    assert callback.content["status"] == "success"


@pytest.mark.spec("A3")
async def test_a_retired_key_is_refused_within_sixty_seconds(sandbox: Running) -> None:
    assert (await sandbox.merchant.get(WINDOW)).status == 200
    async with brand_admin(sandbox) as administration:
        await administration.retire_key("demo", sandbox.merchant.key)
    await sandbox.advance("60s")
    assert_problem(await sandbox.merchant.get(WINDOW), 401, "unauthorized", note="row 9")


@pytest.mark.spec("A3", "A4", "K1")
async def test_keys_rotate_with_overlap_and_callbacks_carry_the_key_of_their_payment(
    sandbox: Running,
) -> None:
    merchant, new_key = sandbox.merchant, "the-key-that-comes-after"
    received: list[ReceivedRequest] = []
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        context = ensure_authority(sandbox.directory).issue("localhost")
        await nursery.start(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: context,
                expected_keys=[new_key.encode()],
                on_request=sort_requests(received),
            )
        )
        port = listeners[0].socket.getsockname()[1]
        renewed = Merchant(merchant.api, new_key, f"https://localhost:{port}/callback")

        assert_problem(await renewed.create(), 401, "unauthorized")
        async with brand_admin(sandbox) as administration:
            await administration.add_key("demo", new_key)
            overlap = (await renewed.accepted())["gatewayReference"]
            before = (await merchant.accepted())["gatewayReference"]
            await sandbox.callback_for(before)  # Each receiver believes one of the keys only.
            assert (await sandbox.outcome_of(overlap))["outcome"] == "delivered"
            assert sandbox.refused == []
            await administration.retire_key("demo", merchant.key)

        after = (await renewed.accepted())["gatewayReference"]
        assert (await sandbox.outcome_of(after))["outcome"] == "delivered"
        assert [each.gateway_reference for each in received] == [overlap, after]
        nursery.cancel_scope.cancel()


@pytest.mark.own_store
@pytest.mark.spec("A5", "P3")
async def test_a_key_appears_nowhere(
    serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "canary-7b1f0c5e"
    async with serve(brands=a_brand("acme", key)) as sandbox:
        sandbox.merchant.key = key
        answers = [await sandbox.merchant.create("web/payin")]
        accepted = answers[0].json
        paid = (await sandbox.merchant.accepted())["gatewayReference"]
        answers += [
            await sandbox.merchant.get(f"records?X-Api-Key={key}"),
            await sandbox.merchant.get("status/nothing", **{"X-Api-Key": key + "x"}),
            await sandbox.merchant.post("direct/payin", b"{"),
        ]
        await sandbox.outcome_of(paid)
        answers.append(await sandbox.merchant.get(f"status/{paid}"))
        store = sqlite3.connect(sandbox.directory / "gateway.db", isolation_level=None)
        store.execute("ALTER TABLE transactions RENAME TO hidden")
        answers.append(await sandbox.merchant.create())
        assert answers[-1].status == 500
        store.execute("ALTER TABLE hidden RENAME TO transactions")
        store.close()
        answers += [
            await ask(accepted["pageUrl"]),
            await ask(f"{sandbox.ready.pages}/sandbox/callbacks"),
            await ask(f"{sandbox.ready.console}/metrics"),
        ]
    logged = caplog.text + "".join(capfd.readouterr())
    assert "request_failed" in logged, "the fault was logged"
    for answer in answers:
        assert key.encode() not in answer.body
        assert key not in repr(answer.headers)
    assert key not in logged
    for file in sandbox.directory.iterdir():
        assert file.name == "brands.toml" or key.encode() not in file.read_bytes(), file


ACME, BOLT = "the-key-of-acme", "the-key-of-bolt"
BRANDS_WITH_HOSTS = a_brand("acme", ACME, more='host = "pay.acme.example"\n') + a_brand(
    "bolt", BOLT
)


async def _statuses(sandbox: Running, rows: list[tuple[str, dict[str, str], int]]) -> None:
    for key, lines, status in rows:
        headers = {"X-Api-Key": key} | lines
        answer = await ask(f"{sandbox.ready.api}{ROOT}/{WINDOW}", headers=headers)
        assert answer.status == status, (key, lines)
        if status == 401:
            assert_problem(answer, 401, "unauthorized")


@pytest.mark.spec("A6")
async def test_on_a_brands_own_host_only_its_keys_work(serve: Serve) -> None:
    forwarded = "X-Forwarded-Host"
    async with serve(brands=BRANDS_WITH_HOSTS) as sandbox:
        await _statuses(
            sandbox,
            [
                (ACME, {"Host": "pay.acme.example"}, 200),
                (ACME, {"Host": "PAY.Acme.example:8443"}, 200),
                (ACME, {}, 200),
                (ACME, {"Host": "unknown.example"}, 200),
                (BOLT, {"Host": "pay.acme.example"}, 401),
                (BOLT, {"Host": "pay.acme.example:8443"}, 401),
                (BOLT, {}, 200),
                (BOLT, {"Host": "unknown.example"}, 200),
                # Row 126: nobody here is a proxy, so nobody is believed.
                (BOLT, {forwarded: "pay.acme.example"}, 200),
                (BOLT, {"Host": "pay.acme.example", forwarded: "unknown.example"}, 401),
            ],
        )


@pytest.mark.spec("A6")
async def test_only_a_trusted_proxy_may_say_which_host_was_asked(serve: Serve) -> None:
    trusted = {"MMO_LISTEN_PROXY_TRUSTED": "127.0.0.0/8", "MMO_LISTEN_PROXY_HOST": "true"}
    async with serve(brands=BRANDS_WITH_HOSTS, environment=trusted) as sandbox:
        await _statuses(
            sandbox,
            [
                (BOLT, {"X-Forwarded-Host": "pay.acme.example"}, 401),
                (ACME, {"X-Forwarded-Host": "pay.acme.example"}, 200),
                (BOLT, {"Host": "pay.acme.example", "X-Forwarded-Host": "b.example"}, 200),
                (BOLT, {"Host": "pay.acme.example"}, 401),
            ],
        )


@pytest.mark.spec("A6", "C4")
async def test_no_header_decides_where_the_payment_page_is(sandbox: Running) -> None:
    lines = {
        "Host": "evil.example",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "ftp",
        "Forwarded": "host=evil.example",
    }
    merchant = sandbox.merchant
    answer = await merchant.post("web/payin", merchant.body("web/payin"), headers=lines)
    assert answer.json["pageUrl"].startswith(f"{sandbox.ready.pages}/pay/"), "row 126"
    refused = await merchant.post("web/payin", b"", headers=lines)
    assert b"evil" not in refused.body
