"""The name of an account as it is shown: whatever the operator writes, it is one short line."""

from __future__ import annotations

import pytest

from mmo_sansio.providers.common.payees import payee_named
from mmo_sansio.values.payees import NAME_CHARACTERS_MAX, PayeeNamed, PayeeUnanswered, plain_name


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("Jane Doe", "Jane Doe"),
        ("  Jane\r\n\tDoe ", "Jane Doe"),
        ("\x1b[31mJane\x00", "[31mJane"),
        ("Jane\u202eeoD", "Jane eoD"),
        ("<b>Jane</b>", "<b>Jane</b>"),
        ("J\u00e9r\u00f4me N'Guessan", "J\u00e9r\u00f4me N'Guessan"),
        ("\ud800Jane", "Jane"),
        ("\u00a0\u2028", ""),
    ],
)
def test_a_name_is_one_printable_line(told: str, shown: str) -> None:
    assert plain_name(told) == shown


def test_a_name_of_ten_kilobytes_is_cut() -> None:
    assert plain_name("x" * 10_240) == "x" * NAME_CHARACTERS_MAX


def test_parts_that_are_no_text_are_left_out() -> None:
    assert payee_named("p", None, "Doe", 7, ["x"]) == PayeeNamed("p", "Doe")


def test_an_answer_without_a_name_tells_nothing() -> None:
    assert payee_named("p", " ", None) == PayeeUnanswered("p", "The operator's answer has no name.")


def test_letters_that_the_operator_hides_are_told_as_masked() -> None:
    assert PayeeNamed("p", "J*** D**").is_masked
    assert not PayeeNamed("p", "Jane Doe").is_masked


def test_the_name_is_not_in_the_repr() -> None:
    assert "Jane" not in repr(PayeeNamed("p", "Jane Doe"))
