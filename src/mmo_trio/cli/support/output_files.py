"""Writes what a command exports to standard output, or to a file that appears when it is
complete."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

# What is exported may have personal data: its file is its owner's alone.
_open_privately = partial(os.open, mode=0o600)


@contextmanager
def open_output(output: Path | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that is replaced only when it is complete."""
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # What files have, whatever the terminal shows.
            sys.stdout.reconfigure(encoding="utf-8", errors="strict")

        yield sys.stdout
        return

    with (
        replaced_file(output) as draft,
        open(draft, "w", encoding="utf-8", newline="", opener=_open_privately) as to,
    ):
        yield to


@contextmanager
def open_binary_output(output: Path) -> Iterator[BinaryIO]:
    """Yield a file of bytes that is replaced only when it is complete."""
    with replaced_file(output) as draft, open(draft, "wb", opener=_open_privately) as to:
        yield to


@contextmanager
def replaced_file(output: Path) -> Iterator[Path]:
    """Yield the path of a draft beside the file, which it replaces at the end of the block unless
    that raises."""
    # Beside the file, so that it can take its place: a name moves within one file system only.
    draft = output.with_name(f".{output.name}.part")
    try:
        # A new one is made, with rights of its own.
        draft.unlink(missing_ok=True)
        yield draft
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)
