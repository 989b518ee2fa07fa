"""Reads what payers recognise an operator by: its logo, else its colour, and the code that shows
requests which wait. The operator of the gateway gives all three; none is ours to ship."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from attrs import frozen

from mmo_sansio.providers.common.options import OptionError, Options
from mmo_sansio.values.model import Logo

# The keys of `[provider.NAME]` that this module reads.
SIGN_KEYS: Final = ("logo", "colour", "approvals_code")

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


@frozen
class OperatorSign:
    """Says how payers recognise an operator."""

    logo: Logo | None = None
    colour: str | None = None
    """`#rrggbb`: that of a dot before the name, where there is no logo."""
    approvals_code: str | None = None
    """What a payer dials to see requests that wait, such as `*170#`."""


UNKNOWN_SIGN: Final = OperatorSign()


def read_operator_sign(options: Mapping[str, Any]) -> OperatorSign:
    """Read the sign of an operator from the options of its account. Raises OptionError."""
    read = Options(options)
    file, colour = read.optional_text("logo"), read.optional_text("colour")
    code = read.optional_text("approvals_code")
    if colour is not None and _COLOUR.fullmatch(colour) is None:
        raise OptionError("colour", "is no colour.", 'Write it like "#ffcc00".')
    if code is not None and _USSD_CODE.fullmatch(code) is None:
        raise OptionError("approvals_code", "is no code to dial.", 'Write it like "*170#".')

    logo = None
    if file is not None:
        logo = _read_logo(Path(file).expanduser())

    return OperatorSign(logo, colour and colour.lower(), code)


def _read_logo(file: Path) -> Logo:
    """Read a picture. Its first bytes decide what it is, not its name."""
    remedy = f"Name a PNG, WebP or plain SVG file of at most {SIGN_BYTES_MAX:,} bytes."
    try:
        with file.open("rb") as opened:
            content = opened.read(SIGN_BYTES_MAX + 1)
    except OSError as error:
        raise OptionError("logo", f"can't be read ({error.strerror}).", remedy) from None

    if len(content) > SIGN_BYTES_MAX:
        raise OptionError("logo", f"has more than {SIGN_BYTES_MAX:,} bytes.", remedy)
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return Logo("image/png", content)
    if content[8:12] == b"WEBP":
        return Logo("image/webp", content)

    # SVG last, as it needs a look at each element: a browser would run what is in it.
    if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        if (fault := _svg_fault(content)) is not None:
            raise OptionError("logo", f"is an SVG file with {fault}.", remedy)
        return Logo("image/svg+xml", content)

    raise OptionError("logo", "is neither PNG, WebP nor SVG.", remedy)


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
