"""Looking up one transaction by either reference (clauses L1 to L4)."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.merchants import ACME, ACME_KEY, ZENITH, ZENITH_KEY, developer
from tests.support.rejections import anonymous, assert_problem
from tests.support.sandbox_gateway import Running, Serve

STRANGER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""A ULID that stands for nothing."""


@pytest.mark.spec("L1", "L2")
async def test_a_transaction_is_found_by_either_reference(sandbox: Running) -> None:
    accepted = await sandbox.merchant.accepted()
    by_reference = await sandbox.merchant.get(f"status/{accepted['gatewayReference']}")
    by_merchant = await sandbox.merchant.get(f"status/mref/{accepted['merchantReference']}")
    for answer in (by_reference, by_merchant):
        assert answer.status == 200
        assert answer.json["gatewayReference"] == accepted["gatewayReference"]


@pytest.mark.spec("L1", "L2", "L3")
@pytest.mark.parametrize("path", [STRANGER, "no-ulid", "mref/nobodys", "mref/%FF"])
async def test_what_is_unknown_or_no_text_is_404(sandbox: Running, path: str) -> None:
    answer = await sandbox.merchant.get(f"status/{path}")
    assert_problem(answer, 404, "not_found")


@pytest.mark.spec("L1", "L2")
async def test_another_brands_transaction_looks_as_if_it_did_not_exist(serve: Serve) -> None:
    async with serve(brands=ACME + ZENITH) as sandbox:
        acme, zenith = developer(sandbox, ACME_KEY), developer(sandbox, ZENITH_KEY)
        accepted = await acme.accepted()
        for path in (
            f"status/{accepted['gatewayReference']}",
            f"status/mref/{accepted['merchantReference']}",
        ):
            foreign, unknown = await zenith.get(path), await zenith.get(f"status/{STRANGER}")
            assert foreign.status == 404
            assert anonymous(foreign) == anonymous(unknown)
            assert (await acme.get(path)).status == 200


@pytest.mark.spec("L2")
async def test_two_brands_may_use_the_same_merchant_reference(serve: Serve) -> None:
    async with serve(brands=ACME + ZENITH) as sandbox:
        acme, zenith = developer(sandbox, ACME_KEY), developer(sandbox, ZENITH_KEY)
        first = await acme.accepted(merchantReference="order-1")
        second = await zenith.accepted(merchantReference="order-1")
        for merchant, accepted in ((acme, first), (zenith, second)):
            found = (await merchant.get("status/mref/order-1")).json
            assert found["gatewayReference"] == accepted["gatewayReference"]


ANY_CHARACTER = [
    "a/b",
    "100%",
    "a b",
    " leading and trailing ",
    "a+b",
    "a%2Fb",
    "a?b#c&d=e",
    "Bestellung-äöü-✓-𝄞",
    "../../etc",
    "..%",
    "...",
    "~;,:@!$'()*[]|\\\"<>^`{}",
    "\u200f\u00ad",
    "x" * 255,
    "𝄞" * 255,
    *("caf\u00e9", "cafe\u0301", "CAF\u00c9", "caf\u00e9 "),
]


@pytest.mark.spec("L3", "C12")
async def test_a_merchant_reference_may_hold_any_character_percent_encoded_once(
    sandbox: Running,
) -> None:
    for reference in ANY_CHARACTER:
        accepted = await sandbox.merchant.accepted(merchantReference=reference, scenario="never")
        answer = await sandbox.merchant.get(f"status/mref/{quote(reference, safe='')}")
        assert answer.status == 200, reference
        assert answer.json["merchantReference"] == reference
        assert answer.json["gatewayReference"] == accepted["gatewayReference"]


@pytest.mark.spec("L4")
async def test_polling_without_a_pause_is_never_refused(sandbox: Running) -> None:
    reference = (await sandbox.merchant.accepted(scenario="never"))["gatewayReference"]
    for _ in range(50):
        assert (await sandbox.merchant.get(f"status/{reference}")).status == 200
