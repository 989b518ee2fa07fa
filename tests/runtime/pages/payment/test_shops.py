"""What the page says about the shop and the order."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.values.model import Brand, Logo, PageAppearance
from mmo_trio.pages.payment.shops import ORDER_TEXT_CHARACTERS_MAX, Shop, logo_digest, shop_of
from mmo_trio.storage.sql.serialization import parse_brand, serialize_brand

BRAND = Brand("acme", "Acme", ())
LOOK = PageAppearance(
    "#0a6b48",
    Logo("image/png", b"\x89PNG"),
    "order",
    support_phone="+254 700 123 456",
    support_url="https://wa.me/254700123456",
)


def test_a_look_survives_being_stored() -> None:
    brand = evolve(BRAND, appearance=LOOK)
    assert parse_brand(serialize_brand(brand)) == brand


def test_addresses_change_with_what_they_show() -> None:
    shop = shop_of(evolve(BRAND, appearance=LOOK))
    assert (shop.name, shop.colour_url) == ("Acme", "/colour/0a6b48.css")
    assert shop.logo_url == "/logo/" + logo_digest(Logo("image/png", b"\x89PNG"))
    assert shop_of(BRAND) == Shop("Acme")


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ('{"order":"2 tickets to Mombasa"}', "2 tickets to Mombasa"),
        ('{"order":17}', "17"),
        ('{"order":true}', ""),
        ('{"order":null}', ""),
        ('{"other":"x"}', ""),
        (None, ""),
        ('{"order":"a\\u202eb"}', "a\\u202eb"),
        ('{"order":" a \\n b "}', "a b"),
    ],
)
def test_what_is_paid_for_is_the_value_of_the_label_that_the_brand_names(
    labels: str | None, shown: str
) -> None:
    assert shop_of(evolve(BRAND, appearance=LOOK)).order_text(labels) == shown
    assert shop_of(BRAND).order_text(labels) == ""


def test_a_long_text_is_cut() -> None:
    text = shop_of(evolve(BRAND, appearance=LOOK)).order_text('{"order":"' + "x" * 900 + '"}')
    assert len(text) == ORDER_TEXT_CHARACTERS_MAX
    assert text.endswith("…")
