"""JSON is read strictly: what two readers could understand differently is refused (G7)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.values.problems import ProblemError
from mmo_sansio.values.strict_json import (
    NESTING_MAX,
    VALUES_MAX,
    JsonNumber,
    JsonValue,
    parse_object,
)


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, id=f"row {row}: {ascii(body)[:40]}")
        for row, bodies in {
            21: [b"", b" ", b"\n"],
            22: [b"null", b"[]", b'"x"', b"1", b"true", b"-0.5e1"],
            23: [
                b"{",
                b'{"a":1,}',
                b'{"a":1 /* one */}',
                b"{'a':1}",
                b'{"a" 1}',
                b'{"a":"b',
                b"{a:1}",
            ],
            24: [b"{}{}", b"{} x", b"{}\0", b"{}]"],
            25: [b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":[{"b":NaN}]}'],
            26: [
                b'{"a":00.5}',
                b'{"a":+1}',
                b'{"a":.5}',
                b'{"a":1.}',
                b'{"a":0x10}',
                b'{"a":1_000}',
                '{"a":１０}'.encode(),
                b'{"a":-}',
                b'{"a":1e}',
            ],
            27: [b"\xef\xbb\xbf{}"],
            28: ["{}".encode("utf-16"), "{}".encode("utf-16-le"), "{}".encode("utf-32")],
            29: [b'{"a":"\xff"}', b'{"a":"\xc0\xaf"}', b'{"a":"\xed\xa0\x80"}', b'{"\xe9":1}'],
            30: [b'{"a":"\t"}', b'{"a":"\n"}', b'{"a":"\0"}', b'{"\x1f":1}'],
            31: [
                b'{"a":1,"a":1}',
                b'{"a":{"b":1,"b":2}}',
                b'{"a":[{"b":1,"b":2}]}',
                b'{"a":1,"\\u0061":2}',
            ],
            77: [
                rb'{"a":"\ud800"}',
                rb'{"a":"\uDFFF\ud800"}',
                rb'{"\udbff":1}',
                rb'{"a":["x\udc00"]}',
            ],
            35: [
                b'{"a":' + b"[" * 100_000,
                b'{"a":' * 100_000,
                b"[" * 33,
                b"[{" * 17,
                b'{"a":' * 33 + b"1" + b"}" * 33,
                b'{"\\"":' * 33 + b"1" + b"}" * 33,
                b'{"a":"' + b'\\"' * 30_000,
                b'{"a":"' + b"{\\" * 30_000,
            ],
        }.items()
        for body in bodies
    ],
)
def test_what_is_no_plain_json_object_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_object(body)
    problem = refused.value.problem
    assert (problem.status, problem.error_code, problem.segment) == (
        400,
        "bad_request",
        "bad_request",
    )


@pytest.mark.spec("G7")
@pytest.mark.parametrize(
    ("body", "members"),
    [
        (b"{}", {}),
        (b' \t\r\n{"a":null}\n', {"a": None}),
        (rb'{"a":"\ud83d\ude00"}', {"a": "\N{GRINNING FACE}"}),
        (rb'{"a":"\\ud800"}', {"a": "\\ud800"}),
        ('{"é":"\U0001f600"}'.encode(), {"é": "\U0001f600"}),
        (b'{"a":true,"A":false}', {"a": True, "A": False}),
        (b'{"a":{"x":"1"},"b":{"x":"2"}}', {"a": {"x": "1"}, "b": {"x": "2"}}),
        (b'{"a":"[[[[{{{{' + b"[" * 40 + b'"}', {"a": "[[[[{{{{" + "[" * 40}),
    ],
)
def test_what_is_one_is_read(body: bytes, members: dict[str, JsonValue]) -> None:
    assert parse_object(body) == members


@pytest.mark.spec("G6", "G7")
@pytest.mark.parametrize("number", ["0.1", "1e400", "1E+2", "-0", "-0.0", "100.500", "9" * 5_000])
def test_a_number_is_kept_as_it_was_written(number: str) -> None:
    assert parse_object(f'{{"a":[{number}]}}'.encode()) == {"a": [JsonNumber(number)]}


@pytest.mark.spec("G7")
def test_32_levels_are_read_and_more_only_in_strings() -> None:
    deepest = b'{"a":' * NESTING_MAX + b"1" + b"}" * NESTING_MAX
    assert "a" in parse_object(deepest)
    wide = b'{"a":[' + b",".join([b'{"]":"\\"[{"}'] * 400) + b"]}"
    assert "a" in parse_object(wide)


@pytest.mark.spec("G7")
@pytest.mark.parametrize("value", [b"1", b'"",""', b"{}", b'"a,b[{\\"",1', b"[[]]"])
def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(value: bytes) -> None:
    many = b'{"a":[' + b",".join([value] * (VALUES_MAX + 1)) + b"]}"
    with pytest.raises(ProblemError) as refused:
        parse_object(many)
    assert "has more than 1000 members and elements" in refused.value.problem.detail


def test_commas_and_brackets_in_a_string_are_no_values() -> None:
    assert "a" in parse_object(b'{"a":"' + b'[{,\\"' * 10_000 + b'"}')
    assert (
        len(
            parse_object(
                b"{" + b",".join(b'"%d":"a,b"' % each for each in range(VALUES_MAX)) + b"}"
            )
        )
        == VALUES_MAX
    )


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


@pytest.mark.spec("G7")
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), _PLAIN), st.booleans())
def test_what_a_json_writer_writes_is_read_as_it_was(
    members: dict[str, JsonValue], ascii: bool
) -> None:
    assert parse_object(json.dumps(members, ensure_ascii=ascii).encode()) == members


@pytest.mark.spec("G7")
@given(st.binary() | st.text(alphabet='{}[]",:\\u0dD8e+-. ntl').map(str.encode))
def test_nothing_else_than_a_refusal_comes_of_garbage(body: bytes) -> None:
    with suppress(ProblemError):
        assert isinstance(parse_object(body), dict)
