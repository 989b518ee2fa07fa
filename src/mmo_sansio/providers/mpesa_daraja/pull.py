"""Lists the payments to the shortcode, which Daraja keeps for 48 hours (Pull Transactions).

The list is Daraja's answer to our own request about our own shortcode, so what stands in it is confirmed. Its rows are
nested or not, and how many a page has is not published.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mmo_sansio.http.messages import HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.providers.common.interface import DepositListing, DepositReport, ExchangeFailed
from mmo_sansio.providers.common.wire import stored_text
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.requests import pull_query
from mmo_sansio.providers.mpesa_daraja.results import RECEIPT
from mmo_sansio.providers.mpesa_daraja.wire import code_member, parse_amount, parse_json, text_member
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.deposit_claim import DepositTrust
from mmo_sansio.values.model import Party

PAGES_MAX: Final = 200
"""The pages of one list that are read; that there are more is left to a person."""

FOUND: Final = "1000"
NOTHING_FOUND: Final = "1001"
REGISTERED_CODES: Final = (FOUND, NOTHING_FOUND)
"""What the same codes mean of a registration: it is done, now or before."""


def list_payments(provider: str, account: MpesaAccount, begin: Instant, end: Instant) -> DepositListing:
    """Read the list page by page until one has nothing new. Raises ExchangeFailed."""
    listed: dict[str, DepositReport | UnmatchedNotified] = {}
    offset = 0
    for _ in range(PAGES_MAX):
        rows = _parse_page((yield pull_query(account, begin, end, offset=offset)))
        known, offset = len(listed), offset + len(rows)
        listed |= {json.dumps(each): _parse_row(provider, account, each) for each in rows}
        if len(listed) == known:
            return tuple(listed.values())
    more = UnmatchedNotified(provider, f"Daraja lists more than {PAGES_MAX} pages of payments: compare the statement.")
    return (*listed.values(), more)


def _parse_page(answer: HttpResponse) -> list[Any]:
    try:
        document = parse_json(answer.body)
        code = code_member(document, "ResponseCode")
    except ValueError as fault:
        raise ExchangeFailed(f"Daraja's list can't be read: {fault}.", may_have_arrived=True) from None
    if code == NOTHING_FOUND:
        return []
    rows = document.get("Response")
    if answer.status != 200 or code != FOUND or not isinstance(rows, list):
        error = str(document.get("errorCode", code))[:30]
        raise ExchangeFailed(f"Daraja answered {answer.status} {error} instead of a list.", may_have_arrived=True)
    return [row for each in rows for row in (each if isinstance(each, list) else [each])]


def _parse_row(provider: str, account: MpesaAccount, row: Any) -> DepositReport | UnmatchedNotified:
    """Return the payment in a row; what is not certainly one from a customer is left to a person."""
    try:
        receipt, bill_reference = text_member(row, "transactionId"), text_member(row, "billreference")
        number, sender = text_member(row, "msisdn"), text_member(row, "sender")
        if RECEIPT.fullmatch(receipt) and text_member(row, "transactiontype").lower().startswith("c2b"):
            party, amount = Party(bill_reference or number, number, sender or None), parse_amount(row.get("amount"))
            trust = DepositTrust.LISTED
            return DepositReport(provider, receipt, account.shortcode, bill_reference, amount, party, trust)
    except (ValueError, AttributeError):
        pass
    return UnmatchedNotified(provider, stored_text(json.dumps(row).encode()))
