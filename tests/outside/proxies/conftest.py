"""Runs two gateways behind nginx or HAProxy with the configuration files that `deploy/proxies`
ships."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import SplitResult, urlsplit

import pytest
import trio
import trustme
from attrs import frozen
from pytest_trio.enable_trio_mode import *  # noqa: F403

from mmo_trio.brands.master_key import create_master_key
from tests.support.merchant import Merchant
from tests.support.mmo_process import COMMAND, READY, environment_without_settings
from tests.support.postgres_server import DatabaseServer, postgres_server
from tests.support.reserved_port import reserved_port
from tests.support.shared_operator import shared_operator
from tests.support.time_limits import HANGS_AFTER_S

SHIPPED = Path(__file__).parents[3] / "deploy" / "proxies"
PROGRAMS = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
API = "https://pay.example.com"
PAGES = "https://checkout.example.com"
CONSOLE = "https://console.example.com:8443"
OWN_HOST = "https://shop.example"
PROXIES = ("nginx", "haproxy")
CLIENT, OPERATOR = "127.0.0.7", "127.0.0.5"
"""Addresses from which clients connect."""

SETTINGS = """
[gateway]
base_url = "https://pay.example.com"
hpp_url = "https://checkout.example.com"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
proxy_trusted = ["127.0.0.1"]
proxy_host = true

[console]
hosts = ["console.example.com"]

[database]
url = "{url}"

[egress]
allow_private = true

[keys]
master_key_file = "{directory}/master.key"

[provider.airtel]
kind = "airtel_money"
base_url = "https://127.0.0.1:9"
country = "UG"
client_id = "id"
client_secret = "secret"
callback_key = "key"
hooks_from = ["127.0.0.5"]
"""
BRAND = """
[[brand]]
id = "{id}"
name = "{id}"
api_keys = ["{id}-key-0123456789abcdef"]
{host}
[[brand.method]]
key = "mpesa_ke"
provider = "operator"
country = "KE"
flows = ["direct/payin", "web/payin", "qr/payin", "direct/payout", "direct/taxpayout"]
limits.KES = {{ min = "10", max = "150000" }}
"""
NGINX = """
daemon off;
user {user};
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log info;
events {{ }}
http {{
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/mmo.conf;
}}
"""


@frozen
class Node:
    """A gateway that serves."""

    process: subprocess.Popen[str]
    ready: Mapping[str, str]
    """Addresses of the listeners, without their scheme, by name."""

    async def end(self) -> None:
        """Ask it to drain and end, as it must."""
        self.process.terminate()
        assert await trio.to_thread.run_sync(self.process.wait) == 0


@frozen
class Gateways:
    """Two gateways on one database."""

    nodes: tuple[Node, Node]
    database: str
    directory: Path


@frozen
class Proxied:
    """Two gateways and the proxy that stands in front of them."""

    gateways: Gateways
    directory: Path
    """The proxy's own."""
    ports: Mapping[int, int]
    """The proxy's ports by those of its shipped configuration."""

    async def connect(
        self, url: SplitResult, client: str = CLIENT
    ) -> trio.SSLStream[trio.SocketStream]:
        """Connect to the proxy as a client of the URL would, from this address."""
        port = self.ports[url.port or 443]
        stream = await trio.open_tcp_stream("127.0.0.1", port, local_address=client)
        context = ssl.create_default_context(cafile=self.gateways.directory / "ca.pem")
        return trio.SSLStream(stream, context, server_hostname=url.hostname, https_compatible=True)

    def merchant(self, brand: str = "acme", api: str = API) -> Merchant:
        """Return a client with the key of this brand."""
        return Merchant(api, f"{brand}-key-0123456789abcdef", connect=self.connect)

    async def logs_with(self, text: str) -> str:
        """Return all that the proxy has logged, once this is there."""
        with trio.fail_after(HANGS_AFTER_S):
            while text not in (logs := self._logs()):  # noqa: ASYNC110 - nobody says when
                await trio.sleep(0.02)
        return logs

    def _logs(self) -> str:
        return "".join(path.read_text("utf-8") for path in self.directory.glob("*.log"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[DatabaseServer]:
    """A real PostgreSQL."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def gateways(
    tmp_path_factory: pytest.TempPathFactory, postgres: DatabaseServer
) -> Iterator[Gateways]:
    """Two gateways for all tests that let them live."""
    with serving_gateways(tmp_path_factory.mktemp("gateways"), postgres) as serving:
        yield serving


@pytest.fixture(scope="session", params=PROXIES)
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, gateways: Gateways
) -> Iterator[Proxied]:
    """The same behind each of the proxies."""
    with behind_proxy(request.param, tmp_path_factory.mktemp(request.param), gateways) as serving:
        yield serving


@pytest.fixture(params=PROXIES)
def mortal(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: DatabaseServer
) -> Iterator[Proxied]:
    """Two gateways behind each of the proxies, which a test may end."""
    directory = tmp_path / request.param
    directory.mkdir()
    with (
        serving_gateways(tmp_path, postgres) as own,
        behind_proxy(request.param, directory, own) as serving,
    ):
        yield serving


@contextmanager
def serving_gateways(directory: Path, postgres: DatabaseServer) -> Iterator[Gateways]:
    """Run two gateways and their database during the block; write the certificates of their
    names."""
    database = postgres.migrated()
    create_master_key(directory / "master.key")
    brands = BRAND.format(id="acme", host="") + BRAND.format(
        id="shop", host='host = "shop.example"'
    )
    (directory / "brands.toml").write_text(brands, "utf-8")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate = authority.issue_cert(
        *(str(urlsplit(each).hostname) for each in (API, PAGES, CONSOLE, OWN_HOST))
    )
    certificate.private_key_and_cert_chain_pem.write_to_path(directory / "chain-and-key.pem")
    with ExitStack() as stack:
        operator = stack.enter_context(shared_operator())
        settings = SETTINGS.format(directory=directory, url=database) + operator.account_settings
        (directory / "mmo.toml").write_text(settings, "utf-8")
        one, two = (stack.enter_context(serving_node(directory, name)) for name in ("one", "two"))
        yield Gateways((one, two), database, directory)
    postgres.drop(database)


@contextmanager
def serving_node(directory: Path, name: str) -> Iterator[Node]:
    """Run a gateway during the block."""
    command: list[str | Path] = [
        *COMMAND,
        "serve",
        "--config",
        directory / "mmo.toml",
        "--brands",
        directory / "brands.toml",
    ]
    log = directory / f"{name}.log"
    with (
        log.open("w") as errors,
        running(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        ready = next((found for line in process.stdout if (found := READY.search(line))), None)
        assert ready is not None, log.read_text("utf-8")
        words = (word.partition("=") for word in ready[1].split())
        yield Node(process, {listener: url.removeprefix("http://") for listener, _, url in words})


@contextmanager
def behind_proxy(name: str, directory: Path, gateways: Gateways) -> Iterator[Proxied]:
    """Run a proxy before the gateways during the block."""
    program = shutil.which(name, path=PROGRAMS)
    assert program is not None, f"{name} is not installed (Debian: apt install nginx-light haproxy)"
    with ExitStack() as stack:
        ports = {port: stack.enter_context(reserved_port()) for port in (443, 8443)}
        values = configured_values(gateways, directory, ports)
        arguments = (
            configure_nginx(directory, values)
            if name == "nginx"
            else configure_haproxy(directory, values)
        )
        output = stack.enter_context((directory / "output.log").open("w"))
        process = stack.enter_context(running([program, *arguments], stdout=output, stderr=output))
        while not is_listening(ports[8443]):
            assert process.poll() is None, (directory / "output.log").read_text("utf-8")
            time.sleep(0.02)
        yield Proxied(gateways, directory, ports)


@contextmanager
def running(
    command: Sequence[str | Path], *, stdout: int | IO[str], stderr: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a program during the block, at whose end it is asked to end. What it logged is shown with
    a test that fails."""
    environment = environment_without_settings()
    try:
        with subprocess.Popen(
            command, stdout=stdout, stderr=stderr, text=True, env=environment
        ) as process:
            try:
                yield process
            finally:
                process.terminate()
    finally:
        print(Path(stderr.name).read_text("utf-8"))


def is_listening(port: int) -> bool:
    """Return whether somebody listens on this port of loopback."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def configured_values(
    gateways: Gateways, directory: Path, ports: Mapping[int, int]
) -> dict[str, str]:
    """Return what stands in the shipped files, with what takes its place here."""
    listeners = {"8080": "api", "8081": "pages", "8082": "console"}
    chain = str(gateways.directory / "chain-and-key.pem")
    return {
        **{
            f"{address}:{port}": node.ready[listener]
            for address, node in zip(("10.0.0.11", "10.0.0.12"), gateways.nodes, strict=True)
            for port, listener in listeners.items()
        },
        "10.0.0.10:8443": f"127.0.0.1:{ports[8443]}",
        "listen 443 ": f"listen 127.0.0.1:{ports[443]} ",
        "bind :443 ": f"bind 127.0.0.1:{ports[443]} ",
        "/etc/mmo/chain-and-key.pem": chain,
        "/etc/mmo/chain.pem": chain,
        "/etc/mmo/key.pem": chain,
        "/var/log/nginx/mmo-access.log": str(directory / "access.log"),
        "log /dev/log": f"stats socket {directory}/socket\n    log stdout format raw",
        "    user haproxy\n    group haproxy\n": "",
    }


def configure(name: str, values: dict[str, str]) -> str:
    """Return the text of a shipped file with these values."""
    text = (SHIPPED / name).read_text("utf-8")
    for shipped, here in values.items():
        text = text.replace(shipped, here)
    return text


def configure_nginx(directory: Path, values: dict[str, str]) -> list[str]:
    """Write nginx's files; return its arguments."""
    (directory / "mmo.conf").write_text(configure("nginx.conf", values), "utf-8")
    main = NGINX.format(user=getpass.getuser(), directory=directory)
    (directory / "main.conf").write_text(main, "utf-8")
    return ["-e", str(directory / "error.log"), "-c", str(directory / "main.conf")]


def configure_haproxy(directory: Path, values: dict[str, str]) -> list[str]:
    """Write HAProxy's file; return its arguments."""
    (directory / "haproxy.cfg").write_text(configure("haproxy.cfg", values), "utf-8")
    return ["-db", "-f", str(directory / "haproxy.cfg")]
