"""Derives a payment's references at Daraja: short enough, always the same, and easy to find.

A field that people see has 12 letters and digits. They are the last 12 of the gatewayReference: 60 random bits, of
which payments that are made in the same second may share 20. So no two payments have the same ones, and staff find the
payment by its ending.
"""

from __future__ import annotations

import re
from typing import Final

ACCOUNT_REFERENCE_CHARACTERS: Final = 12
"""The length limit of an AccountReference."""

_PAYMENT_REGISTRATION: Final = re.compile(r"[A-Za-z0-9]{1,20}", re.ASCII)


def account_reference(gateway_reference: str) -> str:
    """Return the reference on the payer's phone and statement, and on the merchant's."""
    return gateway_reference[-ACCOUNT_REFERENCE_CHARACTERS:]


def conversation_id(gateway_reference: str) -> str:
    """Return the OriginatorConversationID of a pay-out: the gatewayReference itself, so that Daraja rejects a
    repetition."""
    return gateway_reference


def registration_number(reconciliation_reference: str | None) -> str | None:
    """Return the tax authority's payment registration number from the reconciliationReference of a tax payout; None
    when that is not valid. It is never cut: a shorter one is another tax payer's.
    """
    number = (reconciliation_reference or "").strip()
    return number if _PAYMENT_REGISTRATION.fullmatch(number) else None
