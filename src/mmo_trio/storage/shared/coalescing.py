"""Questions that wait together are asked together: one hop to where the rows are answers them all."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import outcome
import trio
from attrs import Factory, define

from mmo_trio.storage.interface.store import StoreUnavailable

Question = TypeVar("Question")
Answer = TypeVar("Answer")

TOGETHER_MAX = 64
"""Questions in one hop: beyond this the first to come waits longer, and the hop is cheap enough for each."""


@define(eq=False)
class _Asked(Generic[Question, Answer]):
    question: Question
    task: trio.lowlevel.Task | None = None
    """Who sleeps until there is an answer, or until it is its turn to ask."""
    answer: outcome.Outcome[Answer] | None = None

    def wake(self) -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)
            self.task = None


@define(eq=False)
class Gathering(Generic[Question, Answer]):
    """Whoever comes while nobody is asking asks, for everybody who waits by then; the others sleep meanwhile. No task
    and no timer of its own: a question that is alone isn't kept waiting for others."""

    ask: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]]
    """An answer to each question, in order. Raises only StoreUnavailable for what others cause; it ends by itself."""
    together_max: int = TOGETHER_MAX
    _waiting: deque[_Asked[Question, Answer]] = Factory(deque)
    _is_asking: bool = False

    async def __call__(self, question: Question) -> Answer:
        """The answer; raises what `ask` does."""
        asked = _Asked[Question, Answer](question)
        self._waiting.append(asked)
        while asked.answer is None:
            if self._is_asking:
                await self._sleep(asked)
            else:
                await self._ask_together()
        return asked.answer.unwrap()

    async def _sleep(self, asked: _Asked[Question, Answer]) -> None:
        def leave(_: object) -> trio.lowlevel.Abort:
            asked.task = None
            if asked.answer is None and asked in self._waiting:
                self._waiting.remove(asked)
            return trio.lowlevel.Abort.SUCCEEDED

        asked.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _ask_together(self) -> None:
        """Ask for those who came first. Others wait for the answer, too, so it isn't cut short when its asker is."""
        waiting = self._waiting
        gathered = [waiting.popleft() for _ in range(min(self.together_max, len(waiting)))]
        self._is_asking = True
        try:
            with trio.CancelScope(shield=True):
                answers = await self.ask([each.question for each in gathered])
            for each, answer in zip(gathered, answers, strict=True):
                each.answer = outcome.Value(answer)
        except Exception as error:
            for each in gathered:
                each.answer = outcome.Error(_alike(error))
        finally:
            self._is_asking = False
            for each in gathered:
                each.wake()
            if waiting:
                waiting[0].wake()


def _alike(error: Exception) -> Exception:
    """An exception for each who raises it: they add their own traceback to it."""
    return StoreUnavailable(str(error)) if isinstance(error, StoreUnavailable) else error
