"""Stores the content of a callback that proves nothing by itself, for the poll that it causes.

The answer to the poll confirms it, but has less detail: a query of a push returns no receipt, and one of a pay-out no
reason.
"""

from __future__ import annotations

import json
import re
from typing import Final

from attrs import frozen

_CODE: Final = re.compile(r"[A-Za-z0-9_.]{1,30}", re.ASCII)

_NAMES: Final = ("id", "code", "receipt")
"""The members of a stored hint that are read."""


@frozen
class MpesaHint:
    """Holds the content of a callback."""

    id: str = ""
    """Daraja's id of the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""

    def to_text(self) -> str:
        """Return the hint as JSON, which people can also read."""
        return json.dumps({"id": self.id, "code": self.code, "receipt": self.receipt, "message": self.message})


def parse_hint(text: str | None) -> MpesaHint:
    """Return the latest valid value of each member in the lines of a payment's hint."""
    latest: dict[str, str] = {}
    for line in (text or "").splitlines():
        try:
            members = json.loads(line)
            latest |= {name: str(members[name]) for name in _NAMES if members.get(name)}
        except (ValueError, AttributeError, RecursionError):
            continue
    if not _CODE.fullmatch(latest.get("code", "0")):
        latest.pop("code")
    return MpesaHint(**latest)
