"""What a store offers to staff and to their commands: each method runs a conversation, whose module
says what it does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import frozen

from mmo_sansio.values.model import Brand
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditKey, BrandHold, ClosedProvider
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
from mmo_trio.storage.sql.statements import RunQuery, RunWrite, SqlQuery

P = ParamSpec("P")
T = TypeVar("T")
AdminMethod = Callable[Concatenate["AdminStore", P], Coroutine[Any, Any, T]]


def _reading(make_query: Callable[P, SqlQuery[T]]) -> AdminMethod[P, T]:
    """Return the method that runs this conversation, which only reads."""

    async def read(self: AdminStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(lambda: make_query(*args, **kwargs))

    return read


def _writing(make_query: Callable[P, SqlQuery[T]]) -> AdminMethod[P, T]:
    """Return the method that runs this conversation, which writes no instant that counts as a
    stamp."""

    async def write(self: AdminStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(lambda: make_query(*args, **kwargs))

    return write


def _dating(make_query: Callable[P, SqlQuery[T]]) -> AdminMethod[P, T]:
    """Return the method that runs this conversation, which writes the instant `now`: it counts as a
    stamp."""

    async def write(self: AdminStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        now: Any = kwargs["now"]
        return await self.write(lambda: make_query(*args, **kwargs), now)

    return write


@frozen
class AdminStore:
    """Every method raises what those of :class:`mmo_trio.storage.sql.store.Store` raise."""

    read: RunQuery
    write: RunWrite
    clear_breaker: str
    """The statement that removes a brand's breaker."""

    find_transactions = _reading(payment_search.find_transactions)
    search_payments = _reading(payment_search.search_payments)
    list_payments = _reading(payment_search.list_payments)
    total_payments = _reading(payment_search.total_payments)
    stuck_transactions = _reading(payment_search.stuck_transactions)

    timeline = _reading(payment_history.timeline)
    callbacks = _reading(payment_history.callbacks)
    failed_callbacks = _reading(payment_history.failed_callbacks)
    suspense = _reading(payment_history.suspense)
    suspense_entries = _reading(payment_history.suspense_entries)
    suspense_of_payment = _reading(payment_history.suspense_of_payment)
    open_suspense_of = _reading(payment_history.open_suspense_of)
    undelivered_of = _reading(payment_history.undelivered_of)

    close_suspense = _dating(payment_history.close_suspense)

    brands = _reading(brand_keys.brands)

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

    async def hold_brand(self, hold: BrandHold) -> bool:
        """Put a brand on hold, so that nothing of it begins to be submitted after this. Return
        False when it is already."""
        is_new = await self.write(lambda: monitoring.hold_brand(hold))
        await self.wait_for_submissions()  # Also where another process has only just held it.
        return is_new

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

    async def wait_for_submissions(self) -> None:
        """Wait for the commits that may begin submissions, and have looked for holds before: there
        are none where one commit follows the other."""

    add_key = _dating(brand_keys.add_key)
    retire_key = _dating(brand_keys.retire_key)
    mark_key_leaked = _dating(brand_keys.mark_key_leaked)
    reseal_key = _writing(brand_keys.reseal_key)
    master_keys = _reading(brand_keys.master_keys)
    add_master_key = _writing(brand_keys.add_master_key)
    end_master_keys = _writing(brand_keys.end_master_keys)

    closed_providers = _reading(configuration.closed_providers)
    open_provider = _writing(configuration.open_provider)
    provider_notes = _reading(configuration.provider_notes)
    note_provider = _writing(configuration.note_provider)
    remove_provider_notes = _writing(configuration.remove_provider_notes)
    provider_balances = _reading(monitoring.provider_balances)
    latest_balance = _reading(monitoring.latest_balance)
    record_balances = _writing(monitoring.record_balances)
    backlog = _reading(monitoring.backlog)
    count_payments = _reading(monitoring.count_payments)
    sum_payments = _reading(monitoring.sum_payments)
    provider_quarters = _reading(monitoring.provider_quarters)
    breaker_changes = _reading(monitoring.breaker_changes)

    async def close_provider(self, closed: ClosedProvider) -> bool:
        """Close a provider for new payments; return False when it is closed already."""
        return await self.write(lambda: configuration.close_provider(closed), closed.closed_at)

    brand_holds = _reading(monitoring.brand_holds)
    release_brand = _writing(monitoring.release_brand)
    begin_restoration = _writing(configuration.begin_restoration)
    finish_restoration = _writing(configuration.finish_restoration)
    brand_usage = _reading(monitoring.brand_usage)

    append_audit = _writing(audit_log.append_audit)
    audit = _reading(audit_log.audit)
    audit_after = _reading(audit_log.audit_after)
    audit_head = _reading(audit_log.audit_head)
    sealed_audit_keys = _reading(audit_log.sealed_audit_keys)
    save_audit_key = _writing(audit_log.save_audit_key)

    add_user = _writing(console_users.add_user)
    replace_user = _writing(console_users.replace_user)
    users = _reading(console_users.users)
    user = _reading(console_users.user)
    begin_session = _writing(console_users.begin_session)
    session = _reading(console_users.session)
    touch_session = _writing(console_users.touch_session)
    end_session = _writing(console_users.end_session)
    keep_input = _writing(console_users.keep_input)
    kept_input = _reading(console_users.kept_input)
    record_sign_in_attempt = _writing(console_users.record_sign_in_attempt)
    sign_in_attempts = _reading(console_users.sign_in_attempts)
    forget_sign_in_attempts = _writing(console_users.forget_sign_in_attempts)
    second_factor = _reading(console_users.second_factor)
    begin_enrolment = _writing(console_users.begin_enrolment)
    confirm_second_factor = _writing(console_users.confirm_second_factor)
    use_time_step = _writing(console_users.use_time_step)
    count_wrong_code = _writing(console_users.count_wrong_code)
    unlock_second_factor = _writing(console_users.unlock_second_factor)
    use_recovery_code = _writing(console_users.use_recovery_code)
    replace_recovery_codes = _writing(console_users.replace_recovery_codes)
    remove_second_factor = _writing(console_users.remove_second_factor)
    reseal_second_factor = _writing(console_users.reseal_second_factor)
    second_factors = _reading(console_users.second_factors)
    add_proposal = _writing(payment_history.add_proposal)
    proposals = _reading(payment_history.proposals)
    proposal = _reading(payment_history.proposal)
    update_proposal = _writing(payment_history.update_proposal)
    add_configuration_change = _writing(configuration_changes.add_configuration_change)
    configuration_change = _reading(configuration_changes.configuration_change)
    decide_configuration_change = _writing(configuration_changes.decide_configuration_change)
    recorded_requests = _reading(configuration_changes.recorded_requests)
    record_refusals = _writing(configuration_changes.record_refusals)
    refusal_count = _reading(configuration_changes.refusal_count)
    refused_requests = _reading(configuration_changes.refused_requests)
    configuration_changes = _reading(configuration_changes.configuration_changes)
