"""Finds the owner of an offline deposit: the brand and method of the account that was paid (clause S4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from mmo_sansio.messages.inputs import DepositNotified, ProviderHinted, ProviderSucceeded, UnmatchedNotified
from mmo_sansio.providers.common.interface import DepositReport
from mmo_sansio.providers.common.operations import OperationKey, ProviderOperation, operation_key
from mmo_sansio.values.model import Brand, Method, Source, Transaction

REFERENCE_SUFFIX_CHARACTERS = 12
"""How many of the last characters of a gatewayReference a payer sees as account reference where the operator allows no
more."""

DepositOwner = tuple[Brand, Method]


def find_owner(deposit: DepositReport, brands: Iterable[Brand]) -> DepositOwner | None:
    """Return the brand and the method that the deposit is for; None when there is none, or more than one.

    A method names its deposits: `ACCOUNT`, or `ACCOUNT/PREFIX` for those whose bill reference begins so, in capital or
    small letters; the longest prefix counts. Where no method of the provider names any, the one brand that uses the
    provider owns them all.
    """
    candidates = [
        (brand, method)
        for brand in brands
        for method in brand.methods
        if method.provider == deposit.provider and deposit.amount.currency in method.limits
    ]
    claims = [(len(claim), owner) for owner in candidates for claim in _matching_accounts(deposit, owner[1])]
    if claims:
        longest = max(length for length, _ in claims)
        return _single(owner for length, owner in claims if length == longest)
    if any(method.push_accounts for _, method in candidates):
        return None
    return _single(candidates)


def deposit_input(
    deposit: DepositReport, owner: DepositOwner | None, *, provider_title: str, gateway_reference: str
) -> DepositNotified:
    """Return the input for a deposit; without an owner it goes to the suspense book."""
    return DepositNotified(
        provider=deposit.provider,
        provider_reference=deposit.provider_reference,
        provider_title=provider_title,
        gateway_reference=gateway_reference,
        brand=owner and owner[0],
        method=owner[1].key if owner else "",
        amount=deposit.amount,
        party=deposit.party,
    )


def may_be_reference_suffix(deposit: DepositReport) -> bool:
    """Tell whether the bill reference could be the end of a gatewayReference."""
    suffix = deposit.bill_reference
    return len(suffix) == REFERENCE_SUFFIX_CHARACTERS and suffix.isascii() and suffix.isalnum()


def payment_input(
    deposit: DepositReport, transaction: Transaction, operations: Mapping[OperationKey, ProviderOperation]
) -> ProviderSucceeded | ProviderHinted | UnmatchedNotified:
    """Return the input for a deposit that names one of our payments: it is unsigned, so the provider is polled if
    possible.

    One for a payment that has ended changes nothing and goes to the suspense book, as it may be a second payment.
    """
    operation = operations.get(operation_key(transaction))
    if operation and operation.can_be_polled and not transaction.progress.stage.is_terminal:
        return ProviderHinted(transaction.reference, deposit.provider, _to_json(deposit))
    if deposit.amount != transaction.order.requested:
        return UnmatchedNotified(deposit.provider, _to_json(deposit))
    return ProviderSucceeded(
        transaction.reference, deposit.provider, Source.WEBHOOK, deposit.provider_reference, deposit.amount
    )


def _matching_accounts(deposit: DepositReport, method: Method) -> Iterable[str]:
    for claim in method.push_accounts:
        account, _, prefix = claim.partition("/")
        if account == deposit.account and deposit.bill_reference.upper().startswith(prefix.upper()):
            yield claim


def _single(owners: Iterable[DepositOwner]) -> DepositOwner | None:
    found = list(owners)
    return found[0] if len(found) == 1 else None


def _to_json(deposit: DepositReport) -> str:
    members = {
        "providerReference": deposit.provider_reference,
        "account": deposit.account,
        "billReference": deposit.bill_reference,
        "amount": str(deposit.amount),
        "msisdn": deposit.party.msisdn,
    }
    return json.dumps(members, ensure_ascii=False)
