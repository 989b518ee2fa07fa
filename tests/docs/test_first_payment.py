"""The first payment by hand works: sandbox, receiver, request, callback, look-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.support.mmo_process import FREE_PORTS
from tests.support.time_limits import HANGS_AFTER_S

CURL = re.compile(r"^curl -s http://127\.0\.0\.1:8080(\S+)(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def running(log: Path, *arguments: str) -> Iterator[Callable[[str], re.Match[str]]]:
    """Run a command of `mmo`; yield a function that waits for a match in its standard output."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MMO_")}
    with log.open("wb") as output, log.with_suffix(".err").open("wb") as errors:
        command = [sys.executable, "-m", "mmo_trio.cli", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)

    def wait_for(pattern: str) -> re.Match[str]:
        end = time.monotonic() + HANGS_AFTER_S
        while (found := re.search(pattern, log.read_text(encoding="utf-8"))) is None:
            output_so_far = log.read_text() + log.with_suffix(".err").read_text()
            assert process.poll() is None, output_so_far
            assert time.monotonic() < end, output_so_far
            time.sleep(0.02)
        return found

    try:
        yield wait_for
    finally:
        process.terminate()
        process.wait(HANGS_AFTER_S)


def call(api: str, path: str, key: str, body: str | None = None) -> dict[str, Any]:
    """Send a request and return the JSON object of the response."""
    connection = HTTPConnection(api, timeout=HANGS_AFTER_S)
    headers = {"X-Api-Key": key} | ({"Content-Type": "application/json"} if body else {})
    try:
        connection.request("POST" if body else "GET", path, body, headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


@pytest.mark.spec("C1", "C6", "K1", "L2")
def test_the_first_payment_by_hand(root: Path, tmp_path: Path) -> None:
    (create, rest), (look_up, _), (pay, further) = CURL.findall(
        (root / "docs/get_started.md").read_text(encoding="utf-8")
    )
    [body] = re.findall(r"-d '(.*)'", rest, re.DOTALL)
    [pay_out] = re.findall(r"-d '(.*)'", further, re.DOTALL)
    data = ["--data", str(tmp_path / "data")]
    with running(tmp_path / "sandbox", "sandbox", *data, *FREE_PORTS) as sandbox_says:
        ready = sandbox_says(r"READY api=http://(\S+) .* brand=demo api_key=(\S+)\n")
        api, key = ready[1], ready[2]
        with running(tmp_path / "listen", "listen", *data, "--port", "0") as receiver_says:
            address = receiver_says(r"https://127\.0\.0\.1:[0-9]+/")[0]
            answer = call(api, create, key, body.replace("https://127.0.0.1:8443/", address))
            assert answer.get("status") == "pending", answer
            assert answer["merchantReference"] == "order-1"
            receiver_says(
                rf"callback  /  {answer['gatewayReference']}  order-1  success  key ok  -> 204"
            )
            paid = call(api, pay, key, pay_out.replace("https://127.0.0.1:8443/", address))
            receiver_says(
                rf"callback  /  {paid['gatewayReference']}  {paid['merchantReference']}  success"
            )
        found = call(api, look_up, key)
        assert (found["status"], found["gatewayReference"]) == (
            "success",
            answer["gatewayReference"],
        )
        assert found["finalAmount"] == {"value": 150.0, "currency": "KES"}
