"""Stores console users in SQL: their sessions, attempts to sign in, second factors and recovery
codes."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import (
    ConsoleSession,
    ConsoleUser,
    Role,
    SecondFactor,
    SignInAttempt,
)
from mmo_trio.storage.sql.statements import (
    Row,
    SqlQuery,
    execute,
    returns_row,
    select,
    select_one,
    values_of,
)

_FACTOR_COLUMNS = (
    "user_name, sealed, confirmed_at, last_step, pending,"
    " (SELECT count(*) FROM recovery_codes WHERE recovery_codes.user_name = "
    "second_factors.user_name), locked_at"
)
_USER_COLUMNS = "name, role, password_hash, added_at, disabled_at"


def add_user(user: ConsoleUser) -> SqlQuery[bool]:
    """Add a user; return False when the name is taken."""
    return returns_row(
        f"INSERT INTO console_users ({_USER_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) "
        f"DO NOTHING RETURNING 1",
        *values_of(user),
    )


def replace_user(user: ConsoleUser) -> SqlQuery[bool]:
    """Replace a user, end all its sessions, and let its second factor take codes again; return
    False when there is no user of that name."""
    name, *values = values_of(user)
    changed = yield from execute(
        "UPDATE console_users SET role = ?, password_hash = ?, added_at = ?, disabled_at = ?"
        " WHERE name = ? RETURNING 1",
        *values,
        name,
    )

    # With another password or role, nobody goes on as before.
    yield from execute("DELETE FROM sessions WHERE user_name = ?", name)
    yield from unlock_second_factor(name)
    return bool(changed)


def users() -> SqlQuery[Sequence[ConsoleUser]]:
    """Return every user, by name."""
    return select(_parse_user, f"SELECT {_USER_COLUMNS} FROM console_users ORDER BY name")


def user(name: str) -> SqlQuery[ConsoleUser | None]:
    """Return the user of this name."""
    return select_one(
        _parse_user, f"SELECT {_USER_COLUMNS} FROM console_users WHERE name = ?", name
    )


def _parse_user(row: Row) -> ConsoleUser:
    return ConsoleUser(row[0], Role(row[1]), *row[2:])


def begin_session(session: ConsoleSession, *, expire_before: Instant) -> SqlQuery[None]:
    """Store a session, and delete the sessions and the inputs from before a time."""
    yield from execute("DELETE FROM sessions WHERE began_at < ?", expire_before)
    yield from execute("DELETE FROM console_inputs WHERE at < ?", expire_before)
    yield from execute(
        "INSERT INTO sessions (digest, user_name, began_at, seen_at) VALUES (?, ?, ?, ?)",
        *values_of(session),
    )


def session(digest: bytes) -> SqlQuery[tuple[ConsoleSession, ConsoleUser] | None]:
    """Return a session and its user, as that user is now."""
    return select_one(
        lambda row: (ConsoleSession(*row[:4]), _parse_user(row[4:])),
        f"SELECT digest, user_name, began_at, seen_at, {_USER_COLUMNS}"
        " FROM sessions JOIN console_users ON name = user_name WHERE digest = ?",
        digest,
    )


def touch_session(digest: bytes, at: Instant) -> SqlQuery[None]:
    """Record that a session is in use."""
    yield from execute("UPDATE sessions SET seen_at = ? WHERE digest = ?", at, digest)


def end_session(digest: bytes) -> SqlQuery[None]:
    """End a session, if it is there."""
    yield from execute("DELETE FROM sessions WHERE digest = ?", digest)


def keep_input(user: str, id: str, sealed: bytes, at: Instant) -> SqlQuery[None]:
    """Keep what a user has typed."""
    yield from execute(
        "INSERT INTO console_inputs (user_name, id, sealed, at) VALUES (?, ?, ?, ?)",
        user,
        id,
        sealed,
        at,
    )


def kept_input(user: str, id: str) -> SqlQuery[bytes | None]:
    """Return what a user has typed, sealed."""
    return select_one(
        lambda row: bytes(row[0]),
        "SELECT sealed FROM console_inputs WHERE user_name = ? AND id = ?",
        user,
        id,
    )


def record_sign_in_attempt(attempt: SignInAttempt, *, expire_before: Instant) -> SqlQuery[None]:
    """Record an attempt, and delete those before a time."""
    yield from execute("DELETE FROM sign_in_attempts WHERE at < ?", expire_before)
    yield from execute(
        "INSERT INTO sign_in_attempts (name, network, at) VALUES (?, ?, ?)", *values_of(attempt)
    )


def sign_in_attempts(
    name: str, network: str, *, since: Instant
) -> SqlQuery[Sequence[SignInAttempt]]:
    """Return the attempts since a time with this name or from this network, in the order of
    time."""
    return select(
        lambda row: SignInAttempt(*row),
        "SELECT name, network, at FROM sign_in_attempts WHERE at >= ? AND (name = ? OR network = "
        "?) ORDER BY at",
        since,
        name,
        network,
    )


def forget_sign_in_attempts(name: str, network: str) -> SqlQuery[None]:
    """Delete the attempts with this name from this network."""
    yield from execute("DELETE FROM sign_in_attempts WHERE name = ? AND network = ?", name, network)


def second_factor(user: str) -> SqlQuery[SecondFactor | None]:
    """Return the second factor of a user."""
    return select_one(
        _parse_second_factor,
        f"SELECT {_FACTOR_COLUMNS} FROM second_factors WHERE user_name = ?",
        user,
    )


def second_factors() -> SqlQuery[Sequence[SecondFactor]]:
    """Return all second factors, by user."""
    return select(
        _parse_second_factor, f"SELECT {_FACTOR_COLUMNS} FROM second_factors ORDER BY user_name"
    )


def begin_enrolment(user: str, pending: bytes) -> SqlQuery[None]:
    """Keep a sealed secret that the user has still to confirm, next to the one in use."""
    yield from execute(
        "INSERT INTO second_factors (user_name, pending) VALUES (?, ?)"
        " ON CONFLICT (user_name) DO UPDATE SET pending = excluded.pending",
        user,
        pending,
    )


def confirm_second_factor(
    user: str, pending: bytes, *, step: int, at: Instant, codes: Sequence[bytes], session: bytes
) -> SqlQuery[bool]:
    """Put this pending secret into use and replace the recovery codes' digests, and end the user's
    sessions except one; return False when another secret is pending."""
    # Of two enrolments at once, the last begun one counts: its secret is what the user sees.
    confirmed = yield from returns_row(
        "UPDATE second_factors SET sealed = pending, pending = NULL, confirmed_at = ?, "
        "last_step = ?"
        " WHERE user_name = ? AND pending = ? RETURNING 1",
        at,
        step,
        user,
        pending,
    )

    # Whoever has signed in with the password alone is out.
    if confirmed:
        yield from replace_recovery_codes(user, codes)
        yield from execute(
            "DELETE FROM sessions WHERE user_name = ? AND digest <> ?", user, session
        )

    return confirmed


def use_time_step(user: str, step: int) -> SqlQuery[bool]:
    """Record the step of an accepted code; return False when this step or a later one was accepted
    before."""
    # RFC 6238, 5.2: a code is accepted once.
    return returns_row(
        "UPDATE second_factors SET last_step = ?"
        " WHERE user_name = ? AND last_step < ? AND sealed IS NOT NULL RETURNING 1",
        step,
        user,
        step,
    )


def count_wrong_code(user: str, *, at: Instant, since: Instant, most: int) -> SqlQuery[bool]:
    """Count a wrong code with the others of a period, which ends when its first one is older than
    `since`; return whether this one locks the second factor, as the last of `most`."""
    # 1. Count, in a new period from 1 on. A locked one counts no more: it takes no code.
    yield from execute(
        "UPDATE second_factors SET"
        " wrong_codes = CASE WHEN wrong_codes_since > ? THEN wrong_codes + 1 ELSE 1 END,"
        " wrong_codes_since = CASE WHEN wrong_codes_since > ? THEN wrong_codes_since ELSE ? END"
        " WHERE user_name = ? AND locked_at IS NULL",
        since,
        since,
        at,
        user,
    )

    # 2. Lock. Of wrong codes that come at once, one is told that it has locked.
    return (
        yield from returns_row(
            "UPDATE second_factors SET locked_at = ?"
            " WHERE user_name = ? AND locked_at IS NULL AND wrong_codes >= ? RETURNING 1",
            at,
            user,
            most,
        )
    )


def unlock_second_factor(user: str) -> SqlQuery[None]:
    """Let a second factor take codes again, and forget the wrong ones."""
    yield from execute(
        "UPDATE second_factors SET wrong_codes = 0, wrong_codes_since = NULL, locked_at = NULL"
        " WHERE user_name = ?",
        user,
    )


def use_recovery_code(user: str, digest: bytes) -> SqlQuery[bool]:
    """Remove a recovery code; return False when the user has no such code."""
    return returns_row(
        "DELETE FROM recovery_codes WHERE user_name = ? AND digest = ? RETURNING 1", user, digest
    )


def replace_recovery_codes(user: str, codes: Sequence[bytes]) -> SqlQuery[None]:
    """Replace the digests of the recovery codes."""
    yield from execute("DELETE FROM recovery_codes WHERE user_name = ?", user)
    for code in sorted(codes):
        yield from execute(
            "INSERT INTO recovery_codes (user_name, digest) VALUES (?, ?)", user, code
        )


def remove_second_factor(user: str, *, session: bytes | None = None) -> SqlQuery[bool]:
    """Remove a second factor and its recovery codes, and end the user's sessions except this one;
    return False when there is none."""
    removed = yield from returns_row(
        "DELETE FROM second_factors WHERE user_name = ? RETURNING 1", user
    )
    yield from replace_recovery_codes(user, ())
    yield from execute(
        "DELETE FROM sessions WHERE user_name = ? AND digest <> ?", user, session or b""
    )
    return removed


def reseal_second_factor(user: str, old: bytes, new: bytes) -> SqlQuery[None]:
    """Replace a sealed secret, wherever it stands, by the same secret, sealed with another key."""
    yield from execute(
        "UPDATE second_factors SET sealed = ? WHERE user_name = ? AND sealed = ?", new, user, old
    )
    yield from execute(
        "UPDATE second_factors SET pending = ? WHERE user_name = ? AND pending = ?", new, user, old
    )


def _parse_second_factor(row: Row) -> SecondFactor:
    return SecondFactor(*row)
