"""Provides an engine in memory around the façade, in virtual time, that decides and dispatches at
once."""

from __future__ import annotations

from collections.abc import Callable

import outcome
import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Moment, MonotonicInstant, Span, later
from mmo_sansio.values.model import Transaction
from mmo_trio.engine.engine import PendingInput
from mmo_trio.storage.interface.store import WorkItem


def now() -> Instant:
    """Return wall time by Trio's clock; a test starts at START."""
    return later(START, Span(round(trio.current_time() * clock.SECOND)))


def moment() -> Moment:
    """Return the same by both clocks."""
    return Moment.at(now())


@define
class EngineDouble:
    """Decides each input of `submit` at once; `dispatch` receives every intent."""

    dispatch: Callable[[WorkItem], object] = lambda work: None
    gateway: Gateway = Factory(Gateway)
    errors: list[Exception] = Factory(list)
    """Errors that the next calls of `submit` raise, with nothing stored."""
    doubts: list[Exception] = Factory(list)
    """Errors that the next calls of `submit` raise although all is stored; what follows is not
    dispatched."""
    delays_s: list[float] = Factory(list)
    """Seconds between decision and reply of the next calls of `submit`."""
    inputs: list[tuple[float, str]] = Factory(list)
    """The time and type name of each decided input."""

    async def submit(self, input_: Input) -> Reply:
        """Decide an input, dispatch its intents, and return the reply."""
        await trio.lowlevel.checkpoint()
        if self.errors:
            raise self.errors.pop(0)
        self.inputs.append((trio.current_time(), type(input_).__name__))
        reply = self.gateway.receive(input_, now=now())
        if self.doubts:
            self.gateway.take_intents()
            raise self.doubts.pop(0)
        if self.delays_s:
            await trio.sleep(self.delays_s.pop(0))
        for each in self.gateway.take_intents():
            self.dispatch(self.work(each))
        return reply

    def enqueue(self, input_: Input) -> PendingInput:
        """Decide an input and dispatch its intents; the reply can be waited for."""
        pending = PendingInput(input_, MonotonicInstant(0))
        if self.errors:
            pending.complete(outcome.Error(self.errors.pop(0)))
            return pending
        self.inputs.append((trio.current_time(), type(input_).__name__))
        pending.complete(outcome.Value(self.gateway.receive(input_, now=now())))
        for each in self.gateway.take_intents():
            self.dispatch(self.work(each))
        return pending

    def work(self, intent: Intent) -> WorkItem:
        """Return the intent with the present transaction."""
        return WorkItem(intent, self.gateway.transaction(intent.gateway_reference))

    def transaction(self, gateway_reference: str = REFERENCE) -> Transaction:
        """Return the present transaction."""
        return self.gateway.transaction(gateway_reference)
