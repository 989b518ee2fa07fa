"""`mmo demo` shows a whole payment over real sockets and real TLS, with its own receiver."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio
from attrs import frozen
from rich.text import Text

from mmo_sansio.values.model import Method, Operation
from mmo_sansio.values.number_format import format_amounts_in
from mmo_trio.cli.commands.serve import announce, apply_log_settings
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.http_client import API_PATH, CliResponse, least_amount, send_request
from mmo_trio.cli.support.output import terminal
from mmo_trio.cli.support.target import find_target
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig, sandbox_presets

# Limit on each step, which usually takes well below a second.
STEP_TIMEOUT_S = 30.0

# Seconds between two look-ups of one payment: it ends within some tenths of a second.
STATUS_CHECK_INTERVAL_S = 0.1

# Anything but the demo brand's key.
FORGED_KEY = "not-the-merchants-key"


@click.command()
@click.option("--once", is_flag=True, help="End after the payment.")
def demo(once: bool) -> None:
    """Show a whole first payment.

    Serves a sandbox in a temporary folder, with a receiver of its own.
    """
    with tempfile.TemporaryDirectory(prefix="mmo-demo-") as folder:
        trio.run(_run_demo, Path(folder).resolve(), once)


async def _run_demo(directory: Path, once: bool) -> None:
    # Imported here, as it is slow to import and only serving needs it.
    from mmo_trio.service.process import run_service

    # The steps stay together, without lines of the log between them.
    presets = sandbox_presets(directory, free_ports=True) | {"log.level": "warning"}
    settings = find_target(directory, None, presets).settings
    apply_log_settings(settings)
    config = ServiceConfig(settings, data_directory=directory, is_sandbox=True, has_demo_brand=True)
    send_ready, receive_ready = trio.open_memory_channel[ServiceAddresses](1)

    # The gateway serves in a task beside the demonstration; whichever ends first ends the other.
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await run_service(config, on_ready=send_ready.send_nowait)
            nursery.cancel_scope.cancel()

        nursery.start_soon(serve)
        with trio.fail_after(STEP_TIMEOUT_S):
            addresses = await receive_ready.receive()

        announce(addresses)
        async with _start_receiver(directory) as (receiver_url, callbacks):
            demonstration = _Demonstration(addresses, directory, receiver_url, callbacks)
            await demonstration.run()
            if not once:
                await demonstration.serve_until_stopped()

            nursery.cancel_scope.cancel()


@asynccontextmanager
async def _start_receiver(
    directory: Path,
) -> AsyncIterator[tuple[str, AsyncIterator[dict[str, Any]]]]:
    """Start a merchant's receiver as a process; yield its address and its printed lines."""
    command = [sys.executable, "-m", "mmo_trio.cli", "listen", "--data", str(directory)]
    process = await trio.lowlevel.open_process(
        [*command, "--port", "0", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # Ctrl-C reaches the demo only, which then ends the receiver.
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        lines = _json_lines(process.stdout)
        with trio.fail_after(STEP_TIMEOUT_S):
            first: dict[str, Any] = await anext(lines, {})

        if "listening" not in first:
            raise NegativeAnswer("The receiver didn't start; what it says stands above.")

        yield first["listening"], lines
    finally:
        process.terminate()
        # Also when Ctrl-C has cancelled everything: no process stays behind.
        with trio.CancelScope(shield=True):
            await process.wait()


@frozen
class _Demonstration:
    """Shows the first payment, step by step."""

    ready: ServiceAddresses
    directory: Path
    receiver_url: str
    callbacks: AsyncIterator[dict[str, Any]]

    async def run(self) -> None:
        """Make a payment that succeeds; show its callback accepted and a forged one rejected."""
        # 1. A payment, as a shop would request it.
        method = await self._find_method()
        created = await self._create_payment(method)
        reference = created["gatewayReference"]
        self._print_step("1. A payment is taken", f"{reference}: {created['status']}")

        # 2. Its result, by looking it up.
        result = await self._wait_for_result(reference)
        amount = result["finalAmount"]
        exact = f"{amount['value']} {amount['currency']}"
        self._print_step(
            "2. Its result is known",
            f"pending → {result['status']}, {format_amounts_in(exact)}",
        )
        if result["status"] != "success":
            raise NegativeAnswer(f"The payment ended as {result['status']}, not as success.")

        # 3. The same result, by the callback.
        received = await self._wait_for_callback()
        if received.get("callback", {}).get("gatewayReference") != reference:
            raise NegativeAnswer(f"The receiver says {received} instead of the callback.")

        self._print_step("3. The merchant is called back", "its X-API-KEY is right: accepted")

        # 4. A callback that anybody could have sent: its body says "failed", and nobody must
        # believe it.
        forged = await self._send_request(
            self.receiver_url,
            body=received["callback"] | {"status": "failed"},
            headers={"X-API-KEY": FORGED_KEY},
            ca_file=self.directory / "ca.pem",
        )
        if forged.status != 401:
            raise NegativeAnswer(
                f"The receiver answered {forged.status} to a forged callback, not 401."
            )

        rejected = await self._wait_for_callback()
        if "refused" not in rejected:
            raise NegativeAnswer(f"The receiver says {rejected} instead of a refusal.")

        self._print_step("4. A forged callback comes", "its X-API-KEY is wrong: refused with 401")

    async def serve_until_stopped(self) -> None:
        """Serve further requests and show their callbacks, until stopped."""
        self._print_next_steps(await self._find_method())
        async for printed in self.callbacks:
            if "qr" in printed:
                self._print_step("QR code", str(printed["qr"]["qrPayload"]))
                continue

            transaction = printed.get("callback", {})
            what = "refused, its X-API-KEY is wrong"
            if transaction:
                what = f"{transaction.get('merchantReference')} {transaction.get('status')}"
            if transaction.get("errorCode"):
                what = f"{what}, {transaction['errorCode']}"
            self._print_step("Callback", what)

        raise NegativeAnswer("The receiver has ended; what it says stands above.")

    async def _find_method(self) -> Method:
        """Return a method of the demo brand for direct pay-ins."""
        from mmo_trio.storage.open_store import open_store

        url = sandbox_presets(self.directory)["database.url"]
        async with open_store(url, serving=False, create=False) as store:
            for record in await store.admin.brands():
                for method in record.brand.methods:
                    if Operation.DIRECT_PAYIN in method.operations:
                        return method
        raise NegativeAnswer("The demo brand has no method for direct pay-ins.")

    async def _create_payment(self, method: Method) -> dict[str, Any]:
        answer = await self._send_request(
            f"{self.ready.api}{API_PATH}/direct/payin/{method.key}",
            body=_payment_body(method, self.receiver_url),
            headers={"X-Api-Key": self.ready.api_key or ""},
        )
        if answer.status != 200:
            raise NegativeAnswer(f"The gateway answered {answer.status}: {answer.body.decode()}")
        return answer.json_object()

    async def _wait_for_result(self, reference: str) -> dict[str, Any]:
        """Return the transaction once it is not pending."""
        url = f"{self.ready.api}{API_PATH}/status/{reference}"
        headers = {"X-Api-Key": self.ready.api_key or ""}
        with trio.move_on_after(STEP_TIMEOUT_S), terminal().status("pending …"):
            while True:
                transaction = (await self._send_request(url, headers=headers)).json_object()
                if transaction.get("status") != "pending":
                    return transaction
                await trio.sleep(STATUS_CHECK_INTERVAL_S)
        raise NegativeAnswer(f"The payment is still pending after {STEP_TIMEOUT_S:g} s.")

    async def _wait_for_callback(self) -> dict[str, Any]:
        with trio.move_on_after(STEP_TIMEOUT_S), terminal().status("waiting for the callback …"):
            return await anext(self.callbacks, {})
        raise NegativeAnswer(f"No callback has come within {STEP_TIMEOUT_S:g} s.")

    @staticmethod
    async def _send_request(url: str, **options: Any) -> CliResponse:
        return await trio.to_thread.run_sync(partial(send_request, url, **options))

    @staticmethod
    def _print_step(step: str, what: str) -> None:
        terminal().print(Text.assemble((step, "bold"), f": {what}"))

    def _print_next_steps(self, method: Method) -> None:
        order = json.dumps(_payment_body(method, self.receiver_url, "order-2", "254700000101"))
        key = f"-H 'X-Api-Key: {self.ready.api_key}'"
        api = f"{self.ready.api}{API_PATH}"
        out = terminal()
        out.print(Text("\nTry next (an msisdn that ends in 101 has not enough money):", "bold"))
        # Not wrapped, so that each can be copied whole.
        for line in (
            f"curl -s {key} -H 'Content-Type: application/json' {api}/direct/payin/{method.key} "
            f"-d '{order}'",
            f"curl -s {key} {api}/status/mref/order-2",
            f"mmo explain order-2 --data {self.directory}",
            f"mmo sandbox-clock advance 3d --data {self.directory}",
        ):
            out.print(Text(line), soft_wrap=True)

        out.print(Text(f"A payment page and a virtual phone, side by side: {self.ready.pages}/"))
        out.print(Text(f"Console: {self.ready.console}"))
        out.print(Text("Serving until Ctrl-C; callbacks are shown as they come."))


async def _json_lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[Any]:
    """Yield the JSON value of each complete line."""
    unread = b""
    # A piece may end within a line, and hold several.
    while data := await stream.receive_some():
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _payment_body(
    method: Method, result_url: str, reference: str = "order-1", msisdn: str = "254700000001"
) -> dict[str, Any]:
    return {
        "amount": least_amount(method),
        "payer": {"id": "customer-1", "msisdn": msisdn},
        "country": method.country,
        "resultUrl": result_url,
        "merchantReference": reference,
    }
