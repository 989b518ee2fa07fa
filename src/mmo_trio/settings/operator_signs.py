"""Reads what payers recognise an operator by: its logo, else its colour, and the code that shows
requests which wait. The operator of the gateway gives all three; none is ours to ship."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from attrs import frozen

from mmo_sansio.values.fields import (
    InvalidValue,
    Kind,
    among,
    fields_of,
    matching,
    of_text,
    read_table,
    setting,
)
from mmo_sansio.values.model import Logo

# So that the first view of the payment page stays below 20 KB, with a shop's logo as well.
SIGN_BYTES_MAX = 4_096

_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}", re.ASCII)
_USSD_CODE = re.compile(r"[*#][0-9*]{1,20}#", re.ASCII)

_SVG = "{http://www.w3.org/2000/svg}"

# What a drawing needs (SVG 2): no script, style, text, picture, link or foreign object.
_SVG_ELEMENTS: Final = frozenset(
    (
        *("svg", "g", "path", "circle", "ellipse", "rect", "line", "polyline", "polygon"),
        *("defs", "linearGradient", "radialGradient", "stop", "clipPath", "title", "desc"),
    )
)

_SVG_REFERENCE = re.compile(r"url\s*\(\s*[\"']?(?!#)|:\s*//|\\|@import|javascript:", re.IGNORECASE)


def _colour(text: str) -> str:
    if _COLOUR.fullmatch(text) is None:
        raise ValueError("it is no colour")
    return text.lower()


def _read_logo(text: str) -> Logo:
    """Read a picture. Its first bytes decide what it is, not its name."""
    file = Path(text).expanduser()
    remedy = f"Name a PNG, WebP or plain SVG file of at most {SIGN_BYTES_MAX:,} bytes."
    try:
        with file.open("rb") as opened:
            content = opened.read(SIGN_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidValue(f"can't be read ({error.strerror}).", remedy) from None

    if len(content) > SIGN_BYTES_MAX:
        raise InvalidValue(f"has more than {SIGN_BYTES_MAX:,} bytes.", remedy)
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return Logo("image/png", content)
    if content[8:12] == b"WEBP":
        return Logo("image/webp", content)

    # SVG last, as it needs a look at each element: a browser would run what is in it.
    if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        if (fault := _svg_fault(content)) is not None:
            raise InvalidValue(f"is an SVG file with {fault}.", remedy)
        return Logo("image/svg+xml", content)

    raise InvalidValue("is neither PNG, WebP nor SVG.", remedy)


def _svg_fault(content: bytes) -> str | None:
    """Return what a drawing has that could act or load something; None: nothing."""
    try:
        text = content.decode("utf-8-sig")
        if "\0" in text:  # Another encoding, in which the next line would see nothing.
            return "faults, so that it can't be read"
        # Entities could hide what the check below looks for, or fill the memory.
        if "<!" in text.replace("<!--", "") or "<?" in text.replace("<?xml ", "", 1):
            return "declarations"

        root = ElementTree.fromstring(text)
    except (UnicodeDecodeError, ElementTree.ParseError):
        return "faults, so that it can't be read"

    for element in root.iter():
        name = str(element.tag).removeprefix(_SVG)
        if not str(element.tag).startswith(_SVG) or name not in _SVG_ELEMENTS:
            return f"the element {name}"

        for key, value in element.attrib.items():
            plain = key.rpartition("}")[2].lower()
            # Handlers of events, and whatever loads from elsewhere.
            if plain.startswith("on") or plain == "href" or _SVG_REFERENCE.search(value):
                return f"the attribute {plain}"

    if root.tag == f"{_SVG}svg":
        return None

    return "another root than svg"


@frozen
class OperatorSign:
    """Says how payers recognise an operator."""

    logo: Logo | None = setting(
        Kind("file", of_text(_read_logo), "the path of a picture", '"/etc/mmo/operator.svg"'),
        None,
        "The operator's sign on the payment page, 32 px: a PNG, WebP or plain SVG file of at most "
        "4,096 bytes.",
    )
    # That of a dot before the name, where there is no logo.
    colour: str | None = setting(
        Kind('`"#rrggbb"`', of_text(_colour), "a colour", '"#ffcc00"'),
        None,
        "The colour of a dot before its name there, where there is no logo.",
    )
    approvals_code: str | None = setting(
        matching(_USSD_CODE, "a code to dial", '"*170#"', name='text, e.g. `"*170#"`'),
        None,
        "What a payer dials to see requests that wait: the page says so after 20 seconds. "
        "Operators have another one in each country.",
    )


UNKNOWN_SIGN: Final = OperatorSign()

# The settings of an operator's sign, which the sandbox has as well.
SIGN_FIELDS: Final = fields_of(OperatorSign)


def read_operator_sign(options: Mapping[str, Any]) -> OperatorSign:
    """Read the sign of an operator from the options of its account, among others. Raises
    SettingsError."""
    return read_table(OperatorSign, among(SIGN_FIELDS, options))
