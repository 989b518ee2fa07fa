"""The audit log's chain of hashes: pure, and simple enough to be checked with a few lines in any
language.

A row's hash is the SHA-256 of the JSON array `[number, at, actor, act, about, detail, previous]`:
no spaces, no non-ASCII characters but as `\\uXXXX`, `at` in microseconds since 1970, `detail` as
the text that it is. Its `mac` is the HMAC-SHA256 (RFC 2104) of `NUMBER:HASH` with a key that comes
from the master key. As the hash depends on all rows before, so does the mac: without the key nobody
can write a row, or change an earlier one, unnoticed."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

from mmo_trio.storage.interface.admin_types import AuditEvent, AuditHead, AuditKey, AuditRow

# The end of an empty log, which its first row follows.
EMPTY_HEAD = AuditHead(0, "0" * 64)


def row_hash(number: int, event: AuditEvent, previous_hash: str) -> str:
    """Return the hash of a row, in hexadecimal."""
    content = (
        number,
        event.at,
        event.actor,
        event.action,
        event.about,
        event.detail,
        previous_hash,
    )
    return sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()


def row_mac(key: AuditKey, head: AuditHead) -> str:
    """Return the message authentication code of a row, in hexadecimal."""
    return hmac.digest(key.secret, f"{head.number}:{head.hash}".encode("ascii"), "sha256").hex()


def next_row(head: AuditHead, event: AuditEvent, key: AuditKey) -> AuditRow:
    """Return the row that follows."""
    number = head.number + 1
    hash = row_hash(number, event, head.hash)
    return AuditRow(number, event, head.hash, hash, key.id, row_mac(key, AuditHead(number, hash)))


class AuditChainVerifier:
    """Follows the rows of a log in order and finds the first that was changed, taken out or put
    elsewhere."""

    def __init__(self, keys: Sequence[AuditKey] | None) -> None:
        """`keys` are all keys that the log was ever written with; None leaves the rows' macs
        unchecked."""

        # The last row that was verified.
        self.verified_head = EMPTY_HEAD
        if keys is None:
            self._keys = None
        else:
            self._keys = {key.id: key for key in keys}

    def verify(self, rows: Iterable[AuditRow]) -> str | None:
        """Return a sentence that says what is wrong; None when nothing is."""
        for row in rows:
            # The order of the questions: a missing row also breaks the chain of the next one.
            expected = self.verified_head.number + 1
            if row.number != expected:
                return f"row {expected} is missing: row {row.number} stands in its place."
            if row.previous_hash != self.verified_head.hash:
                return f"row {row.number} doesn't follow the row before it."
            if row.hash != row_hash(row.number, row.event, row.previous_hash):
                return f"row {row.number} was changed."
            if fault := self._verify_mac(row):
                return fault

            self.verified_head = AuditHead(row.number, row.hash)

        return None

    def _verify_mac(self, row: AuditRow) -> str | None:
        if self._keys is None:
            return None

        # Rows of before a change of the master key have the key of their time.
        key = self._keys.get(row.key_id)
        if key is None:
            return (
                f"row {row.number} was authenticated with the key {row.key_id}, which this master "
                f"key can't open."
            )

        # In constant time: whoever may ask often must not learn a mac byte by byte.
        if not hmac.compare_digest(
            row.mac.encode(), row_mac(key, AuditHead(row.number, row.hash)).encode()
        ):
            return f"row {row.number} was changed: it isn't authentic."

        return None

    def verify_end(self, head: AuditHead) -> str | None:
        """Return what is wrong with the end of the log, once all rows are verified; None when
        nothing is."""
        # Rows that are cut off from the end break no chain.
        if self.verified_head != head:
            return (
                f"the log ends with row {self.verified_head.number}, and row {head.number} was "
                f"written: its end is"
                " missing."
            )
        return None
