"""Codes as payers type them, and the hosts of pages."""

from __future__ import annotations

import pytest

from mmo_sansio.values.payer_actions import CODE_CHARACTERS_MAX, OpenUrl, clean_code


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("123456", "123456"),
        (" 12 34\u00a056\n", "123456"),
        ("\u0661\u0662\u0663\u0664", "1234"),
        ("\u06f1\u06f2\u06f3", "123"),
        ("\uff11\uff12", "12"),
        ("AB-12", "AB-12"),
        ("x" * CODE_CHARACTERS_MAX, "x" * CODE_CHARACTERS_MAX),
    ],
)
def test_a_code_is_read_as_it_is_meant(typed: str, code: str) -> None:
    assert clean_code(typed) == code


@pytest.mark.parametrize(
    "typed", ["", "  ", "é", "1\0", "x" * (CODE_CHARACTERS_MAX + 1), "१x\u200b"]
)
def test_what_can_be_no_code_is_none(typed: str) -> None:
    assert clean_code(typed) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://pay.example/c/1",
        "https://pay.example",
        "https://pay.example?x",
        "https://pay.example#x/y",
    ],
)
def test_the_host_of_a_page(url: str) -> None:
    assert OpenUrl(url).host == "pay.example"
