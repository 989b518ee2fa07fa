"""A table that people write is read by its declared fields: all its faults are named at once, each
with its place and remedy, and no value is repeated."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from attrs import Factory, field, frozen

from mmo_sansio.values.fields import (
    DATE,
    HEADER_SECRET,
    HTTPS_URL,
    NUMBER,
    REQUIRED,
    SECRET,
    SWITCH,
    TEXT,
    Field,
    InvalidValue,
    Kind,
    SettingsError,
    fields_of,
    matching,
    of_list,
    one_of,
    raise_faults,
    read_fields,
    read_table,
    setting,
    table,
    tables,
    whole_number,
)

CANARY = "canary-5f1e"


@frozen
class Account:
    hooks_url: str
    base_url: str = setting(HTTPS_URL, REQUIRED, "The operator's host.")
    api_key: str = setting(SECRET, REQUIRED, "The key of its portal.")
    signs: bool = setting(SWITCH, False, "Whether requests are signed.", name="sign")
    label: str = setting(
        TEXT,
        Factory(lambda account: account.base_url, takes_self=True),
        "Its name.",
        default_text="the host",
    )
    note: str = field(default="", kw_only=True)


GOOD = {"base_url": "https://x.example/", "api_key": CANARY}


def lines(error: SettingsError) -> list[str]:
    return str(error).splitlines()


def test_a_class_that_declares_its_fields_is_read_from_a_table() -> None:
    account = read_table(Account, {**GOOD, "sign": "true"}, hooks_url="https://g.example")
    assert account == Account(
        "https://g.example", base_url="https://x.example", api_key=CANARY, signs=True
    )
    assert account.label == "https://x.example"
    assert CANARY not in repr(account)


def test_the_documentation_reads_the_same_declaration() -> None:
    assert [(each.name, each.attribute, each.default_words) for each in fields_of(Account)] == [
        ("base_url", "base_url", "required"),
        ("api_key", "api_key", "required"),
        ("sign", "signs", "`false`"),
        ("label", "label", "the host"),
    ]


def test_all_faults_of_a_table_are_named_at_once() -> None:
    values = {"base_urll": CANARY, "base_url": "ftp://x.example", "sign": CANARY}
    with pytest.raises(SettingsError) as caught:
        read_table(Account, values, hooks_url="")
    assert lines(caught.value) == [
        "base_urll: there is no such key. Did you mean base_url?",
        'base_url: must be an https address. Write it like "https://api.example".',
        'api_key: is missing. Write api_key = "…".',
        "sign: must be true or false. Write it like true.",
    ]
    placed = caught.value.within("provider.x")
    assert [each.location for each in placed.each] == [
        f"provider.x.{name}" for name in ("base_urll", "base_url", "api_key", "sign")
    ]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (TEXT, " text ", "text"),
        (TEXT, 174379, "174379"),
        (HTTPS_URL, "http://127.0.0.1:80/", "http://127.0.0.1:80"),
        (NUMBER, "5", 5),
        (NUMBER, 0, 0),
        (SWITCH, True, True),
        (SWITCH, "off", False),
        (DATE, date(2026, 11, 30), date(2026, 11, 30)),
        (DATE, "2026-11-30", date(2026, 11, 30)),
        (one_of("a", "b"), "b", "b"),
        (Kind("", of_list(int), "", ""), "1, 2", (1, 2)),
        (Kind("", of_list(int), "", ""), [1, "2"], (1, 2)),
    ],
)
def test_a_value_is_taken_as_toml_or_an_environment_variable_has_it(
    kind: Kind, value: object, read: object
) -> None:
    assert kind.read(value) == read


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (TEXT, " "),
        (TEXT, True),
        (TEXT, [CANARY]),
        (SECRET, {CANARY: 1}),
        (HTTPS_URL, f"http://x.example/{CANARY}"),
        (HTTPS_URL, f"https://{CANARY}@x.example"),
        (NUMBER, f"-1{CANARY}"),
        (NUMBER, "²"),
        (NUMBER, -1),
        (NUMBER, 10**9),
        (NUMBER, "00000000009999999999"),
        (whole_number(1, 18), "19"),
        (SWITCH, CANARY),
        (DATE, CANARY),
        (one_of("a", "b"), CANARY),
        (matching(re.compile("[a-z]+"), "letters", '"a"'), CANARY),
    ],
)
def test_a_bad_value_is_told_with_a_remedy_and_not_repeated(kind: Kind, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        Field("key", kind, REQUIRED, "").read({"key": value})
    assert caught.value.location == "key"
    assert caught.value.fault.startswith("must be ")
    assert caught.value.remedy
    assert CANARY not in str(caught.value)


def test_a_key_that_would_end_a_header_is_refused_without_itself() -> None:
    with pytest.raises(SettingsError, match="holds a character that no key has") as caught:
        HEADER_SECRET.read(f"{CANARY}\r\nx: y")
    assert CANARY not in str(caught.value)
    assert HEADER_SECRET.read(CANARY) == CANARY


def test_a_fault_names_its_place_in_tables_of_tables() -> None:
    limit = (Field("max", NUMBER, REQUIRED, ""),)
    method = (
        Field("key", TEXT, REQUIRED, ""),
        Field("limits", table(lambda values: read_fields(limit, values), "…"), None, ""),
    )

    def read_method(values: Any) -> dict[str, Any]:
        return read_fields(method, values)

    brand = (
        Field("method", tables(read_method, "[[method]]"), (), ""),
        Field("other", tables(read_method, "[[other]]", lambda values: values.get("key")), (), ""),
    )
    good = {"key": "a", "limits": {"max": 5}}
    assert read_fields(brand, {"method": [good]}) == {"method": (good,)}
    with pytest.raises(SettingsError) as caught:
        read_fields(
            brand,
            {
                "method": [good, {"limits": {"max": "x", "min": 1}}, {"key": "c", "limits": 5}],
                "other": [{"key": "d", "limits": {}}],
            },
        )
    assert [each.location for each in caught.value.each] == [
        "method 2, key",
        "method 2, limits.min",
        "method 2, limits.max",
        "method 3, limits",
        "other d, limits.max",
    ]
    with pytest.raises(SettingsError, match=r"other: must be a list.* Begin each with \[\[other\]"):
        read_fields(brand, {"other": {}})


def test_one_error_stays_what_it_is() -> None:
    error = InvalidValue("is late.", "Come earlier.")
    assert str(error) == "is late. Come earlier."
    with pytest.raises(InvalidValue):
        raise_faults([error])
    raise_faults([])
