"""Defines conversations with an SQL database, each written once for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from attrs import AttrsInstance, Factory, astuple, define, frozen

from mmo_sansio.values.clock import Instant

T = TypeVar("T")

# What compares with each value of a list.
ANY_OF: Final = "= ANY (?)"

Row: TypeAlias = tuple[Any, ...]


@frozen
class SqlStatement:
    """Holds a statement and its values."""

    text: str
    values: Sequence[Any] = ()


# A generator: it yields a statement and is sent its rows, so that it waits for no database itself
# and is driven by a thread or by an event loop.
SqlQuery: TypeAlias = Generator[SqlStatement, Sequence[Row], T]


class RunQuery(Protocol):
    """Runs a conversation that reads."""

    def __call__(self, make_query: Callable[[], SqlQuery[T]], /) -> Awaitable[T]: ...


class RunWrite(Protocol):
    """Runs a conversation that writes, in one transaction; makes it again when the transaction has
    to be repeated."""

    def __call__(
        self, make_query: Callable[[], SqlQuery[T]], /, stamp: Instant = Instant(0)
    ) -> Awaitable[T]:
        """Commit what the conversation writes; no later decision has a stamp below this one."""


def execute(text: str, *values: Any) -> SqlQuery[Sequence[Row]]:
    """Return the rows of one statement."""
    return (yield SqlStatement(text, values))


def select(parse: Callable[[Row], T], text: str, *values: Any) -> SqlQuery[list[T]]:
    """Return the parsed rows of one statement."""
    return [parse(row) for row in (yield from execute(text, *values))]


def select_newest(
    parse: Callable[[Row], T], text: str, key: str, *values: Any, after: object | None, limit: int
) -> SqlQuery[Sequence[T]]:
    """Return parsed rows of a table with the highest keys first: the highest of all, or where they
    come after a key, those next to it."""
    # Those next above a key are read upwards, and turned round.
    if after is None:
        rows = yield from execute(f"{text} ORDER BY {key} DESC LIMIT ?", *values, limit)
        return [parse(row) for row in rows]

    rows = yield from execute(f"{text} ORDER BY {key} LIMIT ?", *values, limit)
    return [parse(row) for row in reversed(rows)]


def select_one(parse: Callable[[Row], T], text: str, *values: Any) -> SqlQuery[T | None]:
    """Return the parsed row of one statement that finds at most one."""
    rows = yield from execute(text, *values)
    if rows:
        return parse(rows[0])
    return None


def values_of(record: AttrsInstance) -> list[Any]:
    """Return the values of a record's attributes in their order, each as a database takes it."""
    values: list[Any] = []
    for value in astuple(record, recurse=False):
        if isinstance(value, Enum):
            values.append(value.value)
        else:
            values.append(value)

    return values


def returns_row(text: str, *values: Any) -> SqlQuery[bool]:
    """Return whether one statement returns a row; with RETURNING, whether it has changed one."""
    return bool((yield from execute(text, *values)))


def run_query(query: SqlQuery[T], run: Callable[[SqlStatement], Sequence[Row]]) -> T:
    """Run a conversation to its end, in a thread."""
    try:
        statement = next(query)
        while True:
            statement = query.send(run(statement))
    except StopIteration as end:
        result: T = end.value
        return result


async def run_query_async(
    query: SqlQuery[T], run: Callable[[SqlStatement], Awaitable[Sequence[Row]]]
) -> T:
    """Run a conversation to its end, on an event loop."""
    try:
        statement = next(query)
        while True:
            statement = query.send(await run(statement))
    except StopIteration as end:
        result: T = end.value
        return result


@define
class Where:
    """The conditions of a statement, all of which must hold; as text it is the statement's WHERE
    clause."""

    conditions: list[str] = Factory(list)
    values: list[Any] = Factory(list)
    """The values of the conditions, in their order."""

    def and_(self, condition: str, *values: Any) -> Where:
        """Add a condition, but not when one of its values is None: the caller then doesn't care."""
        if None not in values:
            self.conditions.append(condition)
            self.values += values
        return self

    def among(self, column: str, values: Iterable[Any]) -> Where:
        """Add that a column is one of these values, however many they are: a statement has one text
        for all numbers of them. SQLite writes the condition in its own way; see `run_statement`
        there."""
        self.conditions.append(f"{column} {ANY_OF}")
        self.values.append(list(values))
        return self

    def __str__(self) -> str:
        if self.conditions:
            return f"WHERE {' AND '.join(self.conditions)}"
        return ""
