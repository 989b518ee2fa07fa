"""Reads the TOML files that people write."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mmo_sansio.values.fields import SettingsError


def read_toml(file: Path, remedy: str) -> dict[str, Any]:
    """Return the document in this file; `remedy` is for one that can't be read. Raises
    SettingsError."""
    return parse_toml(read_text(file, remedy), str(file))


def read_text(file: Path, remedy: str) -> str:
    """Return the text of this file, in UTF-8; `remedy` is for one that can't be read. Raises
    SettingsError."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(str(file), f"can't be read: {error.strerror}.", remedy) from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(file), f"is not UTF-8: {error}.", "Save it as UTF-8.") from None


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Return the document in this text; `source` names it in messages. Raises SettingsError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(source, f"is not TOML: {error}.", "Correct that line.") from None
