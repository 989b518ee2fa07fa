"""merchantReference is unique per brand: clause C12 through the merchant's door (rows 79 to 84, 91,
92)."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import trio

from tests.support.merchant import TIMEOUT_S, Answer, Merchant, a_reference
from tests.support.merchants import ACME, ACME_KEY, a_brand, developer
from tests.support.rejections import assert_field_refused, assert_problem, connected, head
from tests.support.sandbox_gateway import Running, Serve

DUPLICATE = "merchant_transactionid_duplicate"
STRICT_KEY = "strict-key-1234567890123456"


def _assert_duplicate(answer: Answer, note: object = "") -> None:
    assert_problem(answer, 422, DUPLICATE, note=note)


@pytest.mark.spec("C12", "P2")
async def test_a_reference_is_used_once_whatever_became_of_its_payment(sandbox: Running) -> None:
    merchant = sandbox.merchant
    pending = (await merchant.accepted(scenario="phone"))["merchantReference"]
    failed = await merchant.accepted(scenario="cancelled")
    assert (await merchant.ended(failed["gatewayReference"]))["status"] == "failed"
    for reference in (pending, failed["merchantReference"]):
        answer = await merchant.create("direct/payout", merchantReference=reference)
        _assert_duplicate(answer, "row 81")
        other = merchant.body(
            merchantReference=reference, country="UG", amount={"value": 500, "currency": "UGX"}
        )
        _assert_duplicate(await merchant.post("direct/payin", other, method="mtn_ug"), "row 81")
    invalid = await merchant.create(merchantReference=pending, labels=1)
    assert_field_refused(invalid, "labels", note="row 85")


@pytest.mark.spec("C12")
async def test_of_fifty_at_the_same_moment_one_is_taken(sandbox: Running) -> None:
    reference, answers = a_reference(), Counter[int]()
    bodies: list[Answer] = []

    async def create() -> None:
        answer = await sandbox.merchant.create(merchantReference=reference)
        answers[answer.status] += 1
        bodies.append(answer)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(create)
    assert answers == {200: 1, 422: 49}, "row 84"
    [taken] = [each.json["gatewayReference"] for each in bodies if each.status == 200]
    found = await sandbox.merchant.get(f"status/mref/{reference}")
    assert found.json["gatewayReference"] == taken
    for each in bodies:
        if each.status != 200:
            _assert_duplicate(each)


@pytest.mark.spec("C12", "L2", "V1")
async def test_after_fifteen_minutes_a_pay_in_that_failed_may_be_tried_again_and_is_found(
    sandbox: Running,
) -> None:
    merchant = sandbox.merchant
    first = await merchant.accepted(scenario="cancelled")
    reference = first["merchantReference"]
    assert (await merchant.ended(first["gatewayReference"]))["status"] == "failed"
    await sandbox.advance("14m30s")
    _assert_duplicate(await merchant.create(merchantReference=reference), "row 81")
    await sandbox.advance("30s")
    second = await merchant.accepted(merchantReference=reference)
    _assert_duplicate(await merchant.create(merchantReference=reference), "guarded anew")
    found = (await merchant.get(f"status/mref/{reference}")).json
    assert found["gatewayReference"] == second["gatewayReference"] != first["gatewayReference"]
    assert (await merchant.status(first["gatewayReference"]))["merchantReference"] == reference
    assert (await merchant.ended(second["gatewayReference"]))["status"] == "success"
    await sandbox.advance("1d")
    _assert_duplicate(await merchant.create(merchantReference=reference), "paid")


@pytest.mark.spec("C12")
async def test_sixteen_minutes_later_the_same_pay_out_is_refused(sandbox: Running) -> None:
    """Whether it is pending, paid or failed; a pay-in that is pending is refused as well."""
    merchant = sandbox.merchant
    sent = []
    for operation, scenario in (
        ("direct/payout", "never"),
        ("direct/payout", "success"),
        ("direct/payout", "cancelled"),
        ("direct/payin", "never"),
    ):
        taken = await merchant.accepted(operation, scenario=scenario)
        if scenario != "never":
            await merchant.ended(taken["gatewayReference"])
        sent.append((operation, taken))
    await sandbox.advance("16m")
    for operation, taken in sent:
        answer = await merchant.create(operation, merchantReference=taken["merchantReference"])
        _assert_duplicate(answer, (operation, taken))
        found = (await merchant.get(f"status/mref/{taken['merchantReference']}")).json
        assert found["gatewayReference"] == taken["gatewayReference"]


STRICT = a_brand("strict", STRICT_KEY, more='reference_reuse = "never"\n')


@pytest.mark.spec("C12")
async def test_a_brand_may_refuse_reuse_for_ever(serve: Serve) -> None:
    async with serve(brands=ACME + STRICT) as sandbox:
        for key, status in ((ACME_KEY, 200), (STRICT_KEY, 422)):
            merchant = developer(sandbox, key)
            first = await merchant.accepted(scenario="cancelled")
            await merchant.ended(first["gatewayReference"])
            await sandbox.advance("3650d")
            again = await merchant.create(merchantReference=first["merchantReference"])
            assert again.status == status, "row 83"


@pytest.mark.spec("C12")
async def test_a_refused_request_consumes_nothing(sandbox: Running) -> None:
    merchant, reference = sandbox.merchant, a_reference()
    for changes in (
        {"labels": 1},
        {"msisdn": "0712345678"},
        {"country": "ZZ"},
        {"amount": {"value": 1, "currency": "KES"}},
        {"amount": {"value": 100.001, "currency": "KES"}},
    ):
        refused = await merchant.create(merchantReference=reference, **changes)
        assert refused.status == 400
    assert (await merchant.get(f"status/mref/{reference}")).status == 404
    await merchant.accepted(merchantReference=reference)


@pytest.mark.spec("C6", "C12")
@pytest.mark.http1("sends bytes")
async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing(
    sandbox: Running,
) -> None:
    merchant, reference = sandbox.merchant, a_reference()
    whole, start = _request(merchant, reference)
    async with connected(sandbox) as client:
        await client.send(start + whole[:-1])
    async with connected(sandbox) as client:  # This client says so and still waits for an answer.
        await client.send(start + whole[:-1])
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        assert await client.is_closed()
    assert (await merchant.get(f"status/mref/{reference}")).status == 404, "row 91"
    await merchant.accepted(merchantReference=reference)


@pytest.mark.spec("C6", "C12", "L2")
@pytest.mark.http1("sends bytes")
async def test_a_client_that_leaves_before_its_answer_finds_its_payment(sandbox: Running) -> None:
    merchant, reference = sandbox.merchant, a_reference()
    whole, start = _request(merchant, reference)
    async with connected(sandbox) as client:
        await client.send(start + whole)
    with trio.fail_after(TIMEOUT_S):
        while (found := await merchant.get(f"status/mref/{reference}")).status == 404:
            await trio.lowlevel.checkpoint()
    assert found.json["merchantReference"] == reference, "row 92"
    _assert_duplicate(await merchant.create(merchantReference=reference), "row 92")


def _request(merchant: Merchant, reference: str) -> tuple[bytes, bytes]:
    """A good request's body, and its head."""
    body = json.dumps(merchant.body(merchantReference=reference)).encode()
    length = b"Content-Length: %d" % len(body)
    lines = (b"Content-Type: application/json", length)
    return body, head("POST", "/direct/payin/mpesa_ke", *lines, key=merchant.key)
