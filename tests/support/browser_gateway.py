"""Runs a sandbox in its own process, a merchant that creates payments, and the shop that payers
return to."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import urlsplit

from attrs import Factory, field, frozen

from tests.support.mmo_process import COMMAND, FREE_PORTS, environment_without_settings

PATIENCE_S = 30.0
"""Seconds that a test waits for an event before it fails."""

_READY = re.compile(r"READY (.*)\n")
_NUMBERS = count(1)


@frozen
class Sandbox:
    """Controls a running `mmo sandbox`."""

    api: str
    pages: str
    console: str
    api_key: str = field(repr=False)
    directory: Path

    def request(
        self, url: str, *, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """One request, a POST when there is a body: its status, and its JSON or text."""
        answer = fetch(
            url,
            method="GET" if body is None else "POST",
            headers={"Content-Type": "application/json"} | (headers or {}),
            body=None if body is None else json.dumps(body).encode(),
        )
        is_json = "json" in answer.headers.get("content-type", "")
        return answer.status, json.loads(answer.body) if is_json else answer.body.decode()

    def create(self, operation: str = "web/payin", method: str = "mpesa_ke", **changes: Any) -> Any:
        """Create a payment that must be accepted; the answer's members. A change to None leaves a
        member out."""
        scenario = changes.pop("scenario", None)
        msisdn = changes.pop("msisdn", "254712345678")
        members = {
            "amount": {"value": 150, "currency": "KES"},
            "payer": {"id": "user-1", "msisdn": msisdn},
            "country": "KE",
            "resultUrl": "https://localhost:9/callback",
            "merchantReference": f"order-{next(_NUMBERS)}",
        } | changes
        status, answer = self.request(
            f"{self.api}/gateway/mmo/v2/{operation}/{method}",
            body={name: value for name, value in members.items() if value is not None},
            headers={"X-Api-Key": self.api_key}
            | ({"X-Sandbox-Scenario": scenario} if scenario else {}),
        )
        assert status == 200, answer
        return answer

    def status(self, reference: str) -> Any:
        """The transaction, which must exist."""
        status, answer = self.request(
            f"{self.api}/gateway/mmo/v2/status/{reference}", headers={"X-Api-Key": self.api_key}
        )
        assert status == 200, answer
        return answer

    def advance(self, span: str) -> None:
        """Let time pass in the sandbox; others that share it see it pass, too."""
        status, answer = self.request(f"{self.pages}/sandbox/clock", body={"advance": span})
        assert status == 200, answer


@frozen
class Answer:
    """Holds an answer."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of those that come several times, the last."""
    body: bytes
    size: int
    """Bytes of the body as it came."""


def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """One request on a connection of its own; redirects are not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "", parts.port or 80, timeout=PATIENCE_S
    )
    try:
        target = url.split(parts.netloc, 1)[1] or "/"
        connection.request(method, target, body=body, headers=headers or {})
        answer = connection.getresponse()
        raw = answer.read()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, raw, len(raw))
    finally:
        connection.close()


@contextmanager
def serving_sandbox(directory: Path, *options: str, **settings: str) -> Iterator[Sandbox]:
    """`mmo sandbox` on free ports with these further options and `MMO_…` variables; it ends with
    the block.

    Without its demo brand it knows no API key: give it one with `evolve`.
    """
    command = [*COMMAND, "sandbox", "--data", str(directory), *FREE_PORTS]
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "sandbox.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *options],
            env=environment_without_settings() | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        words = dict(word.split("=", 1) for word in _ready_line(process, directory).split())
        yield Sandbox(
            words["api"], words["pages"], words["console"], words.get("api_key", ""), directory
        )
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _ready_line(process: subprocess.Popen[bytes], directory: Path) -> str:
    """What the READY line says; the rest of its output is read away."""
    said: Queue[str] = Queue()

    def read() -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.put(line.decode())
        except ValueError:
            pass  # It was closed: the sandbox has ended.
        said.put("")

    threading.Thread(target=read, daemon=True).start()
    try:
        while line := said.get(timeout=PATIENCE_S):
            if found := _READY.search(line):
                return found[1]
    except Empty:
        pass
    raise AssertionError((directory / "sandbox.log").read_text(encoding="utf-8"))


@frozen
class Shop:
    """Serves the page that payers return to, under any path."""

    url: str
    """`http://127.0.0.1:PORT`."""
    visited: list[str] = Factory(list)
    """The targets of all requests, as they came."""


@contextmanager
def open_shop() -> Iterator[Shop]:
    """Run a shop's server during the block."""
    visited: list[str] = []

    class Counter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            visited.append(self.path)
            body = b"<!doctype html><html lang=en><title>Shop</title><h1>Back in the shop</h1>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Counter) as server:
        server.daemon_threads = True
        served = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        served.start()
        yield Shop(f"http://127.0.0.1:{server.server_address[1]}", visited)
        server.shutdown()
        served.join()
