"""Writes the tables of docs/internals/operators.md about which callbacks a client's own model
reads."""

from __future__ import annotations

from collections.abc import Mapping

from tests.outside.operator_clients.clients import OperatorClient
from tests.support.equal_rows import names_by_cells

CALLBACKS: Mapping[str, tuple[str, ...]] = {
    "mpesa": (
        *("prompt", "prompt that fails", "pay-out", "pay-out that fails", "queue time-out"),
        *(
            "payment between organisations",
            "payment between organisations that fails",
            "tax",
            "reversal",
        ),
        *("status", "balance", "validation of a deposit", "deposit"),
    ),
    "mtn": (
        *(
            "request to pay",
            "request to pay that fails",
            "withdrawal",
            "transfer",
            "deposit",
            "refund",
        ),
        "remittance",
    ),
    "airtel": ("collection", "collection that fails"),
    "wave": ("checkout", "checkout whose attempt fails"),
}
"""The kinds of callback by operator."""


def callback_table(
    operator: str, refusals_by_client: Mapping[OperatorClient, Mapping[str, str]]
) -> str:
    """Return the operator's table: a row for all kinds of callback that are read alike, a column
    for each client that has a model of any; a client that has none is left out."""
    columns: dict[str, Mapping[str, str]] = {}
    for client, refusals in refusals_by_client.items():
        if refusals:
            columns[client.package] = refusals
    cells = (
        (kind, " | ".join(_cell(each.get(kind)) for each in columns.values()))
        for kind in CALLBACKS[operator]
    )
    rows = [f"| {', '.join(kinds)} | {line} |" for line, kinds in names_by_cells(cells).items()]
    return "\n".join(
        (f"| Callback | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *rows)
    )


def _cell(refusal: str | None) -> str:
    if refusal is None:
        return "–"
    return "refused" if refusal else "✓"
