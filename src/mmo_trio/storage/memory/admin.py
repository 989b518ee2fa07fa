"""The office of the store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from attrs import define, evolve, field

from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.changes import CallbackRecorded
from mmo_sansio.payments.stuck import may_be_under_way
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin import LOOK_MAX
from mmo_trio.storage.interface.admin_types import (
    AuditRow,
    BreakerChange,
    Count,
    Deed,
    Dimension,
    Found,
    Head,
    Operator,
    Place,
    Proposal,
    ProposalState,
    Session,
    SuspenseEntry,
    Tally,
    Wanted,
)
from mmo_trio.storage.interface.audit_chain import NOTHING, next_row
from mmo_trio.storage.memory.state import Memory, OfficeKept
from mmo_trio.storage.shared.payment_counts import counted
from mmo_trio.storage.shared.search_keys import (
    msisdn_of,
    provider_receipt_of,
    reconciliation_reference_of,
)
from mmo_trio.storage.sql.payment_search import END, newest, place_of


@define
class MemoryOffice:
    """See :class:`mmo_trio.storage.interface.admin.Office`."""

    _memory: Callable[[], Awaitable[Memory]] = field(alias="memory")

    async def _kept(self) -> OfficeKept:
        return (await self._memory()).office

    async def note(self, deed: Deed) -> AuditRow:
        log = (await self._kept()).audit
        log.append(next_row(_head(log), deed))
        return log[-1]

    async def audit(
        self, *, before: int | None = None, about: str | None = None, limit: int = 50
    ) -> Sequence[AuditRow]:
        return [
            row
            for row in reversed((await self._kept()).audit)
            if (before is None or row.number < before) and about in (None, row.deed.about)
        ][:limit]

    async def audit_after(self, number: int, *, limit: int) -> Sequence[AuditRow]:
        return [row for row in (await self._kept()).audit if row.number > number][:limit]

    async def audit_head(self) -> Head:
        return _head((await self._kept()).audit)

    async def add_operator(self, operator: Operator) -> bool:
        return (await self._kept()).operators.setdefault(operator.name, operator) is operator

    async def change_operator(self, operator: Operator) -> bool:
        kept = await self._kept()
        kept.sessions = {k: v for k, v in kept.sessions.items() if v.operator != operator.name}
        if operator.name not in kept.operators:
            return False
        kept.operators[operator.name] = operator
        return True

    async def operators(self) -> Sequence[Operator]:
        return sorted((await self._kept()).operators.values(), key=lambda each: each.name)

    async def operator(self, name: str) -> Operator | None:
        return (await self._kept()).operators.get(name)

    async def begin_session(self, session: Session, *, forget_before: Instant) -> None:
        kept = await self._kept()
        kept.sessions = {k: v for k, v in kept.sessions.items() if v.began_at >= forget_before}
        kept.sessions[session.digest] = session

    async def session(self, digest: bytes) -> tuple[Session, Operator] | None:
        kept = await self._kept()
        found = kept.sessions.get(digest)
        return None if found is None else (found, kept.operators[found.operator])

    async def see_session(self, digest: bytes, at: Instant) -> None:
        kept = await self._kept()
        if digest in kept.sessions:
            kept.sessions[digest] = evolve(kept.sessions[digest], seen_at=at)

    async def end_session(self, digest: bytes) -> None:
        (await self._kept()).sessions.pop(digest, None)

    async def propose(self, proposal: Proposal) -> int:
        kept = (await self._kept()).proposals
        kept.append(evolve(proposal, id=len(kept) + 1))
        return len(kept)

    async def proposals(
        self, *, about: str | None = None, state: ProposalState | None = None, limit: int = 100
    ) -> Sequence[Proposal]:
        return [
            each
            for each in reversed((await self._kept()).proposals)
            if about in (None, each.gateway_reference) and state in (None, each.state)
        ][:limit]

    async def proposal(self, id: int) -> Proposal | None:
        return next((each for each in (await self._kept()).proposals if each.id == id), None)

    async def decide_proposal(self, was: ProposalState, decided: Proposal) -> bool:
        kept = (await self._kept()).proposals
        for index, each in enumerate(kept):
            if each.id == decided.id and each.state is was:
                kept[index] = decided
                return True
        return False

    async def search(
        self, text: str, *, msisdn: str | None, before: Place | None = None, limit: int = 50
    ) -> Found:
        def is_named(each: Transaction) -> bool:
            order = each.order
            by_number = msisdn is not None and msisdn == msisdn_of(order)
            return by_number or text in (
                order.merchant_reference,
                reconciliation_reference_of(order),
                provider_receipt_of(each.progress),
            )

        every = await self._older_than(before)
        return newest(
            (each for each in every if each.reference == text.upper() or is_named(each)), limit
        )

    async def list_payments(self, wanted: Wanted) -> Found:
        of_brand = [
            each
            for each in await self._older_than(wanted.before)
            if wanted.brand in (None, each.order.brand)
        ]
        looked_at = of_brand[:LOOK_MAX]
        found = newest(
            (
                each
                for each in looked_at
                if wanted.method in (None, each.order.method)
                and wanted.status in (None, each.status)
            ),
            wanted.limit,
        )
        if found.further is None and len(of_brand) > LOOK_MAX:
            return Found(found.transactions, place_of(looked_at[-1]))
        return found

    async def _older_than(self, before: Place | None) -> Sequence[Transaction]:
        """Newest first."""
        at = before or END
        every = (await self._memory()).ledger.transactions.values()
        older = (
            each
            for each in every
            if (each.order.created_at, each.reference) < (at.created_at, at.gateway_reference)
        )
        return sorted(older, key=lambda e: (e.order.created_at, e.reference), reverse=True)

    async def unknown_since(
        self, before: Instant, *, after: Place | None = None, limit: int = 50
    ) -> Sequence[Transaction]:
        at = after or Place(0, "")
        return [
            each
            for each in reversed(await self._older_than(None))
            if may_be_under_way(each, before)
            and (each.order.created_at, each.reference) > (at.created_at, at.gateway_reference)
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

    async def suspense_about(self, gateway_reference: str) -> Sequence[SuspenseEntry]:
        book = (await self._memory()).suspense
        return [each for each in book if each.gateway_reference == gateway_reference]

    async def suspense_entries(
        self, *, with_closed: bool = False, before: int | None = None, limit: int = 50
    ) -> Sequence[SuspenseEntry]:
        return [
            each
            for each in reversed((await self._memory()).suspense)
            if (with_closed or each.closed_at is None) and (before is None or each.id < before)
        ][:limit]

    async def tally(self, wanted: Tally, *, by: Dimension | None) -> Sequence[Count]:
        every = (await self._memory()).ledger.transactions.values()
        ended = (each for each in every if each.progress.stage.is_terminal)
        counts: Counter[tuple[str, str, int]] = Counter()
        for key, times in counted(every, ended).items():
            span, began_at, brand, method, provider, status, latency_s = key
            names = {
                Dimension.BRAND: brand,
                Dimension.METHOD: method,
                Dimension.PROVIDER: provider,
            }
            fits = wanted.only is None or names[wanted.only[0]] == wanted.only[1]
            if fits and span == wanted.span and wanted.begin <= began_at < wanted.end:
                counts[str(began_at) if by is None else names[by], status, latency_s] += times
        return [Count(key, Status(status), s, n) for (key, status, s), n in counts.items()]

    async def breaker_changes(
        self, *, brand: str | None = None, limit: int = 50
    ) -> Sequence[BreakerChange]:
        changes = reversed((await self._kept()).breaker_changes)
        return [each for each in changes if brand in (None, each.brand)][:limit]


def _head(log: Sequence[AuditRow]) -> Head:
    return Head(log[-1].number, log[-1].hash) if log else NOTHING
