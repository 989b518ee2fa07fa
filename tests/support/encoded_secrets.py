"""The ways in which a text may stand in another one: written by hand, and as a reader may decode
it."""

from __future__ import annotations

import base64
import html
import re
import urllib.parse
from collections.abc import Callable, Iterator

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "Base64": lambda text: base64.b64encode(text.encode()).decode(),
    "Base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "percent": lambda text: urllib.parse.quote(text, safe=""),
    "every character percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "escapes": lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
    "blanks": lambda text: " ".join(text[begin : begin + 3] for begin in range(0, len(text), 3)),
}


def every_form(line: str) -> Iterator[str]:
    """Yield a line as it is and as a reader may decode it."""
    yield line
    yield urllib.parse.unquote(line)
    yield html.unescape(line)
    yield line.replace("-", "").replace(" ", "")
    yield re.sub(r"\\+u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), line)
    for run in re.findall(r"[A-Za-z0-9+/_-]{6,}=*", line):
        plain = run.rstrip("=").replace("-", "+").replace("_", "/")
        if len(plain) % 4 != 1:
            padded = plain + "=" * (-len(plain) % 4)
            yield base64.b64decode(padded).decode("utf-8", "replace")
    for run in re.findall(r"(?:[0-9a-f]{2}){4,}", line):
        yield bytes.fromhex(run).decode("utf-8", "replace")
