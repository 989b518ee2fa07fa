"""Plays an operator that answers each request by what has arrived, follows its script, and calls
back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import (
    DroppedConnection,
    FaultScript,
    parse_planned_fault,
    respond_with_faults,
)
from mmo_simulators.common.messages import json_response
from mmo_simulators.common.simulator import DueQueue


@define(eq=False)
class Echo:
    """See :class:`mmo_simulators.common.simulator.Simulator`."""

    faults: FaultScript = Factory(FaultScript)
    handled: list[HttpRequest] = Factory(list)
    """The requests that were carried out."""
    callbacks: DueQueue[HttpRequest] = Factory(DueQueue)
    told: list[HttpResponse | None] = Factory(list)
    """What the callbacks were answered."""

    def plan(self, **fault: object) -> None:
        """Plan one fault for the next request."""
        self.faults.plan([parse_planned_fault(fault)])

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        return respond_with_faults(self.faults.take_matching("echo"), lambda: self._answer(request))

    def _answer(self, request: HttpRequest) -> HttpResponse:
        self.handled.append(request)
        if request.target == b"/nothing":
            return HttpResponse(204)
        target, body = request.target.decode(), request.body.decode()
        return json_response(200, {"method": request.method, "target": target, "body": body})

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        return [each for _, each in self.callbacks.take_due(now=now)]

    def next_due_at(self) -> Instant | None:
        return self.callbacks.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        self.told.append(response)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        raise ValueError("it has no accounts")

    def snapshot(self) -> Mapping[str, Any]:
        return {"accounts": [], "payments": []}
