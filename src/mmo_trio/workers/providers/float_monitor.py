"""Asks for the balances of our accounts with providers, and says when a float is low or has made a
provider refuse a pay-out.

All of it is in the store, so one process asks for all, and each crossing of a threshold is said
once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import structlog
import trio
from attrs import Factory, define, evolve, frozen

from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.replies import Reply, ReversalApplied
from mmo_sansio.messages.reversals import ReversalFailed
from mmo_sansio.providers.common import balances
from mmo_sansio.values.clock import DAY, Instant, Moment, earlier, elapsed
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Source, Type
from mmo_sansio.values.reversals import ReversalState
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.interface.store import WorkItem, log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.system.logs import simulated_mark
from mmo_trio.workers.providers.account import SendRequest, drive_async
from mmo_trio.workers.providers.account_notes import CHECK_TIMEOUT_S, FIRST_CHECK_AFTER_S

logger = structlog.get_logger(__name__)

# Seconds between two looks at whose turn it is, and at what other processes have learnt.
ROUND_S: Final = 15.0

REFUSAL_SHOWN_FOR: Final = DAY

# The content of a note about a float that is low.
LOW: Final = "low"


@frozen
class KnownFloat:
    """What is known of an account with a provider."""

    forecast: balances.FloatForecast
    note: ProviderNote
    """Of the last crossing of a threshold."""

    @property
    def is_low(self) -> bool:
        return self.note.content == LOW


@define(eq=False)
class FloatMonitor:
    """Runs once in each process."""

    store: AdminStore
    providers: Mapping[str, balances.ReportsBalances]
    exchange_for: Callable[[str], SendRequest]
    watches: Mapping[str, balances.FloatWatch]
    """By provider; one without a watch has the default."""
    moment: Callable[[], Moment]
    floats: Sequence[KnownFloat] = ()
    """What is known of all accounts, as of the last round."""
    known_at: dict[tuple[str, str], Instant] = Factory(dict)
    """When the last balance was told that this process has known, by provider and account."""
    refusals: Counter[str] = Factory(Counter)
    """Pay-outs and reversals that each provider has refused to this process for lack of float."""
    _unwritten: dict[str, ProviderNote] = Factory(dict)
    """The latest refusal of each provider that is not in the store."""
    _refused: trio.Event = Factory(trio.Event)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        first_at = trio.current_time() + FIRST_CHECK_AFTER_S
        async with trio.open_nursery() as inquiries:
            while True:
                try:
                    await self._write_refusals()
                    if trio.current_time() >= first_at:
                        await self._ask_due(inquiries)

                    # Also what other processes have asked for.
                    self.floats = await known_floats(self.store, self.providers, self.moment().time)
                    latest = [watched.forecast.latest for watched in self.floats]
                    self.known_at |= {
                        balance.key: balance.at
                        for balance in latest
                        if balance.provider in self.providers
                    }
                except Exception as error:
                    log_store_failure(logger, "float_round_failed", error)

                # A refusal is told to the other processes at once.
                with trio.move_on_after(ROUND_S):
                    await self._refused.wait()

    def note_result(self, work: WorkItem) -> None:
        """Say at once that a provider has refused to pay because a float lacks money, if this is
        such a result."""
        # A result is passed on with the callback about it, once. A pay-in that fails so says
        # something of the payer's account, not of ours.
        order = work.transaction.order
        progress = work.transaction.progress
        is_refusal = progress.error_code is ErrorCode.MERCHANT_INSUFFICIENT_FUNDS
        is_told = progress.completion_source in (Source.POLL, Source.WEBHOOK)
        is_result = isinstance(work.intent, DeliverCallback) and is_refusal and is_told
        if not is_result or order.type is Type.PAYIN:
            return

        code = None
        if progress.provider_data is not None:
            code = progress.provider_data.error_code

        self._note_refusal(order.provider, order.gateway_reference, code, simulated_mark(order))

    def note_reversal(self, report: ReversalFailed, reply: Reply) -> None:
        """Say so as well of a reversal that has failed by this report."""
        has_failed = (
            isinstance(reply, ReversalApplied) and reply.reversal.state is ReversalState.FAILED
        )
        if report.lacks_float and has_failed:
            self._note_refusal(report.provider, report.reversal, report.native_code)

    def _note_refusal(
        self,
        provider: str,
        reference: str,
        code: str | None,
        mark: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        logger.error("float_refused", provider=provider, reference=reference, code=code, **mark)
        self.refusals[provider] += 1
        self._unwritten[provider] = ProviderNote(
            provider, NoteTopic.FLOAT_REFUSAL, "", self.moment().time, reference
        )
        self._refused.set()

    async def learn(self, report: balances.BalanceReport) -> None:
        """Keep balances, and say which floats have become low by them. Raises what the store
        raises."""
        await self.store.record_balances(report.balances)
        reported = {balance.key for balance in report.balances}
        if not reported:
            return

        for watched in await known_floats(self.store, self.providers, self.moment().time):
            if watched.forecast.latest.key in reported:
                await self._judge(watched)

    async def _judge(self, known: KnownFloat) -> None:
        """Note whether a float is low; the process whose note it becomes says so."""
        latest = known.forecast.latest
        hours_left = known.forecast.hours_left
        is_low = known.forecast.is_low(self._watch(latest.provider), was_low=known.is_low)
        content = ""
        if is_low:
            content = LOW

        # The note is replaced only where it is still the one that was judged: so one process says
        # it, and once.
        note = evolve(known.note, at=self.moment().time, content=content)
        if is_low is known.is_low or not await self.store.note_provider(note, replacing=known.note):
            return

        log = logger.bind(
            provider=latest.provider, account=latest.account, balance=str(latest.amount)
        )
        if is_low:
            log.error("float_low", hours_left=hours_left and round(hours_left, 1))
        else:
            log.info("float_restored")

    async def _write_refusals(self) -> None:
        self._refused = trio.Event()
        for name, note in tuple(self._unwritten.items()):
            await self.store.note_provider(note)

            # Unless another refusal has come while this one was written.
            if self._unwritten[name] is note:
                del self._unwritten[name]

    async def _ask_due(self, inquiries: trio.Nursery) -> None:
        """Begin the inquiries that are due and that no other process has claimed."""
        asked = {
            provider_note.provider: provider_note
            for provider_note in await self.store.provider_notes(NoteTopic.BALANCE)
        }
        for name in self.providers:
            interval = self._watch(name).interval
            now = self.moment().time

            # The claim comes before the question: a process that dies costs one interval.
            known = asked.get(name, ProviderNote(name, NoteTopic.BALANCE))
            is_due = interval > 0 and elapsed(known.at, now) >= interval
            if is_due and await self.store.note_provider(evolve(known, at=now), replacing=known):
                inquiries.start_soon(self._ask, name)

    async def _ask(self, name: str) -> None:
        try:
            with trio.move_on_after(CHECK_TIMEOUT_S):
                inquiry = self.providers[name].ask_balances(now=self.moment())
                await self.learn(await drive_async(inquiry, self.exchange_for(name)))
        except Exception as error:
            log_store_failure(logger, "balance_inquiry_failed", error, provider=name)

    def _watch(self, provider: str) -> balances.FloatWatch:
        return self.watches.get(provider, balances.FloatWatch())


async def known_floats(
    store: AdminStore, providers: Collection[str], now: Instant
) -> Sequence[KnownFloat]:
    """Return what is known of each account by the balances of the last hours. One of these
    providers that was low when it was last heard of stays so until its balance is known again.
    Raises what the store raises."""
    notes = {
        (provider_note.provider, provider_note.subject): provider_note
        for provider_note in await store.provider_notes(NoteTopic.FLOAT)
    }
    known = []
    for forecast_float in balances.forecast_floats(
        await store.provider_balances(earlier(now, balances.FORECAST_WINDOW))
    ):
        none = ProviderNote(
            forecast_float.latest.provider, NoteTopic.FLOAT, forecast_float.latest.account
        )
        known.append(KnownFloat(forecast_float, notes.pop(forecast_float.latest.key, none)))

    # What is left was low when no balance of the last hours tells of it.
    for (provider, account), note in notes.items():
        if note.content == LOW and provider in providers:
            latest = await store.latest_balance(provider, account)
            if latest is not None:
                known.append(KnownFloat(balances.FloatForecast(latest, None), note))

    return known


async def float_refusals(store: AdminStore, now: Instant) -> Mapping[str, ProviderNote]:
    """Return the last refusal for lack of float of each provider that has one of late. Raises what
    the store raises."""
    notes = await store.provider_notes(NoteTopic.FLOAT_REFUSAL)
    return {note.provider: note for note in notes if elapsed(note.at, now) < REFUSAL_SHOWN_FOR}
