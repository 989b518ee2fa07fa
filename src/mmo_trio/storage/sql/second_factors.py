"""Stores the second factors of console users, and their recovery codes, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import SecondFactor
from mmo_trio.storage.sql.statements import Row, SqlQuery, execute, returns_row, select

_COLUMNS = (
    "user_name, sealed, confirmed_at, last_step, pending,"
    " (SELECT count(*) FROM recovery_codes WHERE recovery_codes.user_name = second_factors.user_name)"
)


def second_factor(user: str) -> SqlQuery[SecondFactor | None]:
    """Return the second factor of a user."""
    rows = yield from execute(f"SELECT {_COLUMNS} FROM second_factors WHERE user_name = ?", user)
    return _parse_second_factor(rows[0]) if rows else None


def second_factors() -> SqlQuery[Sequence[SecondFactor]]:
    """Return all second factors, by user."""
    return select(_parse_second_factor, f"SELECT {_COLUMNS} FROM second_factors ORDER BY user_name")


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
    """Put this pending secret into use and replace the recovery codes' digests, and end the user's sessions except one;
    return False when another secret is pending."""
    confirmed = yield from returns_row(
        "UPDATE second_factors SET sealed = pending, pending = NULL, confirmed_at = ?, last_step = ?"
        " WHERE user_name = ? AND pending = ? RETURNING 1",
        at,
        step,
        user,
        pending,
    )
    if confirmed:
        yield from replace_recovery_codes(user, codes)
        yield from execute("DELETE FROM sessions WHERE user_name = ? AND digest <> ?", user, session)
    return confirmed


def use_time_step(user: str, step: int) -> SqlQuery[bool]:
    """Record the step of an accepted code; return False when this step or a later one was accepted before."""
    return returns_row(
        "UPDATE second_factors SET last_step = ?"
        " WHERE user_name = ? AND last_step < ? AND sealed IS NOT NULL RETURNING 1",
        step,
        user,
        step,
    )


def use_recovery_code(user: str, digest: bytes) -> SqlQuery[bool]:
    """Remove a recovery code; return False when the user has no such code."""
    return returns_row("DELETE FROM recovery_codes WHERE user_name = ? AND digest = ? RETURNING 1", user, digest)


def replace_recovery_codes(user: str, codes: Sequence[bytes]) -> SqlQuery[None]:
    """Replace the digests of the recovery codes."""
    yield from execute("DELETE FROM recovery_codes WHERE user_name = ?", user)
    for code in sorted(codes):
        yield from execute("INSERT INTO recovery_codes (user_name, digest) VALUES (?, ?)", user, code)


def remove_second_factor(user: str, *, session: bytes | None = None) -> SqlQuery[bool]:
    """Remove a second factor and its recovery codes, and end the user's sessions except this one; return False when
    there is none."""
    removed = yield from returns_row("DELETE FROM second_factors WHERE user_name = ? RETURNING 1", user)
    yield from replace_recovery_codes(user, ())
    yield from execute("DELETE FROM sessions WHERE user_name = ? AND digest <> ?", user, session or b"")
    return removed


def reseal_second_factor(user: str, old: bytes, new: bytes) -> SqlQuery[None]:
    """Replace a sealed secret, wherever it stands, by the same secret, sealed with another key."""
    yield from execute("UPDATE second_factors SET sealed = ? WHERE user_name = ? AND sealed = ?", new, user, old)
    yield from execute("UPDATE second_factors SET pending = ? WHERE user_name = ? AND pending = ?", new, user, old)


def _parse_second_factor(row: Row) -> SecondFactor:
    return SecondFactor(*row)
