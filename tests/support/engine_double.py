"""An engine in memory around the façade, in virtual time: it decides at once and hands intents on at once."""

from __future__ import annotations

from collections.abc import Callable

import trio
from attrs import Factory, define

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.intents import Intent
from mmo_sansio.messages.replies import Reply
from mmo_sansio.payments.gateway import Gateway
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.model import Transaction
from mmo_trio.storage.interface.store import WorkItem


def now() -> Instant:
    """Wall time, by Trio's clock: a test's whole life begins at START."""
    return later(START, Span(round(trio.current_time() * clock.SECOND)))


@define
class EngineDouble:
    """`submit` is the door; `act` gets every intent, as the real engine's does."""

    dispatch: Callable[[WorkItem], object] = lambda work: None
    gateway: Gateway = Factory(Gateway)
    troubles: list[Exception] = Factory(list)
    """Raised by the next calls of `submit`, one each, with nothing stored."""
    delays_s: list[float] = Factory(list)
    """How long the next calls of `submit` take to answer after they have decided, one each."""
    inputs: list[tuple[float, str]] = Factory(list)
    """When each input was decided, and its name."""

    async def submit(self, input_: Input) -> Reply:
        """Decide it, answer, and have what follows done."""
        await trio.lowlevel.checkpoint()
        if self.troubles:
            raise self.troubles.pop(0)
        self.inputs.append((trio.current_time(), type(input_).__name__))
        reply = self.gateway.receive(input_, now=now())
        if self.delays_s:
            await trio.sleep(self.delays_s.pop(0))
        for each in self.gateway.take_intents():
            self.dispatch(self.work(each))
        return reply

    def work(self, intent: Intent) -> WorkItem:
        """The intent with its transaction as it is now."""
        return WorkItem(intent, self.gateway.transaction(intent.gateway_reference))

    def transaction(self, gateway_reference: str = REFERENCE) -> Transaction:
        """The payment as it is now."""
        return self.gateway.transaction(gateway_reference)
