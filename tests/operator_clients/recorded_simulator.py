"""Runs `mmo simulate` unchanged, and appends a line to the file named by RECORDED_REQUESTS for each request that the
operator fulfilled: its method and its path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_trio.cli.group import main
from mmo_trio.simulators import registry
from mmo_trio.simulators.base import DroppedConnection, FaultScript, Simulator, path_and_query


@frozen
class RecordedSimulator:
    """Writes down what a simulator fulfils."""

    simulator: Simulator
    file: Path

    @property
    def faults(self) -> FaultScript:
        return self.simulator.faults

    def handle_request(self, request: HttpRequest, *, now: Instant) -> HttpResponse | DroppedConnection:
        reaction = self.simulator.handle_request(request, now=now)
        if isinstance(reaction, HttpResponse) and reaction.status < 300:
            with self.file.open("a") as file:
                file.write(f"{request.method} {path_and_query(request)[0]}\n")
        return reaction

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        return self.simulator.take_due_callbacks(now=now)

    def next_due_at(self) -> Instant | None:
        return self.simulator.next_due_at()

    def on_callback_response(self, request: HttpRequest, response: HttpResponse | None, *, now: Instant) -> None:
        self.simulator.on_callback_response(request, response, now=now)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        self.simulator.open_accounts(accounts)

    def snapshot(self) -> Mapping[str, Any]:
        return self.simulator.snapshot()


def record() -> None:
    """Let the command open recorded simulators."""
    file, open_plain = Path(os.environ["RECORDED_REQUESTS"]), registry.open_simulator

    def open_recorded(operator: str, pin_padding: str | None = None) -> Simulator:
        return RecordedSimulator(open_plain(operator, pin_padding), file)

    registry.open_simulator = open_recorded


if __name__ == "__main__":
    record()
    main()
