"""Stores the content of a callback that proves nothing by itself, for the poll that it causes.

The answer to the poll confirms it, but has less detail: a query of a push returns no receipt, and one of a pay-out no
reason.
"""

from __future__ import annotations

import json
import re
from typing import Final

from attrs import asdict, frozen

_CODE: Final = re.compile(r"[A-Za-z0-9_.]{1,30}", re.ASCII)

_NAMES: Final = ("id", "code", "receipt", "refused")
"""The members of a stored hint that are read."""


@frozen
class MpesaHint:
    """Holds the content of a callback."""

    id: str = ""
    """Daraja's id of the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""
    refused: str = ""
    """The code again, where it says that there is no transaction."""

    def to_text(self) -> str:
        """Return the hint as JSON, which people can also read."""
        return json.dumps(asdict(self))


def parse_hint(text: str | None) -> MpesaHint:
    """Return the latest valid value of each member in the lines of a payment's hint."""
    latest: dict[str, str] = {}
    for line in (text or "").splitlines():
        try:
            members = json.loads(line)
            latest |= {name: str(members[name]) for name in _NAMES if members.get(name)}
        except (ValueError, AttributeError, RecursionError):
            continue
    for name in ("code", "refused"):
        if not is_code(latest.get(name, "0")):
            latest.pop(name)
    return MpesaHint(**latest)


def is_code(text: str) -> bool:
    """Tell whether this has the form of a result code."""
    return _CODE.fullmatch(text) is not None
