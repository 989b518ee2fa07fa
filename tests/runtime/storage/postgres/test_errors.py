"""Each error that PostgreSQL may answer with has a treatment: none is met for the first time in an
emergency."""

from __future__ import annotations

import mmo_trio.storage.postgres  # noqa: F401  (before psycopg)

# isort: split
import psycopg
import pytest

from mmo_trio.storage.postgres.errors import (
    KINDS_BY_CLASS,
    KINDS_BY_SQLSTATE,
    PostgresErrorKind,
    classify_error,
)

CODES = sorted(
    {
        each.sqlstate
        for each in vars(psycopg.errors).values()
        if isinstance(each, type)
        and issubclass(each, psycopg.Error)
        and isinstance(each.sqlstate, str)
    }
)
"""All that psycopg knows."""

OF_STATEMENTS = "02 03 09 0B 0F 0Z 10 20 21 22 23 24 27 2B 2D 2F 34 38 39 3B 42 44 54 HV P0"
"""Classes of errors that come of a statement or of its values: the same would fail again."""


@pytest.mark.spec("P5")
@pytest.mark.parametrize("code", CODES)
def test_each_error_of_the_server_has_a_treatment(code: str) -> None:
    assert code in KINDS_BY_SQLSTATE or code[:2] in KINDS_BY_CLASS or code[:2] in OF_STATEMENTS


@pytest.mark.spec("P5", "S6")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("23505", PostgresErrorKind.CONFLICT),
        ("23514", PostgresErrorKind.CONFLICT),
        ("40001", PostgresErrorKind.CONFLICT),
        ("40002", PostgresErrorKind.CONFLICT),
        ("40P01", PostgresErrorKind.CONFLICT),
        ("40003", PostgresErrorKind.DISCONNECTED),
        ("08007", PostgresErrorKind.DISCONNECTED),
        ("0A000", PostgresErrorKind.DISCONNECTED),
        ("25P02", PostgresErrorKind.DISCONNECTED),
        ("57P01", PostgresErrorKind.DISCONNECTED),
        ("XX000", PostgresErrorKind.DISCONNECTED),
        ("53100", PostgresErrorKind.UNAVAILABLE),
        ("55P03", PostgresErrorKind.UNAVAILABLE),
        ("57014", PostgresErrorKind.UNAVAILABLE),
        ("58030", PostgresErrorKind.UNAVAILABLE),
        ("XX001", PostgresErrorKind.CORRUPT),
        ("28P01", PostgresErrorKind.UNUSABLE),
        ("3F000", PostgresErrorKind.UNUSABLE),
        ("42P01", PostgresErrorKind.UNUSABLE),
        ("22021", PostgresErrorKind.PROGRAMMING_ERROR),
        ("42601", PostgresErrorKind.PROGRAMMING_ERROR),
        ("54000", PostgresErrorKind.PROGRAMMING_ERROR),
    ],
)
def test_what_is_done_about_an_error(code: str, kind: PostgresErrorKind) -> None:
    assert classify_error(psycopg.errors.lookup(code)()) is kind
