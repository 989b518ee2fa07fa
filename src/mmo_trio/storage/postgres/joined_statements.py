"""One statement for all that a batch writes: the server starts and answers one instead of a dozen.

The writes become parts of one WITH, and the checks its result. By itself such a statement is a transaction, without
BEGIN and COMMIT. Its parts run in no certain order, and each sees only what was stored before. So a batch is joined
where each part writes a table of its own and no check reads what another part writes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from attrs import Factory, define, field

from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement

SHAPES_MAX = 64
"""Statements that are prepared at most for batches of different shapes, as each takes memory in each session of the
server. A batch of another shape is not joined."""

_TABLE = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_ROWS = "{rows}"

_Shape: TypeAlias = tuple[PreparedStatement, ...]


@define(eq=False)
class JoinableStatement(PreparedStatement):
    """Holds a statement that writes a table, or checks something, or both."""

    write: str = ""
    """The INSERT, UPDATE or DELETE. One whose rows are counted ends with RETURNING 1."""
    check: str = ""
    """An expression that fails if what the batch was decided from has changed. `{rows}` stands for the number of rows
    that were written."""
    table: str = field(init=False, default="")
    """The table that is written."""
    written_values: int = field(init=False, default=0)
    """How many of the values are those of `write`; those of `check` follow."""

    @classmethod
    def of(cls, write: str = "", check: str = "") -> JoinableStatement:
        """Return the statement of these."""
        if write and check:
            sql = f"WITH written AS ({write}) SELECT {check.replace(_ROWS, 'count(*)')} FROM written"
        else:
            sql = write or f"SELECT {check}"
        made = cls(sql, write, check)
        found = _TABLE.match(write)
        made.table = found[1] if found else ""
        made.written_values = write.count("%")
        return made


@define(eq=False)
class StatementJoiner:
    """Joins statements, and remembers those that it has made."""

    _made: dict[_Shape, PreparedStatement] = Factory(dict)

    def join(self, statements: Sequence[BoundStatement]) -> BoundStatement | None:
        """Return one statement that does what these do; None where one of them has to run by itself."""
        shape = tuple(each.statement for each in statements)
        joined = self._made.get(shape)
        if joined is None:
            joined = _join(shape) if len(self._made) < SHAPES_MAX else None
            if joined is None:
                return None
            self._made[shape] = joined
        values: list[bytes | None] = []
        checked: list[bytes | None] = []
        for each in statements:
            assert isinstance(each.statement, JoinableStatement)
            values += each.values[: each.statement.written_values]
            checked += each.values[each.statement.written_values :]
        return BoundStatement(joined, values + checked)


def _join(shape: _Shape) -> PreparedStatement | None:
    parts = [each for each in shape if isinstance(each, JoinableStatement)]
    writes = {f"w{nth}": each.write.strip() for nth, each in enumerate(parts) if each.write}
    tables = {each.table for each in parts if each.write}
    if len(parts) < len(shape) or len(tables) < len(writes):
        return None
    checks = [
        each.check.replace(_ROWS, f"(SELECT count(*) FROM w{nth})") for nth, each in enumerate(parts) if each.check
    ]
    written = ", ".join(f"{name} AS ({write})" for name, write in writes.items())
    return PreparedStatement(f"WITH {written} SELECT {', '.join(checks) or '1'}")
