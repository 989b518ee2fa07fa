"""`mmo listen` shows a line about each callback, and sends callbacks on to a merchant's local
server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mmo_trio.cli.support.http_client import send_request
from tests.support.commands import refusal
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.time_limits import HANGS_AFTER_S

KEY = "the-key-of-the-shop"
REFERENCE = "01K5TESTTESTTESTTESTTEST00"
CALLBACK = {
    "gatewayReference": REFERENCE,
    "merchantReference": "order-1",
    "status": "failed",
    "errorCode": "user_cancelled",
}
QR_CODE = {
    "gatewayReference": REFERENCE,
    "merchantReference": "order-1",
    "qrPayload": "0002",
    "qrImage": "aGVsbG8=",
}


@contextmanager
def listening(*arguments: str) -> Iterator[tuple[str, Iterator[str]]]:
    """A running `mmo listen`: its address, and the lines that it prints after it."""
    process = subprocess.Popen(
        [*COMMAND, "listen", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environment_without_settings(),
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    try:
        first = next(process.stdout)
        address = re.search(r"https://[0-9.:]+/", first)
        assert address is not None, first
        yield address[0], process.stdout
    finally:
        process.terminate()
        process.communicate(timeout=HANGS_AFTER_S)
    assert process.returncode == 0


class Shop(HTTPServer):
    """A merchant's server on plain HTTP: it keeps each request, and answers with one status."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.status = status
        self.received: list[tuple[str, dict[str, str], Any]] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    server: Shop

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append((self.path, headers, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def shop(status: int = 201) -> Iterator[Shop]:
    with Shop(status) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(directory: Path, address: str, body: object, key: str = KEY) -> int:
    return send_request(
        address, body=body, headers={"X-API-KEY": key}, ca_file=directory / "ca.pem"
    ).status


@pytest.mark.spec("K1", "K2")
def test_callbacks_are_forwarded_to_a_local_server_and_its_status_is_the_answer(
    data: Path,
) -> None:
    with (
        shop(201) as merchant,
        listening("--key", KEY, "--forward-to", f"{merchant.address}/results") as (address, lines),
    ):
        assert next(lines) == f"Forwarding to {merchant.address}/results\n"
        assert send(data, f"{address}any", CALLBACK) == 201
        assert send(data, f"{address}any", CALLBACK) == 201
        assert send(data, f"{address}any", CALLBACK, key="wrong") == 401
        merchant.status = 500
        assert send(data, f"{address}any", QR_CODE) == 500
        shown = [next(lines) for _ in range(4)]
    assert {path for path, _, _ in merchant.received} == {"/results"}
    bodies = [body for _, _, body in merchant.received]
    assert bodies == [CALLBACK, CALLBACK, QR_CODE], "a wrong key reaches nobody, and a repeat does"
    for _, headers, _ in merchant.received:
        assert headers["x-api-key"] == KEY
        assert headers["content-type"] == "application/json"
    time, duration = r"\d\d:\d\d:\d\d", r"\d+ ms"
    about = rf"/any  {REFERENCE}  order-1"
    assert re.fullmatch(
        rf"{time}  callback  {about}  failed user_cancelled  key ok  -> 201  {duration}\n"
        rf"{time}  callback  {about}  failed user_cancelled  \(repeat\)  key ok  -> 201  "
        rf"{duration}\n"
        rf"{time}  other  /any  key missing or wrong  -> 401  {duration}\n"
        rf"{time}  qr  {about}  0002  key ok  -> 500  {duration}\n",
        "".join(shown),
    ), shown


def test_a_local_server_without_a_path_gets_the_path_of_the_result_url(data: Path) -> None:
    with (
        shop() as merchant,
        listening("--key", KEY, "--forward-to", merchant.address, "--json") as (address, lines),
    ):
        assert send(data, f"{address}results/42", CALLBACK) == 201
        line = json.loads(next(lines))
    assert [path for path, _, _ in merchant.received] == ["/results/42"]
    assert line["callback"] == CALLBACK
    told = (line["path"], line["key"], line["response"], line["repeat"])
    assert told == ("/results/42", "ok", 201, False)
    assert line["durationMs"] >= 0
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", line["time"])


def test_a_local_server_that_does_not_run_fails_the_delivery_and_the_line_says_why(
    data: Path,
) -> None:
    with shop() as merchant:
        gone = merchant.address
    with listening("--key", KEY, "--forward-to", f"{gone}/results") as (address, lines):
        next(lines)
        assert send(data, address, CALLBACK) == 502
        assert "Connection refused" in next(lines)


def test_an_address_that_nobody_can_call_is_named() -> None:
    said = refusal(2, f"listen --key {KEY} --forward-to shop:3000")
    assert "--forward-to shop:3000" in said
