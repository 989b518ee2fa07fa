"""Traces which files of the gateway are entered on four flows: a create, a look-up, a tick that
expires a payment, and an operator's result until its callback is recorded.

A file is entered when a function in it begins, or the initializer of a class of it that attrs has
made. Clients and receivers are not the gateway's code, and the sandbox's own room is left out of
the last flow, as it plays the operator."""

from __future__ import annotations

import http.client
import json
import re
import sqlite3
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import trio
import trustme
from attrs import Factory, define

import mmo_sansio
from mmo_sansio.testing import a_create_payment, numbered_reference
from mmo_sansio.values.clock import DAY, Span
from mmo_trio.engine.engine import Engine, Outbox
from mmo_trio.service.process import run_service
from mmo_trio.settings import load_settings
from mmo_trio.settings.service import ServiceAddresses, ServiceConfig, sandbox_presets
from mmo_trio.storage.sqlite import open_sqlite
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.scheduler import Scheduler
from tests.support.time_limits import HANGS_AFTER_S

SOURCE = Path(mmo_sansio.__file__).parents[1]
"""Where the packages are: in the source tree, or where they were installed."""
GENERATED = re.compile(r"<attrs generated \w+ ([\w.]+)\.\w+>")
ROOT = "/gateway/mmo/v2"
RESULTS_MAX = 20
EXPIRES_WITHIN = Span(30 * DAY)


@define
class Trace:
    """Records in which order functions begin, in every thread that starts after `watch_threads`."""

    events: list[tuple[str, str]] = Factory(list)
    """Each one's file, below the source folder, and its name."""
    is_recording: bool = False

    def watch_threads(self) -> None:
        """Watch this thread and those that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what begins within the block, and forget what was recorded before."""
        self.events.clear()
        self.is_recording = True
        try:
            yield
        finally:
            self.is_recording = False

    def files(self, *, since: str = "") -> list[str]:
        """Return the files entered, or those entered since the function of this name last began."""
        names = [name for _, name in self.events]
        begins = len(names) - names[::-1].index(since) if since else 0
        return sorted({file for file, _ in self.events[begins:]})

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if (
            event == "call"
            and self.is_recording
            and (file := source_file(frame.f_code.co_filename))
        ):
            self.events.append((file, frame.f_code.co_name))


def source_file(filename: str) -> str | None:
    """Return the path below the source folder of the file that a code object comes from; None for
    others' code."""
    if generated := GENERATED.match(filename):
        module = generated[1].rpartition(".")[0] or generated[1]
        path = SOURCE / (module.replace(".", "/") + ".py")
        return str(path.relative_to(SOURCE)) if path.exists() else None
    return filename.removeprefix(f"{SOURCE}/") if filename.startswith(f"{SOURCE}/mmo_") else None


async def trace_flows() -> dict[str, list[str]]:
    """Return the files entered on each flow, in the order of the budgets."""
    trace = Trace()
    trace.watch_threads()
    with TemporaryDirectory(prefix="mmo-weight-") as folder:
        found = await _trace_sandbox(trace, Path(folder))
        return found | {"tick": await _trace_tick(trace, Path(folder, "tick.db"))}


async def _trace_tick(trace: Trace, path: Path) -> list[str]:
    """Let a payment expire in an engine with a file and a scheduler alone: its callback is another
    flow."""
    clock = GatewayClock()
    async with open_sqlite(path, serving=True) as store, trio.open_nursery() as nursery:
        engine = Engine(store, clock, Outbox())
        await nursery.start(engine.run)
        await engine.submit(a_create_payment(gateway_reference=numbered_reference(1)))
        clock.advance(EXPIRES_WITHIN)
        scheduler = Scheduler(store, engine.enqueue, lambda _: None, lambda: False, clock.time)
        with trace.recording():
            woken = await scheduler.wake_all_due(clock.time())
        assert woken == 1
        nursery.cancel_scope.cancel()
    return trace.files()


async def _trace_sandbox(trace: Trace, directory: Path) -> dict[str, list[str]]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "receiver.pem"))
    presets = sandbox_presets(directory, free_ports=True)
    environment = {"MMO_EGRESS_EXTRA_CA_FILE": str(directory / "receiver.pem")}
    config = ServiceConfig(
        load_settings(environment=environment, presets=presets),
        data_directory=directory,
        is_sandbox=True,
        has_demo_brand=True,
        brands_file=None,
    )
    send, receive = trio.open_memory_channel[ServiceAddresses](1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(run_service, config, on_ready=send.send_nowait, drain=trio.Event())
        )
        with trio.fail_after(HANGS_AFTER_S):
            ready = await receive.receive()
            with _receiver(authority) as url:
                merchant = Merchant(ready.api.removeprefix("http://"), ready.api_key or "", url)
                found = await trio.to_thread.run_sync(_trace_requests, trace, merchant, directory)
        nursery.cancel_scope.cancel()
    return found


@define
class Merchant:
    """Asks the API over a kept connection, with the standard library's client."""

    address: str
    key: str
    result_url: str

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON of a response with a status of 2xx."""
        with closing(http.client.HTTPConnection(self.address, timeout=HANGS_AFTER_S)) as connection:
            headers = {"X-Api-Key": self.key, "Content-Type": "application/json"}
            connection.request(
                method, ROOT + path, None if body is None else json.dumps(body), headers
            )
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
            assert response.status // 100 == 2, answer
            return answer

    def create(self, flow: str, merchant_reference: str) -> str:
        """Create a payment and return its gatewayReference."""
        body = {
            "amount": {"value": 150, "currency": "KES"},
            "payer": {"id": "customer", "msisdn": "254700000007"},
            "country": "KE",
            "resultUrl": self.result_url,
            "merchantReference": merchant_reference,
        }
        reference: str = self.ask("POST", f"/{flow}/mpesa_ke", body)["gatewayReference"]
        return reference


def _trace_requests(trace: Trace, merchant: Merchant, directory: Path) -> dict[str, list[str]]:
    """Do each thing once before it is traced: what is kept in memory is not entered again."""
    found: dict[str, list[str]] = {}
    first = merchant.create("web/payin", "first")
    with trace.recording():
        merchant.create("web/payin", "second")
    found["create"] = trace.files()
    merchant.ask("GET", f"/status/{first}")
    with trace.recording():
        merchant.ask("GET", f"/status/{first}")
    found["look-up"] = trace.files()
    _complete(merchant, directory, "third")
    for nth in range(
        RESULTS_MAX
    ):  # Until it is the operator that tells the result, not a poll that was quicker.
        with trace.recording():
            _complete(merchant, directory, f"result-{nth}")
        if any(name == "_send_notification" for _, name in trace.events):
            break
    entered = trace.files(since="_send_notification")
    found["result"] = [file for file in entered if not file.startswith("mmo_trio/sandbox/")]
    return found


def _complete(merchant: Merchant, directory: Path, merchant_reference: str) -> None:
    """Create a payment and return once its callback is recorded."""
    reference = merchant.create("direct/payin", merchant_reference)
    recorded = (
        "SELECT count(*) FROM callbacks WHERE gateway_reference = ? AND outcome = 'delivered'"
    )
    with closing(sqlite3.connect(f"file:{directory}/gateway.db?mode=ro", uri=True)) as connection:
        while not connection.execute(recorded, (reference,)).fetchone()[0]:
            time.sleep(0.01)


class _Accept(BaseHTTPRequestHandler):
    """Accepts each callback."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def _receiver(authority: trustme.CA) -> Iterator[str]:
    """Receive callbacks in a thread, and give the resultUrl."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with HTTPServer(("127.0.0.1", 0), _Accept) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://localhost:{server.server_address[1]}/results"
        server.shutdown()
        thread.join()
