"""`mmo simulate`: a mobile money operator on this machine, to try a gateway or a client library against."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import click
import trio

from mmo_trio.cli.support.errors import UsageProblem

HOST = "127.0.0.1"
OPERATORS = ("airtel", "mpesa", "mtn")


@click.command()
@click.argument("operator", type=click.Choice(OPERATORS))
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8090,
    show_default=True,
    help="0 picks a free one.",
)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Whom to trust, beside the system's authorities, when callbacks are sent (PEM).",
)
def simulate(operator: str, port: int, ca_file: Path | None) -> None:
    """Be a mobile money operator, with make-believe money.

    It speaks the operator's own API in clear HTTP, and sends callbacks. POST /_simulator/accounts opens accounts,
    POST /_simulator/faults makes it fail, GET /_simulator/book shows what it did.
    """
    trio.run(_simulate, operator, port, ca_file)


async def _simulate(operator: str, port: int, ca_file: Path | None) -> None:
    # Only who simulates needs these, and they are much to load.
    from mmo_sansio.http.egress_rules import EgressRules
    from mmo_trio.http.client.client import HttpClient, tls_context
    from mmo_trio.simulators.registry import SIMULATORS
    from mmo_trio.simulators.server import serve_simulator
    from mmo_trio.system.clock import WallClock

    try:
        listeners = await trio.open_tcp_listeners(port, host=HOST)
    except OSError as error:
        raise UsageProblem(f"--port {port}: {error.strerror}. --port 0 picks a free one.") from None
    client = HttpClient(rules=EgressRules(), context=tls_context(ca_file))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_simulator,
                SIMULATORS[operator](),
                listeners,
                send_callback=client.call_provider,
                now=WallClock().now,
            )
        )
        at = listeners[0].socket.getsockname()[1]
        click.echo(f"READY {operator} http://{HOST}:{at}")
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            await anext(signals)
        nursery.cancel_scope.cancel()
