"""Names the error of a file that the gateway wrote and cannot use."""

from __future__ import annotations


class DamagedFile(Exception):
    """A file that the gateway wrote holds something else now; the message names it and the remedy
    in one sentence."""
