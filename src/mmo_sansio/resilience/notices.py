"""Decides when staff are told, outside the console, of what waits for a person.

A message names all that waits, so that one is enough however much comes at once. It is due when
something waits that the messages before did not name, when more of it waits, or when it has waited
on for a long time. So many messages are sent in an hour and no more; the last of them is left to
what nobody knows yet. An attempt that failed counts as a message, as it may have arrived.

The rules have no memory: a record of what was told is their input and their answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from attrs import evolve, field, frozen

from mmo_sansio.values.clock import HOUR, MINUTE, Instant, Span, elapsed
from mmo_sansio.values.money import Money
from mmo_sansio.values.number_format import format_amount

# How long more of the same is not told after a message; and for how long something that is over is
# remembered, so that what comes and goes is one message.
GROWTH_TOLD_AFTER: Final = Span(15 * MINUTE)

# How long what was found stays known while rounds do not find it: each process knows its own
# breakers only, and another may have made those rounds.
FORGOTTEN_AFTER: Final = Span(3 * MINUTE)

# How long after a first failure the message is tried again.
RETRIED_AFTER: Final = Span(MINUTE)

# How long the next attempt waits after one that failed: twice as long each time, up to this.
RETRIED_AFTER_MAX: Final = Span(15 * MINUTE)


class NoticeKind(StrEnum):
    """Lists what waits for a person, the most urgent first."""

    AUDIT_LOG_CHANGED = "audit_log_changed"
    """The audit log was cut or rewritten in the last day."""
    STORE_RESTORED = "store_restored"
    """Brands of a restored store that take no payments until the gap is closed."""
    ACCOUNT_REFUSED = "account_refused"
    """Parts of accounts that operators refuse."""
    SIGN_IN_FAILS = "sign_in_fails"
    """Operators that give no access token."""
    PROVIDER_UNREACHABLE = "provider_unreachable"
    """Operators to which the breaker is open."""
    FLOAT_LOW = "float_low"
    """Floats that are low."""
    PAYMENTS_STUCK = "payments_stuck"
    """Payments whose outcome has been unknown for an hour."""
    CALLBACKS_STOPPED = "callbacks_stopped"
    """Merchants whose callbacks the breaker has stopped."""
    CALLBACKS_NOT_DELIVERED = "callbacks_not_delivered"
    """Callbacks of the last hour that were not delivered, where they are many."""
    CERTIFICATE_EXPIRES = "certificate_expires"
    """The days until the listeners' certificate expires, where they are few."""
    REVERSALS_TO_APPROVE = "reversals_to_approve"
    """Money that staff ask back."""
    RESOLUTIONS_TO_APPROVE = "resolutions_to_approve"
    """Proposals to end payments by hand."""
    CHANGES_TO_APPROVE = "changes_to_approve"
    """Proposed changes of brands."""
    SUSPENSE = "suspense"
    """Open entries of the suspense book."""


# How long something has to last before it is told: what is not here is told at once.
PATIENCE: Final[Mapping[NoticeKind, Span]] = MappingProxyType(
    {
        NoticeKind.SIGN_IN_FAILS: Span(15 * MINUTE),
        NoticeKind.PROVIDER_UNREACHABLE: Span(5 * MINUTE),
        NoticeKind.CALLBACKS_STOPPED: Span(10 * MINUTE),
    }
)


@frozen
class Matter:
    """Something of one kind that waits for a person."""

    kind: NoticeKind
    count: int
    """How many there are; of a certificate the days that are left."""
    sums: tuple[Money, ...] = ()
    """What is at stake, one amount for each currency; no money of simulated payments
    beside payments for money."""
    providers: tuple[str, ...] = ()
    """The names of the providers that it is about, as `mmo.toml` has them."""


@frozen
class Told:
    """Says what the last message had of a kind."""

    at: Instant
    count: int


@frozen
class NoticeRecord:
    """Keeps what was told, for all processes together."""

    since: Mapping[NoticeKind, Instant] = field(factory=dict)
    """Since when each kind waits."""
    found: Mapping[NoticeKind, Instant] = field(factory=dict)
    """When each kind was found last."""
    told: Mapping[NoticeKind, Told] = field(factory=dict)
    attempts: tuple[Instant, ...] = ()
    """When messages were sent in the last hour, the oldest first."""
    failures: int = 0
    """How many attempts in a row have failed."""


@frozen
class NoticeLimits:
    """Says how often messages are sent."""

    per_hour: int
    repeat_after: Span
    """How long after a message the same is told again while it waits on."""


def seen(record: NoticeRecord, matters: Collection[Matter], now: Instant) -> NoticeRecord:
    """Return the record after a look at what waits: what is over, and attempts of over an hour
    ago, are forgotten."""
    kinds = {matter.kind for matter in matters}
    # What another process has found lately still waits, though this one cannot see it.
    known = {kind: at for kind, at in record.found.items() if elapsed(at, now) < FORGOTTEN_AFTER}
    found = {**known, **dict.fromkeys(kinds, now)}
    return evolve(
        record,
        since={kind: record.since.get(kind, now) for kind in found},
        found=found,
        told={
            kind: told
            for kind, told in record.told.items()
            if kind in kinds or elapsed(told.at, now) < GROWTH_TOLD_AFTER
        },
        attempts=tuple(at for at in record.attempts if elapsed(at, now) < HOUR),
    )


def patient(record: NoticeRecord, matters: Collection[Matter], now: Instant) -> list[Matter]:
    """Return what has lasted long enough to be told, the most urgent first."""
    # The enum lists the most urgent first.
    order = list(NoticeKind)
    # Short disturbances end by themselves: nobody is woken for them.
    lasting = [
        matter
        for matter in matters
        if elapsed(record.since.get(matter.kind, now), now) >= PATIENCE.get(matter.kind, 0)
    ]
    return sorted(lasting, key=lambda notice: order.index(notice.kind))


def is_due(
    record: NoticeRecord, matters: Collection[Matter], limits: NoticeLimits, now: Instant
) -> bool:
    """Tell whether a message that names these matters is to be sent now."""
    if record.attempts:
        retried_at = record.attempts[-1] + _retry_delay(record.failures)
    else:
        retried_at = now

    # An attempt that failed may have arrived, so it is not repeated at once.
    if record.failures and now < retried_at:
        return False

    has_news = any(matter.kind not in record.told for matter in matters)
    known = [(matter, record.told[matter.kind]) for matter in matters if matter.kind in record.told]
    has_more = any(_is_told_again(matter, told, limits, now) for matter, told in known)
    room = limits.per_hour - len(record.attempts)
    # The last message of the hour is kept for what nobody knows of yet.
    kept_for_news = 1 if limits.per_hour > 1 else 0
    return (has_news and room > 0) or (has_more and room > kept_for_news)


def _is_told_again(matter: Matter, told: Told, limits: NoticeLimits, now: Instant) -> bool:
    ago = elapsed(told.at, now)
    # A certificate's days become fewer, and are told with the interval only.
    grows = matter.kind is not NoticeKind.CERTIFICATE_EXPIRES and matter.count > told.count
    return ago >= limits.repeat_after or (grows and ago >= GROWTH_TOLD_AFTER)


def _retry_delay(failures: int) -> Span:
    return Span(min(RETRIED_AFTER * 2 ** min(failures - 1, 10), RETRIED_AFTER_MAX))


def attempted(record: NoticeRecord, now: Instant) -> NoticeRecord:
    """Return the record for as long as nobody knows how the attempt ends: it counts as failed,
    so that whoever finds it after a crash tries again."""
    return evolve(record, attempts=(*record.attempts, now), failures=record.failures + 1)


def delivered(record: NoticeRecord, matters: Collection[Matter], now: Instant) -> NoticeRecord:
    """Return the record after a message with these matters has arrived."""
    told = {matter.kind: Told(now, matter.count) for matter in matters}
    return evolve(record, told={**record.told, **told}, failures=0)


_SENTENCES: Final[Mapping[NoticeKind, tuple[str, str]]] = MappingProxyType(
    {
        NoticeKind.AUDIT_LOG_CHANGED: (
            "The audit log was cut or rewritten.",
            "The audit log was cut or rewritten, {} times.",
        ),
        NoticeKind.STORE_RESTORED: (
            "{} brand of the restored store takes no payments yet.",
            "{} brands of the restored store take no payments yet.",
        ),
        NoticeKind.ACCOUNT_REFUSED: (
            "{} part of an operator's account is refused.",
            "{} parts of operators' accounts are refused.",
        ),
        NoticeKind.SIGN_IN_FAILS: (
            "{} operator gives no access token.",
            "{} operators give no access token.",
        ),
        NoticeKind.PROVIDER_UNREACHABLE: (
            "{} operator does not respond.",
            "{} operators do not respond.",
        ),
        NoticeKind.FLOAT_LOW: ("{} float is low.", "{} floats are low."),
        NoticeKind.PAYMENTS_STUCK: (
            "The outcome of {} payment has been unknown for an hour.",
            "The outcomes of {} payments have been unknown for an hour.",
        ),
        NoticeKind.CALLBACKS_STOPPED: (
            "The callbacks to {} merchant are stopped.",
            "The callbacks to {} merchants are stopped.",
        ),
        NoticeKind.CALLBACKS_NOT_DELIVERED: (
            "{} callback of the last hour was not delivered.",
            "{} callbacks of the last hour were not delivered.",
        ),
        NoticeKind.CERTIFICATE_EXPIRES: (
            "The certificate expires in {} day.",
            "The certificate expires in {} days.",
        ),
        NoticeKind.REVERSALS_TO_APPROVE: (
            "{} reversal waits for an approval.",
            "{} reversals wait for an approval.",
        ),
        NoticeKind.RESOLUTIONS_TO_APPROVE: (
            "{} payment to end by hand waits for an approval.",
            "{} payments to end by hand wait for an approval.",
        ),
        NoticeKind.CHANGES_TO_APPROVE: (
            "{} change of a brand waits for an approval.",
            "{} changes of brands wait for an approval.",
        ),
        NoticeKind.SUSPENSE: (
            "{} entry of the suspense book is open.",
            "{} entries of the suspense book are open.",
        ),
    }
)


def sentence(matter: Matter) -> str:
    """Return a matter as an English sentence, with what it is about and its sums."""
    one, many = _SENTENCES[matter.kind]
    text = (one if matter.count == 1 else many).format(f"{matter.count:,}")
    about = [*matter.providers, *(format_amount(amount) for amount in matter.sums)]
    if about:
        return f"{text[:-1]}: {', '.join(about)}."
    return text
