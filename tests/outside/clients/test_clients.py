"""The usual HTTP clients and servers of other languages, unmodified and in their default settings:
each makes a payment against `mmo sandbox`, in the clear and over TLS, takes the callback and looks
the payment up.

A sandbox's certificate is signed by its own authority, which each client gets in the way that is
usual for it. Callbacks come over TLS and pass a proxy that ends it, as in front of most shops."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
import trio
import trustme
from attrs import field, frozen

from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.merchant import TIMEOUT_S
from tests.support.mmo_process import FREE_PORTS, environment_without_settings, serving_process
from tests.support.reserved_port import reserved_port
from tests.support.tls_proxy import tls_terminator

PROGRAMS = Path(__file__).parent / "programs"
PASSWORD = "changeit"


@frozen
class Client:
    """A program, the tools that it needs, and how its platform is told of an authority."""

    name: str
    command: tuple[str, ...]
    debian_package: str
    """What installs the first word of the command."""
    trust: Mapping[str, str] = field(factory=dict)
    """Environment variables; `CA` stands for the authority's file."""


SSL_CERT_FILE = {"SSL_CERT_FILE": "CA"}
CLIENTS = [
    Client(
        "Java java.net.http",
        ("java", "JavaNetHttp.java"),
        "default-jdk-headless",
        {"JDK_JAVA_OPTIONS": "TRUST_STORE"},
    ),
    Client("Go net/http", ("go", "run", "go_net_http.go"), "golang-go", SSL_CERT_FILE),
    Client("Node fetch", ("node", "node_fetch.mjs"), "nodejs", {"NODE_EXTRA_CA_CERTS": "CA"}),
    Client("Node http", ("node", "node_http.mjs"), "nodejs", {"NODE_EXTRA_CA_CERTS": "CA"}),
    Client("PHP curl", ("php", "-d", "curl.cainfo=CA", "php_curl.php"), "php-cli php-curl"),
    Client("PHP streams", ("php", "-d", "openssl.cafile=CA", "php_streams.php"), "php-cli"),
    Client("Ruby net/http", ("ruby", "ruby_net_http.rb"), "ruby ruby-webrick", SSL_CERT_FILE),
    Client("curl --http2", ("sh", "curl_http2.sh"), "curl", {"CURL_CA_BUNDLE": "CA"}),
    Client(
        "Python requests", (sys.executable, "python_requests.py"), "", {"REQUESTS_CA_BUNDLE": "CA"}
    ),
    Client("Python httpx", (sys.executable, "python_httpx.py"), "", SSL_CERT_FILE),
    Client("Python urllib3", (sys.executable, "python_urllib3.py"), "", SSL_CERT_FILE),
    Client("Python aiohttp", (sys.executable, "python_aiohttp.py"), "", SSL_CERT_FILE),
    Client(".NET HttpClient", (sys.executable, "dotnet_http_client.py"), "", SSL_CERT_FILE),
]


@frozen
class Sandbox:
    """A sandbox that serves, and its authority."""

    api: str
    key: str
    authority: Path
    callback_tls: ssl.SSLContext


@asynccontextmanager
async def serving(transport: str, tmp_path: Path) -> AsyncIterator[Sandbox]:
    """A sandbox as a process of its own, in the clear or with a certificate of its own
    authority."""
    data, log = tmp_path / "data", tmp_path / "log"
    data.mkdir()
    authority = ensure_authority(data)
    options: list[str | Path] = []
    if transport == "TLS":
        issuer = trustme.CA.from_pem(
            authority.certificate_file.read_bytes(), (data / "ca-key.pem").read_bytes()
        )
        issued = issuer.issue_cert("localhost", "127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
        config = tmp_path / "mmo.toml"
        config.write_text(
            f'[listen]\ntls_certificate = "{tmp_path}/server.pem"\ntls_key = '
            f'"{tmp_path}/server.pem"\n'
        )
        options = ["--config", config]
    async with serving_process(
        "sandbox", "--data", data, *options, *FREE_PORTS, log=log
    ) as process:
        api = process.ready["api"].replace("127.0.0.1", "localhost")
        yield Sandbox(
            api, process.ready["api_key"], authority.certificate_file, authority.issue("localhost")
        )


@pytest.fixture
def port() -> Iterator[int]:
    """The port of the program's server for callbacks."""
    with reserved_port() as reserved:
        yield reserved


@pytest.mark.parametrize("transport", ["clear", "TLS"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_client_in_its_default_settings_pays_and_takes_the_callback(
    transport: str, client: Client, port: int, tmp_path: Path
) -> None:
    if shutil.which(client.command[0]) is None:
        pytest.fail(f"{client.command[0]} is missing. Debian: apt install {client.debian_package}")
    async with (
        serving(transport, tmp_path) as sandbox,
        tls_terminator(port, sandbox.callback_tls) as tls_port,
        running(client, sandbox, port, f"https://localhost:{tls_port}/", tmp_path) as process,
    ):
        assert process.stdout is not None
        with trio.fail_after(8 * TIMEOUT_S):
            said = b""
            while not said.endswith(b"}\n"):
                more = await process.stdout.receive_some()
                assert more, (tmp_path / "program.log").read_text()
                said += more
        assert await trio.to_thread.run_sync(status_with_a_wrong_key, port) == 401
    assert json.loads(said.splitlines()[-1]) == {
        "created": 200,
        "callback": "success",
        "found": "success",
    }


@asynccontextmanager
async def running(
    client: Client, sandbox: Sandbox, port: int, result_url: str, folder: Path
) -> AsyncIterator[trio.Process]:
    """Run the program; its standard input is closed at the end, which ends it."""
    body = {
        "amount": {"value": 150, "currency": "KES"},
        "payer": {"id": "customer-7", "msisdn": "254700000007"},
        "country": "KE",
        "resultUrl": result_url,
        "merchantReference": "order-1",
    }
    environment = environment_without_settings() | {
        "API_URL": sandbox.api,
        "API_KEY": sandbox.key,
        "PORT": str(port),
        "BODY": json.dumps(body),
        "RESULT_FILE": str(folder / "result.json"),
        "GO111MODULE": "off",
    }
    ca = str(sandbox.authority)
    if sandbox.api.startswith("https:"):
        trust_store = java_trust_store(ca, folder) if "TRUST_STORE" in client.trust.values() else ""
        places = {"CA": ca, "TRUST_STORE": trust_store}
        environment |= {name: places[value] for name, value in client.trust.items()}
    with (folder / "program.log").open("ab") as log:
        process = await trio.lowlevel.open_process(
            [each.replace("=CA", f"={ca}") for each in client.command],
            cwd=PROGRAMS,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield process
        assert process.stdin is not None
        await process.stdin.aclose()
        with trio.fail_after(TIMEOUT_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def java_trust_store(ca: str, folder: Path) -> str:
    """Import the authority as Java's own tool does; return the option that names the store."""
    store = folder / "trust.p12"
    words = ("-importcert", "-noprompt", "-alias", "sandbox", "-file", ca)
    subprocess.run(
        ["keytool", *words, "-keystore", str(store), "-storepass", PASSWORD],
        check=True,
        capture_output=True,
    )
    return f"-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword={PASSWORD}"


def status_with_a_wrong_key(port: int) -> int:
    """Return what the program's server answers to a callback with another key."""
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request(
        "POST", "/", b"{}", {"Content-Type": "application/json", "X-API-KEY": "wrong"}
    )
    return connection.getresponse().status
