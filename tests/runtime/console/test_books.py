"""The month's books are exported from the page of payments."""

from __future__ import annotations

import csv
import io
import json
from urllib.parse import urlencode

import pytest

from tests.support.console_browser import ConsoleBrowser, open_store_of
from tests.support.mmo_process import mmo
from tests.support.sandbox_gateway import Running

FORMULA = '=HYPERLINK("https://evil.example","click")'


async def test_the_book_is_that_of_the_command_and_is_recorded(
    sandbox: Running, vera: ConsoleBrowser
) -> None:
    merchant = sandbox.merchant
    paid = await merchant.accepted(merchantReference=FORMULA)
    month = (await merchant.ended(paid["gatewayReference"]))["completedAt"][:7]
    assert "The month's books" in await vera.text("/payments")
    query = {"month": month, "timezone": "UTC", "brand": "demo"}
    answer = await vera.get(f"/books.csv?{urlencode(query)}")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert f"books-{month}.csv" in answer.headers["content-disposition"]
    text = answer.body.decode()
    assert "254712345678" not in text
    (payment,) = [row for row in csv.DictReader(io.StringIO(text)) if row["row"] == "payment"]
    assert (payment["amount"], payment["merchantReference"]) == ("150.00", f"'{FORMULA}")
    async with open_store_of(sandbox.directory) as store:
        event = (await store.admin.audit(limit=1))[0].event
    assert (event.actor, event.action) == ("user:vera", "books_exported")
    assert json.loads(event.detail) == query
    booked = ("--for-accounting", "--month", month, "--brand", "demo")
    exported = await mmo("records", "export", *booked, "--data", sandbox.directory)
    assert list(csv.reader(io.StringIO(exported))) == list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("", "such as 2026-11"),
        ("month=2026-13", "such as 2026-11"),
        ("month=2026-11&timezone=Nairobi", "such as Africa/Nairobi"),
        ("month=2026-11&brand=nobody", "no such brand"),
    ],
)
async def test_a_wrong_month_is_refused_with_what_to_write(
    vera: ConsoleBrowser, query: str, remedy: str
) -> None:
    answer = await vera.get(f"/books.csv?{query}")
    assert answer.status == 400
    assert remedy in answer.body.decode()


async def test_a_book_of_too_many_payments_is_left_to_the_command(
    sandbox: Running, vera: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.console.books.PAYMENTS_MAX", 0)
    await sandbox.merchant.accepted()
    answer = await vera.get("/books.csv?month=2100-01")
    assert answer.status == 400
    assert "mmo records export --for-accounting" in answer.body.decode()


async def test_nobody_gets_a_book_without_signing_in(person: ConsoleBrowser) -> None:
    answer = await person.get("/books.csv?month=2026-11")
    assert answer.status == 303
    assert answer.headers["location"].startswith("/sign-in")
