"""Runs `mmo simulate` unchanged, and appends a line to the file named by RECORDED_REQUESTS for each
request that the operator fulfilled: its method and its path."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_simulators.common.faults import DroppedConnection
from mmo_simulators.common.forwarding import ForwardingSimulator
from mmo_simulators.common.messages import path_and_query
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators import registry
from mmo_trio.cli.group import main


@define(eq=False)
class RecordedSimulator(ForwardingSimulator):
    """Writes down what a simulator fulfils."""

    file: Path

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        reaction = super().handle_request(request, now=now)
        if isinstance(reaction, HttpResponse) and reaction.status < 300:
            with self.file.open("a") as file:
                file.write(f"{request.method} {path_and_query(request)[0]}\n")
        return reaction


def record() -> None:
    """Let the command open recorded simulators."""
    file, open_plain = Path(os.environ["RECORDED_REQUESTS"]), registry.open_simulator

    def open_recorded(operator: str, pin_padding: str | None = None) -> Simulator:
        return RecordedSimulator(open_plain(operator, pin_padding), file)

    registry.open_simulator = open_recorded


if __name__ == "__main__":
    record()
    main()
