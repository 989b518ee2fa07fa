"""`mmo simulate` serves a simulated mobile money operator, to test a gateway against."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from ssl import SSLError

import click
import trio

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.local_server import (
    HOST,
    open_local_listeners,
    port_option,
    serving_until_stopped,
)

# Operators that the simulators' registry has.
OPERATORS = ("airtel", "mpesa", "mtn", "pawapay", "wave")

# Stands for no padding in particular.
ANY_PADDING = "any"


@click.command()
@click.argument("operator", type=click.Choice(OPERATORS))
@port_option(8090)
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Further trusted authorities (PEM) for the callbacks that are sent.",
)
@click.option(
    "--pin-padding",
    type=click.Choice([ANY_PADDING, *(padding.value for padding in RsaPadding)]),
    default=ANY_PADDING,
    show_default=True,
    help="The padding of encrypted PINs that airtel accepts.",
)
def simulate(operator: str, port: int, ca_file: Path | None, pin_padding: str) -> None:
    """Simulate a mobile money operator, with money of no value.

    It serves the operator's own API over plain HTTP, and sends callbacks. POST /_simulator/accounts
    opens accounts, POST /_simulator/faults makes it fail, GET /_simulator/book shows what it did.
    """
    if operator != "airtel" and pin_padding != ANY_PADDING:
        raise click.UsageError("--pin-padding is for airtel: no other operator has encrypted PINs.")

    padding = None
    if pin_padding != ANY_PADDING:
        padding = pin_padding
    trio.run(_simulate, operator, port, ca_file, padding)


async def _simulate(
    operator: str, port: int, ca_file: Path | None, pin_padding: str | None
) -> None:
    # Imported here, as they are slow to import and no other command needs them.
    from mmo_simulators.operators.registry import account_settings, open_simulator
    from mmo_simulators.server.callbacks import call_back, system_streams
    from mmo_simulators.server.serving import serve_on_listeners

    try:
        send_callback = partial(call_back, open_stream=system_streams(ca_file))
    except OSError as error:
        # OpenSSL's own text helps nobody who has given a file of another kind.
        reason = error.strerror
        if isinstance(error, SSLError):
            reason = "it holds no certificate in PEM"
        raise UsageProblem(f"--ca-file {ca_file}: {reason}.") from None

    listeners, bound_port = await open_local_listeners(port)
    async with serving_until_stopped() as nursery:
        await nursery.start(
            partial(
                serve_on_listeners,
                open_simulator(operator, pin_padding),
                listeners,
                send_callback=send_callback,
            )
        )
        origin = f"http://{HOST}:{bound_port}"
        # To standard output, so that a script can wait for the address; the rest is for people.
        click.echo(f"READY {operator} {origin}")
        click.echo(f"# For the gateway's mmo.toml:\n{account_settings(operator, origin)}", err=True)
