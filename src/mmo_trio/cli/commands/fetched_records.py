"""`mmo records fetch` writes the records of a brand, or the book of a month, for a merchant who has
only an API key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from mmo_merchant.api.api_errors import ApiRejection, GatewayUnavailable, MerchantApiError
from mmo_merchant.api.gateway_requests import (
    Answer,
    RecordsWindow,
    page_request,
    read_page,
    read_reversals,
    records_request,
    reversals_page_request,
    reversals_request,
)
from mmo_merchant.clients.blocking_client import MerchantClient
from mmo_sansio.accounting.book_entries import (
    Members,
    parse_members,
    payment_entries,
    reversal_entries,
)
from mmo_sansio.accounting.month_books import MonthBook
from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import FIRST_INSTANT, LAST_INSTANT, from_datetime, to_datetime
from mmo_sansio.values.strict_json import JsonNumber
from mmo_trio.cli.support.book_files import load_sheet_writer, month_options, read_month, write_book
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.json_text import json_text
from mmo_trio.cli.support.options import datetime_type, file_type
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.output_files import open_output

# Seconds before a page is asked for again that the gateway could not give, each time longer.
PAUSES_S: Final = (1, 2, 4, 8, 16)


@click.command()
@click.option(
    "--gateway", metavar="URL", required=True, help="Scheme and host: https://gateway.example."
)
@click.option("--key", envvar="API_KEY", default="", help="The API key; by default $API_KEY.")
@click.option("--from", "begin", type=datetime_type, help="Created at or after this time (UTC).")
@click.option("--to", "end", type=datetime_type, help="Created before this time (UTC).")
@click.option(
    "--for-accounting",
    is_flag=True,
    help="Write the book of a month instead: what moved, by completion, with signs, fees, "
    "reversals and sums; as CSV.",
)
@month_options
@click.option(
    "--without-reversals",
    is_flag=True,
    help="Write the book of a gateway that doesn't tell what has gone back.",
)
@click.option(
    "--exact", is_flag=True, help="Don't guard cells of CSV that a spreadsheet program could run."
)
@click.option("--output", type=file_type, help="A file to make.")
def fetch(
    gateway: str,
    key: str,
    begin: datetime | None,
    end: datetime | None,
    for_accounting: bool,
    month: str | None,
    timezone: str | None,
    without_reversals: bool,
    exact: bool,
    output: Path | None,
) -> None:
    """Write a brand's transactions as JSON objects, one a line, or the book of a month, by its API
    key.

    The gateway of the key is asked, page by page; a page that it can't give is asked for again."""
    if not key:
        raise UsageProblem("The API key is missing: set the variable API_KEY.")

    try:
        client = MerchantClient(gateway, key)
    except ValueError as fault:
        raise UsageProblem(f"--gateway: {fault}") from None

    if not for_accounting and (begin is None or end is None):
        raise UsageProblem("Give --from and --to, or --for-accounting with --month.")
    if for_accounting and (begin or end):
        raise UsageProblem("--for-accounting takes no --from or --to: it books all of --month.")
    if not for_accounting and (month or timezone or without_reversals):
        raise UsageProblem("--month, --timezone and --without-reversals need --for-accounting.")

    try:
        with client:
            if begin is not None and end is not None:
                window = RecordsWindow(begin=begin.replace(tzinfo=UTC), end=end.replace(tzinfo=UTC))
                _write_records(client, window, output)
                return

            # Whether a spreadsheet can be written is better known before everything is fetched.
            book = MonthBook(read_month(month, timezone))
            load_sheet_writer(output)
            _fill(book, client, without_reversals=without_reversals)
            write_book(book, output, now=from_datetime(datetime.now(UTC)), is_exact=exact)
    except MerchantApiError as error:
        raise NegativeAnswer(f"The gateway gave no records. {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise NegativeAnswer(f"The gateway's answer is not what it should be: {error!r}.") from None


def _write_records(client: MerchantClient, window: RecordsWindow, output: Path | None) -> None:
    """Write the transaction objects of a window, and say how many there are."""
    count = 0
    with open_output(output) as to:
        for record in _records(client, window, _parse_exactly):
            to.write(f"{json_text(record)}\n")
            count += 1

    print_status(f"{count} transactions.")


def _parse_exactly(body: bytes) -> Any:
    # Numbers stay text: money is never a binary float (G6).
    return json.loads(body, parse_float=JsonNumber, parse_int=JsonNumber)


def _fill(book: MonthBook, client: MerchantClient, *, without_reversals: bool) -> None:
    """Book all that moved money until the end of the month, from the first payment on."""
    # Reversals first: without them the book would say that all money stayed.
    reversed_payments: dict[str, Members] = {}
    brand = ""
    if not without_reversals:
        try:
            brand = client.methods().brand
            # One that changes meanwhile comes again, and is booked once, as it was last.
            payments = _reversals(client)
            reversed_payments = {payment["gatewayReference"]: payment for payment in payments}
        except ApiRejection as error:
            if error.problem.status != 404:
                raise
            raise NegativeAnswer(
                "This gateway doesn't tell which money has gone back. With --without-reversals the "
                "book has the payments alone: add what has gone back by hand."
            ) from None

    # From the first payment on: what ended in the month may have been created long before.
    first = to_datetime(FIRST_INSTANT)
    window = RecordsWindow(begin=first, end=to_datetime(book.month.end))
    for record in _records(client, window, parse_members):
        for entry in payment_entries(brand, record):
            book.add(entry)

    for payment in reversed_payments.values():
        for entry in reversal_entries(brand, payment):
            book.add(entry)


def _records(
    client: MerchantClient, window: RecordsWindow, parse: Callable[[bytes], Any]
) -> Iterator[Any]:
    request: HttpRequest | None = records_request(client.access, window)
    while request is not None:
        # The client reads the body only for its cursor: what is written is the gateway's own text.
        body, cursor = _page(client, request, lambda answer: read_page(answer).next)
        yield from parse(body)["data"]
        request = None
        if cursor is not None:
            request = page_request(client.access, cursor)


def _reversals(client: MerchantClient) -> Iterator[Members]:
    first, last = to_datetime(FIRST_INSTANT), to_datetime(LAST_INSTANT)
    request: HttpRequest | None = reversals_request(client.access, first, last)
    while request is not None:
        body, cursor = _page(client, request, lambda answer: read_reversals(answer).next)
        yield from parse_members(body)["data"]
        request = None
        if cursor is not None:
            request = reversals_page_request(client.access, cursor)


def _page(
    client: MerchantClient, request: HttpRequest, read_cursor: Callable[[Answer], str | None]
) -> tuple[bytes, str | None]:
    """Return the body of a page, and the cursor of the next one. Raises MerchantApiError."""
    for pause_s in (*PAUSES_S, None):
        answer = client.send(request)
        try:
            cursor = read_cursor(answer)
        except GatewayUnavailable as error:
            # Only this may pass by itself: a rejection is raised at once.
            if pause_s is None:
                raise
            asked_s = error.problem and error.problem.retry_after_s
            time.sleep(min(asked_s or pause_s, PAUSES_S[-1]))
            continue

        assert isinstance(answer, HttpResponse), "what could be read is a response"
        return answer.body, cursor

    raise AssertionError("the last attempt returns or raises")
