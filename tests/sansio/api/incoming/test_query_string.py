"""What the records endpoint may be asked, row by row (R1 to R6)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.api.incoming.query_string import RecordsRequest, parse_records_query
from mmo_sansio.api.outgoing import page_response
from mmo_sansio.messages.queries import ListRecords, Position, Records
from mmo_sansio.values.clock import (
    DAY,
    FIRST_INSTANT,
    HOUR,
    LAST_INSTANT,
    MINUTE,
    SECOND,
    Instant,
    Span,
    format_with_microseconds,
    later,
    parse_timestamp,
)
from mmo_sansio.values.model import Status, Type
from mmo_sansio.values.problems import Problem, ProblemError
from tests.support.api_requests import SETTINGS, ULID

MIDNIGHT = Instant(20_000 * DAY)
"""2024-10-04."""
WINDOW = b"from=2024-10-04&to=2024-10-05"
HERE = Position(later(MIDNIGHT, Span(5)), ULID)


def asked(query: bytes, brand: str = "acme") -> RecordsRequest:
    return parse_records_query(brand, query, cursor_keys=SETTINGS.cursor_keys)


def refused(query: bytes, brand: str = "acme") -> Problem:
    with pytest.raises(ProblemError) as caught:
        asked(query, brand)
    problem = caught.value.problem
    assert (problem.status, problem.segment, problem.error_code) == (
        400,
        *["validation_failed"] * 2,
    )
    return problem


def pages(records: Records, call: RecordsRequest) -> Any:
    return json.loads(page_response(records, call, SETTINGS).body)["pages"]


def next_page(query: bytes) -> bytes:
    """The cursor of the page after this query's first, as a parameter."""
    found: str = pages(Records((b"{}",), HERE, HERE, False, True), asked(query))["next"]
    return b"page=" + found.encode()


@pytest.mark.spec("R1", "R4")
def test_a_window_is_enough() -> None:
    assert asked(WINDOW).query == ListRecords("acme", MIDNIGHT, later(MIDNIGHT, DAY), page_size=50)


@pytest.mark.spec("R1", "R3")
@pytest.mark.parametrize(
    ("query", "fields"),
    [
        pytest.param(*rest, id=f"row {row}: {rest[0]!r:.50}")
        for row, *rest in (
            (104, b"", ["from", "to"]),
            (104, b"to=2024-10-05", ["from"]),
            (104, b"from=2024-10-04", ["to"]),
            (104, b"from=&to=%20%09", ["from", "to"]),
            (104, b"From=2024-10-04&TO=2024-10-05", ["from", "to"]),
            (104, b"page=&from=+", ["from", "to"]),
            (104, b"from=2024-10-04&from=2024-10-04&to=2024-10-05", ["from"]),
            (104, WINDOW + b"&type=&type=payin", ["type"]),
            (104, WINDOW + b"&method=%zz", ["method"]),
            (104, WINDOW + b"&method=%ff", ["method"]),
            (104, WINDOW + b"&method=a%00b", ["method"]),
            (104, WINDOW + b"&type=x&status=y&pageSize=z", ["type", "status", "pageSize"]),
            (105, b"from=x&to=y", ["from", "to"]),
        )
    ],
)
def test_a_faulty_parameter_is_named(query: bytes, fields: list[str]) -> None:
    problem = refused(query)
    assert [fault.field for fault in problem.errors] == fields
    assert problem.detail == problem.errors[0].detail


@pytest.mark.spec("R2")
@pytest.mark.parametrize(
    "query",
    [
        b"from=2024-10-04&to=2024-10-04",
        b"from=2024-10-05&to=2024-10-04",
        b"from=2024-10-04T02:00:00%2B02:00&to=2024-10-04T00:00Z",
        b"from=2024-10-04T00:00:00.0000001Z&to=2024-10-04",
        b"from=2024-10-05&to=2024-10-04&type=xyz",
    ],
)
def test_row_105_the_window_must_have_a_length(query: bytes) -> None:
    assert refused(query).detail == "'to' must be later than 'from'."


@pytest.mark.spec("R3")
@pytest.mark.parametrize("value", [b"payin", b"PayIn", b"%20payin+", b"PAYIN%09"])
def test_row_106_type_and_status_are_folded_and_trimmed(value: bytes) -> None:
    assert asked(WINDOW + b"&type=" + value).query.type is Type.PAYIN
    assert asked(WINDOW + b"&status=+SUCCESS+").query.status is Status.SUCCESS


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    "value", ["push", "xyz", "payin,payout", "pay\u0131n", "ｐａｙｉｎ", "Type.PAYIN"]
)
def test_row_107_the_answer_to_an_unknown_type_names_the_known_ones(value: str) -> None:
    problem = refused(WINDOW + b"&type=" + quote(value).encode())
    assert problem.detail == "'type' must be one of: payin, payout, tax."


@pytest.mark.spec("R3")
@pytest.mark.parametrize("value", [b"DONE", b"\xc5\xbfuccess", b"%C5%BFuccess"])
def test_row_108_the_answer_to_an_unknown_status_names_the_known_ones(value: bytes) -> None:
    problem = refused(WINDOW + b"&status=" + value)
    assert problem.detail == "'status' must be one of: pending, success, failed."


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    ("query", "method"),
    [
        (b"&method=Mpesa_KE", "Mpesa_KE"),
        (b"&method=%20a%2Bb%20", "a+b"),
        (b"&method=a+b", "a b"),
        (b"&method=%20", None),
        (b"&unknown=1&unknown=2&%zz=3&=4&&", None),
    ],
)
def test_a_method_is_trimmed_and_keeps_its_case(query: bytes, method: str | None) -> None:
    assert asked(WINDOW + query).query.method == method


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("value", "size"),
    [
        *(
            pytest.param(text.encode(), size, id=f"row 110: {text[:9]}")
            for text, size in {
                "0": 1, "-5": 1, "-0": 1, "5001": 5000, "1" + "0" * 30: 5000, "-1" + "0" * 30: 1,
                "9" * 6_000: 5000, "1": 1, "5000": 5000, "4999": 4999, "007": 7, "+7": 7, "%2B7": 7,
                "0" * 6_000 + "7": 7, "10000": 5000, "%20%207": 7,
            }.items()
        ),
        pytest.param(b"", 50, id="row 112"),
        pytest.param(b"+%20", 50, id="row 112 with spaces"),
    ],
)  # fmt: skip
def test_page_sizes_are_clamped(value: bytes, size: int) -> None:
    assert asked(WINDOW + b"&pageSize=" + value).query.page_size == size


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    "value", ["abc", "10.5", "1_0", "１０", "٥", "--1", "-", "1 0", "0x10", "1e2", "½"]
)
def test_row_111_a_page_size_is_an_integer(value: str) -> None:
    assert refused(WINDOW + b"&pageSize=" + quote(value).encode()).errors[0].field == "pageSize"


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param(*rest, id=f"row {row}: {rest[0]}")
        for row, *rest in (
            (113, "2024-10-04T02:30:00 02:30", MIDNIGHT),
            (113, "2024-10-04T02:30:00+02:30", MIDNIGHT),
            (113, "2024-10-04T02:00 02", MIDNIGHT),
            (113, "20241004T020000 0200", MIDNIGHT),
            (114, "2024-10-04", MIDNIGHT),
            (114, "20241004", MIDNIGHT),
            (114, "2024-10-04T00:00", MIDNIGHT),
            (114, "2024-10-04t00:00:00z", MIDNIGHT),
            (114, "2024-10-04T00:00:00Z", MIDNIGHT),
            (114, "2024-10-03T21:30:00-02:30", MIDNIGHT),
            (114, "2024-10-04T05:45:00+0545", MIDNIGHT),
            (114, "2024-10-04T00:00:01.5Z", MIDNIGHT + 3 * SECOND // 2),
            (114, "2024-10-04T00:00:00,000001Z", MIDNIGHT + 1),
            (114, "2024-10-04T00:00:00.0000019999999Z", MIDNIGHT + 2),
            (114, "2024-10-04T00:00:00.999999999Z", MIDNIGHT + SECOND),
            (114, "2024-02-29T12:01", MIDNIGHT - 218 * DAY + 12 * HOUR + MINUTE),
            (121, "0001-01-01", FIRST_INSTANT),
            (121, "0001-01-01T00:00:00+14:00", FIRST_INSTANT),
            (121, "9999-12-31T23:59:59.9999999Z", LAST_INSTANT),
            (121, "9999-12-31T23:59:59-14:00", LAST_INSTANT),
        )
    ],
)
def test_a_timestamp_is_iso_8601(text: str, instant: int) -> None:
    query = b"from=0001-01-01T00:00:00.1&to=" if instant > FIRST_INSTANT else b"to=2000-01-01&from="
    window = asked(query + quote(text, safe=" ").replace(" ", "+").encode()).query
    assert instant in (window.begin, window.end)


@pytest.mark.spec("R1")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-W40-5",
            "2024-278",
            "2024-10",
            "2024",
            "1728000000",
            "now",
            "2024-1-1",
            "2024-10-32",
        ),
        *("2024-13-01", "2023-02-29", "0000-01-01", "10000-01-01", "+2024-10-04", "-2024-10-04"),
        *(
            "2024-10-04T",
            "2024-10-04T24:00",
            "2024-10-04T00:60",
            "2024-10-04T00:00:60",
            "2024-10-04T1",
        ),
        *("2024-10-04 00:00", "2024-10-04T00:00:00.Z", "2024-10-04T00:00:00+24:00", "2024-1004"),
        *("2024-10-04T00:00:00+01:60", "2024-10-04T0000:00", "2024-10-04Z", "2024-10-04+02:00"),
        *(
            "2024-10-04T00:00:00  02:00",
            "２０２４-10-04",
            "2024-10-04T00:00:00." + "0" * 90,
            "04/10/2024",
        ),
    ],
)
def test_nothing_else_is_a_timestamp(text: str) -> None:
    problem = refused(b"to=9999-12-31&from=" + quote(text).encode())
    assert [fault.field for fault in problem.errors] == ["from"]


@pytest.mark.spec("R1", "G5")
@given(st.integers(FIRST_INSTANT, LAST_INSTANT))
def test_a_timestamp_of_ours_is_read_as_the_instant_it_is(instant: Instant) -> None:
    assert parse_timestamp(format_with_microseconds(instant)) == instant


@pytest.mark.spec("R1")
@given(st.text(alphabet="0123456789-+:.,TWZ tz") | st.text())
def test_no_text_does_worse_than_being_no_timestamp(text: str) -> None:
    with suppress(ValueError):
        assert FIRST_INSTANT <= parse_timestamp(text) <= LAST_INSTANT


@pytest.mark.spec("R1")
def test_a_window_may_be_shorter_than_a_microsecond() -> None:
    """Found as the digits were cut before the ends of the window were compared."""
    at = b"2024-10-04T00:00:00.000000"
    window = asked(b"from=" + at + b"1Z&to=" + at + b"2Z").query
    assert (window.begin, window.end) == (MIDNIGHT + 1, MIDNIGHT + 1)
    for end in (b"1Z", b"10Z", b"09Z"):
        assert refused(b"from=" + at + b"1Z&to=" + at + end).errors[0].field == "to"


FILTERED = WINDOW + b"&type=PAYIN&method=m&status=Success&pageSize=9999"


@pytest.mark.spec("R5")
@pytest.mark.parametrize(
    "resent",
    [
        pytest.param(b"", id="row 120: alone"),
        b"&" + FILTERED,
        b"&from=+2024-10-04+&type=%20payin",
        b"&from=2024-10-04t00:00:00.000z&to=20241005T020000+0200",
        b"&type=payin&status=SUCCESS",
        b"&pageSize=5000",
        b"&pageSize=6000",
        b"&from=&type=&unknown=1",
    ],
)
def test_a_cursor_repeats_the_query_it_came_from(resent: bytes) -> None:
    again = asked(next_page(FILTERED) + resent)
    assert again.query == ListRecords(
        "acme", MIDNIGHT, later(MIDNIGHT, DAY), Type.PAYIN, "m", Status.SUCCESS, 5000, after=HERE
    )
    assert again.filters == asked(FILTERED).filters


@pytest.mark.spec("R5")
@pytest.mark.parametrize(
    ("query", "resent", "field"),
    [
        pytest.param(*rest, id=f"row 119: {rest[1]!r}")
        for rest in (
            (FILTERED, b"from=2024-10-03", "from"),
            (FILTERED, b"from=2024-10-04T00:00:00.0000001Z", "from"),
            (FILTERED, b"to=2024-10-06", "to"),
            (FILTERED, b"type=payout", "type"),
            (FILTERED, b"method=M", "method"),
            (FILTERED, b"status=failed", "status"),
            (FILTERED, b"pageSize=4999", "pageSize"),
            (FILTERED, b"pageSize=x", "pageSize"),
            (FILTERED, b"type=x", "type"),
            (WINDOW, b"type=payin", "type"),
            (WINDOW, b"method=m", "method"),
            (WINDOW, b"status=pending", "status"),
            (WINDOW, b"pageSize=51", "pageSize"),
            (b"from=2024-10-04t00:00:00z&to=2024-10-05", b"from=2024-10-04T00:00:01Z", "from"),
        )
    ],
)
def test_a_changed_filter_invalidates_the_cursor(query: bytes, resent: bytes, field: str) -> None:
    assert refused(next_page(query) + b"&" + resent).errors[0].field == field


@pytest.mark.spec("R5")
@pytest.mark.parametrize(
    ("query", "resent"),
    [
        (WINDOW, b"pageSize=50"),
        (WINDOW, b"pageSize=+50"),
        (WINDOW + b"&pageSize=50", b""),
        (b"from=2024-10-04t00:00:00z&to=2024-10-05", b"from=2024-10-04T00:00:00Z"),
        (b"from=2024-10-04&to=2024-10-05T00:00:00Z", b"to=2024-10-05t00:00:00z"),
    ],
)
def test_a_filter_of_the_same_value_is_no_changed_filter(query: bytes, resent: bytes) -> None:
    assert asked(next_page(query) + b"&" + resent).query == evolve(asked(query).query, after=HERE)


@pytest.mark.spec("R5")
def test_an_offset_that_arrived_with_a_space_is_the_same_filter() -> None:
    window = b"from=2024-10-04T00:00:00+00:00&to=2024-10-05"
    cursor = next_page(window)
    assert asked(cursor + b"&" + window.replace(b"+", b"%2B")).query.after == HERE


@pytest.mark.spec("R5")
def test_a_cursor_of_another_brand_is_refused() -> None:
    assert refused(next_page(WINDOW), "other").errors[0].field == "page"
    assert refused(next_page(WINDOW) + b"&" + next_page(WINDOW)).errors[0].field == "page"


@pytest.mark.spec("R6")
def test_pages_are_null_where_nothing_follows_or_precedes() -> None:
    call = asked(WINDOW)
    assert pages(Records((), None, None, False, False), call) == {"next": None, "previous": None}
    last = Position(later(HERE.created_at, Span(1)), ULID)
    found = pages(Records((b"{}", b"{}"), HERE, last, True, True), call)
    assert asked(b"page=" + found["next"].encode()).query.after == last
    assert asked(b"page=" + found["previous"].encode()).query.before == HERE


@pytest.mark.spec("R6", "T4")
def test_records_hold_the_objects_byte_for_byte() -> None:
    objects = (b'{"value":1.10}', b'{ "b" : 2 }')
    answer = page_response(Records(objects, HERE, HERE, False, False), asked(WINDOW), SETTINGS)
    assert answer.status == 200
    assert answer.value(b"content-type") == b"application/json"
    assert answer.body == (
        b'{"data":[{"value":1.10},{ "b" : 2 }],"pages":{"next":null,"previous":null}}'
    )
