"""Codes to scan: written as the published examples are, read only when every character is right."""

from __future__ import annotations

from decimal import Decimal

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from mmo_sansio.providers.common.emv_qr import (
    LABEL_CHARACTERS_MAX,
    QrError,
    QrMerchant,
    checksum,
    dynamic_payload,
    reference_label,
)
from mmo_sansio.testing import KES, REFERENCE
from mmo_sansio.values.money import Money, to_money
from tests.support.emv_qr_reader import parse_objects, parse_payload

SHOP = QrMerchant(
    (("00", "com.example.gw"), ("01", "174379"), ("02", "PB")), "TEST SHOP", "NAIROBI", "KE"
)

DYNAMIC = (
    "00020101021226340014com.example.gw01061743790202PB5204541153034045406150.005802KE5909TEST SHOP"
    "6007NAIROBI61050010062370108INV-00010512a1b2c3d4e5f60705POS016304D453"
)
STATIC = (
    "00020101021126340014com.example.gw01061743790202PB5204000053034045802KE5909TEST"
    " SHOP6007NAIROBI"
    "62090705POS016304EBC3"
)
WHOLE_FRANCS = (
    "00020101021226340014com.example.gw01061743790202PB520454115303952540425005802CI5909TEST SHOP"
    "6007ABIDJAN62160512a1b2c3d4e5f66304C9D4"
)
PUBLISHED = (
    "00020101021229300012D156000000000510A93FO3230Q31280012D15600000001030812345678520441115802CN"
    "5914BEST TRANSPORT6007BEIJING64200002ZH0104最佳运输0202北京540523.72"
    "53031565502016233030412340603"
    "***0708A60086670902ME91320016A0112233449988770708123456786304A13A"
)
"""The sample of the EMVCo specification; its lengths count characters, its checksum bytes."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("123456789", "29B1"), ("", "FFFF"), (PUBLISHED[:-4], "A13A"), (STATIC[:-4], "EBC3")],
    ids=["check value", "nothing", "published", "static"],
)
def test_checksums_are_the_published_ones(text: str, expected: str) -> None:
    assert checksum(text) == expected


def test_a_dynamic_code_without_decimals_is_the_worked_example() -> None:
    shop = evolve(SHOP, category="5411", city="ABIDJAN", country="CI")
    assert dynamic_payload(shop, Money(2500, "XOF"), "a1b2c3d4e5f6") == WHOLE_FRANCS


def test_the_worked_example_of_a_static_code_names_its_terminal() -> None:
    assert parse_objects(parse_payload(STATIC)["62"]) == {"07": "POS01"}


def test_a_dynamic_code_says_its_payment() -> None:
    shop = evolve(SHOP, category="5411", postal_code="00100")
    objects = parse_payload(dynamic_payload(shop, KES(150), REFERENCE, bill_number="INV-0001"))
    expected = {
        key: value for key, value in parse_payload(DYNAMIC).items() if key not in ("62", "63")
    }
    assert {key: objects[key] for key in expected} == expected
    assert parse_objects(objects["62"]) == {"01": "INV-0001", "05": REFERENCE[1:]}


def test_the_category_of_a_shop_that_names_none_is_one_of_iso_18245() -> None:
    assert parse_payload(dynamic_payload(SHOP, KES(150), REFERENCE))["52"] == "5999"


def test_references_that_differ_have_labels_that_differ_and_fit() -> None:
    assert len(reference_label(REFERENCE)) == LABEL_CHARACTERS_MAX == len(REFERENCE) - 1


@pytest.mark.parametrize("text", [DYNAMIC, STATIC, WHOLE_FRANCS, PUBLISHED])
def test_what_is_published_can_be_read_and_not_with_a_character_changed(text: str) -> None:
    objects = parse_payload(text)
    assert (objects["00"], objects["63"]) == ("01", text[-4:])
    assert parse_payload(text[:-4] + text[-4:].lower()).keys() == objects.keys()
    for position, character in enumerate(text):
        other = "1" if character == "0" else "0"
        with pytest.raises(QrError):
            parse_payload(text[:position] + other + text[position + 1 :])


def test_a_published_template_in_other_letters_can_be_read() -> None:
    assert parse_objects(parse_payload(PUBLISHED)["64"]) == {
        "00": "ZH",
        "01": "最佳运输",
        "02": "北京",
    }


def sealed(body: str) -> str:
    """The body with the right checksum, so that nothing but its fault can be what is refused."""
    return body + "6304" + checksum(body + "6304")


GOOD = "000201" + "26060002ab" + "52040000" + "5303404" + "5802KE" + "5901A" + "6001B"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0002",
        sealed(GOOD.removeprefix("000201")),
        sealed(GOOD.replace("000201", "000202")),
        sealed("5802KE" + GOOD.replace("5802KE", "")),
        sealed(GOOD + "5802KE"),
        sealed(GOOD) + "6304AAAA",
        sealed(GOOD) + "6101A",
        sealed(GOOD.replace("26060002ab", "")),
        sealed(GOOD.replace("5303404", "")),
        sealed(GOOD + "61"),
        sealed(GOOD + "6199A"),
        sealed(GOOD + "6100"),
        sealed(GOOD + "6AAAA"),
        sealed(GOOD + "6１１A"),
        sealed(GOOD + "54051,000"),
        sealed(GOOD + "5402-1"),
        sealed(GOOD + "54021."),
        sealed(GOOD + "541412345678901.00"),
        sealed(GOOD + "".join(f"{id}99{'A' * 99}" for id in range(80, 86))),
    ],
    ids=str,
)
def test_what_is_no_payload_is_refused(text: str) -> None:
    assert parse_payload(sealed(GOOD))
    with pytest.raises(QrError):
        parse_payload(text)


@given(
    name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60),
    minor=st.integers(1, 10**14),
    bill=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)
def test_whatever_is_written_can_be_read(name: str, minor: int, bill: str | None) -> None:
    amount = Money(minor, "KES")
    try:
        text = dynamic_payload(evolve(SHOP, name=name), amount, REFERENCE, bill_number=bill)
    except QrError:
        assert not name.strip() or len(amount.text) > 13
        return
    assert to_money(Decimal(parse_payload(text)["54"]), "KES") == amount


def test_a_name_in_other_letters_stands_in_plain_ones_and_beside_them_as_it_is() -> None:
    shop = evolve(SHOP, name="Café Été – 最佳", city="Thiès", language="fr")
    objects = parse_payload(dynamic_payload(shop, KES(1), REFERENCE))
    assert (objects["59"], objects["60"]) == ("Cafe Ete", "Thies")
    assert parse_objects(objects["64"]) == {"00": "FR", "01": "Café Été – 最佳", "02": "Thiès"}
    assert "64" not in parse_payload(
        dynamic_payload(evolve(shop, language=None), KES(1), REFERENCE)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"account_id": "25"},
        {"account_id": "52"},
        {"category": "541"},
        {"country": "ke"},
        {"postal_code": "12345678901"},
        {"postal_code": ""},
        {"name": ""},
        {"account": (("00", "x" * 100),)},
        {"account": (("00", "x" * 90), ("01", "123456"))},
        {"account": ()},
    ],
    ids=str,
)
def test_what_has_no_room_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(QrError):
        dynamic_payload(evolve(SHOP, **change), KES(1), REFERENCE)  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", [KES(0), Money(-1, "KES"), Money(10**14, "KES")])
def test_an_amount_that_cannot_be_written_is_refused(amount: Money) -> None:
    with pytest.raises(QrError):
        dynamic_payload(SHOP, amount, REFERENCE)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("Ɔdɔ Ɛna", "Odo Ena"),
        ("Keɖi Ŋutɔ", "Kedi Nuto"),
        ("Ɓangaren Ɗan", "Bangaren Dan"),
        ("Straße Łódź", "Strasse Lodz"),
    ],
)
def test_letters_that_unicode_does_not_take_apart_are_spelled(name: str, spelled: str) -> None:
    merchant = QrMerchant((("00", "com.x"), ("01", "1")), name, "Kumasi", "GH")
    payload = dynamic_payload(merchant, Money(15000, "GHS"), "0" * 26)
    assert f"59{len(spelled):02}{spelled}" in payload
