"""Says in a few words what a person should look at in a payment, beside its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from mmo_sansio.messages.changes import SuspenseReason
from mmo_sansio.payments.stuck import is_stuck, unknown_since
from mmo_sansio.values.clock import Instant, elapsed, format_with_microseconds
from mmo_sansio.values.model import Transaction, Type
from mmo_trio.admin.explanation import PaymentHistory, says_otherwise
from mmo_trio.storage.interface.admin_types import SuspenseEntry
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.display_text import format_span


@frozen
class Concern:
    """Says one thing that the status of a payment does not."""

    text: str
    kind: str
    """`bad`, `warn`, or empty where nothing is to do any more."""


def find_concerns(
    payment: Transaction,
    entries: Iterable[SuspenseEntry],
    *,
    is_undelivered: bool,
    now: Instant,
) -> list[Concern]:
    """Return what a payment's status does not say, the worst first. `entries` are those of its
    suspense, `now` is the gateway's own time."""
    waiting = [entry for entry in entries if entry.closed_at is None]
    contrary = [entry for entry in waiting if says_otherwise(payment, entry)]
    concerns = []

    # Money may be where nobody looks for it: that comes before everything else.
    if contrary:
        concerns.append(Concern("provider says otherwise", "bad"))

    if is_stuck(payment, now=now):
        concerns.append(Concern("outcome unknown", "warn"))

    # What an entry says otherwise is said already; another amount has words of its own.
    reasons = {entry.reason for entry in waiting if entry not in contrary}
    concerns += _settled_otherwise(payment, reasons)
    if reasons - {SuspenseReason.SETTLED_LESS, SuspenseReason.SETTLED_MORE}:
        concerns.append(Concern("in the suspense book", "warn"))

    if is_undelivered:
        concerns.append(Concern("callback not delivered", "warn"))

    return concerns


def describe_stuck(history: PaymentHistory, *, now: Instant) -> str | None:
    """Return what a person has to know and to do about a payment whose outcome has been unknown for
    too long; None for any other. `now` is the gateway's own time."""
    payment = history.transaction
    order = payment.order
    progress = payment.progress
    if not is_stuck(payment, now=now):
        return None

    # 1. For how long, and what was done about it.
    age = format_span(elapsed(unknown_since(payment), now))
    asked = "It was not asked about yet."
    if progress.polls:
        times = "once"
        if progress.polls > 1:
            times = f"{progress.polls} times"

        asked = f"Asked {times}."
        asked_at = [line.at for line in history.journal if line.input_name in _ANSWERS]
        if asked_at:
            asked = f"Asked {times}, last at {_time(max(asked_at))}."

    if progress.wake_at is not None:
        asked += f" Next at {_time(order.to_utc(progress.wake_at))}."

    # 2. What must not happen meanwhile: somebody would pay, or be paid, twice.
    warning = "Do not pay again."
    if order.type is Type.PAYIN:
        warning = "Do not let the payer pay again."

    # 3. By what name the operator's people find it.
    name = progress.provider_reference or payment.reference
    return (
        f"Nobody knows for {age} whether it was paid. {asked} {warning} Look {name} up in "
        f"the portal of {order.provider_title}, then end it by hand."
    )


# The inputs by which a provider was asked, or has answered without a result.
_ANSWERS = frozenset({"TransactionWoke", "ProviderAccepted", "ProviderUnreachable"})


def _time(at: Instant) -> str:
    return f"{format_with_microseconds(at)[11:16]} UTC"


def _settled_otherwise(payment: Transaction, reasons: Iterable[SuspenseReason]) -> list[Concern]:
    """Return that another amount than the requested one was settled, which stays true after
    somebody has looked into it."""
    final = payment.progress.final
    requested = payment.order.requested
    if final is None or final == requested:
        return []

    words = "less" if final.minor < requested.minor else "more"
    kind = ""
    if {SuspenseReason.SETTLED_LESS, SuspenseReason.SETTLED_MORE} & set(reasons):
        kind = "warn"
    return [Concern(f"settled {words}", kind)]


async def load_concerns(
    store: Store, payments: Sequence[Transaction], *, now: Instant
) -> Mapping[str, Sequence[Concern]]:
    """Return the concerns of these payments by their references, of those that have any. `now` is
    the gateway's own time."""
    if not payments:
        return {}

    # For all payments of a list at once: two statements, however many they are.
    references = [payment.reference for payment in payments]
    entries: dict[str | None, list[SuspenseEntry]] = {}
    for entry in await store.admin.open_suspense_of(references):
        entries.setdefault(entry.gateway_reference, []).append(entry)

    undelivered = await store.admin.undelivered_of(references)
    concerns_of = {
        payment.reference: find_concerns(
            payment,
            entries.get(payment.reference, ()),
            is_undelivered=payment.reference in undelivered,
            now=now,
        )
        for payment in payments
    }
    return {reference: concerns for reference, concerns in concerns_of.items() if concerns}
