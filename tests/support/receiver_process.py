"""Runs a callback receiver of `examples/` as a process of its own, with TLS where it serves TLS
itself."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from contextlib import AsyncExitStack, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import trustme
from attrs import field, frozen

from tests.support.endpoint_verdicts import ALL_SITUATIONS, shortcomings
from tests.support.time_limits import HANGS_AFTER_S
from tests.support.tls_proxy import tls_terminator

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {
    "python": "callback_receiver.py",
    "node": "callback_receiver.mjs",
    "php": "callback_receiver.php",
}
KEY, NEW_KEY = "old-key-0123456789abcdef", "new-key-0123456789abcdef"
PORT = re.compile(r"listening on port (\d+)|http://127\.0\.0\.1:(\d+)\) started")


@frozen
class Receiver:
    """A running receiver, and how to call it."""

    port: int
    tls: ssl.SSLContext | None
    certificates: trustme.CA
    results: Path
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    async def times_handled(self, reference: str) -> str:
        """How often it says that it has stored the result with this gatewayReference."""
        return str(self.log.read_text().count(f"result {reference} "))

    async def shortcomings(self, names: Set[str] = ALL_SITUATIONS) -> dict[str, tuple[str, ...]]:
        """The situations of `mmo conform` in which it does not pass. PHP's stands behind a server
        that ends TLS, as its comment says."""
        ca_file = self.results.parent / "ca.pem"
        self.certificates.cert_pem.write_to_path(ca_file)
        async with AsyncExitStack() as stack:
            port = self.port
            if self.tls is None:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                self.certificates.issue_cert("127.0.0.1").configure_cert(context)
                port = await stack.enter_async_context(tls_terminator(self.port, context))
            url = f"https://127.0.0.1:{port}/results"
            return await shortcomings(url, KEY, ca_file, self.times_handled, names)

    def call(self, body: bytes, key: bytes | None = KEY.encode()) -> int:
        """The status that a callback is answered with; without a key the header is left out."""
        connection = (
            HTTPConnection("127.0.0.1", self.port, timeout=HANGS_AFTER_S)
            if self.tls is None
            else HTTPSConnection("127.0.0.1", self.port, timeout=HANGS_AFTER_S, context=self.tls)
        )
        headers: dict[str, str | bytes] = {"Content-Type": "application/json"}
        if key is not None:
            headers["X-API-KEY"] = key
        try:
            connection.request("POST", "/results", body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def stored(self) -> set[str]:
        """The names of the files with results."""
        return {each.name for each in self.results.iterdir()}

    def wait_for_lines(self, word: str, reference: str, count: int) -> None:
        """Wait until its output has that many lines with this word about this reference."""
        end = time.monotonic() + HANGS_AFTER_S
        while self.log.read_text().count(f"{word} {reference}") < count:
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)


@contextmanager
def running_receiver(language: str, place: Path, source: str | None = None) -> Iterator[Receiver]:
    """Run the receiver in this language as long as the block, or a changed copy of it; it has two
    keys, as during a change of keys. `place` is an empty folder."""
    program = place / FILES[language]
    program.write_text(
        source or (EXAMPLES / program.name).read_text(encoding="utf-8"), encoding="utf-8"
    )
    results = place / "results"
    results.mkdir()
    certificates = trustme.CA()
    issued = certificates.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(place / "certificate.pem")
    issued.private_key_pem.write_to_path(place / "key.pem")
    options = ["--port", "0", "--results", str(results)]
    options += ["--certificate", str(place / "certificate.pem"), "--key", str(place / "key.pem")]
    command = {
        "python": [sys.executable, str(program), *options],
        "node": ["node", str(program), *options],
        "php": ["php", "-S", "127.0.0.1:0", str(program)],
    }[language]
    tls = None
    if language != "php":
        tls = ssl.create_default_context()
        certificates.configure_trust(tls)
    environment = os.environ | {"API_KEY": f"{KEY} {NEW_KEY}", "RESULTS": str(results)}
    log = place / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=place
        )
    try:
        yield Receiver(_port(process, log), tls, certificates, results, log, process)
    finally:
        process.terminate()
        process.wait(HANGS_AFTER_S)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + HANGS_AFTER_S
    while (found := PORT.search(log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)
    return int(found[1] or found[2])
