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


@frozen
class Hint:
    """What was told."""

    id: str = ""
    """By what Daraja knows the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""

    def written(self) -> str:
        """As text, for a person as well."""
        return json.dumps(
            {"id": self.id, "code": self.code, "receipt": self.receipt, "message": self.message}
        )


def hint_read(text: str | None) -> Hint:
    """What was told, as far as it makes sense."""
    try:
        told = json.loads(text or "{}")
        told = {name: str(told[name])[:200] for name in ("id", "code", "receipt") if name in told}
    except (ValueError, TypeError, RecursionError):
        return Hint()
    if not _CODE.fullmatch(told.get("code", "0")):
        told.pop("code")
    return Hint(**told)
