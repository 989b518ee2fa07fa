"""`mmo listen` receives callbacks on this machine, as a merchant would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio
from rich.text import Text

from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.local_server import HOST, open_local_listeners, port_option, wait_for_stop_signal
from mmo_trio.cli.support.output import terminal
from mmo_trio.cli.support.target import data_option, default_data_directory, find_target
from mmo_trio.sandbox.callback_receiver import ReceivedCallback, ReceivedQrCode, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.storage.interface.store import StoreUnavailable

DEFAULT_PORT = 8443


@click.command()
@port_option(DEFAULT_PORT)
@click.option("--key", "api_keys", multiple=True, help="An API key to accept; several may be given.")
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen(port: int, api_keys: Sequence[str], data: Path | None, as_json: bool) -> None:
    """Receive callbacks and print them.

    It serves HTTPS and checks X-API-KEY. Without --key it accepts the keys of the sandbox's brands. Use the address
    that it prints as resultUrl.
    """
    directory = (data or default_data_directory()).absolute()
    keys = [key.encode() for key in api_keys] or _load_sandbox_keys(directory)
    trio.run(_listen, directory, port, keys, as_json)


async def _listen(directory: Path, port: int, keys: Sequence[bytes], as_json: bool) -> None:
    tls = ensure_authority(directory).issue("localhost", HOST, "::1")
    listeners, bound_port = await open_local_listeners(port)
    address = f"https://{HOST}:{bound_port}/"
    if as_json:
        _print_json_line({"listening": address})
    else:
        terminal().print(Text(f"Listening at {address}"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: tls,
                expected_keys=keys,
                on_callback=partial(_print_callback, as_json=as_json),
                on_rejected=partial(_print_rejected, as_json=as_json),
                on_qr_code=partial(_print_qr_code, as_json=as_json),
            )
        )
        await wait_for_stop_signal()
        nursery.cancel_scope.cancel()


def _load_sandbox_keys(directory: Path) -> Sequence[bytes]:
    """Return the keys in use of all brands. Raises NegativeAnswer when there are none."""
    target = find_target(directory, None)
    try:
        records = target.with_store(lambda store: store.admin.brands())
    except StoreUnavailable:
        records = ()
    sealed = [key for each in records for key in each.keys if key.retired_at is None]
    if not sealed:
        raise NegativeAnswer(f"There are no API keys in {directory}. Start `mmo sandbox` first, or give --key.")
    keyring = target.keyring()
    return [keyring.unseal(key.brand, key.sealed) for key in sealed]


def _print_json_line(members: object) -> None:
    click.echo(json.dumps(members))


def _print_rejected(*, as_json: bool) -> None:
    if as_json:
        _print_json_line({"refused": "X-API-KEY"})
    else:
        terminal().print(Text("Refused a callback whose X-API-KEY is missing or wrong", "red"))


def _print_qr_code(received: ReceivedQrCode, *, as_json: bool) -> None:
    if as_json:
        click.echo(f'{{"qr":{received.body.decode()}}}')
        return
    payload = received.code.get("qrPayload") or "a picture only"
    line = f"QR code  {received.gateway_reference}  {payload}"
    terminal().print(Text(line), soft_wrap=True)


def _print_callback(received: ReceivedCallback, *, as_json: bool) -> None:
    if as_json:
        click.echo(f'{{"callback":{received.body.decode()}}}')
        return
    transaction = received.transaction
    why = f", {transaction['errorCode']}" if transaction.get("errorCode") else ""
    out = terminal()
    out.print(
        Text.assemble(
            (str(transaction.get("status")), "green" if transaction.get("status") == "success" else "yellow"),
            f"{why}  {received.gateway_reference}  {transaction.get('merchantReference')}",
        )
    )
    out.print(Text(received.body.decode(), style="dim"))
