"""Removes personal data from what is stored of an ended payment: who paid, and every text that may
repeat it.

Amounts, references, statuses, times, codes and receipts stay, so that books and look-ups stay as
they are. What is masked already stays as it is, so that a mask can be applied again. The masked
values have the form that the specification asks of a party (clause M3): an id of a few characters
and a number of digits."""

from __future__ import annotations

import json
import re
from typing import Final

from attrs import evolve

from mmo_sansio.values.model import DepositClaim, Order, Party, Progress, Transaction, Type
from mmo_sansio.values.reversals import Reversal

# What staff read in place of what was masked before it came to them.
NOT_KEPT: Final = "not kept: personal data of that age is removed"

# Stands for a text that was removed.
MASKED_TEXT: Final = "[masked]"

# Stands for a payer or payee.
MASKED_PARTY: Final = Party("masked", "000")

# The members of a journal detail and of an entry in the suspense book that never hold a person's
# data; all others are masked, those too that a later version adds.
_KEPT_MEMBERS: Final = frozenset(
    {
        "account",
        "amount",
        "confirmed",
        "durationMs",
        "errorCode",
        "fee",
        "finalAmount",
        "isApproved",
        "method",
        "nativeCode",
        "operation",
        "outcome",
        "payerAction",
        "providerReference",
        "result",
        "reversal",
        "saysPaid",
        "simulated",
        "source",
        "status",
        "suspense",
        "version",
    }
)

# What most callbacks and their lines in the journal say: a text of ours, without anybody's data.
_RECEIVER_STATUS: Final = re.compile(r"The receiver answered [0-9]{3}\.")


def mask_transaction(transaction: Transaction) -> Transaction:
    """Return the payment without personal data, in its next version; the same payment when it has
    none.

    A tax payout has no person as its party (M5). Raises AssertionError for a payment that has not
    ended: its provider may still need the number."""
    assert transaction.progress.stage.is_terminal, "a payment that has not ended keeps its data"
    # A mask that changes nothing makes no version, so that it can be applied again and again.
    order, progress = _mask_order(transaction.order), _mask_progress(transaction.progress)
    if (order, progress) == (transaction.order, transaction.progress):
        return transaction
    return Transaction(order, evolve(progress, version=progress.version + 1))


def is_masked(transaction: Transaction | None) -> bool:
    """Tell whether this payment had a person's data, and has none any more."""
    return transaction is not None and transaction.order.party == MASKED_PARTY


def _mask_order(order: Order) -> Order:
    page = order.page
    if page is not None:
        page = evolve(page, success_redirect_url=None, error_redirect_url=None)

    return evolve(
        order,
        # The party of a tax payout is an authority (M5).
        party=order.party if order.type is Type.TAX else MASKED_PARTY,
        labels=None,
        result_url=order.result_url and mask_url(order.result_url),
        display_qr_url=order.display_qr_url and mask_url(order.display_qr_url),
        page=page,
    )


def _mask_progress(progress: Progress) -> Progress:
    data = progress.provider_data
    if data is not None:
        # The code of a failure stays: it names no person.
        data = evolve(data, party_data=None, error_message=None)

    return evolve(
        progress,
        provider_data=data,
        hint=None,
        qr=None,
        refusal=None,
        payer_action=None,
    )


def mask_url(url: str) -> str:
    """Return the URL without its query and fragment, in which a merchant may have put personal
    data."""
    return url.partition("?")[0].partition("#")[0]


def mask_text(text: str) -> str:
    """Return MASKED_TEXT in place of a text; an empty one stays, and so does a receiver's
    status."""
    if not text or _RECEIVER_STATUS.fullmatch(text):
        return text
    return MASKED_TEXT


def mask_members(content: str) -> str:
    """Return the detail of a journal entry, or the content of an entry in the suspense book, with
    the texts of people and providers masked. A content that is no JSON object is masked whole."""
    try:
        members = json.loads(content)
    except ValueError:
        members = None

    # What cannot be read cannot be sorted: nothing of it is kept.
    if not isinstance(members, dict):
        return json.dumps({"content": MASKED_TEXT})

    masked = {name: _mask_member(name, value) for name, value in members.items()}
    if masked == members:
        return content

    return json.dumps(masked, ensure_ascii=False)


def _mask_member(name: str, value: object) -> object:
    # A list of what is kept, not of what is removed: what nobody has thought of goes.
    if name in _KEPT_MEMBERS or not value:
        return value
    if isinstance(value, str):
        return mask_text(value)
    return MASKED_TEXT


def mask_reversal(reversal: Reversal) -> Reversal:
    """Return a reversal that has ended without the words of staff and operators, in its next
    version; the same reversal when it has none."""
    masked = evolve(reversal, reason=mask_text(reversal.reason), remark=mask_text(reversal.remark))
    if masked == reversal:
        return reversal
    return evolve(masked, version=reversal.version + 1)


def is_masked_claim(claim: DepositClaim) -> bool:
    """Tell whether a claim had a person's data, and has none any more."""
    return claim.party == MASKED_PARTY


def mask_claim(claim: DepositClaim) -> DepositClaim:
    """Return a settled claim of a deposit without personal data, in its next version; the same
    claim when it has none.

    Its receipt, account and amount stay, by which a repeated report is known (S4). Raises
    AssertionError for an open claim."""
    assert claim.wake_at is None, "an open claim keeps its data"
    masked = evolve(claim, party=MASKED_PARTY, bill_reference=mask_text(claim.bill_reference))
    if masked == claim:
        return claim
    return evolve(masked, version=claim.version + 1)
