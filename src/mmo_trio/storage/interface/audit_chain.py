"""The audit log's chain of hashes: pure, and simple enough to be checked with a few lines in any language.

A row's hash is the SHA-256 of the JSON array `[number, at, actor, act, about, detail, previous]`: no spaces, no
non-ASCII characters but as `\\uXXXX`, `at` in microseconds since 1970, `detail` as the text that it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256

from mmo_trio.storage.interface.admin_types import AuditEvent, AuditHead, AuditRow

EMPTY_HEAD = AuditHead(0, "0" * 64)
"""The end of an empty log, which its first row follows."""


def row_hash(number: int, event: AuditEvent, previous_hash: str) -> str:
    """Return the hash of a row, in hexadecimal."""
    content = (number, event.at, event.actor, event.action, event.about, event.detail, previous_hash)
    return sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()


def next_row(head: AuditHead, event: AuditEvent) -> AuditRow:
    """Return the row that follows."""
    number = head.number + 1
    return AuditRow(number, event, head.hash, row_hash(number, event, head.hash))


class AuditChainVerifier:
    """Follows the rows of a log in order and finds the first that was changed, taken out or put elsewhere."""

    def __init__(self) -> None:
        self.verified_head = EMPTY_HEAD
        """The last row that was verified."""

    def verify(self, rows: Iterable[AuditRow]) -> str | None:
        """Return a sentence that says what is wrong; None when nothing is."""
        for row in rows:
            expected = self.verified_head.number + 1
            if row.number != expected:
                return f"row {expected} is missing: row {row.number} stands in its place."
            if row.previous_hash != self.verified_head.hash:
                return f"row {row.number} doesn't follow the row before it."
            if row.hash != row_hash(row.number, row.event, row.previous_hash):
                return f"row {row.number} was changed."
            self.verified_head = AuditHead(row.number, row.hash)
        return None

    def verify_end(self, head: AuditHead) -> str | None:
        """Return what is wrong with the end of the log, once all rows are verified; None when nothing is."""
        if self.verified_head == head:
            return None
        return (
            f"the log ends with row {self.verified_head.number}, and row {head.number} was written: its end is missing."
        )
