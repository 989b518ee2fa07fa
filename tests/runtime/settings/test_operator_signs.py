"""The sign of an operator on the payment page is a small picture that nothing can run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import Logo
from mmo_trio.settings.operator_signs import SIGN_BYTES_MAX, OperatorSign, read_operator_sign

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">{}</svg>'
DRAWN = SVG.format('<defs><clipPath id="a"/></defs><path clip-path="url(#a)" d="M0 0h8"/>')


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "image/png"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (DRAWN.encode(), "image/svg+xml"),
        (('<?xml version="1.0" encoding="UTF-8"?>\n<!-- by hand -->' + DRAWN).encode(),
         "image/svg+xml"),
    ],
)  # fmt: skip
def test_a_picture_is_known_by_its_first_bytes(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    file = tmp_path / "logo"
    file.write_bytes(content)
    options = {"logo": str(file), "colour": "#FFCC00", "approvals_code": "*170#"}
    expected = OperatorSign(
        logo=Logo(media_type, content), colour="#ffcc00", approvals_code="*170#"
    )
    assert read_operator_sign(options) == expected


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\xff\xd8\xff\xe0", "is neither PNG, WebP nor SVG"),
        (b"\x89PNG\r\n\x1a\n" + bytes(SIGN_BYTES_MAX), "has more than 4,096 bytes"),
        (SVG.format("<script>alert(1)</script>").encode(), "with the element script"),
        (SVG.format("<style>@import 'x'</style>").encode(), "with the element style"),
        (SVG.format("<image href='a.png'/>").encode(), "with the element image"),
        (SVG.format("<foreignObject/>").encode(), "with the element foreignObject"),
        (SVG.format("<path onload='a()'/>").encode(), "with the attribute onload"),
        (SVG.format("<path style='fill:url(https://a.example)'/>").encode(), "attribute style"),
        (SVG.format("<path fill='u\\72l(//a.example)'/>").encode(), "with the attribute fill"),
        (("<!DOCTYPE svg [<!ENTITY a 'b'>]>" + DRAWN).encode(), "with declarations"),
        (("<?xml-stylesheet href='a.css'?>" + DRAWN).encode(), "with declarations"),
        (DRAWN.encode("utf-16-le"), "with faults"),
        (b"<svg", "with faults"),
        (b"<html/>", "with the element html"),
    ],
)
def test_what_could_act_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    file = tmp_path / "logo.svg"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=fault) as refusal:
        read_operator_sign({"logo": str(file)})
    assert "of at most 4,096 bytes" in refusal.value.remedy


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"logo": "/nowhere.png"}, "logo: can't be read"),
        ({"colour": "green"}, "colour: must be a colour. Write it like"),
        ({"approvals_code": "170"}, "approvals_code: must be a code to dial. Write it like"),
    ],
)
def test_faults_name_the_key_and_the_remedy(options: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        read_operator_sign(options)
