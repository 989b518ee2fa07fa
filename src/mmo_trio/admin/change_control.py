"""Changes of brands' configuration that one user proposes and another one applies, and the way
back.

The store decides in the commit whether the users differ and whether the version in force is the one
that is replaced; what is checked before only makes better messages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import StrEnum
from hashlib import sha256
from heapq import merge
from operator import attrgetter

from attrs import evolve, frozen

from mmo_sansio.messages.queries import Position
from mmo_sansio.payments.brand_changes import (
    BackTest,
    BackTestResult,
    RecordedRequest,
    only_tightens,
)
from mmo_sansio.values.clock import DAY, Instant, Span, elapsed
from mmo_sansio.values.model import Brand
from mmo_trio.admin.auditing import AuditLog
from mmo_trio.storage.interface.admin_types import (
    BrandDay,
    ChangeDecision,
    ChangeState,
    ConfigurationChange,
)
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.serialization import serialize_brand

# How long a proposed change can be applied.
OPEN_FOR = Span(7 * DAY)

# Payments that one back-test reads.
BACK_TEST_PAYMENTS_MAX = 200_000

# Rows that a back-test reads at a time, so that nothing else waits for it long.
_PAGE = 1_000


class ChangeRefusal(StrEnum):
    """Says why an action on a change of configuration is refused."""

    NO_BRAND = "There is no such brand."
    NO_CHANGE = "There is no such change."
    NOTHING_CHANGES = "Nothing would change: edit a limit or a flow first."
    VERSION_CHANGED = "The brand was changed meanwhile: load the page again and repeat your edit."
    OWN_PROPOSAL = "You proposed it: another user has to approve it."
    NOT_IN_STATE = "It was decided meanwhile: load the page again."
    OVERTAKEN = (
        "The brand was changed meanwhile: another version is in force than the one that this "
        "would replace."
    )
    EXPIRED = "It is older than seven days: reject it, and propose it again if it is still right."
    PROPOSER_DISABLED = (
        "The user who proposed it is disabled: reject it, and propose it yourself if it is right."
    )


class ChangeRefused(Exception):
    """Nothing was changed; the message is a sentence for a person."""

    def __init__(self, refusal: ChangeRefusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


@frozen
class BackTestPair:
    """Holds the results of one back-test: under the version before and under the one after."""

    before: BackTestResult
    after: BackTestResult
    refused: int
    """How many requests limits and flows refused in that time."""
    refused_unrecorded: int
    """How many of them are not on record: they were counted, and not judged."""
    is_complete: bool
    """Whether all payments of the span were read; False beyond BACK_TEST_PAYMENTS_MAX."""


def brand_version(brand: Brand) -> str:
    """Return a short text that differs for each version of a brand: a page that edits one carries
    it, so that an edit of a version that was replaced meanwhile is found."""
    return sha256(serialize_brand(brand).encode()).hexdigest()[:16]


def is_expired(change: ConfigurationChange, now: Instant) -> bool:
    """Return whether a proposed change is too old to be applied."""
    return change.state is ChangeState.OPEN and elapsed(change.proposed_at, now) > OPEN_FOR


def may_revert_alone(user: str, change: ConfigurationChange) -> bool:
    """Return whether one user may bring the version before a change into force again without
    another one's consent: somebody else than its proposer, where nothing is allowed then that is
    not allowed now."""
    return change.proposed_by != user and only_tightens(change.after, change.before)


@frozen
class ConfigurationChanges:
    """Proposes, applies, rejects and reverts changes of brands, each for a user of the console,
    given by name."""

    store: AdminStore
    audit_log: AuditLog

    async def propose(
        self, user: str, brand: str, version: str, edit: Callable[[Brand], Brand], reason: str
    ) -> ConfigurationChange:
        """Store the proposal of an edit that a user made on this version of a brand. Raises
        ChangeRefused, and what the edit raises."""
        before = await self.brand(brand)
        # Another change has come into force since the page was loaded: the edit may undo it.
        if brand_version(before) != version:
            raise ChangeRefused(ChangeRefusal.VERSION_CHANGED)

        after = edit(before)
        if after == before:
            raise ChangeRefused(ChangeRefusal.NOTHING_CHANGES)

        change = ConfigurationChange(0, before, after, reason, user, self.audit_log.wall_time())
        event = self.audit_log.event(
            f"user:{user}",
            "configuration_proposed",
            f"brand:{brand}",
            versionBefore=brand_version(before),
            versionAfter=brand_version(after),
            reason=reason,
        )
        return evolve(change, id=await self.store.add_configuration_change(change, event))

    async def apply(self, user: str, id: int) -> ConfigurationChange:
        """Bring another user's change into force. Raises ChangeRefused, which is recorded."""
        change = await self._find(id)
        now = self.audit_log.wall_time()
        decided = evolve(change, state=ChangeState.APPLIED, decided_by=user, decided_at=now)
        # A disabled account may have been a thief's: nobody applies what it has proposed.
        proposer = await self.store.user(change.proposed_by)
        if is_expired(change, now):
            await self._refuse(user, change, ChangeRefusal.EXPIRED)
        if change.proposed_by != user and (proposer is None or proposer.disabled_at is not None):
            await self._refuse(user, change, ChangeRefusal.PROPOSER_DISABLED)
        return await self._decide(user, ChangeState.OPEN, decided, "configuration_applied")

    async def reject(self, user: str, id: int, remark: str) -> ConfigurationChange:
        """Reject a change, or withdraw one's own. Raises ChangeRefused."""
        change = await self._find(id)
        decided = evolve(
            change,
            state=ChangeState.REJECTED,
            decided_by=user,
            decided_at=self.audit_log.wall_time(),
            remark=remark,
        )
        return await self._decide(user, ChangeState.OPEN, decided, "configuration_rejected", remark)

    async def revert(self, user: str, id: int, reason: str) -> ConfigurationChange:
        """Bring the version before a change into force again, exactly, or propose that where two
        users have to agree; return the change that was reverted or proposed. Raises
        ChangeRefused."""
        change = await self._find(id)

        # What would allow something again takes two people, as any other change does.
        if not may_revert_alone(user, change):
            return await self.propose(
                user, change.after.id, brand_version(change.after), lambda _: change.before, reason
            )

        now = self.audit_log.wall_time()
        reverted = evolve(
            change, state=ChangeState.REVERTED, reverted_by=user, reverted_at=now, remark=reason
        )
        return await self._decide(
            user, ChangeState.APPLIED, reverted, "configuration_reverted", reason
        )

    async def back_test(self, change: ConfigurationChange, day: int) -> BackTestPair:
        """Replay the brand's payments of a day, by UTC, and the requests that were refused, under
        both versions."""
        brand = change.after.id
        begin = Instant(day * DAY)
        end = Instant((day + 1) * DAY)

        count = await self.store.refusal_count(BrandDay(brand, day))
        refused = await self._refused_requests(brand, begin, end)

        # Requests are replayed in the order in which they came, as daily limits count by it.
        before = BackTest(change.before)
        after = BackTest(change.after)
        position: Position | None = None
        is_complete = False
        for _ in range(BACK_TEST_PAYMENTS_MAX // _PAGE):
            page = await self.store.recorded_requests(
                brand, begin=begin, end=end, after=position, limit=_PAGE
            )

            # Refused requests belong between the payments of a page, and the rest behind the last.
            is_complete = len(page) < _PAGE
            if is_complete:
                due = len(refused)
            else:
                due = bisect_right(refused, page[-1].created_at, key=_created_at)

            requests: Sequence[RecordedRequest] = page
            if due:
                requests = list(merge(page, refused[:due], key=_created_at))

            refused = refused[due:]
            before.add(requests)
            after.add(requests)
            if is_complete:
                break

            position = _position(page[-1])

        return BackTestPair(
            before.result,
            after.result,
            count.times,
            max(0, count.times - count.recorded),
            is_complete,
        )

    async def _refused_requests(
        self, brand: str, begin: Instant, end: Instant
    ) -> Sequence[RecordedRequest]:
        requests = list[RecordedRequest]()
        while True:
            position = None
            if requests:
                position = _position(requests[-1])

            page = await self.store.refused_requests(
                brand, begin=begin, end=end, after=position, limit=_PAGE
            )
            requests += page
            if len(page) < _PAGE:
                return requests

    async def brand(self, id: str) -> Brand:
        """Return the version of a brand that is in force. Raises ChangeRefused."""
        for record in await self.store.brands():
            if record.brand.id == id:
                return record.brand
        raise ChangeRefused(ChangeRefusal.NO_BRAND)

    async def _find(self, id: int) -> ConfigurationChange:
        change = None
        # Databases have 64 bits for an id; a larger one in an address is nobody's.
        if id < 2**63:
            change = await self.store.configuration_change(id)
        if change is None:
            raise ChangeRefused(ChangeRefusal.NO_CHANGE)
        return change

    async def _decide(
        self,
        user: str,
        expected_state: ChangeState,
        decided: ConfigurationChange,
        action: str,
        remark: str | None = None,
    ) -> ConfigurationChange:
        event = self.audit_log.event(
            f"user:{user}",
            action,
            f"brand:{decided.after.id}",
            change=decided.id,
            proposedBy=decided.proposed_by,
            versionBefore=brand_version(decided.before),
            versionAfter=brand_version(decided.after),
            remark=remark,
        )
        result = await self.store.decide_configuration_change(expected_state, decided, event)
        if result is not ChangeDecision.DONE:
            await self._refuse(user, decided, ChangeRefusal[result.name])

        return decided

    async def _refuse(self, user: str, change: ConfigurationChange, refusal: ChangeRefusal) -> None:
        """Record an action that is refused, and raise ChangeRefused."""
        await self.audit_log.record(
            f"user:{user}",
            "refused",
            f"brand:{change.after.id}",
            change=change.id,
            remark=refusal.value,
        )
        raise ChangeRefused(refusal)


_created_at = attrgetter("created_at")


def _position(request: RecordedRequest) -> Position:
    return Position(request.created_at, request.gateway_reference)
