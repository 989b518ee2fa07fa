"""Decides what a merchant asks for, and when, to learn the results that no callback has brought.

A callback has one attempt (K3). So records are listed again and again, from where the last listing
ended, and payments that were still pending are looked up until they have ended. `next_step` says
what to ask, `learn` what follows from the answer. What `next_step` gives to store is stored before
its request leaves: so a program that is killed and started again asks no more often than one that
was not. A listing and look-ups are stored apart: of several programs on one inbox, one may list
while others look up.

No payment is asked about more than once in two minutes, by listing and looking up together
(specification, "Usage rules"). A listing begins `overlap` before the end of the last one, for
payments that the gateway stored late; within the overlap payments are listed, before it they are
looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from attrs import evolve, field, frozen

from mmo_merchant.api.api_errors import ApiRejection, MerchantApiError, TransactionNotFound
from mmo_merchant.api.gateway_requests import (
    Answer,
    ApiAccess,
    RecordsWindow,
    TransactionPage,
    look_up_request,
    page_request,
    read_found,
    read_page,
    records_request,
)
from mmo_merchant.api.transaction_objects import TransactionObject
from mmo_sansio.http.messages import HttpRequest, HttpResponse

# The shortest time between two questions about one payment that the specification advises.
POLL_INTERVAL: Final = timedelta(minutes=2)

# The longest time between two look-ups of one payment; it grows with the payment's age.
POLL_INTERVAL_MAX: Final = timedelta(minutes=15)

# How long a payment may be pending (S3); the first listing goes back so far.
PENDING_TIMEOUT: Final = timedelta(days=3)

# Not by `strptime`, whose names of months follow the locale of the process.
_MONTHS: Final = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)
_HTTP_DATE: Final = re.compile(rb"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII)


def _check_interval(_: object, _attribute: object, value: timedelta) -> None:
    if value < POLL_INTERVAL:
        raise ValueError(
            f"list_every must be at least {POLL_INTERVAL}, as the specification advises."
        )


def _check_overlap(_: object, _attribute: object, value: timedelta) -> None:
    if value <= timedelta(0):
        raise ValueError(
            "overlap must be longer than nothing: the gateway may store a payment late."
        )


@frozen(kw_only=True)
class GapRules:
    """Says how the gaps are closed."""

    list_every: timedelta = field(default=timedelta(minutes=5), validator=_check_interval)
    """The time between two listings of the newest records; at least two minutes."""
    overlap: timedelta = field(default=timedelta(minutes=10), validator=_check_overlap)
    """How much of the last listing is listed again. The gateway stores each payment within this
    time of its creation, and this machine's clock is not further ahead of the gateway's."""
    window_max: timedelta = timedelta(days=1)
    """The longest window of one listing: after a long pause the past is listed in pieces."""
    page_size: int = 500


@frozen(kw_only=True)
class GapProgress:
    """Says how far the gaps are closed; it is stored, and survives restarts."""

    through: datetime
    """Every payment that was created before is handled or watched."""
    list_at: datetime
    """When the next page of records may be asked for."""
    window_end: datetime | None = None
    """The end of the listing that is active; None: none is."""
    through_after: datetime | None = None
    """The value of `through` after that listing."""
    page: str | None = None
    """The cursor of the next page of that listing; None: its first page."""
    version: int = 0
    """Counts the changes, so that of two programs that list at the same time, one fails."""


@frozen(kw_only=True)
class WatchedPayment:
    """Is a payment without a result, which is looked up again."""

    gateway_reference: str
    created_at: datetime
    ask_at: datetime
    """When it may be asked about again."""


@frozen
class ListStep:
    """Asks for a page of records."""

    request: HttpRequest
    progress: GapProgress
    """To be stored before the request is sent."""


@frozen
class LookUpStep:
    """Asks for a payment."""

    request: HttpRequest
    watched: WatchedPayment
    """As it is watched so far."""
    asked: WatchedPayment
    """To be stored in its place before the request is sent."""


GapStep: TypeAlias = ListStep | LookUpStep


@frozen(kw_only=True)
class Learned:
    """Holds what an answer says. The results are handed over first, then the rest is stored in one
    transaction."""

    progress: GapProgress | None = None
    """None after a look-up, which changes none."""
    results: Sequence[TransactionObject] = ()
    """Payments that have ended; most were handled when their callbacks came."""
    watched: Sequence[WatchedPayment] = ()
    """Payments that are pending."""
    forgotten: str | None = None
    """The reference of a watched payment that the gateway does not have."""
    fault: MerchantApiError | None = None
    """Why there is nothing to learn; the same is asked again in two minutes or later."""


def first_progress(now: datetime, since: datetime | None = None) -> GapProgress:
    """Return the progress of a program that begins to close gaps, from payments that were created
    since then; by default from the oldest that may be pending."""
    if since is None:
        since = now - PENDING_TIMEOUT
    return GapProgress(through=since, list_at=now)


def next_step(
    access: ApiAccess,
    progress: GapProgress,
    watched: WatchedPayment | None,
    *,
    rules: GapRules,
    now: datetime,
) -> GapStep | datetime:
    """Return what to ask now, or when to try again.

    `watched` is the payment with the earliest `ask_at` of those that were created before
    `progress.through`."""
    # 1. A listing that is due: one request brings many results. Its window must not be empty (R2).
    list_at = _due(progress.list_at, now, rules.list_every)
    if list_at <= now and progress.through < now:
        return _list_step(access, progress, rules, now)

    # 2. The watched payment that has waited longest.
    ask_at = None
    if watched is not None:
        ask_at = _due(watched.ask_at, now, POLL_INTERVAL_MAX)

    if watched is not None and ask_at is not None and ask_at <= now:
        asked = evolve(watched, ask_at=now + POLL_INTERVAL)
        return LookUpStep(look_up_request(access, watched.gateway_reference), watched, asked)

    # 3. Nothing is due. A listing whose window would be empty waits until there is one.
    if list_at <= now:
        list_at = now + POLL_INTERVAL

    if ask_at is None:
        return list_at

    return min(list_at, ask_at)


def _due(at: datetime, now: datetime, at_most: timedelta) -> datetime:
    """Return when something is due; now, if that lies so far ahead that the clock must have been
    set back."""
    if at > now + at_most:
        return now
    return at


def _list_step(
    access: ApiAccess, progress: GapProgress, rules: GapRules, now: datetime
) -> ListStep:
    # A listing that is active keeps its window, so that its cursors fit (R5).
    if progress.window_end is None or progress.through_after is None:
        # What was created after this may not be stored yet.
        settled = now - rules.overlap
        is_behind = settled - progress.through > rules.window_max

        # Far behind, a piece of the past is listed. It is settled as a whole, so nothing overlaps.
        if is_behind:
            end = progress.through + rules.window_max
            after = end
        else:
            # A clock that was set back takes nothing back: what was listed stays listed.
            end = now
            after = max(settled, progress.through)

        progress = evolve(progress, window_end=end, through_after=after, page=None)

    assert progress.window_end is not None
    window = RecordsWindow(
        begin=progress.through, end=progress.window_end, page_size=rules.page_size
    )
    if progress.page is None:
        request = records_request(access, window)
    else:
        request = page_request(access, progress.page)

    # Due again in two minutes at the earliest: a program that is killed now asks no sooner.
    stored = evolve(progress, list_at=now + POLL_INTERVAL, version=progress.version + 1)
    return ListStep(request, stored)


def learn(step: GapStep, answer: Answer, *, rules: GapRules, now: datetime) -> Learned:
    """Return what follows from the answer, which arrived now."""
    if isinstance(step, LookUpStep):
        return _learn_from_look_up(step, answer, now=now)

    # The listing was stored with the next version before it was sent; what it brings is one more.
    progress = evolve(step.progress, version=step.progress.version + 1)
    try:
        return _learn_from_page(
            progress, read_page(answer), _gateway_time(answer), rules=rules, now=now
        )
    except ApiRejection as error:
        # A cursor that is no longer valid is an error of this kind: the listing begins again.
        return Learned(progress=evolve(progress, page=None), fault=error)
    except MerchantApiError as error:
        # No answer, or one that says nothing of the listing: the same page is asked for again.
        return Learned(progress=progress, fault=error)


def _learn_from_page(
    progress: GapProgress,
    page: TransactionPage,
    gateway_time: datetime | None,
    *,
    rules: GapRules,
    now: datetime,
) -> Learned:
    assert progress.window_end is not None
    assert progress.through_after is not None

    # By the gateway's clock too: if ours is ahead, it has yet to create payments before `after`.
    after = progress.through_after
    if gateway_time is not None:
        after = max(progress.through, min(after, gateway_time - rules.overlap))

    if page.next is not None:
        # The pages of one listing follow at once: none shows a payment of another page.
        progress = evolve(progress, page=page.next, through_after=after, list_at=now)
    else:
        # A piece of the past that was listed up to its end: the next piece follows at once.
        list_at = now
        if after != progress.window_end:
            list_at = now + rules.list_every

        progress = GapProgress(through=after, list_at=list_at, version=progress.version)

    return Learned(
        progress=progress,
        results=[transaction for transaction in page.transactions if transaction.has_ended],
        watched=[
            watch(transaction, now=now)
            for transaction in page.transactions
            if not transaction.has_ended
        ],
    )


def _learn_from_look_up(step: LookUpStep, answer: Answer, *, now: datetime) -> Learned:
    try:
        transaction = read_found(answer)
    except TransactionNotFound as error:
        # It was purged from the gateway, or is another brand's since the key was changed.
        return Learned(forgotten=step.watched.gateway_reference, fault=error)
    except MerchantApiError as error:
        return Learned(fault=error)
    if transaction.has_ended:
        return Learned(results=[transaction])
    return Learned(watched=[watch(transaction, now=now)])


def watch(transaction: TransactionObject, *, now: datetime) -> WatchedPayment:
    """Return when to ask about a payment again: the older it is, the later."""
    # A payment mostly ends soon, or late: an older one is asked about less often.
    age = now - transaction.created_at
    pause = min(max(age / 4, POLL_INTERVAL), POLL_INTERVAL_MAX)
    return WatchedPayment(
        gateway_reference=transaction.gateway_reference,
        created_at=transaction.created_at,
        ask_at=now + pause,
    )


def _gateway_time(answer: Answer) -> datetime | None:
    """Return the gateway's own time of the answer (RFC 9110 section 6.6.1), so that a clock of ours
    that is ahead skips no payment; None when it does not say."""
    value = None
    if isinstance(answer, HttpResponse):
        value = answer.value(b"date")

    match = None
    if value is not None:
        match = _HTTP_DATE.fullmatch(value)

    if match is None:
        return None

    day, month, year, hour, minute, second = (group.decode() for group in match.groups())

    # The expression takes any three letters, and any digits for a day or an hour.
    if month not in _MONTHS:
        return None

    try:
        date = (int(year), _MONTHS.index(month) + 1, int(day))
        return datetime(*date, int(hour), int(minute), int(second), tzinfo=UTC)
    except ValueError:
        return None
