"""Says which source runs: the version, and the commit that it was built from."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from mmo_sansio import __version__

UNKNOWN: Final = "unknown"

_PACKAGE = Path(__file__).parents[1]
_PLACEHOLDER = "$"
_GIT_TIMEOUT_S = 5.0


@cache
def commit() -> str:
    """Return the whole hash of the commit, with `-dirty` where the checkout had changes; UNKNOWN if
    nobody wrote it down.

    A build writes it beside the package. A checkout that is used as it is, asks git.
    """
    try:
        written = (_PACKAGE / "commit.txt").read_text(encoding="utf-8").strip()
    except OSError:
        return UNKNOWN

    # `git archive` fills the placeholder in; a plain checkout still has it.
    if written and not written.startswith(_PLACEHOLDER):
        return written

    checkout = _PACKAGE.parents[1]
    if not (checkout / ".git").exists():
        return UNKNOWN

    describe = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]

    # No tag is wanted, only the hash.
    whole_hash = ["--exclude=*", "--abbrev=40"]
    try:
        found = subprocess.run(
            [*describe, *whole_hash],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN

    return found.stdout.strip()


def describe_build() -> str:
    """Return version and commit: `0.1.0 (1f3a5c7…)`."""
    return f"{__version__} ({commit()})"
