"""What Daraja is told a payment's name is: cut to what it takes, the same each time, and findable.

A field that people see takes 12 letters and digits. They are the last 12 of the gatewayReference: 60 random bits, so
that no two payments share them, and a person who reads them on a statement finds the payment by its ending.
"""

from __future__ import annotations

import re
from typing import Final

ACCOUNT_REFERENCE_CHARACTERS: Final = 12
"""The most that an AccountReference takes."""

_PAYMENT_REGISTRATION: Final = re.compile(r"[A-Za-z0-9]{1,20}", re.ASCII)


def account_reference(gateway_reference: str) -> str:
    """What stands on the payer's phone and statement, and on ours."""
    return gateway_reference[-ACCOUNT_REFERENCE_CHARACTERS:]


def conversation_id(gateway_reference: str) -> str:
    """The OriginatorConversationID of a pay-out: the gatewayReference itself, so that a repetition is refused."""
    return gateway_reference


def registration_number(reconciliation_reference: str | None) -> str | None:
    """The tax authority's payment registration number, which a tax payout has as its reconciliationReference; None
    when that can be none. It is never cut: a shorter one is another tax payer's."""
    given = (reconciliation_reference or "").strip()
    return given if _PAYMENT_REGISTRATION.fullmatch(given) else None
