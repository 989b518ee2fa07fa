"""Statements that are sent together, and their results: one round trip, whatever their number.

psycopg's cursors could do it, but a cursor costs as much as ten rows, and its arrays are made of
text, element by element; a batch has a dozen statements. So they are prepared here, once on each
connection, and values are sent in PostgreSQL's binary format. Text that PostgreSQL can't store has
U+0000 or lone surrogates in it; no stored row has such text as its key."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from hashlib import sha256
from struct import Struct
from typing import Any, TypeAlias

import psycopg
from attrs import define, field, frozen
from psycopg import pq

from mmo_trio.storage.postgres.driver import Ready, Wait, error_of, read_rows
from mmo_trio.storage.postgres.trio_connection import PostgresConnection

Row: TypeAlias = tuple[Any, ...]
Encode: TypeAlias = Callable[[Any], bytes]

_boolean = Struct("!?").pack
_integer = Struct("!i").pack
_bigint = Struct("!q").pack
_array_head = Struct("!iiIii").pack
_empty_array = Struct("!iiI").pack
_NULL = b"\xff\xff\xff\xff"


def _array_encoder(oid: int, encode: Encode) -> Encode:
    """Return the encoder of an array of this type: one dimension, counted from 1."""

    # Dimensions, whether there are NULLs, type, length, first index: `array_recv` of the server.
    head_of_one = _array_head(1, 0, oid, 1, 1)
    null = _array_head(1, 1, oid, 1, 1) + _NULL

    def encode_all(elements: Sequence[Any]) -> bytes:
        # As in all small batches.
        if len(elements) == 1:
            if (only := elements[0]) is None:
                return null

            encoded = encode(only)
            return head_of_one + _integer(len(encoded)) + encoded

        if not elements:
            return _empty_array(0, 0, oid)

        parts = [_array_head(1, None in elements, oid, len(elements), 1)]
        for element in elements:
            if element is None:
                parts.append(_NULL)
            else:
                encoded = encode(element)
                parts.append(_integer(len(encoded)))
                parts.append(encoded)

        return b"".join(parts)

    return encode_all


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store this text."""
    return _UNSTORABLE.search(text) is None


def escape_text(text: str) -> str:
    """Return the text with unstorable characters escaped as in JSON; providers' text may contain
    anything. So is all text that is bound."""
    return _encode_text(text).decode()


def _encode_text(text: str) -> bytes:
    return text.encode(errors="backslashreplace").replace(b"\0", b"\\u0000")


_encode_storable: Encode = _array_encoder(25, str.encode)


def _encode_texts(elements: Sequence[str | None]) -> bytes:
    """Escape them one by one only where one needs it: a create binds twenty."""
    try:
        if "\0" not in "".join(filter(None, elements)):
            return _encode_storable(elements)
    except UnicodeEncodeError:
        pass
    return _encode_storable([element and escape_text(element) for element in elements])


_ENCODERS: dict[str, Encode] = {
    "text": _encode_text,
    "boolean": _boolean,
    "integer": _integer,
    "bigint": _bigint,
    "uuid": lambda value: bytes(value.bytes),
    "bytea": bytes,
    "text[]": _encode_texts,
    "boolean[]": _array_encoder(16, _boolean),
    "integer[]": _array_encoder(23, _integer),
    "bigint[]": _array_encoder(20, _bigint),
    "bytea[]": _array_encoder(17, bytes),
}
_PLACEHOLDER = re.compile(r"%s::(\w+(?:\[\])?)")


@define(eq=False)
class PreparedStatement:
    """Holds a statement with a `%s::type` for each value, of a type in `_ENCODERS`."""

    sql: str
    text: bytes = field(init=False)
    name: bytes = field(init=False)
    """Its name on the server: one name never means two statements, not even to a pooler in
    between."""
    _encoders: Sequence[Encode] = field(init=False)
    formats: Sequence[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        # `%s::text` becomes `$1::text`: the server needs the types, as values come in binary.
        types = _PLACEHOLDER.findall(self.sql)
        parts = _PLACEHOLDER.split(self.sql)[::2]
        assert len(types) == self.sql.count("%"), f"a value without a type in {self.sql}"
        numbered = (f"${number}::{kind}" for number, kind in enumerate(types, start=1))
        self.text = "".join(
            part + mark for part, mark in zip(parts, (*numbered, ""), strict=True)
        ).encode()
        self.name = b"mmo_" + sha256(self.text).hexdigest()[:16].encode()
        self._encoders = [_ENCODERS[kind] for kind in types]
        self.formats = [pq.Format.BINARY] * len(types)

    def bind(self, *values: Any) -> BoundStatement:
        """Return the statement with these values; None is NULL."""
        return BoundStatement(
            self,
            [
                None if value is None else encode(value)
                for encode, value in zip(self._encoders, values, strict=True)
            ],
        )

    def bind_rows(self, rows: Iterable[Sequence[Any]], *extra: Any) -> BoundStatement:
        """Return the statement with rows as arrays of their columns, so that it is prepared once
        for any number of rows."""
        return self.bind(*zip(*rows, strict=True), *extra)


@frozen(eq=False)
class BoundStatement:
    """Holds a statement with its values."""

    statement: PreparedStatement
    values: Sequence[bytes | None]


async def execute_pipeline(
    connection: PostgresConnection, statements: Sequence[BoundStatement]
) -> list[list[Row]]:
    """Return the rows of each statement, in order; raise the first error, after which none took
    effect."""
    results = await connection.wait(_pipeline(connection, statements))
    for result in results:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise error_of(result)
    return read_rows(connection, results)


def _pipeline(
    connection: PostgresConnection, statements: Sequence[BoundStatement]
) -> Generator[Wait, Ready | int, list[Any]]:
    """Send everything and fetch a result for each statement; leave the connection in the state
    before."""
    # 1. Send everything: what this session has not prepared yet comes first.
    pgconn = connection.pgconn
    prepared = connection.prepared
    unprepared = dict.fromkeys(
        item.statement for item in statements if item.statement.name not in prepared
    )
    pgconn.enter_pipeline_mode()
    for statement in unprepared:
        pgconn.send_prepare(statement.name, statement.text)

    for item in statements:
        pgconn.send_query_prepared(
            item.statement.name, item.values, item.statement.formats, pq.Format.BINARY
        )

    # 2. Read everything. A statement after one that failed has a result that says so.
    pgconn.pipeline_sync()
    results = yield from _collect_results(pgconn)
    pgconn.exit_pipeline_mode()
    for statement, result in zip(unprepared, results, strict=False):
        if result.status == pq.ExecStatus.COMMAND_OK:
            prepared.add(statement.name)

    # 3. A BEGIN among them has left a failed transaction open.
    if pgconn.transaction_status == pq.TransactionStatus.INERROR:
        pgconn.send_query(b"ROLLBACK")
        yield from _flush(pgconn)
        while (yield from _next_result(pgconn)) is not None:
            pass

    failed = [result for result in results if result.status == pq.ExecStatus.FATAL_ERROR]
    return failed or results[len(unprepared) :]


def _collect_results(pgconn: pq.abc.PGconn) -> Generator[Wait, Ready | int, list[Any]]:
    yield from _flush(pgconn)
    results: list[Any] = []
    while True:
        # As in `_next_result`; a generator for each of a dozen results would cost as much as they.
        while pgconn.is_busy():
            if (yield Wait.R):
                pgconn.consume_input()

        result = pgconn.get_result()
        if result is None:  # Those of the next statement follow.
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)


def _flush(pgconn: pq.abc.PGconn) -> Generator[Wait, Ready | int, None]:
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _next_result(pgconn: pq.abc.PGconn) -> Generator[Wait, Ready | int, Any]:
    while pgconn.is_busy():
        if (yield Wait.R):
            pgconn.consume_input()
    return pgconn.get_result()
