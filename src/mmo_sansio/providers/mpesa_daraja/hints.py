"""What a callback told that isn't believed alone: kept with the payment, for the question that it makes us ask.

The question's answer says whether it is true, yet not everything that was told: a query about a push gives no receipt,
one about a pay-out no reason.
"""

from __future__ import annotations

import json
import re
from typing import Final

from attrs import frozen

_CODE: Final = re.compile(r"[A-Za-z0-9_.]{1,30}", re.ASCII)

_NAMES: Final = {"id": "id", "code": "code", "receipt": "receipt", "providerReference": "receipt"}
"""Names in a hint and what they are here. A confirmation that names a payment of ours tells its receipt."""


@frozen
class MpesaHint:
    """What was told."""

    id: str = ""
    """By what Daraja knows the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""

    def to_text(self) -> str:
        """As text, for a person as well."""
        return json.dumps(
            {"id": self.id, "code": self.code, "receipt": self.receipt, "message": self.message}
        )


def parse_hint(text: str | None) -> MpesaHint:
    """What the lines of a payment's hint tell, the latest word on each thing, as far as it makes sense."""
    told: dict[str, str] = {}
    for line in (text or "").splitlines():
        try:
            members = json.loads(line)
            told |= {_NAMES[name]: str(members[name]) for name in _NAMES if members.get(name)}
        except (ValueError, AttributeError, RecursionError):
            continue
    if not _CODE.fullmatch(told.get("code", "0")):
        told.pop("code")
    return MpesaHint(**told)
