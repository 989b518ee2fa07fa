"""Reads from MTN's answers to harmless questions whether it accepts our account."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.providers.common.account_check import no_answer_finding
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.providers.mtn_momo.codes import NOT_FOUND_CODES, to_error_code
from mmo_sansio.providers.mtn_momo.wire import parse_error_body
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Type

IMPOSSIBLE_ID: Final = "00000000-0000-4000-8000-000000000000"
"""An X-Reference-Id that no payment has."""

_REFUSALS: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "MTN refuses the subscription key or the token of this product. Whoever manages the account in MTN's"
        " portal compares both keys with the settings.",
        403: "MTN or its firewall refuses this gateway's address. Ask MTN to put the address from which this gateway"
        " sends on its list.",
    }
)
_WRONG_SETUP: Final = "MTN refuses market or product. Whoever runs the gateway compares both with MTN's portal."


def account_finding(provider: str, part: str, response: HttpResponse, *, asks_balance: bool) -> AccountFinding | None:
    """Return what the answer to a question says: that a payment is not found shows that all else is accepted. Not
    every market offers the balance, so its answer counts only where it is a refusal."""
    code = parse_error_body(response.body).code or ""
    shown = code if code.replace("_", "").isalnum() and code.isascii() else f"HTTP {response.status}"
    words = _REFUSALS.get(response.status)
    if words is None and to_error_code(code, None, Type.PAYIN) is ErrorCode.MERCHANT_MISCONFIGURED:
        words = _WRONG_SETUP
    if words is not None:
        return AccountFinding(provider, part, AccountState.REFUSED, shown, words)
    if asks_balance:
        return None
    if response.status == 200 or code in NOT_FOUND_CODES:
        return AccountFinding(provider, part, AccountState.WORKS, shown, "MTN answers questions about this product.")
    return no_answer_finding(provider, part, shown)
