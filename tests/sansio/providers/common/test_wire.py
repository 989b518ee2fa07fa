"""Operators' JSON has one meaning or none."""

from __future__ import annotations

import json

import pytest

from mmo_sansio.providers.common.wire import TOKEN_LIFETIME_MAX, parse_json, parse_token_lifetime
from mmo_sansio.values.clock import HOUR, MILLISECOND, SECOND, Span


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"SUCCESSFUL","status":"FAILED"}',
        b'{"a":{"b":[{"c":1,"c":1}]}}',
        b'{"a":1,"\\u0061":2}',
    ],
)
def test_two_members_of_one_name_cannot_be_read(body: bytes) -> None:
    with pytest.raises(ValueError, match="two members of one name"):
        parse_json(body)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_number_cannot_be_read(number: str) -> None:
    for reads_numbers in (None, str):
        with pytest.raises(ValueError, match="not JSON"):
            parse_json(f'{{"amount":{number}}}'.encode(), number=reads_numbers)


@pytest.mark.parametrize("text", [b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":"\xed\xa0\x80"}'])
def test_half_of_a_surrogate_pair_cannot_be_read(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_byte_order_mark_in_front_is_ignored_once() -> None:
    body = json.dumps({"a": "b"}).encode()
    assert parse_json(b"\xef\xbb\xbf" + body) == {"a": "b"}
    with pytest.raises(ValueError):
        parse_json(b"\xef\xbb\xbf\xef\xbb\xbf" + body)


@pytest.mark.parametrize(
    ("value", "lifetime"),
    [
        (None, HOUR),
        ("", HOUR),
        (3599, 3599 * SECOND),
        ("3599", 3599 * SECOND),
        (3599.5, 3_599_500 * MILLISECOND),
        ("3599.5", 3_599_500 * MILLISECOND),
        ("1e99", TOKEN_LIFETIME_MAX),
    ],
)
def test_a_token_lives_as_long_as_is_said_in_any_way_or_as_usual(
    value: object, lifetime: Span
) -> None:
    assert parse_token_lifetime(value, default=HOUR) == lifetime


@pytest.mark.parametrize("value", ["soon", "9" * 5_000, 0, "0.5", -1, True, [3600], float("inf")])
def test_a_lifetime_that_makes_no_sense_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        parse_token_lifetime(value, default=HOUR)


@pytest.mark.parametrize(
    "name", ["ResultDesc", "payeeNote", "payerMessage", "message", "FirstName", "sender"]
)
@pytest.mark.parametrize("text", [b"\\ud83d", b"\\u0000", b"\\ude00"])
def test_a_text_for_people_that_was_cut_makes_nothing_unreadable(name: str, text: bytes) -> None:
    body = b'{"data":[{"%s":"ok %s","code":"0"}]}' % (name.encode(), text)
    assert parse_json(body) == {"data": [{name: "ok \ufffd", "code": "0"}]}
    with pytest.raises(ValueError):
        parse_json(body.replace(b'"code":"0', b'"code":"0' + text))


def test_an_adapter_says_which_texts_of_its_operator_are_for_people() -> None:
    body = b'{"words":"ok \\ud83d"}'
    assert parse_json(body, free_texts={"words"}) == {"words": "ok \ufffd"}
    with pytest.raises(ValueError):
        parse_json(body)


def test_a_name_in_a_parameter_that_was_cut_makes_nothing_unreadable() -> None:
    name = b'{"Key":"ReceiverPartyPublicName","Value":"254 JO\\ud83d"}'
    body = b'[%s,{"Key":"ReceiptNo","Value":"A"}]' % name
    named, receipt = parse_json(b'{"a":%s}' % body)["a"]
    assert (named["Value"], receipt["Value"]) == ("254 JO\ufffd", "A")
    with pytest.raises(ValueError):
        parse_json(b'{"a":%s}' % body.replace(b'"Value":"A', b'"Value":"A\\ud83d'))


def test_a_whole_pair_in_a_text_for_people_stays() -> None:
    assert parse_json(b'{"message":"\\ud83d\\ude00"}') == {"message": "\U0001f600"}
