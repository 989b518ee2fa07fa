"""Formats the courses of `operator_matrix.py` as the table of docs/internals/operators.md."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.equal_rows import names_by_cells
from tests.support.operator_matrix import OPERATORS, Way

COLUMNS = (
    "success",
    "time-out",
    "lost answer",
    "half an answer",
    "lost request",
    "token refused",
    "duplicate callback",
    "late callback",
    "no callback",
    "result after the expiry",
)
BY_THEMSELVES = """\
| M-Pesa | `qr/payin` | ✓ | none | none | expires | expires | expires | expires | as elsewhere \
| ✓ | ✓ | expires | suspense book |
| M-Pesa | `push` | ✓ | none | none | none | none | none | none | none | ✓ | ✓ | nothing is known \
| none |
"""
"""What begins with the payer: `test_mpesa.py`."""


def table() -> str:
    """The table, as Markdown: a line for all flows of an operator that end alike."""
    head = ("Operator", "Flow", "success", "failures", "refusals", *COLUMNS[1:])
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for operator in OPERATORS:
        flows = names_by_cells((f"`{way.operation}`", tuple(_cells(way))) for way in operator.ways)
        lines += [
            f"| {' | '.join((operator.title, ', '.join(names), *cells))} |"
            for cells, names in flows.items()
        ]
    return "\n".join(lines) + "\n" + BY_THEMSELVES


def _cells(way: Way) -> Iterator[str]:
    by_name = {each.name: each for each in way.courses}
    yield _cell(way, "success")
    for kind in ("fails", "refused"):
        yield str(sum(each.name.startswith(f"{kind}: ") for each in way.courses))
    for name in COLUMNS[1:]:
        yield _cell(way, name) if name in by_name else way.isnt[name]


def _cell(way: Way, name: str) -> str:
    (course,) = (each for each in way.courses if each.name == name)
    if course.is_suspended:
        return "suspense book"
    if course.ends == "success":
        return "✓"
    return "expires" if course.ends == "transaction_expired" else f"`{course.ends}`"
