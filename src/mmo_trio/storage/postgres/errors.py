"""What PostgreSQL's errors mean to a caller: decide again, try again, give up for now, or call for help."""

from __future__ import annotations

from enum import Enum

import psycopg

from mmo_trio.storage.interface.store import StoreCorrupt, StoreRefused, StoreUnavailable


class Meaning(Enum):
    """What to do about an error."""

    LOST_RACE = "lost race"
    """Another node was quicker, and nothing was stored: load and decide again."""
    AWAY = "away"
    """This connection, or the server, is of no use: try on another one, a little later."""
    UNAVAILABLE = "unavailable"
    """The server can't do it for now, and nothing was stored."""
    CORRUPT = "corrupt"
    REFUSED = "refused"
    """The database isn't as this program needs it."""
    FAULT = "fault"
    """A fault of ours."""


_BY_STATE = {
    "MMO01": Meaning.LOST_RACE,  # still_so()
    "23505": Meaning.LOST_RACE,  # unique_violation: the key was claimed meanwhile
    "40001": Meaning.LOST_RACE,  # serialization_failure
    "40P01": Meaning.LOST_RACE,  # deadlock_detected
    "25006": Meaning.AWAY,  # read_only_sql_transaction: no primary any more
    "25P03": Meaning.AWAY,  # idle_in_transaction_session_timeout
    "25P04": Meaning.AWAY,  # transaction_timeout
    "26000": Meaning.AWAY,  # invalid_sql_statement_name: the prepared statement is with another server
    "XX001": Meaning.CORRUPT,  # data_corrupted
    "XX002": Meaning.CORRUPT,  # index_corrupted
    "42P01": Meaning.REFUSED,  # undefined_table
    "42703": Meaning.REFUSED,  # undefined_column
    "42501": Meaning.REFUSED,  # insufficient_privilege
}
_BY_CLASS = {
    "08": Meaning.AWAY,  # connection exceptions
    "57": Meaning.AWAY,  # operator intervention: shutting down, starting up, crashed
    "53": Meaning.UNAVAILABLE,  # insufficient resources: disk full, out of memory
    "55": Meaning.UNAVAILABLE,  # not in the right state: a lock wasn't to be had
    "58": Meaning.UNAVAILABLE,  # system error
    "28": Meaning.REFUSED,  # invalid authorization
    "3D": Meaning.REFUSED,  # no such database
}
_BY_STATE["53300"] = Meaning.AWAY  # too_many_connections: soon there may be fewer
_BY_STATE["57014"] = Meaning.UNAVAILABLE  # query_canceled: the statement took too long


def meaning_of(error: BaseException) -> Meaning:
    """What this error means."""
    if not isinstance(error, psycopg.Error):
        return Meaning.FAULT
    state = error.sqlstate or ""
    if found := _BY_STATE.get(state) or _BY_CLASS.get(state[:2]):
        return found
    if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Meaning.AWAY
    return Meaning.FAULT


def translated(error: Exception) -> Exception:
    """The error as a store's; faults stay what they are. It tells PostgreSQL's first line and no values."""
    said = _first_line(error)
    match meaning_of(error):
        case Meaning.LOST_RACE:
            return StoreUnavailable(f"other nodes were quicker again and again: {said}")
        case Meaning.AWAY | Meaning.UNAVAILABLE:
            return StoreUnavailable(f"PostgreSQL: {said}")
        case Meaning.CORRUPT:
            return StoreCorrupt(f"PostgreSQL: {said}: restore a backup, or run `mmo db check`")
        case Meaning.REFUSED:
            return StoreRefused(
                f"PostgreSQL: {said}: look at database.url and the user's rights, then run `mmo db migrate`"
            )
        case Meaning.FAULT:
            return error


def _first_line(error: Exception) -> str:
    """Without DETAIL and CONTEXT, which hold values of rows."""
    return str(error).strip().partition("\n")[0]
