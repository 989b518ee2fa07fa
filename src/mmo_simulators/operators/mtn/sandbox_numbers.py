"""Lists the test numbers of MTN's own sandbox, and the result of a payment with each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SUCCESSFUL: Final = "SUCCESSFUL"

# Pending, and successful half a minute later.
ONGOING: Final = "ONGOING"

# Pending forever.
DELAYED: Final = "DELAYED"

# momodeveloper.mtn.com/api-documentation/testing: row by row from this number on.
_FIRST_TEST_NUMBER = 46733123450

_FIRST_OUTCOMES = ("INTERNAL_PROCESSING_ERROR", "APPROVAL_REJECTED", "EXPIRED", ONGOING, DELAYED)
_CONFIGURATION_ERRORS = (
    *("NOT_ALLOWED", "NOT_ALLOWED_TARGET_ENVIRONMENT", "INVALID_CALLBACK_URL_HOST"),
    *("INVALID_CURRENCY", "INTERNAL_PROCESSING_ERROR", "SERVICE_UNAVAILABLE"),
)
_DEPOSIT = (
    *_FIRST_OUTCOMES,
    *("PAYER_NOT_FOUND", "PAYEE_NOT_ALLOWED_TO_RECEIVE"),
    *_CONFIGURATION_ERRORS,
    "COULD_NOT_PERFORM_TRANSACTION",
)
_REQUEST_TO_PAY = (*_DEPOSIT, "TRANSFER_TYPE_UNKNOWN")
_TRANSFER = (
    *_FIRST_OUTCOMES,
    *("NOT_ENOUGH_FUNDS", "PAYER_LIMIT_REACHED", "PAYEE_NOT_FOUND"),
    *_CONFIGURATION_ERRORS,
    "TRANSFER_TYPE_UNKNOWN",
)
_REFUND = (
    "TRANSACTION_NOT_FOUND",
    *_FIRST_OUTCOMES,
    *_CONFIGURATION_ERRORS,
    "COULD_NOT_PERFORM_TRANSACTION",
)


def _outcomes_by_number(outcomes: tuple[str, ...]) -> Mapping[str, str]:
    return MappingProxyType(
        {str(_FIRST_TEST_NUMBER + row): ending for row, ending in enumerate(outcomes)}
    )


# By operation and number (a refund: by the id that is to be refunded): the reason that the payment
# fails for, or one of the constants above.
OUTCOMES_BY_NUMBER: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "requesttopay": _outcomes_by_number(_REQUEST_TO_PAY),
        "transfer": _outcomes_by_number(_TRANSFER),
        "deposit": _outcomes_by_number(_DEPOSIT),
        "requesttowithdraw": _outcomes_by_number(_DEPOSIT),
        "remittance": _outcomes_by_number(_TRANSFER),
        "refund": MappingProxyType(
            {str(row): ending for row, ending in enumerate(_REFUND, start=1)}
        ),
    }
)

# What the question whether a number is active is answered.
ACCOUNT_HOLDERS_BY_NUMBER: Final[Mapping[str, str]] = _outcomes_by_number(
    (
        *("NOT_FOUND", "NOT_ACTIVE", "NOT_ALLOWED", "NOT_ALLOWED_TARGET_ENVIRONMENT"),
        *("INTERNAL_PROCESSING_ERROR", "SERVICE_UNAVAILABLE"),
    )
)

# The reasons that a simulator which rejects immediately answers the submission with, and the
# status.
IMMEDIATE_REJECTION_STATUSES: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(_CONFIGURATION_ERRORS, 500)
    | dict.fromkeys(("PAYER_NOT_FOUND", "PAYEE_NOT_FOUND", "PAYEE_NOT_ALLOWED_TO_RECEIVE"), 500)
    | {"NOT_ENOUGH_FUNDS": 500, "PAYER_LIMIT_REACHED": 500, "SERVICE_UNAVAILABLE": 503}
)
