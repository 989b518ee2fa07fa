"""The general conventions: clauses G1 to G9 through the merchant's door (rows 10 to 37 and 74 to
77)."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from tests.support.merchant import ROOT, ask
from tests.support.rejections import assert_field_refused, assert_problem, head, send_raw
from tests.support.sandbox_gateway import Running

OK = (b'"ok"', b'"ok"')


def _raw(sandbox: Running, change: tuple[bytes, bytes] = OK, **changes: Any) -> bytes:
    """A good request's body with one piece of its text exchanged."""
    body = json.dumps(sandbox.merchant.body(**changes)).encode()
    assert change == OK or change[0] in body
    return body.replace(*change)


@pytest.mark.spec("G1", "G3")
async def test_every_path_begins_with_the_root_and_is_written_exactly_so(sandbox: Running) -> None:
    reference = (await sandbox.merchant.accepted())["gatewayReference"]
    key = {"X-Api-Key": sandbox.merchant.key}
    right = f"{ROOT}/status/{reference}"
    assert (await ask(sandbox.ready.api + right, headers=key)).status == 200
    for note, wrong in (
        ("row 10", right.replace("v2", "v1")),
        ("row 14", right.replace("/", "//")),
        ("row 14", f"{right}/"),
        ("an encoded letter", right.replace("gateway", "%67ateway")),
        ("another case", right.replace("gateway", "Gateway")),
    ):
        answer = await ask(sandbox.ready.api + wrong, headers=key)
        assert_problem(answer, 404, "not_found", note=(note, wrong))


@pytest.mark.spec("G1")
async def test_health_readiness_and_hooks_share_the_listener(sandbox: Running) -> None:
    for path, state in (("/healthz", "alive"), ("/readyz", "ready")):
        answer = await ask(sandbox.ready.api + path)
        assert (answer.status, answer.json) == (200, {"status": state})
    hook = await ask(f"{sandbox.ready.api}/hooks/nobody/token", method="POST", body=b"{}")
    assert_problem(hook, 404, "not_found")
    assert_problem(await ask(f"{sandbox.ready.api}/hooks/nobody/token"), 405, "method_not_allowed")


@pytest.mark.spec("G2")
async def test_a_body_is_declared_as_json_in_utf_8(sandbox: Running) -> None:
    merchant = sandbox.merchant
    for row, content_type, status in (
        (17, 'Application/JSON ;Charset="UTF-8"', 200),
        (16, "text/plain", 400),
        (18, "application/json; charset=latin1", 400),
    ):
        answer = await merchant.post(
            "direct/payin", merchant.body(), headers={"Content-Type": content_type}
        )
        assert answer.status == status, (row, content_type, answer.body)
    answer = await merchant.post(
        "direct/payin", merchant.body(), headers={"Content-Encoding": "gzip"}
    )
    assert_problem(answer, 400, "bad_request")
    missing = head("POST", "/direct/payin/mpesa_ke", b"Content-Length: 0", key=merchant.key)
    assert_problem(await send_raw(sandbox, missing), 400, "bad_request", note="row 15")


@pytest.mark.spec("G4")
async def test_unknown_members_are_ignored_and_null_means_absent(sandbox: Running) -> None:
    merchant = sandbox.merchant
    body = merchant.body() | {
        "reconciliationReference": None,
        "labels": None,
        "unknown": {"deep": [1, {"a": None}]},
        "Amount": 1,
        "result_url": "x",
    }
    body["payer"] |= {"email": None, "firstName": None, "lastName": None, "age": 7}
    body["amount"] |= {"unit": "shilling"}
    accepted = (await merchant.post("direct/payin", body)).json
    assert accepted["reconciliationReference"] == accepted["merchantReference"], "row 33"
    found = await merchant.status(accepted["gatewayReference"])
    assert found["labels"] is None
    assert found["party"]["email"] is None
    nothing = await merchant.post("direct/payin", merchant.body() | {"amount": None, "Amount": 1})
    assert_field_refused(nothing, "amount", note="row 32: null is absent")


@pytest.mark.spec("G4", "G5", "G6")
async def test_names_are_camel_case_enums_are_strings_and_times_have_two_forms(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.create(
        amount={"value": 150.5, "currency": "KES"}, scenario="success"
    )
    created_at = accepted.json["createdAt"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", created_at)
    reference = accepted.json["gatewayReference"]
    await sandbox.callback_for(reference)
    found = await sandbox.merchant.get(f"status/{reference}")
    members = found.json
    for name in ("createdAt", "completedAt"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", members[name])
    whole_second = datetime.fromisoformat(members["createdAt"]).replace(microsecond=0)
    assert whole_second == datetime.fromisoformat(created_at)
    for name in re.findall(rb'"([^"]+)":', accepted.body + found.body):
        assert re.fullmatch(rb"[a-z]+([A-Z][a-z]+)*", name), name
    for name in ("status", "type", "flow", "completionSource"):
        assert isinstance(members[name], str)
    values = re.findall(rb'"value":([^,}]+)', found.body)
    assert values == [b"150.50", b"150.50", b"1.51"], "requested, final, fee"


@pytest.mark.spec("G7", "P4")
async def test_a_body_has_at_most_256_kib(sandbox: Running) -> None:
    body = _raw(sandbox)
    answer = await sandbox.merchant.post("direct/payin", body.ljust(256 * 1024))
    assert answer.status == 200, answer.body
    answer = await sandbox.merchant.post("direct/payin", _raw(sandbox).ljust(256 * 1024 + 1))
    assert_problem(answer, 413, "body_too_large", note="row 36")
    lines = (b"Content-Type: application/json", b"Content-Length: 1000000000000")
    announced = head("POST", "/direct/payin/mpesa_ke", *lines, key=sandbox.merchant.key)
    refused = await send_raw(sandbox, announced)
    assert_problem(refused, 413, "body_too_large", note="row 36: not a byte of it was waited for")
    assert refused.is_last


@pytest.mark.spec("G7", "M3", "M4", "C8")
async def test_a_request_with_every_member_at_its_greatest_length_fits(sandbox: Running) -> None:
    """Each character is outside the basic plane and escaped, which takes 12 bytes."""
    merchant, wide = sandbox.merchant, "\N{PARTY POPPER}"
    url = merchant.result_url + "/"
    long_url = url + wide * (2_048 - len(url))
    party = {
        "id": wide * 255,
        "msisdn": "+" + "2" * 19,
        "firstName": wide * 255,
        "lastName": wide * 255,
    }
    answer = await merchant.create(
        "web/payin",
        payer=party | {"email": wide * 64 + "@" + ".".join([*["d" * 63] * 3, "d" * 59, "de"])},
        resultUrl=long_url,
        successRedirectUrl=long_url,
        errorRedirectUrl=long_url,
        merchantReference=wide * 255,
        reconciliationReference=wide * 255,
        labels={f"{number}" + wide * 254: wide * 1_000 for number in range(10)},
    )
    assert answer.status == 200, answer.body[:500]


@pytest.mark.spec("G9", "G3")
async def test_every_answer_has_an_id_of_its_own_and_is_not_kept(sandbox: Running) -> None:
    merchant = sandbox.merchant
    accepted = await merchant.create()
    answers = [
        accepted,
        await merchant.get(f"status/{accepted.json['gatewayReference']}"),
        await merchant.records(begin="2026-01-01", to="2026-01-02"),
        await merchant.create(country="ZZ"),
        await merchant.create(merchantReference=accepted.json["merchantReference"]),
        await merchant.get("status/unknown"),
        await merchant.get("nowhere"),
        await merchant.get("direct/payin/mpesa_ke"),
        await ask(sandbox.ready.api + "/healthz"),
        await ask(sandbox.ready.api + "/readyz"),
    ]
    nonsense = await send_raw(sandbox, b"NONSENSE\r\n\r\n")
    heads = [each.headers for each in answers] + [nonsense.headers]
    assert {each["cache-control"] for each in heads} == {"no-store"}
    assert len({each["x-request-id"] for each in heads}) == len(heads)
    given = await merchant.get("status/unknown", **{"X-Request-Id": "chosen-by-the-client"})
    assert given.headers["x-request-id"] != "chosen-by-the-client"
