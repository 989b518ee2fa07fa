"""Reads the TOML files that people write."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mmo_sansio.values.fields import SettingsError


def read_toml(file: Path, remedy: str) -> dict[str, Any]:
    """Return the document in this file. Raises SettingsError, with this remedy where the file can't
    be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(str(file), f"can't be read: {error.strerror}.", remedy) from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(file), f"is not UTF-8: {error}.", "Save it as UTF-8.") from None

    return parse_toml(text, str(file))


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the document in this text; `source` names it in messages. Raises SettingsError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(source, f"is not TOML: {error}.", "Correct that line.") from None
