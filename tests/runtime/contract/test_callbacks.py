"""Calling the merchant back: once, in time, where it may, and whoever else is slow (clauses K1 to
K7)."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.hostile_receivers import (
    Behaviour,
    ReceiverConnection,
    answers,
    answers_and_closes,
    begins_tls_only,
    drips,
    only_accepts,
    resets_after_half_a_head,
    resets_after_the_request,
    resets_at_once,
    speaks_no_tls,
)
from tests.support.merchants import ACME, ACME_KEY, ZENITH, ZENITH_KEY, developer
from tests.support.receivers import (
    NO_CONTENT,
    answers_status,
    calls_to,
    receiver,
    url_of,
    wait_for_requests,
)
from tests.support.sandbox_gateway import Running, Serve
from tests.support.storages import Storage, storages

SOON = {"MMO_LIMITS_CALLBACK_TIMEOUT": "1s"}
MIB = 1024 * 1024


async def _outcome(sandbox: Running, url: str, **changes: Any) -> dict[str, Any]:
    """The record of one payment's callback to this URL."""
    accepted = await sandbox.merchant.accepted(resultUrl=url, **changes)
    await sandbox.advance("200ms")  # What the sandbox takes for a payment.
    return await sandbox.outcome_of(accepted["gatewayReference"])


async def _outcomes(sandbox: Running, url: str, count: int) -> list[str]:
    """The recorded outcomes of that many payments, one after the other."""
    return [(await _outcome(sandbox, url))["outcome"] for _ in range(count)]


async def _logged_body(storage: Storage, reference: str) -> bytes:
    """What the delivery record has of the answer's body."""
    async with storage.open_for_admin() as store:
        (recorded,) = await store.admin.callbacks(gateway_reference=reference)
        return recorded.attempt.body


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Does this with the first connection, that with the second, the last with all others."""
    visits = 0

    async def behave(visit: ReceiverConnection) -> None:
        nonlocal visits
        visits += 1
        await behaviours[min(visits, len(behaviours)) - 1](visit)

    return behave


def answers_after(event: trio.Event) -> Behaviour:
    """Takes the request, and answers once the event is set."""

    async def behave(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        await visit.read_request()
        await event.wait()
        await visit.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    return behave


# K1


@pytest.mark.spec("K1", "A4")
@pytest.mark.parametrize("scenario", ["success", "cancelled"])
async def test_a_result_is_posted_as_json_with_the_brands_key(
    sandbox: Running, tmp_path: Path, scenario: str
) -> None:
    async with receiver(tmp_path) as found:
        url = url_of(found) + "?order=a%2Fb"
        accepted = await sandbox.merchant.accepted(resultUrl=url, scenario=scenario)
        await wait_for_requests(found)
        (call,) = calls_to(found)
        assert call.line == "POST /callback?order=a%2Fb HTTP/1.1"
        assert call.headers["content-type"] == "application/json"
        assert call.headers["x-api-key"] == sandbox.merchant.key
        assert call.headers["host"] == f"localhost:{found.port}"
        assert call.transaction["gatewayReference"] == accepted["gatewayReference"]
        assert call.transaction["status"] == ("success" if scenario == "success" else "failed")


@pytest.mark.spec("K1")
async def test_there_is_no_callback_while_pending(sandbox: Running) -> None:
    for operation in ("direct/payin", "web/payin"):
        await sandbox.merchant.accepted(operation, scenario="never")
    await sandbox.advance("10m")
    done = await sandbox.merchant.accepted()
    await sandbox.callback_for(done["gatewayReference"])
    assert [each.gateway_reference for each in sandbox.received] == [done["gatewayReference"]]


@pytest.mark.spec("K1", "S1", "T4")
async def test_a_look_up_from_inside_the_callback_sees_the_terminal_state(
    sandbox: Running, tmp_path: Path
) -> None:
    seen: list[bytes] = []

    async def looks_up(visit: ReceiverConnection) -> None:
        await visit.start_tls()
        request = await visit.read_request()
        reference = request.partition(b'"gatewayReference":"')[2][:26].decode()
        answer = await sandbox.merchant.get(f"status/{reference}")
        seen.append(answer.body)
        await visit.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with receiver(tmp_path, looks_up) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert shown["outcome"] == "delivered"
        assert seen == [calls_to(found)[0].body]
        assert calls_to(found)[0].transaction["status"] == "success"


# K2, K3


@pytest.mark.spec("K2")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_delivered(sandbox: Running, tmp_path: Path, status: int) -> None:
    async with receiver(tmp_path, answers_status(f"{status} Any")) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("delivered", status)


@pytest.mark.spec("K2", "K3")
@pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 500, 503])
async def test_any_other_status_has_failed_and_is_not_sent_again(
    sandbox: Running, tmp_path: Path, status: int
) -> None:
    async with receiver(tmp_path, answers_status(f"{status} Any", "Retry-After: 1")) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("non_2xx", status)
        await sandbox.advance("4d")
        assert found.connections == 1


@pytest.mark.spec("K2")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(sandbox: Running, tmp_path: Path, status: int) -> None:
    async with receiver(tmp_path) as elsewhere:
        moved = answers_status(f"{status} Moved", f"Location: {url_of(elsewhere)}")
        async with receiver(tmp_path, moved) as found:
            shown = await _outcome(sandbox, url_of(found))
            assert (shown["outcome"], shown["status"]) == ("non_2xx", status)
        assert elsewhere.connections == 0


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    "behave",
    [
        only_accepts,
        begins_tls_only,
        answers(),
        answers(b"HTTP/1.1 200 OK\r\nContent-"),
        drips(b"x", before=b"HTTP/1.1 200 OK\r\nX: "),
        answers(b"HTTP/1.1 102 Processing\r\n\r\n"),
    ],
    ids=["no TLS", "half TLS", "no answer", "half a head", "dripping head", "interim only"],
)
async def test_a_receiver_that_takes_too_long_has_timed_out(
    serve: Serve, tmp_path: Path, behave: Behaviour
) -> None:
    async with receiver(tmp_path, behave) as found, serve(environment=SOON) as sandbox:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("timeout", None)
        assert shown["durationMs"] >= 1000


@pytest.mark.spec("K2")
@pytest.mark.parametrize(
    "behave", [resets_at_once, speaks_no_tls, resets_after_the_request, resets_after_half_a_head]
)
async def test_a_connection_that_breaks_is_a_transport_error(
    sandbox: Running, tmp_path: Path, behave: Behaviour
) -> None:
    async with receiver(tmp_path, behave) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("transport_error", None)


@pytest.mark.spec("K2")
async def test_where_nobody_listens_is_a_transport_error(sandbox: Running, tmp_path: Path) -> None:
    async with receiver(tmp_path) as found:
        url = url_of(found)
    assert (await _outcome(sandbox, url))["outcome"] == "transport_error"


@pytest.mark.spec("K3")
async def test_there_is_one_attempt_through_time_and_restarts(serve: Serve, tmp_path: Path) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        async with serve() as sandbox:
            shown = await _outcome(sandbox, url_of(found))
            assert shown["outcome"] == "non_2xx"
        async with serve() as sandbox:
            await sandbox.advance("4d")
            # Another payment's callback shows that the worker is at work.
            await _outcome(sandbox, sandbox.merchant.result_url)
            assert len(await sandbox.seen("callbacks")) == 2
        assert found.connections == 1


@pytest.mark.spec("K3")
async def test_what_a_merchant_answers_never_changes_the_transaction(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        accepted = await sandbox.merchant.accepted(resultUrl=url_of(found))
        reference = accepted["gatewayReference"]
        before = await sandbox.merchant.ended(reference)
        await sandbox.outcome_of(reference)
        assert await sandbox.merchant.status(reference) == before


# K4


@pytest.mark.spec("K4")
async def test_the_answers_body_is_logged_as_it_is(sandbox: Running, tmp_path: Path) -> None:
    body = b'{"not json": \xff\x00'
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n"
    assert len(body) == 15
    async with receiver(tmp_path, answers(answer + body)) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert shown["outcome"] == "delivered"
        assert await _logged_body(storages.of(tmp_path), shown["gatewayReference"]) == body


@pytest.mark.spec("K4")
async def test_no_more_than_a_mebibyte_of_the_body_is_logged(
    sandbox: Running, tmp_path: Path
) -> None:
    body = b"0123456789abcdef" * (MIB // 16) + b"more" * 5000
    head = f"HTTP/1.1 400 Bad\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with receiver(tmp_path, answers_and_closes(head + body)) as found:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("non_2xx", 400)
        assert await _logged_body(storages.of(tmp_path), shown["gatewayReference"]) == body[:MIB]


@pytest.mark.spec("K2", "K4")
async def test_reading_the_body_ends_with_the_same_deadline_and_a_2xx_stays_one(
    serve: Serve, tmp_path: Path
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"
    async with receiver(tmp_path, answers(head)) as found, serve(environment=SOON) as sandbox:
        shown = await _outcome(sandbox, url_of(found))
        assert (shown["outcome"], shown["status"]) == ("delivered", 200)
        assert await _logged_body(storages.of(tmp_path), shown["gatewayReference"]) == b"begun"


# K5


@pytest.mark.spec("K5")
async def test_five_failures_open_the_breaker_and_nothing_is_sent_while_it_is_open(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        assert await _outcomes(sandbox, url_of(found), 6) == ["non_2xx"] * 5 + ["breaker_open"]
        shown = (await sandbox.seen("callbacks"))[-1]
        assert (shown["outcome"], shown["status"]) == ("breaker_open", None)
        ended = await sandbox.merchant.status(shown["gatewayReference"])
        assert ended["status"] == "success"
        # What was stopped is not sent later either (K3).
        await sandbox.advance("10m")
        assert found.connections == 5


@pytest.mark.spec("K5")
async def test_after_30_seconds_one_probe_that_succeeds_closes_it(
    sandbox: Running, tmp_path: Path
) -> None:
    behave = in_turn(*[answers_status("500 Oh dear")] * 5, NO_CONTENT)
    async with receiver(tmp_path, behave) as found:
        await _outcomes(sandbox, url_of(found), 5)
        await sandbox.advance("20s")
        assert await _outcomes(sandbox, url_of(found), 1) == ["breaker_open"]
        await sandbox.advance("10s")
        assert await _outcomes(sandbox, url_of(found), 3) == ["delivered"] * 3


@pytest.mark.spec("K5")
async def test_a_probe_that_fails_opens_it_for_another_30_seconds(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        await _outcomes(sandbox, url_of(found), 5)
        await sandbox.advance("30s")
        assert await _outcomes(sandbox, url_of(found), 2) == ["non_2xx", "breaker_open"]
        await sandbox.advance("30s")
        assert await _outcomes(sandbox, url_of(found), 2) == ["non_2xx", "breaker_open"]


@pytest.mark.spec("K5")
async def test_while_the_probe_is_out_nothing_else_is_sent(
    sandbox: Running, tmp_path: Path
) -> None:
    answered = trio.Event()
    behave = in_turn(*[answers_status("500 Oh dear")] * 5, answers_after(answered))
    async with receiver(tmp_path, behave) as found:
        url = url_of(found)
        await _outcomes(sandbox, url, 5)
        await sandbox.advance("30s")
        probe = await sandbox.merchant.accepted(resultUrl=url)
        await wait_for_requests(found, 6)
        assert await _outcomes(sandbox, url, 2) == ["breaker_open"] * 2
        answered.set()
        shown = await sandbox.outcome_of(probe["gatewayReference"])
        assert shown["outcome"] == "delivered"
        assert await _outcomes(sandbox, url, 1) == ["delivered"]


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    ("statuses", "is_open"),
    [
        ((500, 500, 500, 500), False),
        ((500, 500, 500, 200, 200), False),
        ((500, 500, 200, 200, 200), False),
        ((200, 200, 200, 500, 500), False),
        ((200, 200, 500, 500, 500), True),
        ((200, 200, 200, 500, 500, 500), True),
        ((500, 500, 500, 200, 200, 500), True),
    ],
    ids=[
        "four requests are too few",
        "a success never opens it, whatever the share",
        "two of five are fewer than half",
        "two of five, the failures last",
        "three of five",
        "half of six is enough",
        "looked at when the next failure is recorded",
    ],
)
async def test_it_opens_at_half_of_at_least_five_when_a_failure_is_recorded(
    sandbox: Running, tmp_path: Path, statuses: Sequence[int], is_open: bool
) -> None:
    behave = in_turn(*(answers_status(f"{status} Any") for status in statuses), NO_CONTENT)
    async with receiver(tmp_path, behave) as found:
        outcomes = await _outcomes(sandbox, url_of(found), len(statuses) + 1)
        assert "breaker_open" not in outcomes[:-1]
        assert outcomes[-1] == ("breaker_open" if is_open else "delivered")


@pytest.mark.spec("K5")
async def test_failures_of_more_than_a_minute_ago_do_not_count(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, answers_status("500 Oh dear")) as found:
        await _outcomes(sandbox, url_of(found), 4)
        await sandbox.advance("66s")
        assert await _outcomes(sandbox, url_of(found), 5) == ["non_2xx"] * 5


@pytest.mark.spec("K5")
async def test_a_breaker_is_one_merchants_and_over_all_of_its_urls(
    serve: Serve, tmp_path: Path
) -> None:
    async with (
        receiver(tmp_path, answers_status("500 Oh dear")) as bad,
        receiver(tmp_path) as good,
        serve(brands=ACME + ZENITH) as sandbox,
    ):
        acme, zenith = developer(sandbox, ACME_KEY), developer(sandbox, ZENITH_KEY)
        for _ in range(5):
            accepted = await acme.accepted(resultUrl=url_of(bad))
            await sandbox.outcome_of(accepted["gatewayReference"])
        stopped = await acme.accepted(resultUrl=url_of(good))
        shown = await sandbox.outcome_of(stopped["gatewayReference"])
        assert shown["outcome"] == "breaker_open"
        sent = await zenith.accepted(resultUrl=url_of(good))
        shown = await sandbox.outcome_of(sent["gatewayReference"])
        assert shown["outcome"] == "delivered"


# K6


@pytest.mark.spec("K6")
async def test_a_merchant_that_hangs_delays_no_other_and_holds_16_places_at_most(
    serve: Serve, tmp_path: Path
) -> None:
    released = trio.Event()
    async with (
        receiver(tmp_path, answers_after(released)) as hanging,
        receiver(tmp_path) as quick,
        serve(brands=ACME + ZENITH) as sandbox,
    ):
        acme = developer(sandbox, ACME_KEY, result_url=url_of(hanging))
        zenith = developer(sandbox, ZENITH_KEY, result_url=url_of(quick))
        held = [(await acme.accepted())["gatewayReference"] for _ in range(20)]
        await wait_for_requests(hanging, 16)
        prompt = [(await zenith.accepted())["gatewayReference"] for _ in range(3)]
        for reference in prompt:
            shown = await sandbox.outcome_of(reference)
            assert shown["outcome"] == "delivered"
        assert hanging.connections == 16
        released.set()
        for reference in held:
            shown = await sandbox.outcome_of(reference)
            assert shown["outcome"] == "delivered"
        recorded = [each["gatewayReference"] for each in await sandbox.seen("callbacks")]
        assert set(recorded[:3]) == set(prompt)


# K7


@pytest.mark.spec("K7", "C8")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "[::1]", "[fd00::1]", "169.254.169.254"],
)
async def test_in_production_a_private_literal_is_refused_at_creation(
    serve: Serve, host: str
) -> None:
    async with serve(environment={"MMO_EGRESS_ALLOW_PRIVATE": "false"}) as sandbox:
        answer = await sandbox.merchant.create(resultUrl=f"https://{host}/callback")
        assert (answer.status, answer.json["errorCode"]) == (400, "validation_failed")
        assert answer.json["errors"][0]["field"] == "resultUrl"


@pytest.mark.spec("K7")
@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "0.0.0.0", "[fd00:ec2::254]"])
async def test_link_local_and_metadata_are_refused_even_with_allow_private(
    sandbox: Running, host: str
) -> None:
    answer = await sandbox.merchant.create(resultUrl=f"https://{host}/callback")
    assert (answer.status, answer.json["errorCode"]) == (400, "validation_failed")


@pytest.mark.spec("K7", "K2")
@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254"])
async def test_a_name_that_leads_to_a_private_address_is_not_dialled(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    looked_up = _names(monkeypatch, {"shop.merchant.example": [address]})
    async with (
        receiver(tmp_path) as found,
        serve(environment={"MMO_EGRESS_ALLOW_PRIVATE": "false"}) as sandbox,
    ):
        shown = await _outcome(sandbox, f"https://shop.merchant.example:{found.port}/callback")
        assert (shown["outcome"], shown["status"]) == ("egress_refused", None)
        assert found.connections == 0
        assert looked_up == ["shop.merchant.example"]


@pytest.mark.spec("K7")
async def test_one_forbidden_address_among_good_ones_is_enough_to_refuse(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _names(monkeypatch, {"shop.merchant.example": ["127.0.0.1", "169.254.169.254"]})
    async with receiver(tmp_path) as found, serve() as sandbox:
        shown = await _outcome(sandbox, f"https://shop.merchant.example:{found.port}/callback")
        assert shown["outcome"] == "egress_refused"
        assert found.connections == 0


@pytest.mark.spec("K7")
async def test_a_name_is_looked_up_once_and_what_was_checked_is_dialled(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = _names(monkeypatch, {"shop.merchant.example": ["127.0.0.1"]})
    async with receiver(tmp_path, name="shop.merchant.example") as found, serve() as sandbox:
        shown = await _outcome(sandbox, f"https://shop.merchant.example:{found.port}/callback")
        assert shown["outcome"] == "delivered"
        assert looked_up == ["shop.merchant.example"]


@pytest.mark.spec("K7")
async def test_a_certificate_for_another_name_is_not_accepted_and_nothing_is_sent(
    sandbox: Running, tmp_path: Path
) -> None:
    async with receiver(tmp_path, name="other.merchant.example") as found:
        shown = await _outcome(sandbox, url_of(found))
        assert shown["outcome"] == "transport_error"
        assert found.requests == []


@pytest.mark.spec("K7")
async def test_a_refusal_by_egress_is_no_matter_of_the_breakers(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _names(monkeypatch, {"shop.merchant.example": ["169.254.169.254"]})
    async with serve() as sandbox:
        url = "https://shop.merchant.example/callback"
        assert await _outcomes(sandbox, url, 6) == ["egress_refused"] * 6
        assert await _outcomes(sandbox, sandbox.merchant.result_url, 1) == ["delivered"]


def _names(monkeypatch: pytest.MonkeyPatch, answers: dict[str, list[str]]) -> list[str]:
    """The system's resolver knows these names, too; which of them it was asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *further: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in answers:
            return real(host, port, *further, **named)
        asked.append(name)
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*kind, (address, port or 0)) for address in answers[name]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked
