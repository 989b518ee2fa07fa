"""`mmo listen` receives callbacks on this machine, as a merchant would, and forwards them to a
local server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import trio
from rich.text import Text

from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.local_server import (
    HOST,
    open_local_listeners,
    port_option,
    serving_until_stopped,
)
from mmo_trio.cli.support.options import data_option
from mmo_trio.cli.support.output import print_json_line, print_status, terminal
from mmo_trio.cli.support.target import default_data_directory, load_sandbox_keys
from mmo_trio.sandbox.callback_receiver import (
    DEFAULT_PORT,
    Forward,
    ReceivedKind,
    ReceivedRequest,
    receive_callbacks,
)
from mmo_trio.sandbox.local_ca import CertificateAuthority, ensure_authority
from mmo_trio.system.display_text import visible_text

# Seconds for which it waits for the keys of a sandbox: a first start takes a few.
KEYS_WAIT_S = 20


@click.command(short_help="Receive callbacks on this machine; forward them to a local server.")
@port_option(DEFAULT_PORT)
@click.option(
    "--forward-to",
    metavar="URL",
    help="Send each callback on to this server, which may speak plain HTTP.",
)
@click.option(
    "--key", "api_keys", multiple=True, help="An API key to accept; several may be given."
)
@click.option("--body", "with_body", is_flag=True, help="Print the bodies, too.")
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen(
    port: int,
    forward_to: str | None,
    api_keys: Sequence[str],
    with_body: bool,
    data: Path | None,
    as_json: bool,
) -> None:
    """Receive callbacks and print a line about each.

    It serves HTTPS and checks X-API-KEY. Without --key it accepts the keys of the sandbox's brands,
    and waits for those of a sandbox that is starting. Use the address that it prints as resultUrl.

    With --forward-to it sends every callback whose key is right to your own server, with all
    headers, and answers the gateway with your server's status. A URL without a path keeps the path
    of the resultUrl."""
    directory = (data or default_data_directory()).absolute()
    keys = [key.encode() for key in api_keys] or _await_sandbox_keys(directory)
    authority = ensure_authority(directory)
    forward = None
    if forward_to is not None:
        forward = _build_forward(forward_to, authority)

    printer: _Lines | _JsonLines = _Lines(forward_to, with_body=with_body)
    if as_json:
        printer = _JsonLines(forward_to)

    trio.run(_listen, authority, port, keys, forward, printer)


def _await_sandbox_keys(
    directory: Path, sleep: Callable[[float], None] = time.sleep
) -> Sequence[bytes]:
    """Return the keys of the sandbox in this directory, also of one that is about to start for the
    first time. Raises NegativeAnswer when there are none in time."""
    for second in range(KEYS_WAIT_S):
        with suppress(NegativeAnswer):
            return [key for _, key in load_sandbox_keys(directory)]

        if second == 0:
            print_status(f"Waiting for the keys of `mmo sandbox` in {directory}.")

        sleep(1)

    return [key for _, key in load_sandbox_keys(directory)]


async def _listen(
    authority: CertificateAuthority,
    port: int,
    keys: Sequence[bytes],
    forward: Forward | None,
    printer: _Lines | _JsonLines,
) -> None:
    # All names by which a gateway on this machine may reach it.
    tls = authority.issue("localhost", HOST, "::1")
    listeners, bound_port = await open_local_listeners(port)
    async with serving_until_stopped() as nursery:
        printer.begin(f"https://{HOST}:{bound_port}/")
        nursery.start_soon(
            partial(
                receive_callbacks,
                listeners,
                tls=lambda: tls,
                expected_keys=keys,
                on_request=printer.request,
                forward=forward,
            )
        )


def _build_forward(url: str, authority: CertificateAuthority) -> Forward:
    # Imported here, as it is slow to import and only forwarding needs it.
    from mmo_trio.http.client.client import tls_context
    from mmo_trio.sandbox.callback_receiver import callback_forwarder

    try:
        return callback_forwarder(url, tls_context(authority.certificate_file))
    except ValueError as fault:
        raise UsageProblem(f"--forward-to {url}: {fault}") from None


class _JsonLines:
    """Prints one JSON object a line."""

    def __init__(self, forward_to: str | None) -> None:
        self._forward_to = forward_to

    def begin(self, address: str) -> None:
        """Say where it listens, and where to it forwards."""
        click.echo(json.dumps({"listening": address, "forwardTo": self._forward_to}))

    def request(self, received: ReceivedRequest) -> None:
        """Print what came; the JSON of a callback or QR code as it came, with its exact amounts."""
        members = {
            "time": datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "kind": received.kind.value,
            "path": received.path,
            "key": "ok" if received.has_right_key else "wrong",
            "gatewayReference": received.gateway_reference,
            "repeat": received.is_repeat,
            "response": received.answer.status,
            "durationMs": received.duration_ms,
        }
        if received.answer.remark:
            members["remark"] = received.answer.remark

        if not received.has_right_key:
            members["refused"] = "X-API-KEY"

        line = json.dumps(members)
        if received.content:
            # Both are white space in JSON, so that the object stays on one line.
            body = received.body.decode().replace("\r", " ").replace("\n", " ")
            line = f'{line[:-1]}, "{received.kind.value}": {body}}}'

        print_json_line(line)


class _Lines:
    """Prints lines for people."""

    def __init__(self, forward_to: str | None, *, with_body: bool) -> None:
        self._forward_to = forward_to
        self._with_body = with_body

    def begin(self, address: str) -> None:
        """Say where it listens, and where to it forwards."""
        terminal().print(Text(f"Listening at {address}"), soft_wrap=True)
        if self._forward_to is not None:
            terminal().print(
                Text(f"Forwarding to {visible_text(self._forward_to)}"), soft_wrap=True
            )

    def request(self, received: ReceivedRequest) -> None:
        """Print the line about a request."""
        answer = received.answer
        words = [received.kind.value, received.path, *_description(received)]
        key = ("  key missing or wrong", "red")
        if received.has_right_key:
            key = ("  key ok", "")

        style = "red"
        if 200 <= answer.status <= 299:
            style = "green"

        remark = ""
        if answer.remark:
            remark = f"  {visible_text(answer.remark)}"

        out = terminal()
        # One line for each request, however long: a terminal wraps it, and a search finds it.
        line = Text.assemble(
            (f"{datetime.now():%H:%M:%S}  ", "dim"),
            visible_text("  ".join(words)),
            key,
            (f"  -> {answer.status}", style),
            (f"  {received.duration_ms} ms", "dim"),
            remark,
        )
        out.print(line, soft_wrap=True)
        if self._with_body and received.body:
            out.print(
                Text(visible_text(received.body.decode(errors="backslashreplace")), style="dim"),
                soft_wrap=True,
            )


def _description(received: ReceivedRequest) -> list[str]:
    """Return the payment's references and its status, or what the payer is to scan."""
    content = received.content
    # What is neither a result nor a code may say anything about itself.
    if received.kind is ReceivedKind.OTHER:
        return []

    words = [str(received.gateway_reference)]
    if content.get("merchantReference") is not None:
        words.append(str(content["merchantReference"]))

    if received.kind is ReceivedKind.QR_CODE:
        return [*words, str(content.get("qrPayload") or "a picture only")]

    status = f"{content.get('status')}"
    if content.get("errorCode"):
        status = f"{status} {content['errorCode']}"

    words.append(status)
    if received.is_repeat:
        return [*words, "(repeat)"]

    return words
