"""A receiver of result callbacks, with nothing but Python: checks the key, keeps each result once,
answers.

    API_KEY=... python callback_receiver.py --port 9443 --certificate cert.pem --key key.pem \\
        --results results

`API_KEY` is your key; while you change keys it holds the old and the new one, with a space between.
Without a certificate it serves clear HTTP on this machine only, for a web server in front of it.
Each result becomes a file `results/<gatewayReference>.json`; the file is what makes a repeat a
repeat.
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
"""More than any transaction object has."""

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class Receiver(BaseHTTPRequestHandler):
    """Answers one callback: 204 when the result is kept, 401 for a wrong key, 400 for what is no
    result."""

    keys: Sequence[str] = ()
    results = Path("results")
    timeout = 10
    """Seconds that a silent sender may hold a connection."""

    def do_POST(self) -> None:
        """The key first; then the body is worth reading; then keep it; then answer."""
        if not is_one_of(self.keys, ", ".join(self.headers.get_all("X-API-KEY", []))):
            return self.answer(401)
        body = self.read_body()
        transaction = transaction_in(body)
        if transaction is None:
            return self.answer(400)
        reference = transaction["gatewayReference"]
        try:
            is_new = keep(body, self.results / f"{reference}.json")
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            return self.answer(500)
        self.answer(204)
        word = "result" if is_new else "repeat"
        print(f"{word} {reference} {transaction.get('status')}\n", end="", flush=True)
        # From here on the result is yours: do the work that follows from it elsewhere, not before
        # the answer.
        return None

    def read_body(self) -> bytes:
        """The whole body; empty when its length isn't said or is out of bounds."""
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,7}", length) or int(length) > BODY_BYTES_MAX:
            return b""
        return self.rfile.read(int(length))

    def answer(self, status: int) -> None:
        """A status and no body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing about requests: the lines about results are enough."""


def is_one_of(keys: Sequence[str], given: str) -> bool:
    """Whether this is one of our keys; takes as long whichever character is wrong."""
    found = False
    for key in keys:
        found |= hmac.compare_digest(given.encode(), key.encode())
    return found


def transaction_in(body: bytes) -> dict[str, Any] | None:
    """The transaction object in this body, amounts as exact decimals, or None when it isn't one."""
    try:
        found = json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    reference = found.get("gatewayReference") if isinstance(found, dict) else None
    return found if isinstance(reference, str) and ULID.fullmatch(reference) else None


def keep(body: bytes, file: Path) -> bool:
    """Store the result, whole or not at all; False when it was there already.

    `link` is the judge: of two that come at once, one makes the name and the other finds it taken.
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
    """Listen until stopped."""
    parser = argparse.ArgumentParser(description="Receives result callbacks.")
    parser.add_argument("--port", type=int, default=9443, help="0 picks a free one")
    parser.add_argument("--certificate", type=Path, help="certificate chain (PEM)")
    parser.add_argument("--key", type=Path, help="its private key (PEM)")
    parser.add_argument("--results", type=Path, default=Receiver.results, help="where results go")
    given = parser.parse_args()
    Receiver.keys = os.environ.get("API_KEY", "").split()
    if not Receiver.keys:
        sys.exit("Set API_KEY to your key: without it every callback would be refused.")
    Receiver.results = given.results
    given.results.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("" if given.certificate else "127.0.0.1", given.port), Receiver)
    if given.certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(given.certificate, given.key)
        # The handshake is each connection's own affair: a slow one must not keep the others
        # waiting.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    print("listening on port", server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
