"""The program `mmo` in processes of its own, and a merchant's receiver that keeps every callback,
repeats too."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpResponse, RequestHead
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.sandbox.local_ca import ensure_authority
from mmo_trio.system.ids import request_id_generator
from tests.support.connection_owner import PORTS, RecordingListener
from tests.support.http_version import http_version
from tests.support.time_limits import HANGS_AFTER_S

COMMAND = (sys.executable, "-m", "mmo_trio.cli")
SETTINGS_ON_A_FILE = """
[gateway]
base_url = "https://pay.example"

[database]
url = "sqlite:///{folder}/payments.db"

[egress]
allow_private = true

[keys]
master_key_file = "{folder}/master.key"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
"""
"""Settings of a gateway that is served on free ports, with all that it keeps in `folder`."""
BRAND_ON_THE_SANDBOX = """
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{key}"]

[[brand.method]]
key = "mpesa_ke"
provider = "sandbox"
country = "KE"
flows = ["direct/payin", "direct/payout"]
limits.KES = {{ min = "10", max = "150000" }}
"""
"""A brand, with its `key`, whose one method is the sandbox's."""
FREE_PORTS = tuple(f"--{listener}=127.0.0.1:0" for listener in ("api", "pages", "console"))
"""The options with which `mmo sandbox` and `mmo serve` take any ports; the READY line says
which."""
READY = re.compile(r"READY (.*)\n")
BODY_LIMIT = 1024 * 1024


def environment_without_settings() -> dict[str, str]:
    """This process's environment without settings of a gateway."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MMO_")}


async def mmo(*arguments: str | Path, exit_code: int = 0) -> str:
    """What a command prints on standard output; it must end with this exit code."""
    with trio.fail_after(HANGS_AFTER_S):
        done = await trio.run_process(
            [*COMMAND, *map(str, arguments)],
            env=environment_without_settings(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == exit_code, (arguments, done.stdout, done.stderr)
    return done.stdout.decode()


@frozen
class Process:
    """A gateway that serves."""

    process: trio.Process = field(repr=False)
    ready: Mapping[str, str]
    """What the READY line says: `api`, `pages`, `console`, and in a sandbox `brand` and
    `api_key`."""

    @property
    def port(self) -> int:
        """Of the merchant API, on the loopback address."""
        return int(self.ready["api"].rsplit(":", 1)[1])

    async def kill(self) -> None:
        """`kill -9`; returns once it is dead."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def serving_process(
    *arguments: str | Path, log: Path, command: Sequence[str] = COMMAND
) -> AsyncIterator[Process]:
    """`mmo`, or another command, with these arguments, from its READY line on; if it still runs at
    the end it is asked to, and must, drain.

    Its standard error is added to the log.
    """
    with log.open("ab") as errors:
        process = await trio.lowlevel.open_process(
            [*command, *map(str, arguments)],
            env=environment_without_settings() | http_version.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdout is not None
    try:
        said = b""
        with trio.fail_after(HANGS_AFTER_S):
            while (line := READY.search(said.decode())) is None:
                more = await process.stdout.receive_some()
                assert more, _text(log)
                said += more
        words = (word.partition("=") for word in line[1].split())
        ready = {name: value for name, _, value in words}
        http_version.learn(ready)
        yield Process(process, ready)
        if process.returncode is None:
            process.terminate()
            with trio.fail_after(HANGS_AFTER_S):
                assert await process.wait() == 0, _text(log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.stdout.aclose()


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8")


@frozen
class RecordedCallback:
    """One callback, as it came."""

    gateway_reference: str
    body: bytes = field(repr=False)
    key: bytes | None = field(repr=False)
    run: int
    """The `run` of the receiver when it came."""
    sender: int | None
    """The process that sent it, as far as that is known."""


@define(eq=False)
class CallbackRecorder:
    """Keeps all callbacks, in the order of their coming, and answers 204."""

    url: str
    run: int = 0
    """To be set by the test: which process of the gateway may be calling now."""
    find_sender: Callable[[tuple[int, int]], int | None] = field(default=lambda _: None)
    """To be set by the test: the process that has the connection between these ports."""
    callbacks: list[RecordedCallback] = Factory(list)

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        ports = PORTS.get()
        sender = None if ports is None else self.find_sender(ports)
        return Admitted(BODY_LIMIT, self._responder(head, sender))

    def _responder(
        self, head: RequestHead, sender: int | None
    ) -> Callable[[bytes], Awaitable[HttpResponse]]:
        async def respond(body: bytes) -> HttpResponse:
            reference = json.loads(body)["gatewayReference"]
            key = head.value(b"x-api-key")
            self.callbacks.append(RecordedCallback(reference, body, key, self.run, sender))
            return HttpResponse(204)

        return respond


@asynccontextmanager
async def recording_callbacks(directory: Path) -> AsyncIterator[CallbackRecorder]:
    """A receiver over TLS as long as the block lasts; the authority in this directory vouches for
    it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1024)
    port = listeners[0].socket.getsockname()[1]
    recorder = CallbackRecorder(f"https://127.0.0.1:{port}/callback")
    context = ensure_authority(directory).issue("127.0.0.1")
    async with trio.open_nursery() as nursery:
        listener_context = ListenerContext(
            recorder,
            ListenerLimits(),
            error_docs_url="about:blank",
            mint_request_id=request_id_generator(),
            drain=trio.Event(),
            tls=lambda: context,
        )
        await nursery.start(
            serve_http,
            listener_context,
            cast(Sequence[trio.SocketListener], [RecordingListener(listeners[0])]),
        )
        yield recorder
        nursery.cancel_scope.cancel()
