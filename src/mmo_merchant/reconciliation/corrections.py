"""Reads what people have found out about differences: each correction says of one difference why it
is none any more, and stays in the file as a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from attrs import define, field, frozen

from mmo_merchant.reconciliation.comparison import Difference, DifferenceKind
from mmo_merchant.tables.faults import CellFault, Fault
from mmo_merchant.tables.table_file import Columns, Row, Table

# The columns that a file must have, and of the others one at least.
COLUMNS: Final = Columns(
    required={name: name for name in ("kind", "by", "reason")},
    optional={name: name for name in ("receipt", "gatewayReference")},
)
_KINDS: Final = frozenset(kind.value for kind in DifferenceKind)


@frozen
class Correction:
    """Explains one difference."""

    line: int
    kind: str
    reference: str
    """The gatewayReference of the payment, or the receipt of a line without one."""
    by: str
    """Who has looked at it."""
    reason: str


@define
class Corrections:
    """Holds the corrections of a file, each for one difference."""

    faults: list[Fault] = field(factory=list)
    """If there are any, the file is not to be used."""
    _open: dict[tuple[str, str], Correction] = field(factory=dict)

    def take(self, difference: Difference) -> Correction | None:
        """Take out the correction of a difference; None where there is none."""
        record = difference.record
        line = difference.line

        # Taken out, so that one explanation hides one difference and no further one of its kind.
        names = (record and record.gateway_reference, line and line.receipt)
        for name in names:
            if name and (correction := self._open.pop((difference.kind.value, name), None)):
                return correction
        return None

    def left(self) -> Iterator[Correction]:
        """Return the corrections to which there is no difference."""
        yield from self._open.values()

    def add(self, correction: Correction) -> None:
        """Add a correction. Raises CellFault for a second one of the same difference."""
        key = (correction.kind, correction.reference)
        if key in self._open:
            problem = f"is about the same difference as line {self._open[key].line}"
            raise CellFault(problem, "Keep one of them.")
        self._open[key] = correction


def read_corrections(table: Table) -> Corrections:
    """Read a table of corrections, which has COLUMNS."""
    corrections = Corrections()
    for row in table.rows():
        if isinstance(row, Fault):
            corrections.faults.append(row)
            continue
        try:
            corrections.add(_read(table, row))
        except CellFault as fault:
            corrections.faults.append(fault.at(row.line))

    return corrections


def _read(table: Table, row: Row) -> Correction:
    kind, by, reason = (table.text(row, name) for name in COLUMNS.required)

    # A line without a payment has no gatewayReference: then its receipt names the difference.
    reference = table.key(row, "gatewayReference") or table.key(row, "receipt")
    if kind not in _KINDS:
        raise CellFault("is not known", f"Write one of these: {', '.join(sorted(_KINDS))}.", "kind")

    # Without a name and a reason it is no trace that anybody could follow.
    if not by or not reason:
        blank = "by" if not by else "reason"
        raise CellFault("is blank", "Write who has found out what.", blank)

    if not reference:
        remedy = "Write that of the difference, or its receipt."
        raise CellFault("is blank", remedy, "gatewayReference")

    return Correction(row.line, kind, reference, by, reason)
