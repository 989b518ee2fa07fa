"""Finds the owner of an offline deposit: the brand and method of the account that was paid (clause
S4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mmo_sansio.messages.inputs import DepositAnswered, DepositNotified
from mmo_sansio.providers.common.interface import DepositAnswer, DepositReport
from mmo_sansio.values.model import Brand, DepositClaim, Method

# How many of the last characters of a gatewayReference a payer sees as account reference where the
# operator allows no more: as many as the AccountReference of an M-Pesa prompt holds (Safaricom's
# portal, M-Pesa Express). They are its random part, so that two are hardly ever the same.
REFERENCE_SUFFIX_CHARACTERS = 12

_BETWEEN_GROUPS: Final = re.compile(r"[\s-]")

# A gatewayReference has none of these letters (https://www.crockford.com/base32.html).
_DIGITS_READ_AS_LETTERS: Final = str.maketrans("OIL", "011")

DepositOwner = tuple[Brand, Method]


def find_owner(deposit: DepositReport, brands: Iterable[Brand]) -> DepositOwner | None:
    """Return the brand and the method that the deposit is for; None when there is none, or more
    than one.

    A method names its deposits: `ACCOUNT`, or `ACCOUNT/PREFIX` for those whose bill reference
    begins so, in capital or small letters; the longest prefix counts. Where no method of the
    provider names any, the one brand that uses the provider owns them all."""
    candidates = [
        (brand, method)
        for brand in brands
        for method in brand.methods
        if method.provider == deposit.provider and deposit.amount.currency in method.limits
    ]

    # 1. Methods that name the deposit; a longer claim names it more precisely.
    claims = [
        (len(claim), owner)
        for owner in candidates
        for claim in _matching_accounts(deposit, owner[1])
    ]
    if claims:
        longest = max(length for length, _ in claims)
        return _single(owner for length, owner in claims if length == longest)

    # 2. Somebody has divided the accounts: what nobody claims goes to no brand.
    if any(method.push_accounts for _, method in candidates):
        return None

    # 3. Nobody names anything.
    return _single(candidates)


def deposit_input(
    deposit: DepositReport,
    owner: DepositOwner | None,
    *,
    provider_title: str,
    gateway_reference: str,
    payment: str | None = None,
    is_simulated: bool = False,
) -> DepositNotified:
    """Return the input for a deposit; one without an owner that names no payment goes to the
    suspense book."""
    brand, method = _brand_and_method_key(owner)
    return DepositNotified(
        provider=deposit.provider,
        provider_reference=deposit.provider_reference,
        provider_title=provider_title,
        gateway_reference=gateway_reference,
        brand=brand,
        method=method,
        amount=deposit.amount,
        party=deposit.party,
        trust=deposit.trust,
        account=deposit.account,
        bill_reference=deposit.bill_reference,
        payment=payment,
        is_simulated=is_simulated,
    )


def typed_reference_suffix(deposit: DepositReport) -> str | None:
    """Return the end of a gatewayReference that the bill reference could be, as the reference has
    it; None when it can be none. People type it in groups, with small letters, and with letters for
    the digits that look like them."""
    suffix = _BETWEEN_GROUPS.sub("", deposit.bill_reference)
    if len(suffix) != REFERENCE_SUFFIX_CHARACTERS or not suffix.isascii() or not suffix.isalnum():
        return None

    return suffix.upper().translate(_DIGITS_READ_AS_LETTERS)


def claimed_deposit(claim: DepositClaim) -> DepositReport:
    """Return the deposit that a claim reports, to find its owner."""
    return DepositReport(
        claim.provider,
        claim.receipt,
        claim.account,
        claim.bill_reference,
        claim.amount,
        claim.party,
    )


def answer_input(
    answer: DepositAnswer, claim: DepositClaim | None, owner: DepositOwner | None
) -> DepositAnswered:
    """Return the input for a provider's answer about a claim; its owner counts where it names no
    payment."""
    brand, method = _brand_and_method_key(owner)
    return DepositAnswered(
        provider=answer.provider,
        receipt=answer.receipt,
        outcome=answer.outcome,
        is_ours=answer.is_ours,
        amount=answer.amount,
        payer=answer.payer,
        detail=answer.reason,
        payment=None if claim is None else claim.payment,
        brand=brand,
        method=method,
        asked_at=answer.asked_at,
    )


def _brand_and_method_key(owner: DepositOwner | None) -> tuple[Brand | None, str]:
    if owner is None:
        return None, ""
    brand, method = owner
    return brand, method.key


def _matching_accounts(deposit: DepositReport, method: Method) -> Iterable[str]:
    for claim in method.push_accounts:
        account, _, prefix = claim.partition("/")
        # An empty prefix begins every reference: `ACCOUNT` alone takes them all.
        if account == deposit.account and deposit.bill_reference.upper().startswith(prefix.upper()):
            yield claim


def _single(owners: Iterable[DepositOwner]) -> DepositOwner | None:
    # Two claims of one method are two owners here, and so nobody's: they have the same length.
    candidates = list(owners)
    if len(candidates) == 1:
        return candidates[0]
    return None
