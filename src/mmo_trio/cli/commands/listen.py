"""`mmo listen`: a merchant's callback receiver on this machine, to build and try against."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio
from rich.text import Text

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import terminal
from mmo_trio.cli.support.target import default_data_directory, find_target
from mmo_trio.sandbox.callback_receiver import ReceivedCallback, ReceivedQrCode, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.storage.interface.store import StoreUnavailable

HOST = "127.0.0.1"
DEFAULT_PORT = 8443


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="0 picks a free one.",
)
@click.option("--key", "given", multiple=True, help="An API key to believe; several may be given.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The sandbox's data directory; by default the user's own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen(port: int, given: Sequence[str], data: Path | None, as_json: bool) -> None:
    """Receive callbacks and print them.

    It speaks HTTPS and checks X-API-KEY. Without --key it believes the keys of the sandbox's brands.
    Use the address that it prints as resultUrl.
    """
    directory = (data or default_data_directory()).absolute()
    keys = [key.encode() for key in given] or _load_sandbox_keys(directory)
    trio.run(_listen, directory, port, keys, as_json)


async def _listen(directory: Path, port: int, keys: Sequence[bytes], as_json: bool) -> None:
    tls = ensure_authority(directory).issue("localhost", HOST, "::1")
    try:
        listeners = await trio.open_tcp_listeners(port, host=HOST)
    except OSError as error:
        raise UsageProblem(f"--port {port}: {error.strerror}. --port 0 picks a free one.") from None
    address = f"https://{HOST}:{listeners[0].socket.getsockname()[1]}/"
    if as_json:
        _print_json_line({"listening": address})
    else:
        terminal().print(Text(f"Listening at {address}"))

    def tell(received: ReceivedCallback) -> None:
        if as_json:
            click.echo(f'{{"callback":{received.body.decode()}}}')
        else:
            _print_callback(received)

    def tell_qr(received: ReceivedQrCode) -> None:
        if as_json:
            click.echo(f'{{"qr":{received.body.decode()}}}')
        else:
            payload = received.code.get("qrPayload") or "a picture only"
            told = f"QR code  {received.gateway_reference}  {payload}"
            terminal().print(Text(told), soft_wrap=True)

    def tell_refused() -> None:
        if as_json:
            _print_json_line({"refused": "X-API-KEY"})
        else:
            terminal().print(Text("Refused a callback whose X-API-KEY is missing or wrong", "red"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: tls,
                expected_keys=keys,
                on_callback=tell,
                on_rejected=tell_refused,
                on_qr_code=tell_qr,
            )
        )
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            await anext(signals)
        nursery.cancel_scope.cancel()


def _load_sandbox_keys(directory: Path) -> Sequence[bytes]:
    """The keys in use of all its brands; raises Negative when there are none."""
    place = find_target(directory, None)
    try:
        records = place.with_store(lambda store: store.admin.brands())
    except StoreUnavailable:
        records = ()
    sealed = [key for each in records for key in each.keys if key.retired_at is None]
    if not sealed:
        raise NegativeAnswer(
            f"There are no API keys in {directory}. Start `mmo sandbox` first, or give --key."
        )
    keyring = place.keyring()
    return [keyring.unseal(key.brand, key.sealed) for key in sealed]


def _print_json_line(members: object) -> None:
    click.echo(json.dumps(members))


def _print_callback(received: ReceivedCallback) -> None:
    told = received.transaction
    why = f", {told['errorCode']}" if told.get("errorCode") else ""
    out = terminal()
    out.print(
        Text.assemble(
            (str(told.get("status")), "green" if told.get("status") == "success" else "yellow"),
            f"{why}  {received.gateway_reference}  {told.get('merchantReference')}",
        )
    )
    out.print(Text(received.body.decode(), style="dim"))
