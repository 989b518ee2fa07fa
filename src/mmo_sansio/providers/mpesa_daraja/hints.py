"""Writes what a callback said into the hint that is stored with its payment, and reads it again for
the poll that the callback causes."""

from __future__ import annotations

import json
from typing import Final

from attrs import asdict, frozen

from mmo_sansio.providers.mpesa_daraja import codes
from mmo_sansio.providers.mpesa_daraja.results import names_transaction

# The members of a stored hint that are read.
_NAMES: Final = ("id", "code", "receipt", "refused")


@frozen
class MpesaHint:
    """Holds the content of one callback, or the latest of several."""

    id: str = ""
    """Daraja's id of the payment: a CheckoutRequestID or an OriginatorConversationID."""
    code: str = ""
    receipt: str = ""
    message: str = ""
    refused: str = ""
    """The code again, where it says that there is no transaction."""

    @property
    def names_failed_transaction(self) -> bool:
        """Tell whether it reports the failure of a transaction that has an id of M-Pesa's."""
        return self.code not in ("", codes.SUCCESS) and names_transaction(self.receipt)

    def to_text(self) -> str:
        """Return the hint as JSON, which people can also read."""
        return json.dumps(asdict(self))


def parse_hint(text: str | None) -> MpesaHint:
    """Return the latest valid value of each member in the lines of a payment's hint."""
    latest: dict[str, str] = {}
    # Each callback has added a line; a later one may say less than the one before it.
    for line in (text or "").splitlines():
        try:
            members = json.loads(line)
            latest |= {name: str(members[name]) for name in _NAMES if members.get(name)}
        except (ValueError, AttributeError, RecursionError):
            continue

    # A word of a stranger's must not become a native code.
    for name in ("code", "refused"):
        if not codes.is_code(latest.get(name, "0")):
            latest.pop(name)

    return MpesaHint(**latest)
