"""The meaning of PostgreSQL's errors for a caller: decide again, try again, give up for now, or
repair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import psycopg

from mmo_trio.storage.interface.store import (
    OutcomeUnknown,
    StoreCorrupt,
    StoreUnavailable,
    StoreUnusable,
)
from mmo_trio.storage.postgres.trio_connection import PostgresConnection


class PostgresErrorKind(Enum):
    """A kind of error, by what a caller can do about it."""

    CONFLICT = "conflict"
    """Another process was quicker, and nothing was stored: load and decide again."""
    DISCONNECTED = "disconnected"
    """This connection, or the server, is lost: try on another one, a little later."""
    UNCONFIRMED = "unconfirmed"
    """The server has committed, but it may lose that with its disk: ask a statement that waits for
    the standby."""
    UNAVAILABLE = "unavailable"
    """The server can't do it now, and nothing was stored."""
    CORRUPT = "corrupt"
    UNUSABLE = "unusable"
    """The database isn't as this program needs it."""
    PROGRAMMING_ERROR = "programming error"
    """An error in this program."""


class UnconfirmedCommit(psycopg.OperationalError):
    """The server warned during a commit: somebody has cancelled its wait for the synchronous
    standby, or a worker of Citus was lost."""


class StoreReplaced(psycopg.OperationalError):
    """The database lacks what this process has committed to it, or is another one."""


@contextmanager
def require_confirmation(connection: PostgresConnection) -> Iterator[None]:
    """Raise UnconfirmedCommit when the server warns while the block commits.

    Citus warns, too, before it fails with an internal error, when it has lost a worker while that
    one committed."""
    connection.warnings.clear()
    try:
        yield
    except psycopg.errors.InternalError_ as error:
        if connection.warnings:
            raise UnconfirmedCommit(connection.warnings[0]) from error
        raise

    if connection.warnings:
        raise UnconfirmedCommit(connection.warnings[0])


KINDS_BY_SQLSTATE = {
    "MMO01": PostgresErrorKind.CONFLICT,  # still_so()
    "23505": PostgresErrorKind.CONFLICT,  # unique_violation: the key was claimed meanwhile
    # check_violation: the row has got a partition of its own meanwhile
    "23514": PostgresErrorKind.CONFLICT,
    # feature_not_supported: a cached plan of a table that was changed
    "0A000": PostgresErrorKind.DISCONNECTED,
    "25006": PostgresErrorKind.DISCONNECTED,  # read_only_sql_transaction: no primary any more
    "25P03": PostgresErrorKind.DISCONNECTED,  # idle_in_transaction_session_timeout
    "25P04": PostgresErrorKind.DISCONNECTED,  # transaction_timeout
    "40003": PostgresErrorKind.DISCONNECTED,  # statement_completion_unknown
    "42P05": PostgresErrorKind.DISCONNECTED,  # duplicate_prepared_statement
    "53300": PostgresErrorKind.DISCONNECTED,  # too_many_connections: soon there may be fewer
    "57014": PostgresErrorKind.UNAVAILABLE,  # query_canceled: the statement took too long
    "XX001": PostgresErrorKind.CORRUPT,  # data_corrupted
    "XX002": PostgresErrorKind.CORRUPT,  # index_corrupted
    "42P01": PostgresErrorKind.UNUSABLE,  # undefined_table
    "42703": PostgresErrorKind.UNUSABLE,  # undefined_column
    "42501": PostgresErrorKind.UNUSABLE,  # insufficient_privilege
    "42P07": PostgresErrorKind.UNUSABLE,  # duplicate_table
    "42710": PostgresErrorKind.UNUSABLE,  # duplicate_object
    "42723": PostgresErrorKind.UNUSABLE,  # duplicate_function
    "42883": PostgresErrorKind.UNUSABLE,  # undefined_function
    "42704": PostgresErrorKind.UNUSABLE,  # undefined_object: an unknown setting in the address
    "22023": PostgresErrorKind.UNUSABLE,  # invalid_parameter_value: a wrong setting in the address
}

# What to do about the other errors of a class. Those of all others come of a statement or of its
# values, so that the same would fail again: they are programming errors, and an input that can't be
# stored is told from the others of its batch, which are decided one by one.
KINDS_BY_CLASS = {
    "40": PostgresErrorKind.CONFLICT,  # transaction rollback: serialization failures and deadlocks
    "08": PostgresErrorKind.DISCONNECTED,  # connection exceptions
    "25": PostgresErrorKind.DISCONNECTED,  # invalid transaction state: of this session
    # invalid statement name: a statement that the session has lost
    "26": PostgresErrorKind.DISCONNECTED,
    "57": PostgresErrorKind.DISCONNECTED,  # operator intervention: shutdown, start, crash
    # internal errors: another session, and a look whether a commit took place
    "XX": PostgresErrorKind.DISCONNECTED,
    "53": PostgresErrorKind.UNAVAILABLE,  # insufficient resources: disk full, out of memory
    "55": PostgresErrorKind.UNAVAILABLE,  # not in the right state: a lock wasn't to be had
    "58": PostgresErrorKind.UNAVAILABLE,  # system error
    "72": PostgresErrorKind.UNAVAILABLE,  # snapshot too old
    "F0": PostgresErrorKind.UNAVAILABLE,  # the server's configuration file
    "0L": PostgresErrorKind.UNUSABLE,  # invalid grantor
    "0P": PostgresErrorKind.UNUSABLE,  # invalid role
    "28": PostgresErrorKind.UNUSABLE,  # invalid authorization
    "3D": PostgresErrorKind.UNUSABLE,  # no such database
    "3F": PostgresErrorKind.UNUSABLE,  # no such schema
}

_ANOTHER_PROGRAM = (
    "another program uses this schema: give the gateway a database, or a schema (search_path), "
    "of its own"
)
_POOLER = (
    "the gateway keeps prepared statements: set pool_mode = session in the pooler between it and "
    "the server"
)

# What to do about an error, by SQLSTATE.
_REMEDIES = {
    "25006": "a standby that nobody has promoted, or default_transaction_read_only: name "
    "the primary "
    "in database.url",
    "26000": _POOLER,
    "42P05": _POOLER,
    "28000": "look at the server's pg_hba.conf, the role's right to log in, and sslmode in "
    "database.url",
    "28P01": "give the right password in database.url, ~/.pgpass or PGPASSWORD",
    "3D000": "create the database, or correct its name in database.url",
    "3F000": "set the role's search_path to a schema that exists",
    "42P07": _ANOTHER_PROGRAM,
    "42710": _ANOTHER_PROGRAM,
    "42723": _ANOTHER_PROGRAM,
    "42704": "correct the parameters in database.url",
    "22023": "correct the parameters in database.url",
    "42501": "grant the role what it lacks, or let it own the database's tables",
}


def classify_error(error: BaseException) -> PostgresErrorKind:
    """Return the kind of this error."""
    if not isinstance(error, psycopg.Error):
        return PostgresErrorKind.PROGRAMMING_ERROR
    if isinstance(error, UnconfirmedCommit):
        return PostgresErrorKind.UNCONFIRMED
    if isinstance(error, StoreReplaced):
        return PostgresErrorKind.UNAVAILABLE

    # What has an SQLSTATE comes from the server, by the code itself or by its class.
    state = error.sqlstate or ""
    if found := KINDS_BY_SQLSTATE.get(state) or KINDS_BY_CLASS.get(state[:2]):
        return found

    # What has none is psycopg's own: the connection is lost, or was used wrongly.
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return PostgresErrorKind.DISCONNECTED

    return PostgresErrorKind.PROGRAMMING_ERROR


def translate_error(error: Exception) -> Exception:
    """Return the error as a store's, with PostgreSQL's first line, a remedy and no values;
    programming errors stay as they are."""
    # The store's errors are told to merchants and staff, so no value of a row may stand in them.
    line = _first_line(error)
    remedy = None
    if isinstance(error, psycopg.Error):
        remedy = _REMEDIES.get(error.sqlstate or "")

    if remedy is not None:
        line = f"{line}: {remedy}"

    match classify_error(error):
        case PostgresErrorKind.CONFLICT:
            return StoreUnavailable(f"other processes were quicker again and again: {line}")
        case PostgresErrorKind.DISCONNECTED | PostgresErrorKind.UNAVAILABLE:
            return StoreUnavailable(f"PostgreSQL: {line}")
        case PostgresErrorKind.UNCONFIRMED:
            return OutcomeUnknown(f"PostgreSQL: {line}")
        case PostgresErrorKind.CORRUPT:
            return StoreCorrupt(f"PostgreSQL: {line}")
        case PostgresErrorKind.UNUSABLE if remedy is not None:
            return StoreUnusable(f"PostgreSQL: {line}")
        case PostgresErrorKind.UNUSABLE:
            return StoreUnusable(
                f"PostgreSQL: {line}: look at database.url and the user's rights, then run `mmo "
                f"db migrate`"
            )
        case PostgresErrorKind.PROGRAMMING_ERROR:
            return error


def _first_line(error: Exception) -> str:
    """Return the message without DETAIL and CONTEXT, which contain values of rows."""
    return str(error).strip().partition("\n")[0]
