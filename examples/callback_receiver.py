"""A receiver of result callbacks in plain Python: it checks the key and stores each result once.

    API_KEY=... python callback_receiver.py --port 9443 --certificate cert.pem --key key.pem \\
        --results results

`API_KEY` is your key; while you change keys it has the old and the new one, separated by a space.
Without a certificate the receiver serves plain HTTP on this machine only, behind a web server. It
stores each result as a file `results/<gatewayReference>.json`, and recognises a repeated callback
by that file. A QR code that is sent to the same URL is stored as `<gatewayReference>.qr.json`.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BODY_BYTES_MAX = 1024 * 1024
"""The size limit of a body; transaction objects are smaller."""

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Receiver(BaseHTTPRequestHandler):
    """Answers one callback: 204 for a stored result, 401 for a wrong key, 400 for other bodies."""

    keys: Sequence[str] = ()
    results = Path("results")
    timeout = 10
    """The seconds after which a silent connection is closed."""

    def do_POST(self) -> None:
        """Check the key, read the body, store it, then answer."""
        if not is_one_of(self.keys, ", ".join(self.headers.get_all("X-API-KEY", []))):
            return self.answer(401)
        body = self.read_body()
        content = content_of(body)
        if content is None:
            return self.answer(400)
        reference, is_result = content["gatewayReference"], "status" in content
        try:
            is_new = store(
                body, self.results / (f"{reference}.json" if is_result else f"{reference}.qr.json")
            )
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            return self.answer(500)
        self.answer(204)
        word = "repeat" if not is_new else "result" if is_result else "code"
        print(f"{word} {reference} {content.get('status')}\n", end="", flush=True)
        # The result is stored: do your own work with it in another place, not before the answer.
        return None

    def read_body(self) -> bytes:
        """Return the body; empty when its length is missing or out of bounds."""
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,7}", length) or int(length) > BODY_BYTES_MAX:
            return b""
        return self.rfile.read(int(length))

    def answer(self, status: int) -> None:
        """Send a status and no body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log no requests: the lines about results are enough."""


def is_one_of(keys: Sequence[str], received: str) -> bool:
    """Return whether a received key is one of ours, in constant time."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(received.encode(), key.encode())
    return found


def content_of(body: bytes) -> dict[str, Any] | None:
    """Return the result or the QR code in a body, with amounts as exact decimals, or None.

    A payment by QR code has both, under one gatewayReference; only the result has a status.
    """
    try:
        found = json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    reference = found.get("gatewayReference") if isinstance(found, dict) else None
    if not isinstance(reference, str) or not ULID.fullmatch(reference):
        return None
    is_known = found["status"] in ("success", "failed") if "status" in found else "qrImage" in found
    return found if is_known else None


def store(body: bytes, file: Path) -> bool:
    """Store a body completely or not at all; return False if it was stored before.

    Of two callbacks at the same time, `link` succeeds for only one.
    """
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".new") as draft:
        draft.write(body)
        draft.flush()
        os.fsync(draft.fileno())
        try:
            os.link(draft.name, file)
        except FileExistsError:
            return False
    return True


def main() -> None:
    """Listen until the process is stopped."""
    parser = argparse.ArgumentParser(description="Receives result callbacks.")
    parser.add_argument("--port", type=int, default=9443, help="0 picks a free one")
    parser.add_argument("--certificate", type=Path, help="certificate chain (PEM)")
    parser.add_argument("--key", type=Path, help="its private key (PEM)")
    parser.add_argument("--results", type=Path, default=Receiver.results, help="where results go")
    arguments = parser.parse_args()
    Receiver.keys = os.environ.get("API_KEY", "").split()
    if not Receiver.keys:
        sys.exit("Set API_KEY to your key: without it every callback would be rejected.")
    Receiver.results = arguments.results
    arguments.results.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(
        ("" if arguments.certificate else "127.0.0.1", arguments.port), Receiver
    )
    if arguments.certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(arguments.certificate, arguments.key)
        # Each connection does its own handshake, so that a slow one does not delay the others.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    print("listening on port", server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
