"""Finds what a reported deposit is for: the payment that it names, or the brand whose account was paid (clause S4)."""

from __future__ import annotations

from collections.abc import Sequence

from mmo_sansio.messages.inputs import Input, ProviderHinted
from mmo_sansio.providers.common.deposits import DepositOwner, deposit_input, find_owner, may_be_reference_suffix
from mmo_sansio.providers.common.interface import DepositReport, Provider
from mmo_sansio.providers.common.operations import operation_key
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.sql.store import Store


async def deposit_inputs(
    store: Store, provider: Provider, deposit: DepositReport, gateway_reference: str
) -> Sequence[Input]:
    """Return the input for a deposit, and a hint to the payment that it names: the deposit may be its result. The
    gatewayReference is a fresh one."""
    payment = await payment_named_by(store, provider, deposit)
    notified = deposit_input(
        deposit,
        None if payment else await deposit_owner(store, deposit),
        provider_title=provider.title,
        gateway_reference=gateway_reference,
        payment=None if payment is None else payment.reference,
    )
    if payment is None or payment.progress.provider_data is None or payment.progress.stage.is_terminal:
        return (notified,)
    operation = provider.operations.get(operation_key(payment))
    if operation is None or not operation.can_be_polled:
        return (notified,)
    return notified, ProviderHinted(payment.reference, provider.name)


async def payment_named_by(store: Store, provider: Provider, deposit: DepositReport) -> Transaction | None:
    """Return the payment whose reference the payer gave; None when it is none of this provider's."""
    if not may_be_reference_suffix(deposit):
        return None
    payment = await store.transaction_by_suffix(deposit.bill_reference.upper())
    return payment if payment is not None and payment.order.provider == provider.name else None


async def deposit_owner(store: Store, deposit: DepositReport) -> DepositOwner | None:
    """Return the brand and the method whose account was paid; None when there is none."""
    return find_owner(deposit, [each.brand for each in await store.admin.brands()])
