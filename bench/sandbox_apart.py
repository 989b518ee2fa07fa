"""Runs a sandbox whose simulated operator is a process of its own, so that only the gateway is
measured.

    python -m bench.sandbox_apart gateway DIRECTORY BRANDS
    python -m bench.sandbox_apart operator DIRECTORY

The gateway prints the line READY, the operator OPEN. Either runs until it is stopped by SIGTERM."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from mmo_trio.cli.commands.serve import announce, apply_log_settings, run
from mmo_trio.cli.support.target import find_target
from mmo_trio.sandbox.operator_process import OperatorProcess, operator_socket_path
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from mmo_trio.settings.service import ServiceConfig
from mmo_trio.system.clock import BootClock, GatewayClock

FREE_PORTS = dict.fromkeys(("api", "pages", "console"), "127.0.0.1:0")


def serve_gateway(directory: Path, brands: Path) -> None:
    """Serve the gateway, on free ports."""
    settings = find_target(directory, None, FREE_PORTS).settings
    apply_log_settings(settings)
    config = ServiceConfig(
        settings,
        data_directory=directory,
        is_sandbox=True,
        brands_file=brands,
        operator_socket=operator_socket_path(directory / OPERATOR_JOURNAL_FILE),
    )
    run(config, on_ready=announce)


def serve_operator(directory: Path) -> None:
    """Serve the operator at its socket in this directory."""
    operator = OperatorProcess(directory / OPERATOR_JOURNAL_FILE, GatewayClock().now)
    print("OPEN", flush=True)
    trio.run(operator.run, clock=BootClock())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["gateway", place, brands_file]:
            serve_gateway(Path(place), Path(brands_file))
        case ["operator", place]:
            serve_operator(Path(place))
        case _:
            sys.exit(__doc__)
