"""Plays Pagaqui on this machine: `python pagaqui_operator.py [PORT]`.

A payer who presses the button of its page has paid; the operator notifies, and sends the payer
back. With `lose` after the port the answer to the first submission is lost."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

API_KEY = "SECRET-api-key"
PAGE = '<form method="post"><button>Pay {amount} {currency}</button></form>'


class Pagaqui(ThreadingHTTPServer):
    """Keeps the checkouts by id."""

    def __init__(self, port: int = 0, *, answers_lost: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Requests)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.checkouts: dict[str, dict[str, Any]] = {}
        self.answers_lost = answers_lost

    def begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the checkout of this id, a new one where there is none."""
        page = f"{self.origin}/page/{asked['id']}"
        return self.checkouts.setdefault(asked["id"], {**asked, "state": "open", "page": page})

    def pay(self, checkout: dict[str, Any]) -> None:
        """Take the money, and notify of it."""
        checkout |= {"state": "paid", "receipt": f"Q-{len(self.checkouts)}"}
        told = json.dumps({"state": "paid"}).encode()
        request = urllib.request.Request(checkout["notify_to"], told)
        threading.Thread(target=notify, args=(request,), daemon=True).start()


def notify(request: urllib.request.Request) -> None:
    """Send a notification; one that is lost is not repeated."""
    with suppress(OSError), urllib.request.urlopen(request, timeout=10):
        pass


class Requests(BaseHTTPRequestHandler):
    server: Pagaqui

    def do_GET(self) -> None:
        """Tell of a checkout, or show its page."""
        checkout = self.server.checkouts.get(self.path.rpartition("/")[2])
        if self.path.startswith("/page/") and checkout is not None:
            self.answer(200, PAGE.format_map(checkout).encode(), ("Content-Type", "text/html"))
        elif self.is_signed_in() and checkout is not None:
            self.answer(200, json.dumps(checkout).encode())
        elif self.is_signed_in():
            self.answer(404, b'{"code":"no-such-checkout"}')

    def do_POST(self) -> None:
        """Begin a checkout, or take the payer's approval."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        checkout = self.server.checkouts.get(self.path.rpartition("/")[2])
        if self.path.startswith("/page/") and checkout is not None:
            self.server.pay(checkout)
            self.answer(303, b"", ("Location", checkout["return_to"]))
        elif self.is_signed_in():
            begun = self.server.begin(json.loads(body))
            if self.server.answers_lost:
                self.server.answers_lost -= 1
                self.close_connection = True
            else:
                self.answer(200, json.dumps(begun).encode())

    def is_signed_in(self) -> bool:
        """Tell whether the request has the key; one that has not is refused."""
        if self.headers.get("Authorization") == f"Bearer {API_KEY}":
            return True
        self.answer(401, b"{}")
        return False

    def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        """Send a response."""
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if sys.argv[1:] else 8090
    with Pagaqui(port, answers_lost=int("lose" in sys.argv)) as operator:
        print(f"Pagaqui is at {operator.origin}", flush=True)
        with suppress(KeyboardInterrupt):
            operator.serve_forever()
