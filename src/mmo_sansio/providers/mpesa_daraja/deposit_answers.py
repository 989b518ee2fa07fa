"""Reads Daraja's answer to a question about a deposit (Transaction Status by the receipt)."""

from __future__ import annotations

import re
from typing import Final

from mmo_sansio.providers.common.interface import DepositAnswer
from mmo_sansio.providers.mpesa_daraja.account import MpesaAccount
from mmo_sansio.providers.mpesa_daraja.codes import (
    NOT_FOUND_CODES,
    SUCCESS,
    TRANSACTION_COMPLETED,
    TRANSACTION_FAILURES,
)
from mmo_sansio.providers.mpesa_daraja.results import MpesaResult
from mmo_sansio.values.deposit_claim import DepositAnswerOutcome

_PARTY_NUMBER: Final = re.compile(r"[0-9]{5,12}(?![0-9])", re.ASCII)


def party_number(result: MpesaResult, name: str) -> str:
    """Return the number at the beginning of a party's name, `174379 - TEST SHOP`; empty when there is none."""
    found = _PARTY_NUMBER.match(result.parameters.get(name, ""))
    return "" if found is None else found[0]


def deposit_answer(provider: str, account: MpesaAccount, receipt: str, result: MpesaResult) -> DepositAnswer:
    """Return the answer about the deposit with this receipt.

    The account that was paid is the credit party: a receipt of a pay-out of ours has another one, and is no deposit.
    """
    state = result.parameters.get("TransactionStatus", "").lower()
    reason = f"{result.code} {state}: {result.message}"
    outcome = DepositAnswerOutcome.UNKNOWN
    if result.code in NOT_FOUND_CODES:
        outcome = DepositAnswerOutcome.NOT_FOUND
    elif result.code == SUCCESS and result.parameters.get("ReceiptNo") == receipt:
        if state == TRANSACTION_COMPLETED:
            outcome = DepositAnswerOutcome.COMPLETED
        elif state in TRANSACTION_FAILURES or state == "reversed":
            outcome = DepositAnswerOutcome.FAILED
    is_ours = account.is_paid_at(party_number(result, "CreditPartyName"))
    return DepositAnswer(provider, receipt, outcome, is_ours, result.amount, reason)
