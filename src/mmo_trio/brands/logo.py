"""Reads the logo of a brand, and accepts pictures only that every browser shows and that cannot run anything."""

from __future__ import annotations

from pathlib import Path

from mmo_sansio.values.model import Logo

LOGO_BYTES_MAX = 8_192
"""So that the first view of the payment page stays below 20 KB."""

_SIGNATURES = (("image/png", 0, b"\x89PNG\r\n\x1a\n"), ("image/jpeg", 0, b"\xff\xd8\xff"), ("image/webp", 8, b"WEBP"))
"""Media type, the place of the bytes by which its files are known, and these bytes.

Every browser of the last ten years shows these three kinds.
"""


class LogoError(ValueError):
    """Says in a sentence why a file can't be a logo.

    The sentence names neither the file nor the remedy, which the reader of brands.toml adds.
    """


def read_logo(path: Path) -> Logo:
    """Return the logo in this file. Raises LogoError.

    The first bytes decide what it is, not its name. SVG is not accepted: it may hold scripts and addresses of other
    servers.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LOGO_BYTES_MAX + 1)
    except OSError as error:
        raise LogoError(f"it can't be read ({error.strerror}).") from None
    if len(content) > LOGO_BYTES_MAX:
        raise LogoError(f"it has more than {LOGO_BYTES_MAX:,} bytes.")
    for media_type, at, signature in _SIGNATURES:
        if content[at : at + len(signature)] == signature:
            return Logo(media_type=media_type, content=content)
    raise LogoError("it is neither PNG, JPEG nor WebP.")
