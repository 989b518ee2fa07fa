"""Receives the callbacks of an operator, and reports which of them a client's own models read, for
programs that know nothing of the gateway."""

from __future__ import annotations

import json
import os
import queue
import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ORIGIN = os.environ["OPERATOR_URL"]
"""Where the simulated operator listens."""
REPORT = os.environ["CLIENT_REPORT"]
"""The file that takes a line for each kind of callback."""
WAIT_S = 60


class CallbackReceiver:
    """Listens on a port of its own, and keeps what is called back."""

    def __init__(self) -> None:
        received: queue.Queue[tuple[Mapping[str, str], bytes]] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                received.put((self.headers, body))
                answer = json.dumps({"ResultCode": "0", "ResultDesc": "Accepted"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._received = received
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str = "callback") -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/{path}"

    def next(self) -> Any:
        """The next callback's body."""
        return json.loads(self.next_signed()[1])

    def next_signed(self) -> tuple[Mapping[str, str], bytes]:
        """The next callback's headers, and its body as it came."""
        return self._received.get(timeout=WAIT_S)


def read(kind: str, body: Any, model: Callable[[Any], Any]) -> Any:
    """Let the client's own model read a callback exactly as it came, report that it does, and
    return what it read."""
    value = model(body)
    _report(kind, "")
    return value


def refuse(kind: str, body: Any, model: Callable[[Any], Any]) -> None:
    """Report why the client's own model does not read a callback, which is as the operator
    documents it."""
    try:
        model(body)
    except Exception as error:
        _report(kind, str(error))
    else:
        raise AssertionError(f"the model reads {kind}")


def _report(kind: str, refusal: str) -> None:
    with open(REPORT, "a") as file:
        file.write(json.dumps({"callback": kind, "refusal": refusal}) + "\n")


def plan(at: str, code: str) -> None:
    """Let the next submission of an operation end with a code."""
    control("/_simulator/faults", {"faults": [{"at": at, "do": "end_with", "code": code}]})


def control(path: str, document: object = None) -> Any:
    """Ask the simulator's controls."""
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{ORIGIN}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        text = answer.read().decode()
    return text if path.endswith("certificate") else json.loads(text)


def balances() -> dict[str, str]:
    """The balance of every account of the simulator."""
    return {each["account"]: each["balance"] for each in control("/_simulator/book")["accounts"]}
