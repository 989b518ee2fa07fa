"""The list of payments is filtered, and exported as CSV without personal data and without
formulas."""

from __future__ import annotations

import csv
import io
import json

import pytest

from mmo_trio.console.payments import EXPORT_COLUMNS, csv_lines
from mmo_trio.http.asgi.web_app import OpenStreams
from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.sandbox_gateway import Running

FORMULA = '=HYPERLINK("https://evil.example","click")'
DECLINED = "254700000101"


async def references(user: ConsoleBrowser, query: str) -> list[str]:
    answer = await user.get(f"/payments.csv?{query}")
    assert answer.status == 200, answer.body
    return [row["gatewayReference"] for row in csv.DictReader(io.StringIO(answer.body.decode()))]


async def test_the_list_and_its_export_have_the_same_filters(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    paid = await sandbox.concluded()
    declined = await sandbox.concluded(msisdn=DECLINED)
    day = (await vera.text("/payments")).split('<time datetime="')[1][:10]
    for query, expected in (
        ("", [declined, paid]),
        ("status=success", [paid]),
        ("code=user_insufficient_funds", [declined]),
        ("code=user_timeout", []),
        ("provider=sandbox", [declined, paid]),
        ("provider=other", []),
        ("method=mpesa_ke&brand=demo", [declined, paid]),
        (f"from={day}&until={day}", [declined, paid]),
        ("from=2020-01-01&until=2020-01-02", []),
        (f"until={day}T00:00", []),
    ):
        assert await references(vera, query) == expected, query
        page = await vera.text(f"/payments?{query}")
        assert [each for each in (declined, paid) if each in page] == expected, query
        assert ("No payment here" in page) == (not expected)
    for wrong in ("code=odd", "status=odd", "from=yesterday", "until=2026-13-01"):
        assert (await vera.get(f"/payments?{wrong}")).status == 400
        assert (await vera.get(f"/payments.csv?{wrong}")).status == 400


async def test_an_export_is_recorded_and_shows_no_personal_data(
    sandbox: Running, ada: ConsoleBrowser
) -> None:
    payer = {"id": "customer-8", "msisdn": "254711222333", "firstName": "Wanjiru"}
    await sandbox.create(payer=payer, merchantReference=FORMULA)
    answer = await ada.get("/payments.csv?brand=demo")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    text = answer.body.decode()
    assert "254711222333" not in text
    assert "Wanjiru" not in text
    [row] = csv.DictReader(io.StringIO(text))
    assert row["merchantReference"] == f"'{FORMULA}"
    assert (row["amount"], row["currency"], row["msisdn"]) == ("150.00", "KES", "•••••••••333")
    async with open_store_of(sandbox.directory) as store:
        event = (await store.admin.audit(limit=1))[0].event
    assert (event.actor, event.action) == ("user:ada", "payments_exported")
    assert json.loads(event.detail) == {"selection": {"brand": "demo"}}
    assert "brand demo" in await ada.text("/audit")


async def test_an_export_has_more_than_one_page(
    sandbox: Running, vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.payments.EXPORT_PAGE_SIZE", 2)
    created = [await sandbox.create() for _ in range(5)]
    assert await references(vera, "") == created[::-1]
    monkeypatch.setattr("mmo_trio.console.payments.EXPORT_ROWS_MAX", 3)
    assert await references(vera, "") == created[:1:-1]


@pytest.mark.parametrize(
    ("cell", "guarded"),
    [
        *(
            (each, f"'{each}")
            for each in ("=1+1", "+1", "-1", "@sum", "\uff1d1+1", "\ufe621", "\uff0d1", "\uff20sum")
        ),
        ("\t=1", "\t'=1"),
        ("a;=1+1;b", "a;'=1+1;b"),
        (" =1+1", " '=1+1"),
        ("a\t@b", "a\t'@b"),
        ("a\n =b", "a\n '=b"),
        ("a=b, 1-2;c", "a=b, 1-2;c"),
    ],
)
def test_no_cell_is_a_formula_whatever_separates_cells(cell: str, guarded: str) -> None:
    [row] = csv.reader(io.StringIO(csv_lines([[cell, "plain"]]).decode(), newline=""))
    assert row == [guarded, "plain"]


async def test_a_second_export_of_a_user_has_to_wait(
    vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await vera.get("/payments.csv")).status == 200
    monkeypatch.setattr(OpenStreams, "has_room_for", lambda *_: False)
    assert (await vera.get("/payments.csv")).status == 429


def test_the_columns_are_named_as_in_the_api() -> None:
    names = "gatewayReference merchantReference providerReference errorCode createdAt"
    assert {*names.split()} <= {*EXPORT_COLUMNS}
