"""Forwards everything to a simulator, for what stands in front of one and changes or observes a
part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import DroppedConnection, FaultScript
from mmo_simulators.common.simulator import Simulator


@define(eq=False)
class ForwardingSimulator:
    """Is a base class: what inherits from it overrides the methods in which it changes or observes
    something. See :class:`mmo_simulators.common.simulator.Simulator`."""

    simulator: Simulator

    @property
    def faults(self) -> FaultScript:
        return self.simulator.faults

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        return self.simulator.handle_request(request, now=now)

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        return self.simulator.take_due_callbacks(now=now)

    def next_due_at(self) -> Instant | None:
        return self.simulator.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        self.simulator.on_callback_response(request, response, now=now)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        self.simulator.open_accounts(accounts)

    def snapshot(self) -> Mapping[str, Any]:
        return self.simulator.snapshot()
