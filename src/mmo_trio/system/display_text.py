r"""Makes texts fit to be shown: masks personal data for people who may not see it, and keeps a text
from acting on the program that shows it, a terminal, a browser or a spreadsheet.

Every character is made visible that would change how the text around it is shown. A merchant's
reference or an operator's message may hold U+202E, which turns the rest of the line around, so that
somebody reads another amount or name than there is. Such characters are shown as `\u202e`, which is
also their escape in JSON: the value of a JSON text stays the same."""

from __future__ import annotations

import json
import re
from typing import Final

from mmo_sansio.values.clock import HOUR, MINUTE, SECOND, Span
from mmo_sansio.values.strict_json import JsonNumber

MASK_CHARACTER = "•"
_DIGITS = re.compile(r"\+?[0-9]{6,}")

# The code of a country before its own number, of one to three digits (ITU-T E.164, list of assigned
# country codes).
_COUNTRY_CODE = re.compile(
    "[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|...", re.ASCII
)

# Looks for an address only where a word begins: from each character of a long word it would read
# all that follow.
_EMAIL = re.compile(r"(?<![^\s@\"<>])[^\s@\"<>]++@[^\s@\"<>]++")

_CONTROL_CHARACTERS: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f"

# The characters that set a direction of writing (UAX 9 section 2).
_DIRECTIONS: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"

_LINE_ENDS: Final = r"\u2028\u2029"

# Characters without a glyph that can hide a text.
_TAGS: Final = r"\U000e0000-\U000e007f"

_INVISIBLE: Final = re.compile(f"[{_CONTROL_CHARACTERS}{_DIRECTIONS}{_LINE_ENDS}{_TAGS}\ufeff]")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")


def mask_number(number: str, *, visible: int = 3) -> str:
    """Mask all but the last characters of a number: `•••••••••007`; mask a short one whole."""
    if len(number) > visible:
        shown = number[-visible:]
    else:
        shown = ""
    return MASK_CHARACTER * (len(number) - len(shown)) + shown


def mask_own_number(msisdn: str) -> str:
    """Mask a number so that its owner recognizes it and nobody else does, and write it as people
    do: `+254 ••• ••• 007` (W3). One that begins with 0 has no country code: `0 ••• ••• 007`."""
    digits = msisdn.removeprefix("+")

    # So short that the last three and a code would tell most of it.
    if len(digits) < 9:
        return mask_number(digits, visible=1)

    found = _COUNTRY_CODE.match(digits)
    if digits.startswith("0") or found is None:
        code = "0"
    else:
        code = found[0]

    # The hidden digits in groups of three from the right.
    hidden = MASK_CHARACTER * (len(digits) - len(code) - 3)
    first = len(hidden) % 3
    if first == 1:  # A single digit stands with the next three.
        first = 4

    groups = [hidden[:first], *(hidden[at : at + 3] for at in range(first, len(hidden), 3))]
    sign = "" if code == "0" else "+"
    return " ".join((sign + code, *filter(None, groups), digits[-3:]))


def mask_name(text: str) -> str:
    """Mask all but the first letter: `Z•••`."""
    if text:
        return f"{text[:1]}•••"
    return ""


def mask_text(text: str) -> str:
    """Mask everything in free text that may be a phone number or an e-mail address."""
    return _DIGITS.sub(lambda found: mask_number(found[0]), _EMAIL.sub("•••@•••", text))


def mask_query(url: str) -> str:
    """Remove the query of a URL, in which a merchant may have put personal data."""
    path, mark, _ = url.partition("?")
    if mark:
        return f"{path}?…"
    return path


def visible_text(text: str) -> str:
    """Return the text with such characters escaped; line feeds and tabs stay."""
    # Nearly every text, without an expression.
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub(_escape, text)


def ascii_json(text: str) -> str:
    """Return JSON text with all characters beyond ASCII escaped, for an output that cannot show
    them."""
    return _BEYOND_ASCII.sub(_escape, text)


_MARKED_NUMBER = re.compile(r'"\\u0000(-?[0-9][-+.0-9Ee]*)"')


def indent_json(text: str) -> str:
    """Return the JSON text with a member on each line; numbers keep their digits, as money is no
    float (G6)."""
    # Numbers keep their digits as texts, which a NUL marks: no text of the gateway holds one (G7).
    document = json.loads(text, parse_float=JsonNumber, parse_int=JsonNumber)
    marked = json.dumps(
        document, ensure_ascii=False, indent=2, default=lambda number: f"\0{number.text}"
    )
    return _MARKED_NUMBER.sub(r"\1", marked)


def _escape(found: re.Match[str]) -> str:
    r"""Return the JSON escape of a character, of two halves beyond U+FFFF."""
    # JSON escapes are of UTF-16 (RFC 8259 section 7).
    halves = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{halves[at] << 8 | halves[at + 1]:04x}" for at in range(0, len(halves), 2))


def format_span(span: Span) -> str:
    """Format a length of time: `0.04 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if span < 10 * SECOND:
        if span < SECOND:
            return f"{span / SECOND:.2f} s"
        return f"{span / SECOND:.1f} s"

    if span < MINUTE:
        return f"{span // SECOND} s"
    if span < HOUR:
        return f"{span // MINUTE} min {span % MINUTE // SECOND} s"
    if span < 24 * HOUR:
        return f"{span // HOUR} h {span % HOUR // MINUTE} min"

    return f"{span // (24 * HOUR)} d {span % (24 * HOUR) // HOUR} h"
