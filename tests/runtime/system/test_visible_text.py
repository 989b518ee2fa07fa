"""No character of a text changes how the text around it is shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_trio.system.display_text import ascii_json, visible_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-1", "order-1"),
        ("Zoë 💶 اسم\tx\ny", "Zoë 💶 اسم\tx\ny"),
        ("pay \u202e051\u202c now", "pay \\u202e051\\u202c now"),
        ("a\u2066b\u2069c\u061cd\u200fe", "a\\u2066b\\u2069c\\u061cd\\u200fe"),
        ("\x1b[31mred\x07\x00\x7f\x9b", "\\u001b[31mred\\u0007\\u0000\\u007f\\u009b"),
        ("a\u2028b\ufeff", "a\\u2028b\\ufeff"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("\r", "\\u000d"),
    ],
)
def test_what_turns_or_hides_text_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@given(st.text(), st.text())
def test_the_value_of_json_stays_the_same(key: str, value: str) -> None:
    text = json.dumps({key: value}, ensure_ascii=False)
    assert json.loads(visible_text(text)) == {key: value}
    assert json.loads(ascii_json(text)) == {key: value}
    assert ascii_json(text).isascii()
