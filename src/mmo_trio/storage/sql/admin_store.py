"""What a store offers to staff and to their commands.

Each method runs the conversation of its name, whose docstring says what it does: one that only
reads by `read`, one that writes by `write`. Where the instant that is written counts as a stamp, it
is passed to `write` besides, so that no later decision is dated before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from mmo_sansio.messages.changes import CallbackRecorded, JournalEntry, SuspenseReason
from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import RecordedRequest, RefusedRequest
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Status, Transaction
from mmo_trio.storage.interface.admin_types import (
    AuditEvent,
    AuditHead,
    AuditKey,
    AuditRow,
    Backlog,
    BrandDay,
    BrandHold,
    BrandRecord,
    BrandUsage,
    BreakerChange,
    ChangeDecision,
    ChangeState,
    ClosedProvider,
    ConfigurationChange,
    ConsoleSession,
    ConsoleUser,
    CountDimension,
    CountQuery,
    NoteTopic,
    PaymentCell,
    PaymentCount,
    PaymentFilter,
    PaymentPage,
    PaymentSum,
    PaymentTotals,
    Proposal,
    ProposalState,
    ProviderCount,
    ProviderNote,
    RefusalCount,
    SecondFactor,
    SignInAttempt,
    StoredMasterKey,
    SuspenseEntry,
)
from mmo_trio.storage.sql import (
    audit_log,
    brand_keys,
    configuration,
    configuration_changes,
    console_users,
    monitoring,
    payment_history,
    payment_search,
)
from mmo_trio.storage.sql.statements import RunQuery, RunWrite


@frozen
class AdminStore:
    """Every method raises what those of :class:`mmo_trio.storage.sql.store.Store` raise."""

    read: RunQuery
    write: RunWrite
    clear_breaker: str
    """The statement that removes a brand's breaker."""

    # Payments, found and listed

    async def find_transactions(
        self,
        *,
        reference: str | None = None,
        brand: str | None = None,
        status: Status | None = None,
        limit: int = 50,
    ) -> Sequence[Transaction]:
        return await self.read(
            lambda: payment_search.find_transactions(
                reference=reference, brand=brand, status=status, limit=limit
            )
        )

    async def search_payments(
        self,
        text: str,
        *,
        msisdns: Sequence[str] = (),
        before: Position | None = None,
        limit: int = 50,
    ) -> PaymentPage:
        return await self.read(
            lambda: payment_search.search_payments(
                text, msisdns=msisdns, before=before, limit=limit
            )
        )

    async def list_payments(self, payment_filter: PaymentFilter) -> PaymentPage:
        return await self.read(lambda: payment_search.list_payments(payment_filter))

    async def total_payments(self, payment_filter: PaymentFilter) -> PaymentTotals:
        return await self.read(lambda: payment_search.total_payments(payment_filter))

    async def stuck_transactions(
        self, now: Instant, *, after: Position | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        return await self.read(
            lambda: payment_search.stuck_transactions(now, after=after, limit=limit)
        )

    # What happened to a payment

    async def timeline(self, gateway_reference: str) -> Sequence[JournalEntry]:
        return await self.read(lambda: payment_history.timeline(gateway_reference))

    async def callbacks(
        self, *, brand: str | None = None, gateway_reference: str | None = None, limit: int = 500
    ) -> Sequence[CallbackRecorded]:
        return await self.read(
            lambda: payment_history.callbacks(
                brand=brand, gateway_reference=gateway_reference, limit=limit
            )
        )

    async def failed_callbacks(
        self,
        *,
        brand: str | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> Sequence[tuple[int, CallbackRecorded]]:
        return await self.read(
            lambda: payment_history.failed_callbacks(
                brand=brand, before=before, after=after, limit=limit
            )
        )

    async def undelivered_of(self, gateway_references: Sequence[str]) -> frozenset[str]:
        return await self.read(lambda: payment_history.undelivered_of(gateway_references))

    # Money that belongs to no payment yet

    async def suspense(
        self, *, brand: str | None = None, with_closed: bool = False, limit: int = 500
    ) -> Sequence[SuspenseEntry]:
        return await self.read(
            lambda: payment_history.suspense(brand=brand, with_closed=with_closed, limit=limit)
        )

    async def suspense_entries(
        self,
        *,
        reasons: Sequence[SuspenseReason] = (),
        with_closed: bool = False,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> Sequence[SuspenseEntry]:
        return await self.read(
            lambda: payment_history.suspense_entries(
                reasons=reasons, with_closed=with_closed, before=before, after=after, limit=limit
            )
        )

    async def suspense_of_payment(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_history.suspense_of_payment(gateway_reference))

    async def open_suspense_of(self, gateway_references: Sequence[str]) -> Sequence[SuspenseEntry]:
        return await self.read(lambda: payment_history.open_suspense_of(gateway_references))

    async def close_suspense(self, id: int, *, by: str, note: str, now: Instant) -> bool:
        return await self.write(
            lambda: payment_history.close_suspense(id, by=by, note=note, now=now), now
        )

    # What one user proposes for a payment, and another approves

    async def add_proposal(self, proposal: Proposal) -> int | None:
        return await self.write(lambda: payment_history.add_proposal(proposal))

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        return await self.read(
            lambda: payment_history.proposals(about=about, state=state, limit=limit)
        )

    async def proposal(self, id: int) -> Proposal | None:
        return await self.read(lambda: payment_history.proposal(id))

    async def update_proposal(
        self,
        expected_state: ProposalState,
        updated: Proposal,
        *,
        event: tuple[AuditEvent, AuditKey] | None = None,
    ) -> bool:
        return await self.write(
            lambda: payment_history.update_proposal(expected_state, updated, event=event)
        )

    # Brands

    async def brands(self) -> Sequence[BrandRecord]:
        return await self.read(brand_keys.brands)

    async def save_brands(
        self,
        changed: Sequence[Brand],
        *,
        removed: Sequence[str] = (),
        replaced: Mapping[str, Brand | None] | None = None,
        event: tuple[AuditEvent, AuditKey] | None = None,
    ) -> Sequence[str]:
        """Add or replace brands, and remove some with their keys, all at once, with an event for
        the audit log.

        With the versions that are to be replaced (None: the brand is not there yet), nothing
        happens where others are in force, and the ids of these brands are returned."""
        return await self.write(
            lambda: brand_keys.save_brands(
                changed,
                removed,
                clear_breaker=self.clear_breaker,
                replaced=replaced,
                event=event,
            )
        )

    async def switch_brand(
        self,
        id: str,
        *,
        enabled: bool,
        hold: BrandHold | None = None,
        event: tuple[AuditEvent, AuditKey],
    ) -> bool:
        """Enable a brand and end its hold, or disable it, with a hold if one is given, and leave
        all else of it as it is. Return False when there is no such brand."""
        is_there = await self.write(
            lambda: brand_keys.switch_brand(id, enabled=enabled, hold=hold, event=event)
        )
        if hold is not None:
            await self.wait_for_submissions()

        return is_there

    async def hold_brand(self, hold: BrandHold) -> bool:
        """Put a brand on hold, so that nothing of it begins to be submitted after this. Return
        False when it is already."""
        is_new = await self.write(lambda: monitoring.hold_brand(hold))
        await self.wait_for_submissions()  # Also where another process has only just held it.
        return is_new

    async def release_brand(self, brand: str) -> bool:
        return await self.write(lambda: monitoring.release_brand(brand))

    async def brand_holds(self) -> Sequence[BrandHold]:
        return await self.read(monitoring.brand_holds)

    async def brand_usage(self) -> Sequence[BrandUsage]:
        return await self.read(monitoring.brand_usage)

    async def wait_for_submissions(self) -> None:
        """Wait for the commits that may begin submissions, and have looked for holds before: there
        are none where one commit follows the other."""

    # Brands' API keys, and the master keys that seal them

    async def add_key(self, brand: str, digest: bytes, sealed: bytes, *, now: Instant) -> bool:
        return await self.write(lambda: brand_keys.add_key(brand, digest, sealed, now=now), now)

    async def retire_key(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self.write(lambda: brand_keys.retire_key(brand, id, now=now), now)

    async def mark_key_leaked(self, brand: str, id: int, *, now: Instant) -> bool:
        return await self.write(lambda: brand_keys.mark_key_leaked(brand, id, now=now), now)

    async def reseal_key(self, id: int, digest: bytes, sealed: bytes) -> None:
        await self.write(lambda: brand_keys.reseal_key(id, digest, sealed))

    async def master_keys(self) -> Sequence[StoredMasterKey]:
        return await self.read(brand_keys.master_keys)

    async def add_master_key(self, added: StoredMasterKey) -> bool:
        return await self.write(lambda: brand_keys.add_master_key(added))

    async def end_master_keys(self, *, below: int, now: Instant) -> None:
        await self.write(lambda: brand_keys.end_master_keys(below=below, now=now))

    # Providers and their accounts

    async def closed_providers(self) -> Sequence[ClosedProvider]:
        return await self.read(configuration.closed_providers)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        """Close a provider for new payments; return False when it is closed already."""
        return await self.write(lambda: configuration.close_provider(closed), closed.closed_at)

    async def open_provider(self, name: str) -> bool:
        return await self.write(lambda: configuration.open_provider(name))

    async def provider_notes(self, *topics: NoteTopic) -> Sequence[ProviderNote]:
        return await self.read(lambda: configuration.provider_notes(*topics))

    async def note_provider(
        self, note: ProviderNote, *, replacing: ProviderNote | None = None
    ) -> bool:
        return await self.write(lambda: configuration.note_provider(note, replacing=replacing))

    async def remove_provider_notes(
        self, provider: str, topic: NoteTopic, *, until: Instant | None = None
    ) -> None:
        await self.write(lambda: configuration.remove_provider_notes(provider, topic, until=until))

    async def provider_balances(self, since: Instant) -> Sequence[AccountBalance]:
        return await self.read(lambda: monitoring.provider_balances(since))

    async def latest_balance(self, provider: str, account: str) -> AccountBalance | None:
        return await self.read(lambda: monitoring.latest_balance(provider, account))

    async def record_balances(self, balances: Sequence[AccountBalance]) -> None:
        await self.write(lambda: monitoring.record_balances(balances))

    # Counts and sums for the first view, metrics and alerts

    async def backlog(self, now: Instant, *, overdue_before: Instant) -> Backlog:
        return await self.read(lambda: monitoring.backlog(now, overdue_before=overdue_before))

    async def count_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentCount]:
        return await self.read(lambda: monitoring.count_payments(query, by=by))

    async def sum_payments(
        self, query: CountQuery, *, by: CountDimension | None
    ) -> Sequence[PaymentSum]:
        return await self.read(lambda: monitoring.sum_payments(query, by=by))

    async def payment_cells(self, query: CountQuery) -> Sequence[PaymentCell]:
        return await self.read(lambda: monitoring.payment_cells(query))

    async def provider_quarters(
        self, begin: Instant, end: Instant, *, is_simulated: bool | None = None
    ) -> Sequence[ProviderCount]:
        return await self.read(
            lambda: monitoring.provider_quarters(begin, end, is_simulated=is_simulated)
        )

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[BreakerChange]:
        return await self.read(lambda: monitoring.breaker_changes(brand=brand, limit=limit))

    # After a restored backup

    async def begin_restoration(
        self, store_id: str, holds: Sequence[BrandHold], lost_id: str = ""
    ) -> None:
        await self.write(lambda: configuration.begin_restoration(store_id, holds, lost_id))

    async def finish_restoration(self, brand: str) -> bool:
        return await self.write(lambda: configuration.finish_restoration(brand))

    # The audit log

    async def append_audit(self, event: AuditEvent, key: AuditKey) -> AuditRow:
        return await self.write(lambda: audit_log.append_audit(event, key))

    async def audit(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        about: str | None = None,
        actor: str | None = None,
        only_changes: bool = False,
        limit: int = 50,
    ) -> Sequence[AuditRow]:
        return await self.read(
            lambda: audit_log.audit(
                before=before,
                after=after,
                about=about,
                actor=actor,
                only_changes=only_changes,
                limit=limit,
            )
        )

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        return await self.read(lambda: audit_log.audit_after(number, limit=limit))

    async def audit_head(self) -> AuditHead:
        return await self.read(audit_log.audit_head)

    async def sealed_audit_keys(self) -> Mapping[str, bytes]:
        return await self.read(audit_log.sealed_audit_keys)

    async def save_audit_key(self, id: str, sealed: bytes) -> None:
        await self.write(lambda: audit_log.save_audit_key(id, sealed))

    # Users of the console and their sessions

    async def add_user(self, user: ConsoleUser) -> bool:
        return await self.write(lambda: console_users.add_user(user))

    async def replace_user(self, user: ConsoleUser) -> bool:
        return await self.write(lambda: console_users.replace_user(user))

    async def users(self) -> Sequence[ConsoleUser]:
        return await self.read(console_users.users)

    async def user(self, name: str) -> ConsoleUser | None:
        return await self.read(lambda: console_users.user(name))

    async def begin_session(self, session: ConsoleSession, *, expire_before: Instant) -> None:
        await self.write(lambda: console_users.begin_session(session, expire_before=expire_before))

    async def session(self, digest: bytes) -> tuple[ConsoleSession, ConsoleUser] | None:
        return await self.read(lambda: console_users.session(digest))

    async def touch_session(self, digest: bytes, at: Instant) -> None:
        await self.write(lambda: console_users.touch_session(digest, at))

    async def end_session(self, digest: bytes) -> None:
        await self.write(lambda: console_users.end_session(digest))

    async def keep_input(self, user: str, id: str, sealed: bytes, at: Instant) -> None:
        await self.write(lambda: console_users.keep_input(user, id, sealed, at))

    async def kept_input(self, user: str, id: str) -> bytes | None:
        return await self.read(lambda: console_users.kept_input(user, id))

    async def record_sign_in_attempt(
        self, attempt: SignInAttempt, *, expire_before: Instant
    ) -> None:
        await self.write(
            lambda: console_users.record_sign_in_attempt(attempt, expire_before=expire_before)
        )

    async def sign_in_attempts(
        self, name: str, network: str, *, since: Instant
    ) -> Sequence[SignInAttempt]:
        return await self.read(lambda: console_users.sign_in_attempts(name, network, since=since))

    async def forget_sign_in_attempts(self, name: str, network: str) -> None:
        await self.write(lambda: console_users.forget_sign_in_attempts(name, network))

    # Second factors

    async def second_factor(self, user: str) -> SecondFactor | None:
        return await self.read(lambda: console_users.second_factor(user))

    async def second_factors(self) -> Sequence[SecondFactor]:
        return await self.read(console_users.second_factors)

    async def begin_enrolment(self, user: str, pending: bytes) -> None:
        await self.write(lambda: console_users.begin_enrolment(user, pending))

    async def confirm_second_factor(
        self,
        user: str,
        pending: bytes,
        *,
        step: int,
        at: Instant,
        codes: Sequence[bytes],
        session: bytes,
    ) -> bool:
        return await self.write(
            lambda: console_users.confirm_second_factor(
                user, pending, step=step, at=at, codes=codes, session=session
            )
        )

    async def use_time_step(self, user: str, step: int) -> bool:
        return await self.write(lambda: console_users.use_time_step(user, step))

    async def count_wrong_code(self, user: str, *, at: Instant, since: Instant, most: int) -> bool:
        return await self.write(
            lambda: console_users.count_wrong_code(user, at=at, since=since, most=most)
        )

    async def unlock_second_factor(self, user: str) -> None:
        await self.write(lambda: console_users.unlock_second_factor(user))

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        return await self.write(lambda: console_users.use_recovery_code(user, digest))

    async def replace_recovery_codes(self, user: str, codes: Sequence[bytes]) -> None:
        await self.write(lambda: console_users.replace_recovery_codes(user, codes))

    async def remove_second_factor(self, user: str, *, session: bytes | None = None) -> bool:
        return await self.write(lambda: console_users.remove_second_factor(user, session=session))

    async def reseal_second_factor(self, user: str, old: bytes, new: bytes) -> None:
        await self.write(lambda: console_users.reseal_second_factor(user, old, new))

    # Brands' changes that need two users, and the requests that try them out

    async def add_configuration_change(
        self, change: ConfigurationChange, event: tuple[AuditEvent, AuditKey]
    ) -> int:
        return await self.write(
            lambda: configuration_changes.add_configuration_change(change, event)
        )

    async def configuration_change(self, id: int) -> ConfigurationChange | None:
        return await self.read(lambda: configuration_changes.configuration_change(id))

    async def configuration_changes(
        self,
        *,
        brand: str | None = None,
        state: ChangeState | None = None,
        without: ChangeState | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 50,
    ) -> Sequence[ConfigurationChange]:
        return await self.read(
            lambda: configuration_changes.configuration_changes(
                brand=brand, state=state, without=without, before=before, after=after, limit=limit
            )
        )

    async def decide_configuration_change(
        self,
        expected_state: ChangeState,
        decided: ConfigurationChange,
        event: tuple[AuditEvent, AuditKey],
    ) -> ChangeDecision:
        return await self.write(
            lambda: configuration_changes.decide_configuration_change(
                expected_state, decided, event
            )
        )

    async def recorded_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        return await self.read(
            lambda: configuration_changes.recorded_requests(
                brand, begin=begin, end=end, after=after, limit=limit
            )
        )

    async def record_refusals(
        self, times: Mapping[BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
    ) -> None:
        await self.write(lambda: configuration_changes.record_refusals(times, refused, now=now))

    async def refusal_count(self, day: BrandDay) -> RefusalCount:
        return await self.read(lambda: configuration_changes.refusal_count(day))

    async def refused_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        return await self.read(
            lambda: configuration_changes.refused_requests(
                brand, begin=begin, end=end, after=after, limit=limit
            )
        )
