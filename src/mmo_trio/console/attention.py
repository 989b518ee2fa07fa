"""What needs a person now, the worst first, with the money at stake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.providers.common.account_check import SIGN_IN
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.resilience.circuit_breaker import BreakerState
from mmo_sansio.values.clock import HOUR, Instant, earlier, later
from mmo_sansio.values.model import Transaction
from mmo_sansio.values.money import Money
from mmo_trio.admin.counted_money import requested_amounts, reversal_amounts
from mmo_trio.console.context import console
from mmo_trio.console.money_figures import format_sums, main_reasons
from mmo_trio.console.operator_days import ENDED_MIN, FAILING_RATE
from mmo_trio.storage.interface.admin_types import (
    STUCK_COUNT_MAX,
    UNFINISHED_STATES,
    ChangeState,
    CountDimension,
    CountQuery,
    NoteTopic,
)
from mmo_trio.workers.providers.account_notes import read_finding_note
from mmo_trio.workers.providers.float_monitor import KnownFloat, known_floats

# Entries of a list whose money is added up; of more the sum is that of these at least.
READ_MAX = 100


@frozen
class Attention:
    """Describes something that needs a person."""

    is_bad: bool
    """Whether money or all payments of somebody are at stake; else it can wait for an hour."""
    title: str
    detail: str
    endpoint: str
    """The page on which it is dealt with."""
    provider: str | None = None
    """The provider that it is about, by its name."""


@frozen
class AccountConcern:
    """Says what is wrong with the account with a provider."""

    is_bad: bool
    text: str
    words: str
    """What is wrong, and who mends it."""


def account_concerns(findings: Iterable[AccountFinding]) -> Sequence[AccountConcern]:
    """Return what is wrong with an account, the worst first."""
    concerns = list[tuple[int, AccountConcern]]()
    for found in findings:
        is_sign_in = found.part == SIGN_IN
        if found.code:
            detail = f"{found.words} ({found.code})"
        else:
            detail = found.words

        match found.state:
            case AccountState.REFUSED:
                if is_sign_in:
                    text = "sign-in fails"
                else:
                    text = f"{found.part} refused"
                rank = 0 if is_sign_in else 1
                concerns.append((rank, AccountConcern(True, text, detail)))
            case AccountState.UNKNOWN if found.code:
                if is_sign_in:
                    text = "sign-in fails"
                else:
                    text = f"{found.part} not answered"
                concerns.append((2, AccountConcern(False, text, detail)))
            case AccountState.WARNED:
                concerns.append((3, AccountConcern(False, f"{found.part} warned of", detail)))
            case _:
                pass

    return [concern for _, concern in sorted(concerns, key=lambda ranked: ranked[0])]


def account_concern(findings: Iterable[AccountFinding]) -> AccountConcern | None:
    """Return the worst that is known of an account; None where all works, or nothing is known."""
    return next(iter(account_concerns(findings)), None)


async def read_account_concerns() -> Mapping[str, Sequence[AccountConcern]]:
    """Return what is wrong with the accounts, by the provider's name."""
    findings: dict[str, list[AccountFinding]] = {}
    for note in await console().store.admin.provider_notes(NoteTopic.FINDING):
        findings.setdefault(note.provider, []).append(read_finding_note(note))
    titles = console().provider_titles
    concerns = {name: account_concerns(found) for name, found in findings.items()}
    return {name: wrong for name, wrong in concerns.items() if wrong and name in titles}


async def read_attention(
    concerns: Mapping[str, Sequence[AccountConcern]], failed: Sequence[tuple[int, CallbackRecorded]]
) -> Sequence[Attention]:
    """Return what needs a person, the worst first; `failed` are the callbacks of the period that
    were not delivered."""
    titles = console().provider_titles
    found = [
        Attention(
            concern.is_bad,
            f"{titles[name]}: {concern.text}",
            concern.words,
            "providers.list_providers",
            name,
        )
        for name, wrong in concerns.items()
        for concern in wrong
    ]
    found += await _stopped()
    found += await _failing()
    found += await _unknown_money()
    found += await _approvals()
    found += await _low_floats()

    if failed:
        if len(failed) == 1:
            text = "callback was"
        else:
            text = "callbacks were"
        found.append(
            Attention(
                False,
                f"{len(failed):,} {text} not delivered",
                "The merchant may not know how a payment has ended.",
                "work_lists.callbacks",
            )
        )

    return sorted(found, key=lambda need: not need.is_bad)


async def _stopped() -> list[Attention]:
    """Return what breakers have stopped: submissions to a provider, or callbacks to a merchant."""
    # 1. Providers, each by itself.
    titles = console().provider_titles
    found = [
        Attention(
            True,
            f"{titles[name]}: its breaker has stopped new payments",
            "It did not answer; it is tried again by itself.",
            "providers.list_providers",
            name,
        )
        for name, state in console().provider_breakers().items()
        if state is not BreakerState.CLOSED and name in titles
    ]
    # 2. Merchants' receivers, all in one line.
    breakers = await console().store.breakers()
    open_brands = sorted(
        brand for brand, breaker in breakers.items() if breaker.state is not BreakerState.CLOSED
    )
    if open_brands:
        names = ", ".join(open_brands[:3])
        if len(open_brands) > 3:
            more = f" and {len(open_brands) - 3:,} more"
        else:
            more = ""

        if len(open_brands) == 1:
            merchants = "1 merchant"
        else:
            merchants = f"{len(open_brands):,} merchants"

        found.append(
            Attention(
                False,
                f"Callbacks to {merchants} stopped",
                f"{names}{more}: the receiver fails, and is tried again by itself.",
                "providers.list_breakers",
            )
        )

    return found


async def _failing() -> list[Attention]:
    """Return the operators with which most payments of the last hour failed, and why."""
    context, now = console(), console().wall_time()
    since = earlier(now, HOUR)

    # Reasons are counted by whole hours, so in those that the last 60 minutes touch; how many have
    # failed, by quarters.
    last = CountQuery(HOUR, Instant(since - since % HOUR), later(Instant(now - now % HOUR), HOUR))
    succeeded, ended = Counter[str](), Counter[str]()
    for quarter in await context.counted.provider_quarters(last.begin, last.end):
        if quarter.began_at >= since:
            succeeded[quarter.provider] += quarter.succeeded
            ended[quarter.provider] += quarter.succeeded + quarter.failed

    # Not those of which something worse is told, nor simulated ones beside real money.
    breakers = context.provider_breakers()
    failing = [
        name
        for name, title in context.provider_titles.items()
        if ended[name] >= ENDED_MIN
        and succeeded[name] < FAILING_RATE * ended[name]
        and breakers.get(name) is not BreakerState.OPEN
        and (context.moves_no_money or name not in context.simulated_providers)
    ]
    if not failing:
        return []

    reasons = main_reasons(await context.counted.sum_payments(last, by=CountDimension.PROVIDER))
    return [
        Attention(
            True,
            f"{context.provider_titles[name]}: {ended[name] - succeeded[name]:,} of"
            f" {ended[name]:,} payments failed",
            reasons.get(name, ""),
            "providers.list_providers",
            name,
        )
        for name in failing
    ]


async def _unknown_money() -> list[Attention]:
    """Return the payments of which nobody knows whether they were paid, and the suspense book."""
    context, found = console(), []
    admin = context.store.admin

    # 1. Payments whose operator does not tell.
    stuck = await admin.stuck_transactions(context.own_time(), limit=STUCK_COUNT_MAX)
    if stuck:
        found.append(
            Attention(
                True,
                _counted(len(stuck), "payment is stuck", "payments are stuck", STUCK_COUNT_MAX),
                _at_stake(_requested(stuck), "unknown") or "sent over an hour ago, and no result",
                "work_lists.stuck",
            )
        )

    # 2. Reports that nobody has dealt with yet.
    entries = await admin.suspense_entries(limit=READ_MAX)
    if entries:
        references = {entry.gateway_reference for entry in entries if entry.gateway_reference}
        payments = await context.store.transactions(sorted(references))
        found.append(
            Attention(
                True,
                _counted(len(entries), "entry in suspense", "entries in suspense", READ_MAX),
                _at_stake(_requested(payments.values()), "in doubt")
                or "reports that fit no payment, or contradict one",
                "work_lists.suspense",
            )
        )

    return found


async def _approvals() -> list[Attention]:
    """Return what waits for a second user."""
    context, found = console(), []
    store = context.store

    # 1. Payments to end by hand.
    proposals = [
        proposal
        for state in UNFINISHED_STATES
        for proposal in await store.admin.proposals(state=state, limit=READ_MAX)
    ]
    if proposals:
        payments = await store.transactions([proposal.gateway_reference for proposal in proposals])
        found.append(
            Attention(
                False,
                _counted(len(proposals), "proposal waits", "proposals wait", READ_MAX),
                _at_stake(_requested(payments.values()), "to end by hand"),
                "work_lists.list_proposals",
            )
        )

    # 2. Money to give back; the page shows all without an outcome, whoever they wait for.
    reversals = await read_waiting_reversals()
    if reversals.count:
        found.append(
            Attention(
                False,
                _numbered(
                    reversals.count,
                    "reversal waits",
                    "reversals wait",
                    has_more=reversals.has_more,
                ),
                _at_stake(reversals.amounts, "to give back"),
                "reversals.list_reversals",
            )
        )

    # 3. Changes of the configuration.
    changes = await store.admin.configuration_changes(state=ChangeState.OPEN, limit=READ_MAX)
    if changes:
        found.append(
            Attention(
                False,
                _counted(
                    len(changes), "change of a brand waits", "changes of brands wait", READ_MAX
                ),
                "for a second user",
                "brands.list_changes",
            )
        )

    return found


@frozen
class WaitingReversals:
    """Describes the reversals without an outcome, as far as they were read."""

    count: int
    amounts: Sequence[Money]
    """What they give back; simulated money is added to no other."""
    has_more: bool
    """Whether there may be others, which were not read."""


async def read_waiting_reversals() -> WaitingReversals:
    """Return how many reversals wait for a person or an operator, and their money."""
    context = console()
    unfinished = await context.store.list_reversals(only_unfinished=True, limit=READ_MAX)
    # A payment is listed with all its reversals, of which some may have ended.
    reversals = [reversal for reversal in unfinished if not reversal.state.has_ended]
    payments = await context.store.transactions([reversal.payment for reversal in reversals])
    moving = reversal_amounts(reversals, payments, moves_no_money=context.moves_no_money)
    # The limit is one of payments, and each may have several reversals.
    has_more = len({reversal.payment for reversal in unfinished}) == READ_MAX
    return WaitingReversals(len(reversals), moving, has_more)


async def _low_floats() -> list[Attention]:
    context = console()
    floats = await known_floats(context.store.admin, context.provider_titles, context.own_time())
    return [
        Attention(
            False,
            f"{context.provider_titles.get(watched.forecast.latest.provider)}: the float is low",
            " ".join(
                (format_sums([watched.forecast.latest.amount]), format_time_left(watched))
            ).strip(),
            "providers.list_providers",
            watched.forecast.latest.provider,
        )
        for watched in floats
        if watched.is_low
    ]


def format_time_left(known: KnownFloat) -> str:
    """Return how long a float lasts, `9 hours left`, `12 days left`; empty above 30 days, and where
    nothing is spent."""
    hours = known.forecast.hours_left
    if hours is None or not known.forecast.latest.is_float or hours > 30 * 24:
        return ""
    count, unit = (hours, "hour") if hours < 48 else (hours / 24, "day")
    if count < 1:
        return f"less than one {unit} left"
    return f"{count:.0f} {unit if round(count) == 1 else unit + 's'} left"


def _requested(payments: Iterable[Transaction]) -> Sequence[Money]:
    return requested_amounts(payments, moves_no_money=console().moves_no_money)


def _at_stake(amounts: Sequence[Money], word: str) -> str:
    if amounts:
        return f"{format_sums(amounts)} {word}"
    return ""


def _counted(count: int, one: str, several: str, count_max: int) -> str:
    return _numbered(count, one, several, has_more=count >= count_max)


def _numbered(count: int, one: str, several: str, *, has_more: bool) -> str:
    more = "+" if has_more else ""
    if count == 1:
        return f"1{more} {one}"
    return f"{count:,}{more} {several}"
