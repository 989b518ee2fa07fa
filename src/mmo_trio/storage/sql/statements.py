"""Conversations with an SQL database: generators that yield a statement, are sent its rows, and return what they mean.

The same words go to SQLite and to PostgreSQL; whoever holds the conversation puts them in the database's own dialect.
A `?` stands for a value, and nothing else is written with a `?` or a `%`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from attrs import frozen

T = TypeVar("T")
Row = tuple[Any, ...]


@frozen
class SqlStatement:
    """One statement with its values."""

    text: str
    values: Sequence[Any] = ()


SqlQuery: TypeAlias = Generator[SqlStatement, Sequence[Row], T]


class RunQuery(Protocol):
    """Holds a conversation in one transaction; it is begun anew when the transaction has to be."""

    def __call__(self, make_query: Callable[[], SqlQuery[T]], /) -> Awaitable[T]: ...


def execute(text: str, *values: Any) -> SqlQuery[Sequence[Row]]:
    """The rows of one statement."""
    return (yield SqlStatement(text, values))
