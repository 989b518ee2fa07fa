"""Simulates an operator that takes nine seconds for each payment, like people at their phones.

    python -m bench.slow_operator

It prints `AT url`, answers tokens and statuses at once like MTN MoMo, and ends with its standard
input."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TAKES_S = 9.0


class Operator(BaseHTTPRequestHandler):
    """Handles one request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a token or a payment."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.endswith("/token/"):
            self._answer(200, {"access_token": "bench", "token_type": "x", "expires_in": 3600})
        else:
            time.sleep(TAKES_S)
            self._answer(202, None)

    def do_GET(self) -> None:
        """Answer a status."""
        self._answer(200, {"status": "PENDING"})

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _answer(self, status: int, document: object) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main() -> None:
    """Serve until standard input ends."""
    server = _Server(("127.0.0.1", 0), Operator)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"AT http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
