"""Implements the proposed changes of brands, and the refused requests on record, for the store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, evolve

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.back_test import RecordedRequest, RefusedRequest, recorded_request
from mmo_sansio.values.clock import DAY, Instant, earlier
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditKey
from mmo_trio.storage.interface.configuration_types import (
    REFUSALS_KEPT,
    REFUSALS_RECORDED_MAX,
    REFUSALS_REMOVED_MAX,
    BrandDay,
    ChangeDecision,
    ChangeState,
    ConfigurationChange,
    RefusalCount,
    replaced_version,
)
from mmo_trio.storage.memory.user_factors import MemorySecondFactors
from mmo_trio.storage.shared.payment_index import position_of


@define
class MemoryConfigurationChanges(MemorySecondFactors):
    """See :class:`mmo_trio.storage.interface.admin.AdminStore`."""

    async def add_configuration_change(self, change: ConfigurationChange, event: tuple[AuditEvent, AuditKey]) -> int:
        state = await self._state()
        state.configuration_changes.append(evolve(change, id=len(state.configuration_changes) + 1))
        state.append_audit(*event)
        return len(state.configuration_changes)

    async def configuration_changes(
        self, *, brand: str | None = None, state: ChangeState | None = None, limit: int = 50
    ) -> Sequence[ConfigurationChange]:
        return [
            each
            for each in reversed((await self._state()).configuration_changes)
            if brand in (None, each.after.id) and state in (None, each.state)
        ][:limit]

    async def configuration_change(self, id: int) -> ConfigurationChange | None:
        return next((each for each in (await self._state()).configuration_changes if each.id == id), None)

    async def decide_configuration_change(
        self, expected_state: ChangeState, decided: ConfigurationChange, event: tuple[AuditEvent, AuditKey]
    ) -> ChangeDecision:
        memory = await self._memory()
        changes = memory.admin.configuration_changes
        stored = next((each for each in changes if each.id == decided.id and each.state is expected_state), None)
        if stored is None:
            return ChangeDecision.NOT_IN_STATE
        if decided.state is ChangeState.APPLIED and decided.decided_by == stored.proposed_by:
            return ChangeDecision.OWN_PROPOSAL
        if (versions := replaced_version(decided)) is not None:
            replaced, next_version = versions
            if memory.brands.get(replaced.id) != replaced:
                return ChangeDecision.OVERTAKEN
            memory.brands[replaced.id] = next_version
            memory.configuration_generation += 1
        changes[changes.index(stored)] = decided
        memory.admin.append_audit(*event)
        return ChangeDecision.DONE

    async def recorded_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        at = after or Position(begin, "")
        every = (await self._memory()).ledger.transactions.values()
        found = [
            each
            for each in every
            if each.order.brand == brand and each.order.created_at < end and position_of(each) > at
        ]
        return [recorded_request(each) for each in sorted(found, key=position_of)[:limit]]

    async def record_refusals(
        self, times: Mapping[BrandDay, int], refused: Sequence[RefusedRequest], *, now: Instant
    ) -> None:
        state = await self._state()
        for day, counted in times.items():
            before = state.refusal_counts.get(day, RefusalCount(0, 0))
            of_day = [each for each in refused if BrandDay(each.brand, each.request.created_at // DAY) == day]
            recorded = of_day[: max(0, REFUSALS_RECORDED_MAX - before.recorded)]
            state.refused += recorded
            state.refusal_counts[day] = RefusalCount(before.times + counted, before.recorded + len(recorded))
        oldest = earlier(now, REFUSALS_KEPT)
        outdated = [each for each in sorted(state.refused, key=_arrival) if each.request.created_at < oldest]
        for each in outdated[:REFUSALS_REMOVED_MAX]:
            state.refused.remove(each)
        for day in [each for each in state.refusal_counts if each.day < oldest // DAY]:
            del state.refusal_counts[day]

    async def refused_requests(
        self, brand: str, *, begin: Instant, end: Instant, after: Position | None = None, limit: int
    ) -> Sequence[RecordedRequest]:
        at = after or Position(begin, "")
        found = sorted((each for each in (await self._state()).refused if each.brand == brand), key=_arrival)
        return [each.request for each in found if each.request.created_at < end and _arrival(each) > at][:limit]

    async def refusal_count(self, day: BrandDay) -> RefusalCount:
        return (await self._state()).refusal_counts.get(day, RefusalCount(0, 0))


def _arrival(refused: RefusedRequest) -> Position:
    return Position(refused.request.created_at, refused.request.gateway_reference)
