"""`mmo records` writes transactions, and compares them with statements."""

from __future__ import annotations

from mmo_trio.cli.support.lazy_group import LazyCommand, LazyGroup

_COMMANDS = (
    LazyCommand(
        "digest",
        "stored_records",
        "Print a digest of each brand's payments that ended on a day, for another side to compare "
        "with its own.",
    ),
    LazyCommand(
        "export",
        "stored_records",
        "Write every transaction of a period as CSV, or as JSON objects, one a line.",
    ),
    LazyCommand(
        "fetch",
        "fetched_records",
        "Write a brand's transactions as JSON objects, one a line, or the book of a month, by its "
        "API key.",
        extra="merchant,tools",
    ),
    LazyCommand(
        "reconcile",
        "reconcile",
        "Compare a statement, a merchant's ledger or an operator's, with the records, to the unit.",
        extra="tools",
    ),
)

records = LazyGroup(
    "records",
    help="Write transactions for reconciliation, and compare them with statements.",
    sections={"Commands": _COMMANDS},
)
