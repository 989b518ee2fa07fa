"""Statements about rows of brands, and one statement for all that a batch writes.

One server runs a statement once for all brands. Where tables are distributed by brand, a statement
that names no brand goes to every shard, so it runs once for each brand there, and names it.

On one server a batch is joined to one statement where that is possible, so that the server starts
and answers one instead of a dozen: the writes become parts of one WITH, and the checks its result.
By itself such a statement is a transaction, without BEGIN and COMMIT. Its parts run in no certain
order, and each sees only what was stored before. So each part writes a table of its own, and no
check reads what another part writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

from attrs import Factory, define, field

from mmo_trio.storage.postgres.pipeline import BoundStatement, PreparedStatement

# Statements that are prepared at most for batches of different shapes, as each takes memory in each
# session of the server. A batch of another shape is not joined.
SHAPES_MAX = 64

_TABLE = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_ROW_COUNT = "{rows}"

Rows: TypeAlias = Sequence[Sequence[Any]]
CountRows: TypeAlias = Callable[[Rows], int]

_Shape: TypeAlias = tuple[PreparedStatement, ...]


@define(eq=False)
class JoinableStatement(PreparedStatement):
    """Holds a statement that writes a table, or checks something, or both."""

    write: str = ""
    """The INSERT, UPDATE or DELETE. One whose rows are counted ends with RETURNING 1."""
    check: str = ""
    """An expression that fails if what the batch was decided from has changed. `{rows}` stands for
    the number of rows that were written."""
    table: str = field(init=False, default="")
    """The table that is written."""
    written_values: int = field(init=False, default=0)
    """How many of the values are those of `write`; those of `check` follow."""

    @classmethod
    def of(cls, write: str = "", check: str = "") -> JoinableStatement:
        """Return the statement of these."""
        if write and check:
            sql = (
                f"WITH written AS ({write}) SELECT {check.replace(_ROW_COUNT, 'count(*)')} "
                f"FROM written"
            )
        else:
            sql = write or f"SELECT {check}"

        # It has no table where it only checks.
        made = cls(sql, write, check)
        found = _TABLE.match(write)
        if found:
            made.table = found[1]
        else:
            made.table = ""

        made.written_values = write.count("%")
        return made


@define(eq=False)
class StatementJoiner:
    """Joins statements, and remembers those that it has made."""

    _made: dict[_Shape, PreparedStatement] = Factory(dict)

    def join(self, statements: Sequence[BoundStatement]) -> BoundStatement | None:
        """Return one statement that does what these do; None where one of them has to run by
        itself."""
        shape = tuple(statement.statement for statement in statements)
        joined = self._made.get(shape)
        if joined is None:
            if len(self._made) >= SHAPES_MAX:
                return None

            joined = _join(shape)
            if joined is None:
                return None

            self._made[shape] = joined

        # In the text all writes come before all checks, and so do their values.
        values: list[bytes | None] = []
        checked: list[bytes | None] = []
        for statement in statements:
            assert isinstance(statement.statement, JoinableStatement)
            values += statement.values[: statement.statement.written_values]
            checked += statement.values[statement.statement.written_values :]

        return BoundStatement(joined, values + checked)


def _join(shape: _Shape) -> PreparedStatement | None:
    parts = [part for part in shape if isinstance(part, JoinableStatement)]
    writes = {f"w{nth}": part.write.strip() for nth, part in enumerate(parts) if part.write}

    # Two that write one table may depend on their order, which WITH does not keep.
    tables = {part.table for part in parts if part.write}
    if len(parts) < len(shape) or len(tables) < len(writes):
        return None

    checks = [
        part.check.replace(_ROW_COUNT, f"(SELECT count(*) FROM w{nth})")
        for nth, part in enumerate(parts)
        if part.check
    ]
    written = ", ".join(f"{name} AS ({write})" for name, write in writes.items())
    return PreparedStatement(f"WITH {written} SELECT {', '.join(checks) or '1'}")


# Rows that one INSERT adds to a distributed table.
INSERTED_ROWS_MAX = 64

_FOR_SHARDS = re.compile(r"\[(?=AND |WHERE )([^\n]*)\](?=[\s)]|$)")
_ARRAYS = re.compile(r"unnest\(((?:%s::\w+\[\](?:,\s*)?)+)\)")
_REPEATED = re.compile(r"\sAND [\w.]+ = ANY \(\$\d+\)")
_INSERTED_ROWS = re.compile(r"SELECT \* FROM unnest\(([^)]*)\)")


class BrandStatement:
    """A statement that takes rows as arrays of their columns, the first of which is the brand.

    A condition in brackets, such as `[AND t.brand = ($1)[1]]`, is part of it only where tables are
    distributed: there all rows have one brand, and the planner finds the shard by it.
    `on_one_server` is a form that only one server plans well. With `check` it ends with RETURNING
    1, and the expression, in which `{rows}` is the number of its rows, fails if something has
    changed; `check_on_one_server` may be another one, whose arrays are the first columns once more.

    One that `is_joinable` has a form for a single row, in which each array is one value. A
    condition such as `AND t.at = ANY ($3)`, which repeats another one for the planner, is not part
    of that."""

    def __init__(
        self,
        sql: str,
        *,
        on_one_server: str | None = None,
        check: str = "",
        check_on_one_server: str | None = None,
        is_joinable: bool = False,
    ) -> None:
        whole = on_one_server or _FOR_SHARDS.sub("", sql)
        whole_check = check_on_one_server or check
        self.on_one_server = _with_check(whole, whole_check)
        self.on_shards = _with_check(_FOR_SHARDS.sub(r"\1", sql), check)
        single = _ARRAYS.sub(_single_row, _REPEATED.sub("", whole))
        self._of_one_row = JoinableStatement.of(single, whole_check) if is_joinable else None
        self._arrays_in_check = whole_check.count("[]")

    def bind_on_one_server(
        self, rows: Rows, count: CountRows | None = None
    ) -> Iterator[BoundStatement]:
        """Yield the statement for these rows; `count` returns the number that its check needs."""
        counted: tuple[int, ...] = ()
        if count is not None:
            counted = (count(rows),)

        values = *counted, *islice(zip(*rows, strict=True), self._arrays_in_check)
        if self._of_one_row is not None and len(rows) == 1:
            yield self._of_one_row.bind(*rows[0], *values)
        else:
            yield self.on_one_server.bind_rows(rows, *values)

    def bind_on_shards(
        self, rows: Rows, count: CountRows | None = None
    ) -> Iterator[BoundStatement]:
        """Yield the statement for the rows of each brand, in the order of the brands: no two
        batches wait for each other."""
        for _, group in groupby(sorted(rows, key=itemgetter(0)), key=itemgetter(0)):
            same_brand = list(group)
            counted: tuple[int, ...] = ()
            if count is not None:
                counted = (count(same_brand),)

            yield self.on_shards.bind_rows(same_brand, *counted)


def _with_check(sql: str, check: str) -> PreparedStatement:
    if check:
        return JoinableStatement.of(sql, check)
    return PreparedStatement(sql)


def _single_row(arrays: re.Match[str]) -> str:
    return f"(VALUES ({arrays[1].replace('[]', '')}))"


class InsertStatement:
    """An INSERT of rows, written as `SELECT * FROM unnest(...)`, one array for each column.

    A single row is inserted as VALUES, which costs the server less. Into a distributed table it
    always inserts VALUES: rows of a SELECT would be copied, for which Citus always commits in two
    phases. `is_joinable`: whether it may run in any order among others of a batch."""

    def __init__(self, sql: str, *, is_joinable: bool = True) -> None:
        self.on_one_server = _prepare(sql, is_joinable)
        self._sql = sql
        self._is_joinable = is_joinable
        (arrays,) = _INSERTED_ROWS.findall(sql)
        self._row = f"({arrays.replace('[]', '')})"

    def bind_on_one_server(self, rows: Rows) -> Iterator[BoundStatement]:
        """Yield the statement for these rows."""
        if len(rows) > 1:
            yield self.on_one_server.bind_rows(rows)
        else:
            yield from self.bind_on_shards(rows)

    def bind_on_shards(self, rows: Rows) -> Iterator[BoundStatement]:
        """Yield the statement for these rows as VALUES, or several of numbers of rows that
        recur."""
        # Powers of two, so that few statements are prepared for all numbers of rows.
        left = list(rows)
        while left:
            count = min(1 << (len(left).bit_length() - 1), INSERTED_ROWS_MAX)
            yield self._of_rows(count).bind(*(value for row in left[:count] for value in row))
            del left[:count]

    def _of_rows(self, count: int) -> PreparedStatement:
        return _insert_values(self._sql, self._row, count, self._is_joinable)


@cache
def _insert_values(sql: str, row: str, count: int, is_joinable: bool) -> PreparedStatement:
    return _prepare(_INSERTED_ROWS.sub(f"VALUES {', '.join([row] * count)}", sql), is_joinable)


def _prepare(sql: str, is_joinable: bool) -> PreparedStatement:
    if is_joinable:
        return JoinableStatement.of(sql)
    return PreparedStatement(sql)


class KnownBrands:
    """Remembers the brands of the latest transactions by gatewayReference, so that a batch reads
    and writes them by their key. A transaction's brand never changes."""

    def __init__(self, limit: int = 50_000) -> None:
        self._limit = limit
        self._brands: dict[str, str] = {}

    def add(self, gateway_reference: str, brand: str) -> None:
        """Remember the brand of a transaction, and forget one that was learnt long ago."""
        # The first of a dict is the one that was added longest ago.
        known = self._brands
        if gateway_reference not in known and len(known) >= self._limit:
            del known[next(iter(known))]
        known[gateway_reference] = brand

    def get(self, gateway_reference: str) -> str | None:
        """Return the brand of a transaction, or None when it is not known here."""
        return self._brands.get(gateway_reference)
