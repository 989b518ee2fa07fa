"""Finds the encoding of a text file as spreadsheet programs write it, and proves it on every
byte."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from attrs import frozen

from mmo_merchant.tables.faults import Fault

# What Windows writes in English, French and Portuguese where it does not write Unicode.
CODE_PAGE: Final = "cp1252"

# A file is read by pieces, whatever its size.
_CHUNK_BYTES: Final = 1 << 16

# The marks with which spreadsheet programs begin Unicode (Unicode standard, section 23.8).
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_REMEDY: Final = "Save the file as CSV in UTF-8, or name what it has by --encoding."


@frozen
class Encoding:
    """Is the encoding of one file."""

    name: str
    is_guessed: bool = False
    """Whether other letters than those of ASCII may have been meant otherwise."""


def find_encoding(path: Path, named: str | None) -> Encoding | Fault:
    """Return the encoding that is named, or that the file proves; a code page is a guess. Raises
    OSError, and LookupError for a name that is not known."""
    with path.open("rb") as file:
        if named is not None:
            return _prove(file, codecs.lookup(named).name)

        # 1. A mark at the beginning says which it is.
        start = file.read(_CHUNK_BYTES)
        file.seek(0)
        for mark, name in _MARKS:
            if start.startswith(mark):
                return _prove(file, name)

        # 2. UTF-16 without a mark: one of the first two bytes of ASCII is zero.
        if b"\0" in start[:2]:
            if start[1:2] == b"\0":
                return _prove(file, "utf-16-le")
            return _prove(file, "utf-16-be")

        # 3. Neither: UTF-8, or a code page of Windows.
        return _prove_without_a_mark(file)


def _prove_without_a_mark(file: BinaryIO) -> Encoding | Fault:
    """Decide between UTF-8 and the code page: a file that has letters of both is damaged."""
    in_utf_8 = _prove(file, "utf-8")
    if isinstance(in_utf_8, Encoding):
        return in_utf_8

    # Bytes that are no UTF-8 and letters that are, in one file: two programs have written it.
    file.seek(0)
    for text in _decode(file, "utf-8", "surrogateescape"):
        try:
            text.encode("ascii", "surrogateescape")
        except UnicodeEncodeError:
            return in_utf_8

    file.seek(0)
    in_code_page = _prove(file, CODE_PAGE)
    if isinstance(in_code_page, Encoding):
        return Encoding(CODE_PAGE, is_guessed=True)

    return in_utf_8


def _prove(file: BinaryIO, name: str) -> Encoding | Fault:
    """Return the encoding if all bytes are of it, else the first line that has others."""
    line = 1
    # The decoder itself tells no line, and reads the file once: the line is looked for after a
    # fault.
    texts = _decode(file, name, "strict")
    try:
        for text in texts:
            line += text.count("\n")
    except UnicodeError:
        return Fault(_find_line(file, name), "", f"is not {name.upper()}", _REMEDY)
    return Encoding(name)


def _find_line(file: BinaryIO, name: str) -> int:
    """Return the line of the first byte that is not of an encoding."""
    file.seek(0)
    line = 1
    decoder = codecs.getincrementaldecoder(name)("strict")
    while chunk := file.read(_CHUNK_BYTES):
        try:
            line += decoder.decode(chunk).count("\n")
        except UnicodeDecodeError as error:
            good = bytes(error.object[: error.start])
            return line + good.decode(name, "replace").count("\n")

    return line


def _decode(file: BinaryIO, name: str, errors: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(name)(errors)
    while chunk := file.read(_CHUNK_BYTES):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)
