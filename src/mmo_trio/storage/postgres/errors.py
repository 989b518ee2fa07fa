"""The meaning of PostgreSQL's errors for a caller: decide again, try again, give up for now, or repair."""

from __future__ import annotations

from enum import Enum

import psycopg

from mmo_trio.storage.interface.store import StoreCorrupt, StoreUnavailable, StoreUnusable


class PostgresErrorKind(Enum):
    """A kind of error, by what a caller can do about it."""

    CONFLICT = "conflict"
    """Another process was quicker, and nothing was stored: load and decide again."""
    DISCONNECTED = "disconnected"
    """This connection, or the server, is lost: try on another one, a little later."""
    UNAVAILABLE = "unavailable"
    """The server can't do it now, and nothing was stored."""
    CORRUPT = "corrupt"
    UNUSABLE = "unusable"
    """The database isn't as this program needs it."""
    PROGRAMMING_ERROR = "programming error"
    """An error in this program."""


_BY_SQLSTATE = {
    "MMO01": PostgresErrorKind.CONFLICT,  # still_so()
    "23505": PostgresErrorKind.CONFLICT,  # unique_violation: the key was claimed meanwhile
    "40001": PostgresErrorKind.CONFLICT,  # serialization_failure
    "40P01": PostgresErrorKind.CONFLICT,  # deadlock_detected
    "25006": PostgresErrorKind.DISCONNECTED,  # read_only_sql_transaction: no primary any more
    "25P03": PostgresErrorKind.DISCONNECTED,  # idle_in_transaction_session_timeout
    "25P04": PostgresErrorKind.DISCONNECTED,  # transaction_timeout
    "26000": PostgresErrorKind.DISCONNECTED,  # invalid_sql_statement_name
    "53300": PostgresErrorKind.DISCONNECTED,  # too_many_connections: soon there may be fewer
    "57014": PostgresErrorKind.UNAVAILABLE,  # query_canceled: the statement took too long
    "XX001": PostgresErrorKind.CORRUPT,  # data_corrupted
    "XX002": PostgresErrorKind.CORRUPT,  # index_corrupted
    "42P01": PostgresErrorKind.UNUSABLE,  # undefined_table
    "42703": PostgresErrorKind.UNUSABLE,  # undefined_column
    "42501": PostgresErrorKind.UNUSABLE,  # insufficient_privilege
}
_BY_SQLSTATE_CLASS = {
    "08": PostgresErrorKind.DISCONNECTED,  # connection exceptions
    "57": PostgresErrorKind.DISCONNECTED,  # operator intervention: shutdown, start, crash
    "53": PostgresErrorKind.UNAVAILABLE,  # insufficient resources: disk full, out of memory
    "55": PostgresErrorKind.UNAVAILABLE,  # not in the right state: a lock wasn't to be had
    "58": PostgresErrorKind.UNAVAILABLE,  # system error
    "28": PostgresErrorKind.UNUSABLE,  # invalid authorization
    "3D": PostgresErrorKind.UNUSABLE,  # no such database
}


def classify_error(error: BaseException) -> PostgresErrorKind:
    """Return the kind of this error."""
    if not isinstance(error, psycopg.Error):
        return PostgresErrorKind.PROGRAMMING_ERROR
    state = error.sqlstate or ""
    if found := _BY_SQLSTATE.get(state) or _BY_SQLSTATE_CLASS.get(state[:2]):
        return found
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return PostgresErrorKind.DISCONNECTED
    return PostgresErrorKind.PROGRAMMING_ERROR


def translate_error(error: Exception) -> Exception:
    """Return the error as a store's, with PostgreSQL's first line and no values; programming errors stay as they
    are."""
    line = _first_line(error)
    match classify_error(error):
        case PostgresErrorKind.CONFLICT:
            return StoreUnavailable(f"other processes were quicker again and again: {line}")
        case PostgresErrorKind.DISCONNECTED | PostgresErrorKind.UNAVAILABLE:
            return StoreUnavailable(f"PostgreSQL: {line}")
        case PostgresErrorKind.CORRUPT:
            return StoreCorrupt(f"PostgreSQL: {line}: restore a backup, or run `mmo db check`")
        case PostgresErrorKind.UNUSABLE:
            return StoreUnusable(
                f"PostgreSQL: {line}: look at database.url and the user's rights, then run `mmo db migrate`"
            )
        case PostgresErrorKind.PROGRAMMING_ERROR:
            return error


def _first_line(error: Exception) -> str:
    """Return the message without DETAIL and CONTEXT, which contain values of rows."""
    return str(error).strip().partition("\n")[0]
