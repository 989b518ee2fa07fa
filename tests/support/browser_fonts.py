"""Gives Chromium the fonts of the tests and no others, so that a page has the same lines and
heights on every machine.

They are the DejaVu fonts that matplotlib ships, which have Arabic letters: the same files wherever
it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import escape

FAMILIES = {"DejaVu Sans", "DejaVu Sans Mono"}

_FILES = [
    f"{name}{style}.ttf"
    for name in ("DejaVuSans", "DejaVuSansMono")
    for style in ("", "-Bold", "-Oblique")
]
_MISSING = (
    "The fonts of the browser tests come with matplotlib: .venv/bin/pip install --group browser."
)

_CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>{directory}</dir>
  <cachedir>{directory}/cache</cachedir>
  <alias binding="same">
    <family>monospace</family>
    <prefer><family>DejaVu Sans Mono</family></prefer>
  </alias>
  <match target="pattern">
    <edit name="family" mode="append_last" binding="same"><string>DejaVu Sans</string></edit>
    <edit name="antialias" mode="assign"><bool>true</bool></edit>
    <edit name="hinting" mode="assign"><bool>true</bool></edit>
    <edit name="hintstyle" mode="assign"><const>hintslight</const></edit>
    <edit name="rgba" mode="assign"><const>none</const></edit>
  </match>
</fontconfig>
"""
"""Also says how letters are drawn: what it leaves open, each machine does in its own way."""


def font_environment(directory: Path) -> dict[str, str]:
    """Return the variables with which Chromium knows only the fonts of the tests. `directory` gets
    the fonts and their configuration, and must stay as long as Chromium runs."""
    package = find_spec("matplotlib")
    if package is None or package.origin is None:
        raise FileNotFoundError(_MISSING)
    shipped = Path(package.origin).parent / "mpl-data" / "fonts" / "ttf"
    for name in _FILES:
        if not (shipped / name).is_file():
            raise FileNotFoundError(f"{shipped} has no {name}. {_MISSING}")
        (directory / name).symlink_to(shipped / name)
    configuration = directory / "fonts.conf"
    configuration.write_text(
        _CONFIGURATION.format(directory=escape(str(directory))), encoding="utf-8"
    )
    return {"FONTCONFIG_FILE": str(configuration)}
