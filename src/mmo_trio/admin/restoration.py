"""Prepares a store that was restored from a backup, so that nothing is paid twice: what had not
ended then may have been submitted since, and what was created since is missing.

1. `begin_restoration` marks the unfinished and holds every brand.
2. `record_lost_uses` is given what others tell of: operators' statements, and the merchants'
   ledgers and records. Where the store lacks a payment, its merchantReference counts as used from
   then on, so that nobody pays under it again (C12)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import MarkRestored, RecordLostUse
from mmo_sansio.messages.replies import Applied, Reply
from mmo_sansio.messages.reversals import MarkReversalRestored
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.admin.brand_hold import SubmitBatch
from mmo_trio.storage.interface.admin_types import RESTORATION, BrandHold, PaymentFilter
from mmo_trio.storage.sql.store import Store

# Payments or references in one commit.
ROUND_SIZE = 200

# Payments whose reversals are marked; staff ask for few.
REVERSALS_MAX = 1_000_000

# How much of the end of a gatewayReference operators repeat as account number.
_END_CHARACTERS: Final = 12

# The characters of a ULID; digits alone are the number of an order.
_END: Final = re.compile(rf"(?=.*[A-Z])[0-9A-HJKMNP-TV-Z]{{{_END_CHARACTERS}}}", re.ASCII)


async def begin_restoration(
    store: Store, submit: SubmitBatch, *, user: str, now: Instant, lost_id: str = ""
) -> int:
    """Mark what had not ended, then give the store another id and hold every brand; return how many
    payments were marked. `lost_id` is the id that the store had when it was lost, where the backup
    has another. Raises what the store raises; to repeat it does no harm."""
    # The new id comes last: until then a restoration that was killed is begun again.
    marked = await mark_unfinished(store, submit, user=user)

    # Every brand is held until people have closed the gap: nothing of it is submitted meanwhile.
    holds = [BrandHold(brand.brand.id, now, RESTORATION) for brand in await store.admin.brands()]
    await store.admin.begin_restoration(new_store_id(), holds, lost_id)
    return marked


def new_store_id() -> str:
    """Return a name that no other store has."""
    return secrets.token_hex(16)


async def mark_unfinished(store: Store, submit: SubmitBatch, *, user: str) -> int:
    """Mark every payment and every reversal that has not ended as one that may have been submitted;
    return how many payments there were."""
    await _mark_reversals(store, submit, user=user)
    marked = 0
    selection = PaymentFilter(status=Status.PENDING, limit=ROUND_SIZE)
    while True:
        page = await store.admin.list_payments(selection)
        inputs = [MarkRestored(transaction.reference, user) for transaction in page.transactions]
        replies: Sequence[Reply] = ()
        if inputs:
            replies = await submit(inputs)

        marked += sum(isinstance(reply, Applied) for reply in replies)
        if page.next_position is None:
            return marked

        selection = evolve(selection, before=page.next_position)


async def _mark_reversals(store: Store, submit: SubmitBatch, *, user: str) -> None:
    """Mark every reversal that has not ended, also one that waits for an approval: it may have been
    sent."""
    unfinished = await store.list_reversals(only_unfinished=True, limit=REVERSALS_MAX)
    unmarked = [
        MarkReversalRestored(reversal.id, user)
        for reversal in unfinished
        if not reversal.is_restored
    ]
    for start in range(0, len(unmarked), ROUND_SIZE):
        await submit(unmarked[start : start + ROUND_SIZE])


@frozen
class ToldPayment:
    """Is a payment that a statement, or records that a merchant has kept, tell of."""

    brand: str
    name: str
    """Its gatewayReference, or what else it is known by: the end of that, as account number of an
    operator's statement, or its merchantReference."""
    merchant_reference: str | None = None
    """None where the name is all that is told."""
    has_failed: bool = False


@frozen
class RecordedUses:
    """Says of which payments the merchantReferences count as used from now on."""

    count: int = 0
    unknown_ends: Sequence[str] = ()
    """Names that look like ends of gatewayReferences, of payments that the store lacks: only their
    merchant knows the merchantReferences."""


async def record_lost_uses(
    store: Store, submit: SubmitBatch, told: Iterable[ToldPayment], *, user: str
) -> RecordedUses:
    """Record that merchantReferences were used: those of payments that the store lacks, and of
    payments that it has as failed although they may have been paid."""
    count = 0
    unknown_ends = list[str]()
    waiting = iter(told)

    # A statement may have any length: some payments at a time are held, and committed.
    while payments := list(islice(waiting, ROUND_SIZE)):
        stored = await _find_stored(store, payments)
        if uses := list(_lost_uses(payments, stored, user)):
            await submit(uses)

        count += len(uses)
        unknown_ends += [
            payment.name
            for payment in payments
            if payment.name not in stored and _may_be_end(payment)
        ]

    return RecordedUses(count, unknown_ends)


async def _find_stored(store: Store, payments: Sequence[ToldPayment]) -> Mapping[str, Transaction]:
    """Return the payments that the store has, by the name that is told."""
    stored = dict(await store.transactions([payment.name for payment in payments]))
    for payment in payments:
        # An operator's statement has the end of a gatewayReference as account number.
        if payment.name in stored or len(payment.name) != _END_CHARACTERS:
            continue
        transaction = await store.transaction_by_suffix(payment.name.upper())
        if transaction is not None:
            stored[payment.name] = transaction
    return stored


def _lost_uses(
    payments: Sequence[ToldPayment], stored: Mapping[str, Transaction], user: str
) -> Iterator[RecordLostUse]:
    for payment in payments:
        # 1. The store lacks it: under its reference nobody may pay again. A name that is told alone
        #    may be its merchantReference.
        known = stored.get(payment.name)
        if known is None or known.order.brand != payment.brand:
            told_reference = payment.merchant_reference or payment.name
            yield RecordLostUse(payment.brand, told_reference, payment.name, user)
            continue

        # 2. The store has it as failed, and somebody tells of it as paid.
        reference = payment.merchant_reference or known.order.merchant_reference
        if reference and known.status is Status.FAILED and not payment.has_failed:
            # By its whole gatewayReference the failed payment would be found, which leaves the
            # reference free; by the end alone none is, and the use counts as pending.
            yield RecordLostUse(payment.brand, reference, known.reference[-_END_CHARACTERS:], user)


def _may_be_end(payment: ToldPayment) -> bool:
    """Tell whether a name that is all that is told looks like the end of a gatewayReference."""
    return payment.merchant_reference is None and _END.fullmatch(payment.name.upper()) is not None
