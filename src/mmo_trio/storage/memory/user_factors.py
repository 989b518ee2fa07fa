"""Implements the second factors of console users for the store in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, evolve, field

from mmo_sansio.values.clock import Instant
from mmo_trio.storage.interface.admin_types import SecondFactor
from mmo_trio.storage.memory.state import MemoryAdminState, MemoryState


@define
class MemorySecondFactors:
    """See :class:`mmo_trio.storage.interface.admin.AdminStore`."""

    _memory: Callable[[], Awaitable[MemoryState]] = field(alias="memory")

    async def _state(self) -> MemoryAdminState:
        return (await self._memory()).admin

    async def second_factor(self, user: str) -> SecondFactor | None:
        state = await self._state()
        found = state.second_factors.get(user)
        return found and evolve(found, recovery_codes=len(state.recovery_codes.get(user, ())))

    async def second_factors(self) -> Sequence[SecondFactor]:
        users = sorted((await self._state()).second_factors)
        return [found for user in users if (found := await self.second_factor(user)) is not None]

    async def begin_enrolment(self, user: str, pending: bytes) -> None:
        factors = (await self._state()).second_factors
        factors[user] = evolve(factors.get(user, SecondFactor(user)), pending=pending)

    async def confirm_second_factor(
        self, user: str, pending: bytes, *, step: int, at: Instant, codes: Sequence[bytes], session: bytes
    ) -> bool:
        state = await self._state()
        found = state.second_factors.get(user)
        if found is None or found.pending != pending:
            return False
        state.second_factors[user] = SecondFactor(user, pending, at, step)
        await self.replace_recovery_codes(user, codes)
        await self._end_sessions(user, session)
        return True

    async def use_time_step(self, user: str, step: int) -> bool:
        factors = (await self._state()).second_factors
        found = factors.get(user)
        if found is None or found.sealed is None or found.last_step >= step:
            return False
        factors[user] = evolve(found, last_step=step)
        return True

    async def use_recovery_code(self, user: str, digest: bytes) -> bool:
        codes = (await self._state()).recovery_codes.get(user, set())
        is_unused = digest in codes
        codes.discard(digest)
        return is_unused

    async def replace_recovery_codes(self, user: str, codes: Sequence[bytes]) -> None:
        (await self._state()).recovery_codes[user] = set(codes)

    async def remove_second_factor(self, user: str, *, session: bytes | None = None) -> bool:
        state = await self._state()
        state.recovery_codes.pop(user, None)
        await self._end_sessions(user, session)
        return state.second_factors.pop(user, None) is not None

    async def reseal_second_factor(self, user: str, old: bytes, new: bytes) -> None:
        factors = (await self._state()).second_factors
        found = factors[user]
        factors[user] = evolve(
            found,
            sealed=new if found.sealed == old else found.sealed,
            pending=new if found.pending == old else found.pending,
        )

    async def _end_sessions(self, user: str, kept: bytes | None) -> None:
        state = await self._state()
        state.sessions = {k: v for k, v in state.sessions.items() if v.user != user or k == kept}
