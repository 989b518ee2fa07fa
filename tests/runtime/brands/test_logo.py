"""A logo is a small picture, and nothing that could run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.model import Brand, Logo, PageAppearance
from mmo_trio.brands.description import brand_differences
from mmo_trio.brands.file import LOGO_BYTES_MAX, parse_brands, read_brands_file, read_logo
from mmo_trio.settings import SettingsError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_pictures_are_known_by_their_first_bytes(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    file = tmp_path / "logo"
    file.write_bytes(content)
    assert read_logo(tmp_path, "logo") == Logo(media_type, content)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "neither PNG, JPEG nor WebP"),
        (b"", "neither PNG"),
        (PNG + bytes(LOGO_BYTES_MAX), "more than 4,096 bytes"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    file = tmp_path / "logo.png"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=fault):
        read_logo(tmp_path, "logo.png")
    with pytest.raises(SettingsError, match="can't be read"):
        read_logo(tmp_path, "nowhere.png")


def _text(page: str) -> str:
    return f'[[brand]]\nid = "acme"\nname = "Acme"\npage = {page}\n'


def test_the_file_says_how_the_page_looks(tmp_path: Path) -> None:
    (tmp_path / "acme.png").write_bytes(PNG)
    file = tmp_path / "brands.toml"
    file.write_text(
        _text(
            '{ colour = "#0A6B48", logo = "acme.png", order_label = "order",'
            ' support_phone = "+254 700 123 456", support_url = "https://wa.me/254700123456" }'
        ),
        encoding="utf-8",
    )
    [read] = read_brands_file(file, providers={}, rules=EgressRules())
    assert read.brand.appearance == PageAppearance(
        "#0a6b48",
        Logo("image/png", PNG),
        "order",
        "+254 700 123 456",
        "https://wa.me/254700123456",
    )
    [colour, picture, label, phone, url] = brand_differences(Brand("acme", "Acme", ()), read.brand)
    assert (colour.text, label.text, phone.text, url.text) == (
        "acme: page.colour: none -> #0a6b48",
        "acme: page.order_label: none -> order",
        "acme: page.support_phone: none -> +254 700 123 456",
        "acme: page.support_url: none -> https://wa.me/254700123456",
    )
    assert picture.after is not None
    assert picture.after.startswith("image/png of 28 bytes, SHA-256 ")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('{ colour = "green" }', "brand acme, page.colour: must be a colour"),
        ('{ logo = "none.png" }', "brand acme, page.logo: none.png can't be read"),
        ("{ order_label = 1 }", "brand acme, page.order_label"),
        ('{ support_phone = "0700 123456" }', "support_phone: must be a telephone number"),
        ('{ support_phone = "+254 call me" }', "support_phone: must be a telephone number"),
        ('{ support_url = "http://acme.example" }', "support_url: is no https URL"),
        ('{ support_url = "javascript:alert(1)" }', "brand acme, page.support_url: The URL must"),
        ('{ support_url = "acme.example" }', "brand acme, page.support_url: The URL must"),
        ('{ color = "#ffffff" }', "there is no such key"),
        ('"#ffffff"', "page: must be a table"),
    ],
)
def test_faults_are_named(page: str, fault: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse_brands(_text(page), source="brands.toml", providers={}, rules=EgressRules())
    assert fault in str(refusal.value)
