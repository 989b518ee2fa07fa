"""Whose an offline deposit is: matched to brand and method by the account that was paid (clause S4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from mmo_sansio.messages.inputs import (
    DepositNotified,
    ProviderHinted,
    ProviderSucceeded,
    UnmatchedNotified,
)
from mmo_sansio.providers.common.interface import DepositTold
from mmo_sansio.providers.common.operations import Operation, OperationKey, key_of
from mmo_sansio.values.model import Brand, Method, Source, Transaction

ENDING_CHARACTERS = 12
"""How much of the end of a gatewayReference a payer sees as account reference where the operator takes no more."""

Owner = tuple[Brand, Method]


def owner_of(told: DepositTold, brands: Iterable[Brand]) -> Owner | None:
    """The brand and the method that the deposit is for; None when there is none, or more than one.

    A method says which deposits are its own: `ACCOUNT`, or `ACCOUNT/PREFIX` for those whose bill reference begins so,
    in capital or small letters; the longest prefix counts. Where no method of the provider says anything, the one brand
    that uses the provider owns them all.
    """
    candidates = [
        (brand, method)
        for brand in brands
        for method in brand.methods
        if method.provider == told.provider and told.amount.currency in method.limits
    ]
    claims = [(len(claim), owner) for owner in candidates for claim in _claims(told, owner[1])]
    if claims:
        longest = max(length for length, _ in claims)
        return _only(owner for length, owner in claims if length == longest)
    if any(method.push_accounts for _, method in candidates):
        return None
    return _only(candidates)


def deposit_input(
    told: DepositTold, owner: Owner | None, *, provider_title: str, gateway_reference: str
) -> DepositNotified:
    """The deposit as the law takes it; without an owner it goes to the suspense book."""
    return DepositNotified(
        provider=told.provider,
        provider_reference=told.provider_reference,
        provider_title=provider_title,
        gateway_reference=gateway_reference,
        brand=owner and owner[0],
        method=owner[1].key if owner else "",
        amount=told.amount,
        party=told.party,
    )


def may_be_an_ending(told: DepositTold) -> bool:
    """Whether the bill reference could be the end of a gatewayReference of ours."""
    given = told.bill_reference
    return len(given) == ENDING_CHARACTERS and given.isascii() and given.isalnum()


def payment_input(
    told: DepositTold, was: Transaction, operations: Mapping[OperationKey, Operation]
) -> ProviderSucceeded | ProviderHinted | UnmatchedNotified:
    """What a deposit says that names a payment of ours: nobody has signed it, so the provider is asked if it can be.

    One for a payment that has ended already changes nothing and is kept, as it may be money for a second time.
    """
    operation = operations.get(key_of(was))
    if operation and operation.can_be_asked and not was.progress.stage.is_terminal:
        return ProviderHinted(was.reference, told.provider, _text(told))
    if told.amount != was.order.requested:
        return UnmatchedNotified(told.provider, _text(told))
    return ProviderSucceeded(
        was.reference, told.provider, Source.WEBHOOK, told.provider_reference, told.amount
    )


def _claims(told: DepositTold, method: Method) -> Iterable[str]:
    for claim in method.push_accounts:
        account, _, prefix = claim.partition("/")
        if account == told.account and told.bill_reference.upper().startswith(prefix.upper()):
            yield claim


def _only(owners: Iterable[Owner]) -> Owner | None:
    found = list(owners)
    return found[0] if len(found) == 1 else None


def _text(told: DepositTold) -> str:
    members = {
        "providerReference": told.provider_reference,
        "account": told.account,
        "billReference": told.bill_reference,
        "amount": str(told.amount),
        "msisdn": told.party.msisdn,
    }
    return json.dumps(members, ensure_ascii=False)
