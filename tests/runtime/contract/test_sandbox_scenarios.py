"""The sandbox's table of scenarios, row by row: by the last three digits of the msisdn, and by the
header."""

from __future__ import annotations

import html
import re
import shlex
from decimal import Decimal
from typing import Any

import pytest
from attrs import frozen

from mmo_sansio.providers.sandbox.scenarios import NOT_PLAYED, SCENARIOS
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from tests.support.merchant import ask
from tests.support.sandbox_gateway import Running, Serve


@frozen
class Row:
    """A row of the table, and what a merchant sees of it."""

    digits: str
    name: str
    status: str
    after: str | None = None
    """How much time has to pass; None: it happens by itself at once."""
    source: str | None = "webhook"
    code: str | None = None
    paid: str = "150.00"
    suspense: str | None = None
    """Why the suspense book has an entry about it, one more second later."""


ROWS = [
    Row("101", "insufficient_funds", "failed", code="user_insufficient_funds"),
    Row("102", "timeout", "failed", code="user_timeout"),
    Row("103", "cancelled", "failed", code="user_cancelled"),
    Row("104", "unavailable", "failed", code="provider_unavailable"),
    Row("105", "provider_timeout", "failed", code="provider_timeout"),
    Row("106", "user_not_found", "failed", code="user_not_found"),
    Row("107", "user_account_blocked", "failed", code="user_account_blocked"),
    Row("108", "user_limit_exceeded", "failed", code="user_limit_exceeded"),
    Row("109", "user_wrong_pin", "failed", code="user_wrong_pin"),
    Row("111", "user_busy", "failed", code="user_busy"),
    Row("112", "amount_out_of_range", "failed", code="amount_out_of_range"),
    Row("113", "merchant_insufficient_funds", "failed", code="merchant_insufficient_funds"),
    Row("114", "merchant_misconfigured", "failed", code="merchant_misconfigured"),
    Row("115", "duplicate_request", "failed", code="duplicate_request"),
    Row("116", "transaction_declined", "failed", code="transaction_declined"),
    Row("110", "by_poll", "success", after="2s", source="poll"),
    Row("120", "other_amount", "success", paid="149.99", suspense="settled_less"),
    Row("130", "never", "failed", after="3d", source="expiry", code="transaction_expired"),
    Row(
        "140",
        "after_expiry",
        "failed",
        after="3d",
        source="expiry",
        code="transaction_expired",
        suspense="late_result",
    ),
    Row("150", "twice", "success", suspense="repeated_result"),
    Row("160", "conflicting", "success", suspense="conflicting_result"),
    Row("170", "slow", "success", after="10s"),
    Row("180", "phone", "pending", after="2h", source=None),
    Row("678", "success", "success"),
]


@pytest.mark.spec("S1", "S2", "S5", "E1", "K1")
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.digits}-{row.name}" for row in ROWS])
async def test_a_row_holds_by_digits_and_by_header(sandbox: Running, row: Row) -> None:
    merchant = sandbox.merchant
    others = "101" if row.name == "success" else "678"
    accepted = [
        await merchant.accepted(msisdn=f"254712345{row.digits}"),
        await merchant.accepted(msisdn=f"254712345{others}", scenario=row.name),
    ]
    if row.after is not None:
        await sandbox.advance(row.after)

    references = [each["gatewayReference"] for each in accepted]
    for reference in references:
        if row.status == "pending":
            _agrees(await merchant.status(reference), row)
        else:
            _agrees(await merchant.ended(reference), row)
            assert (await sandbox.callback_for(reference)).content["status"] == row.status

    await sandbox.advance("2s")
    entries = await sandbox.seen("suspense")
    expected = {(reference, row.suspense) for reference in references if row.suspense}
    assert {(each["gatewayReference"], each["reason"]) for each in entries} == expected
    for reference in references:
        _agrees(await merchant.status(reference), row)


def _agrees(found: dict[str, Any], row: Row) -> None:
    assert (found["status"], found["errorCode"]) == (row.status, row.code)
    assert found["completionSource"] == row.source
    if row.code is not None:
        assert found["errorMessage"] == EXPLANATIONS[ErrorCode(row.code)].meaning
    if row.status == "success":
        paid, asked = Decimal(row.paid), Decimal("150.00")
        assert found["finalAmount"] == {"value": paid, "currency": "KES"}
        assert found["requestedAmount"] == {"value": asked, "currency": "KES"}
        fee = (paid / 100).quantize(Decimal("0.01"))
        assert found["providerData"]["fee"] == {"value": fee, "currency": "KES"}
    else:
        assert found["finalAmount"] is None


@pytest.mark.spec("W1")
async def test_a_web_payin_plays_its_scenario_once_the_payer_has_confirmed(
    sandbox: Running,
) -> None:
    accepted = await sandbox.merchant.accepted("web/payin", msisdn="254712345103")
    await sandbox.advance("1m")
    assert (await sandbox.merchant.status(accepted["gatewayReference"]))["status"] == "pending"
    paid = await sandbox.control("pay", gatewayReference=accepted["gatewayReference"])
    assert (paid.status, paid.json) == (200, {"gatewayReference": accepted["gatewayReference"]})
    failed = await sandbox.merchant.ended(accepted["gatewayReference"])
    assert failed["errorCode"] == "user_cancelled"


async def test_cents_are_rejected_as_operators_do_unless_the_sandbox_is_lenient(
    serve: Serve,
) -> None:
    for environment, code in (({}, "amount_out_of_range"), ({"MMO_SANDBOX_LENIENT": "true"}, None)):
        async with serve(environment=environment) as sandbox:
            cents = await sandbox.merchant.accepted(amount={"value": 150.55, "currency": "KES"})
            assert (await sandbox.merchant.ended(cents["gatewayReference"]))["errorCode"] == code


@pytest.mark.spec("E1")
def test_the_table_reaches_every_code_of_the_catalogue() -> None:
    assert {row.code for row in ROWS if row.code} == {each.value for each in ErrorCode} - {
        each.value for each in NOT_PLAYED
    }
    assert {(row.digits, row.name) for row in ROWS} == {
        (each.digits or "678", each.name) for each in SCENARIOS
    }


async def test_the_front_page_shows_every_number_with_its_meaning(sandbox: Running) -> None:
    text = (await ask(f"{sandbox.ready.pages}/")).body.decode()
    reasons, _, other = text.partition("<h3>It fails with this reason</h3>")[2].partition("<h3>")
    for each in SCENARIOS:
        if each.only_failure:
            assert (each.digits or "others") in reasons
            assert each.only_failure in reasons
        else:
            assert f"<td><code>{each.name}</code></td>" in other
            assert (each.digits or "others") in other
    assert "user_wrong_pin" in reasons
    assert "An amount with cents fails with <code>amount_out_of_range</code>" in other
    assert "<code>sandbox.lenient</code>" in other


async def test_the_command_on_the_front_page_takes_a_payment_as_it_stands(sandbox: Running) -> None:
    page = (await ask(f"{sandbox.ready.pages}/")).body.decode()
    found = re.search(r"<code>(curl .*?)</code>", page, re.DOTALL)
    assert found is not None
    command, url, *options = shlex.split(html.unescape(found[1]).replace("\\\n", " "))
    assert (command, options[::2]) == ("curl", ["-H", "-H", "-d"])
    headers = dict(each.split(": ", 1) for each in options[1:-1:2])
    answer = await ask(url, method="POST", headers=headers, body=options[-1].encode())
    assert answer.status == 200, answer.body
    assert answer.json["pageUrl"].startswith(sandbox.ready.pages)
