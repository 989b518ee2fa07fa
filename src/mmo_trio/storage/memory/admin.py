"""Implements the admin API of the store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, evolve

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.messages.intents import DeliverCallback
from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.stuck import is_stuck
from mmo_sansio.resilience.store_mark import StoreState
from mmo_sansio.values.clock import DAY, Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface import admin_types
from mmo_trio.storage.interface.admin import PAYMENTS_SCANNED_MAX
from mmo_trio.storage.memory.brand_changes import MemoryConfigurationChanges
from mmo_trio.storage.shared.payment_counts import count_by_span
from mmo_trio.storage.shared.payment_index import (
    AFTER_NEWEST,
    msisdn_key,
    newest_page,
    position_of,
    provider_receipt_key,
    reconciliation_reference_key,
)


@define
class MemoryAdminStore(MemoryConfigurationChanges):
    """See :class:`mmo_trio.storage.interface.admin.AdminStore`."""

    async def find_transactions(
        self, *, reference: str | None = None, brand: str | None = None, status: Status | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        return [
            each
            for each in await self._older_than(None)
            if reference in (None, each.reference, each.order.merchant_reference)
            and brand in (None, each.order.brand)
            and status in (None, each.status)
        ][:limit]

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        journal = (await self._memory()).journal
        return [line for line in journal if line.gateway_reference == gateway_reference]

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        found = [
            each
            for each in (await self._memory()).callbacks
            if brand in (None, each.brand) and gateway_reference in (None, each.gateway_reference)
        ][-limit:]
        if gateway_reference is not None:
            return found
        return [evolve(each, attempt=evolve(each.attempt, body=b"")) for each in found]

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[admin_types.SuspenseEntry]:
        return [
            each
            for each in (await self._memory()).suspense
            if brand in (None, each.brand) and (with_closed or each.closed_at is None)
        ][:limit]

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        memory = await self._memory()
        for index, each in enumerate(memory.suspense):
            if each.id == id and each.closed_at is None:
                memory.suspense[index] = evolve(each, closed_at=now, closed_by=by, note=note)
                return True
        return False

    async def brands(self) -> Sequence[admin_types.BrandRecord]:
        memory = await self._memory()
        return [
            admin_types.BrandRecord(brand, tuple(key for key in memory.keys if key.brand == id))
            for id, brand in sorted(memory.brands.items())
        ]

    async def save_brands(self, changed: Sequence[Brand], *, removed: Sequence[str] = ()) -> None:
        memory = await self._memory()
        for id in removed:
            memory.brands.pop(id, None)
            memory.ownership.delete_breaker(id)
        memory.keys = [key for key in memory.keys if key.brand in memory.brands]
        memory.brands.update((brand.id, brand) for brand in changed)
        memory.configuration_generation += 1

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        memory = await self._memory()
        if brand not in memory.brands:
            raise KeyError(brand)
        if any(key.digest == digest for key in memory.keys):
            return False
        memory.last_key_id += 1
        memory.keys.append(admin_types.StoredApiKey(memory.last_key_id, brand, digest, sealed, now))
        return True

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        memory = await self._memory()
        for index, key in enumerate(memory.keys):
            if (key.brand, key.id, key.retired_at) == (brand, id, None):
                memory.keys[index] = evolve(key, retired_at=now)
                memory.configuration_generation += 1
                return True
        return False

    async def mark_key_leaked(self, brand: str, id: int, *, now: Instant) -> bool:
        memory = await self._memory()
        for index, key in enumerate(memory.keys):
            if (key.brand, key.id, key.leaked_at) == (brand, id, None):
                memory.keys[index] = evolve(key, retired_at=key.retired_at or now, leaked_at=now)
                memory.configuration_generation += 1
                return True
        return False

    async def reseal_key(self, id: int, digest: bytes, sealed: bytes) -> None:
        memory = await self._memory()
        memory.keys = [evolve(key, digest=digest, sealed=sealed) if key.id == id else key for key in memory.keys]

    async def master_keys(self) -> Sequence[admin_types.StoredMasterKey]:
        return list((await self._state()).master_keys)

    async def add_master_key(self, added: admin_types.StoredMasterKey) -> bool:
        stored = (await self._state()).master_keys
        if any(added.generation == each.generation or added.id == each.id for each in stored):
            return False
        stored.append(added)
        return True

    async def end_master_keys(self, *, below: int, now: Instant) -> None:
        stored = (await self._state()).master_keys
        stored[:] = [
            evolve(each, ended_at=now) if each.generation < below and each.ended_at is None else each for each in stored
        ]

    async def backlog(self, now: Instant, *, overdue_before: Instant) -> admin_types.Backlog:
        memory = await self._memory()
        every = memory.ledger.transactions.values()
        pending = [each for each in every if each.progress.wake_at is not None]
        return admin_types.Backlog(
            pending=len(pending),
            stuck=min(sum(is_stuck(each, now=now) for each in pending), admin_types.STUCK_COUNT_MAX),
            overdue=sum((each.progress.wake_at or 0) < overdue_before for each in pending),
            callbacks=sum(isinstance(each, DeliverCallback) for each in memory.ledger.intents.values()),
            suspense=sum(each.closed_at is None for each in memory.suspense),
            deposit_claims=sum(each.wake_at is not None for each in memory.ledger.claims.values()),
            held_brands=len(memory.brand_holds),
            restorations=len(memory.store.former_ids),
            usage=[each.on_day(now // DAY) for each in await self.brand_usage()],
        )

    async def brand_holds(self) -> Sequence[admin_types.BrandHold]:
        return sorted((await self._memory()).brand_holds.values(), key=lambda each: each.brand)

    async def hold_brand(self, hold: admin_types.BrandHold) -> bool:
        memory = await self._memory()
        is_new = memory.brand_holds.setdefault(hold.brand, hold) is hold
        memory.ledger.held_brands = frozenset(memory.brand_holds)
        return is_new

    async def release_brand(self, brand: str) -> bool:
        memory = await self._memory()
        is_released = memory.brand_holds.pop(brand, None) is not None
        memory.ledger.held_brands = frozenset(memory.brand_holds)
        return is_released

    async def begin_restoration(self, store_id: str, holds: Sequence[admin_types.BrandHold]) -> None:
        memory = await self._memory()
        was = memory.store
        memory.store = StoreState(evolve(was.mark, store_id=store_id), was.former_ids | {was.mark.store_id})
        memory.restored_brands |= {each.brand for each in holds}
        for each in holds:
            await self.hold_brand(each)
        memory.configuration_generation += 1

    async def finish_restoration(self, brand: str) -> bool:
        memory = await self._memory()
        was = memory.restored_brands
        memory.restored_brands -= {brand}
        hold = memory.brand_holds.get(brand)
        if hold is not None and hold.held_by == admin_types.RESTORATION:
            await self.release_brand(brand)
        memory.configuration_generation += memory.restored_brands != was
        return memory.restored_brands != was

    async def brand_usage(self) -> Sequence[admin_types.BrandUsage]:
        counters = (await self._memory()).ledger.usage
        return [admin_types.BrandUsage(*key, each.day, each.amount) for key, each in counters.items()]

    async def closed_providers(self) -> Sequence[admin_types.ClosedProvider]:
        return sorted((await self._memory()).closed_providers.values(), key=lambda each: each.name)

    async def close_provider(self, closed: admin_types.ClosedProvider) -> bool:
        memory = await self._memory()
        is_new = memory.closed_providers.setdefault(closed.name, closed) is closed
        memory.configuration_generation += is_new
        return is_new

    async def open_provider(self, name: str) -> bool:
        memory = await self._memory()
        is_opened = memory.closed_providers.pop(name, None) is not None
        memory.configuration_generation += is_opened
        return is_opened

    async def provider_notes(self, *topics: admin_types.NoteTopic) -> Sequence[admin_types.ProviderNote]:
        return [each for _, each in sorted((await self._memory()).provider_notes.items()) if each.topic in topics]

    async def note_provider(
        self, note: admin_types.ProviderNote, *, replacing: admin_types.ProviderNote | None = None
    ) -> bool:
        notes, key = (await self._memory()).provider_notes, (note.provider, note.topic, note.subject)
        if replacing is not None and notes.get(key, replacing) != replacing:
            return False
        notes[key] = note
        return True

    async def remove_provider_notes(self, provider: str, topic: admin_types.NoteTopic) -> None:
        memory = await self._memory()
        memory.provider_notes = {k: v for k, v in memory.provider_notes.items() if k[:2] != (provider, topic)}

    async def append_audit(self, event: admin_types.AuditEvent, key: admin_types.AuditKey) -> admin_types.AuditRow:
        return (await self._state()).append_audit(event, key)

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[admin_types.AuditRow]:
        return [
            row
            for row in reversed((await self._state()).audit)
            if (before is None or row.number < before) and about in (None, row.event.about)
        ][:limit]

    async def audit_after(self, number: int, *, limit: int) -> Sequence[admin_types.AuditRow]:
        return [row for row in (await self._state()).audit if row.number > number][:limit]

    async def audit_head(self) -> admin_types.AuditHead:
        return (await self._state()).audit_head

    async def sealed_audit_keys(self) -> Mapping[str, bytes]:
        return dict((await self._state()).audit_keys)

    async def save_audit_key(self, id: str, sealed: bytes) -> None:
        (await self._state()).audit_keys[id] = sealed

    async def add_user(self, user: admin_types.ConsoleUser) -> bool:
        return (await self._state()).operators.setdefault(user.name, user) is user

    async def replace_user(self, user: admin_types.ConsoleUser) -> bool:
        state = await self._state()
        state.sessions = {k: v for k, v in state.sessions.items() if v.user != user.name}
        if user.name not in state.operators:
            return False
        state.operators[user.name] = user
        return True

    async def users(self) -> Sequence[admin_types.ConsoleUser]:
        return sorted((await self._state()).operators.values(), key=lambda each: each.name)

    async def user(self, name: str) -> admin_types.ConsoleUser | None:
        return (await self._state()).operators.get(name)

    async def begin_session(self, session: admin_types.ConsoleSession, *, expire_before: Instant) -> None:
        state = await self._state()
        state.sessions = {k: v for k, v in state.sessions.items() if v.began_at >= expire_before}
        state.sessions[session.digest] = session

    async def session(self, digest: bytes) -> tuple[admin_types.ConsoleSession, admin_types.ConsoleUser] | None:
        state = await self._state()
        found = state.sessions.get(digest)
        return None if found is None else (found, state.operators[found.user])

    async def touch_session(self, digest: bytes, at: Instant) -> None:
        state = await self._state()
        if digest in state.sessions:
            state.sessions[digest] = evolve(state.sessions[digest], seen_at=at)

    async def end_session(self, digest: bytes) -> None:
        (await self._state()).sessions.pop(digest, None)

    async def record_sign_in_attempt(self, attempt: admin_types.SignInAttempt, *, expire_before: Instant) -> None:
        state = await self._state()
        state.sign_in_attempts = [each for each in state.sign_in_attempts if each.at >= expire_before] + [attempt]

    async def sign_in_attempts(self, name: str, network: str, *, since: Instant) -> Sequence[admin_types.SignInAttempt]:
        found = (await self._state()).sign_in_attempts
        about = [each for each in found if each.at >= since and (each.name == name or each.network == network)]
        return sorted(about, key=lambda each: each.at)

    async def forget_sign_in_attempts(self, name: str, network: str) -> None:
        state = await self._state()
        state.sign_in_attempts = [
            each for each in state.sign_in_attempts if (each.name, each.network) != (name, network)
        ]

    async def add_proposal(self, proposal: admin_types.Proposal) -> int | None:
        stored = (await self._state()).proposals
        about = [each.state for each in stored if each.gateway_reference == proposal.gateway_reference]
        if any(state in admin_types.UNFINISHED_STATES for state in about):
            return None
        stored.append(evolve(proposal, id=max((each.id for each in stored), default=0) + 1))
        return stored[-1].id

    async def proposals(
        self, *, about: str | None = None, state: admin_types.ProposalState | None = None, limit: int = 100
    ) -> Sequence[admin_types.Proposal]:
        return [
            each
            for each in reversed((await self._state()).proposals)
            if about in (None, each.gateway_reference) and state in (None, each.state)
        ][:limit]

    async def proposal(self, id: int) -> admin_types.Proposal | None:
        return next((each for each in (await self._state()).proposals if each.id == id), None)

    async def update_proposal(
        self,
        expected_state: admin_types.ProposalState,
        updated: admin_types.Proposal,
        *,
        event: tuple[admin_types.AuditEvent, admin_types.AuditKey] | None = None,
    ) -> bool:
        stored = (await self._state()).proposals
        for index, each in enumerate(stored):
            if each.id == updated.id and each.state is expected_state:
                stored[index] = updated
                if event is not None:
                    await self.append_audit(*event)
                return True
        return False

    async def search_payments(
        self, text: str, *, msisdns: Sequence[str] = (), before: Position | None = None, limit: int = 50
    ) -> admin_types.PaymentPage:
        def is_named(each: Transaction) -> bool:
            order = each.order
            return msisdn_key(order) in msisdns or text in (
                order.merchant_reference,
                reconciliation_reference_key(order),
                provider_receipt_key(each.progress),
            )

        every = await self._older_than(before)
        return newest_page((each for each in every if each.reference == text.upper() or is_named(each)), limit)

    async def list_payments(self, payment_filter: admin_types.PaymentFilter) -> admin_types.PaymentPage:
        older = await self._older_than(payment_filter.before)
        scanned = evolve(payment_filter, method=None, status=None, provider=None, error_code=None)
        candidates = [each for each in older if scanned.matches(each)]
        looked_at = candidates[:PAYMENTS_SCANNED_MAX]
        found = newest_page((each for each in looked_at if payment_filter.matches(each)), payment_filter.limit)
        if found.next_position is None and len(candidates) > PAYMENTS_SCANNED_MAX:
            return admin_types.PaymentPage(found.transactions, position_of(looked_at[-1]))
        return found

    async def _older_than(self, before: Position | None) -> Sequence[Transaction]:
        """Return payments older than a position, newest first."""
        at = before or AFTER_NEWEST
        every = (await self._memory()).ledger.transactions.values()
        older = (each for each in every if position_of(each) < at)
        return sorted(older, key=position_of, reverse=True)

    async def stuck_transactions(
        self, now: Instant, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        at = after or Position(Instant(0), "")
        return [
            each
            for each in reversed(await self._older_than(None))
            if is_stuck(each, now=now) and position_of(each) > at
        ][:limit]

    async def failed_callbacks(
        self, *, brand: str | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        recorded = enumerate((await self._memory()).callbacks, 1)
        failed = [
            (number, evolve(each, attempt=evolve(each.attempt, body=b"")))
            for number, each in recorded
            if each.attempt.outcome is not DeliveryOutcome.DELIVERED
            and brand in (None, each.brand)
            and (before is None or number < before)
        ]
        return failed[::-1][:limit]

    async def suspense_of_payment(self, gateway_reference: str) -> Sequence[admin_types.SuspenseEntry]:
        book = (await self._memory()).suspense
        return [each for each in book if each.gateway_reference == gateway_reference]

    async def suspense_entries(
        self,
        *,
        reasons: Sequence[SuspenseReason] = (),
        with_closed: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> Sequence[admin_types.SuspenseEntry]:
        return [
            each
            for each in reversed((await self._memory()).suspense)
            if (with_closed or each.closed_at is None)
            and (before is None or each.id < before)
            and (not reasons or each.reason in reasons)
        ][:limit]

    async def count_payments(
        self, query: admin_types.CountQuery, *, by: admin_types.CountDimension | None
    ) -> Sequence[admin_types.PaymentCount]:
        every = (await self._memory()).ledger.transactions.values()
        ended = (each for each in every if each.progress.stage.is_terminal)
        counts: Counter[tuple[str, str, int]] = Counter()
        for key, times in count_by_span(every, ended).items():
            span, began_at, brand, method, provider, status, latency_s = key
            names = {
                admin_types.CountDimension.BRAND: brand,
                admin_types.CountDimension.METHOD: method,
                admin_types.CountDimension.PROVIDER: provider,
            }
            fits = query.only is None or names[query.only[0]] == query.only[1]
            if fits and span == query.span and query.begin <= began_at < query.end:
                counts[str(began_at) if by is None else names[by], status, latency_s] += times
        return [admin_types.PaymentCount(key, Status(status), s, n) for (key, status, s), n in counts.items()]

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[admin_types.BreakerChange]:
        changes = reversed((await self._state()).breaker_changes)
        return [each for each in changes if brand in (None, each.brand)][:limit]
