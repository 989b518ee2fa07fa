"""The listeners of a gateway: pages and console keep the same limits as the API."""

from __future__ import annotations

import re
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
import trustme
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from mmo_sansio.values.clock import SECOND
from mmo_trio.http.streams import LingeringStream
from mmo_trio.service.sockets import Certificates
from mmo_trio.settings import SettingsError
from tests.support.http2_client import Http2Client
from tests.support.http_listener import Client, get
from tests.support.merchant import ask
from tests.support.mmo_process import COMMAND, FREE_PORTS, serving_process
from tests.support.sandbox_gateway import Running, serving
from tests.support.time_limits import HANGS_AFTER_S

SOON = "200ms"
IN_THREE_DAYS = datetime.now(UTC) + timedelta(days=3)
LISTENERS = ("api", "pages", "console")
PEOPLE = ("pages", "console")
PATHS = {"api": b"/healthz", "pages": b"/", "console": b"/sign-in"}


def visit(name: str) -> bytes:
    """A request that each listener answers 200."""
    return get(PATHS[name]).replace(b"Host: h", b"Host: localhost")


async def connect(running: Running, name: str) -> Client:
    """A new connection to one of its listeners."""
    return Client(await trio.open_tcp_stream("127.0.0.1", _port(getattr(running.ready, name))))


def _port(url: str) -> int:
    return urlsplit(url).port or 0


async def test_pages_and_console_count_their_connections(tmp_path: Path) -> None:
    limits = {"MMO_LIMITS_CONNECTIONS_PER_ADDRESS": "3"}
    async with serving(tmp_path, environment=limits) as running:
        for name in PEOPLE:
            idle = [await connect(running, name) for _ in range(3)]
            one_more = await connect(running, name)
            with trio.fail_after(HANGS_AFTER_S):
                assert (await one_more.answer()).status == 503
            assert (await idle[0].ask(visit(name))).status == 200
            for client in (*idle, one_more):
                await trio.aclose_forcefully(client.stream)


async def test_one_address_may_have_half_of_the_console(tmp_path: Path) -> None:
    limits = {"MMO_LIMITS_CONSOLE_CONNECTIONS": "4", "MMO_LIMITS_PAGES_CONNECTIONS": "6"}
    async with serving(tmp_path, environment=limits) as running:
        for name, most in (("console", 2), ("pages", 3)):
            clients = [await connect(running, name) for _ in range(most + 1)]
            with trio.fail_after(HANGS_AFTER_S):
                assert (await clients[-1].answer()).status == 503
            for client in clients:
                await trio.aclose_forcefully(client.stream)


@pytest.mark.parametrize("name", PEOPLE)
async def test_pages_and_console_have_a_deadline_for_the_head(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path, environment={"MMO_LIMITS_HEAD_TIMEOUT": SOON}) as running:
        client = await connect(running, name)
        await client.send(b"GET / HTTP/1.1\r\nHo")
        with trio.fail_after(5):
            assert (await client.answer()).status == 408
            await client.stream.aclose()


@pytest.mark.parametrize("name", LISTENERS)
async def test_no_other_listener_speaks_http2(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as running:
        client = await connect(running, name)
        await client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        with trio.fail_after(HANGS_AFTER_S):
            assert (await client.answer()).status == 400
            await client.stream.aclose()


async def test_under_tls_only_http_1_1_is_agreed_on_and_browsers_are_told_to_stay(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    settings = write_certificate(authority, tmp_path)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(tmp_path, environment=settings) as running:
        for name in ("api", "pages"):
            client = await connect(running, name)
            tls = trio.SSLStream(client.stream, trusting, server_hostname="localhost")
            await tls.do_handshake()
            assert tls.selected_alpn_protocol() == "http/1.1"
            answer = await Client(tls).ask(visit(name))
            assert answer.headers["strict-transport-security"] == f"max-age={365 * 24 * 3600}"
            await trio.aclose_forcefully(tls)
        console = await connect(running, "console")
        assert "strict-transport-security" not in (await console.ask(visit("console"))).headers
        await console.stream.aclose()


async def test_the_rule_for_browsers_can_be_switched_off(tmp_path: Path) -> None:
    authority = trustme.CA()
    settings = write_certificate(authority, tmp_path) | {"MMO_LISTEN_HSTS": "off"}
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with serving(tmp_path, environment=settings) as running:
        client = await connect(running, "pages")
        tls = trio.SSLStream(client.stream, trusting, server_hostname="localhost")
        assert "strict-transport-security" not in (await Client(tls).ask(visit("pages"))).headers
        await trio.aclose_forcefully(tls)


@pytest.mark.parametrize("name", LISTENERS)
async def test_behind_a_proxy_nobody_else_is_served_in_the_clear(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {f"MMO_LISTEN_{each.upper()}": "0.0.0.0:0" for each in LISTENERS}
    settings["MMO_LISTEN_PROXY_TRUSTED"] = "192.0.2.1"
    async with serving(tmp_path, environment=settings) as running:
        for peer, is_served in (("192.0.2.1", True), ("127.0.0.1", True), ("192.0.2.9", False)):
            with monkeypatch.context() as patch, capture_logs() as lines:
                patch.setattr(LingeringStream, "peer_address", lambda _, peer=peer: peer)
                client = await connect(running, name)
                with trio.fail_after(HANGS_AFTER_S):
                    if is_served:
                        assert (await client.ask(visit(name))).status == 200
                    else:
                        assert await client.is_closed()
                assert ("foreign_client_refused" in str(lines)) == (not is_served)
                await trio.aclose_forcefully(client.stream)


async def test_clear_http_for_everybody_has_to_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"MMO_LISTEN_PROXY_TRUSTED": "192.0.2.1", "MMO_LISTEN_ALLOW_CLEAR": "true"}
    async with serving(tmp_path, environment=settings) as running:
        monkeypatch.setattr(LingeringStream, "peer_address", lambda _: "192.0.2.9")
        client = await connect(running, "api")
        assert (await client.ask(visit("api"))).status == 200
        await trio.aclose_forcefully(client.stream)


async def test_http2_is_served_in_the_clear_to_those_to_whom_the_api_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"MMO_LISTEN_HTTP2": "0.0.0.0:0", "MMO_LISTEN_PROXY_TRUSTED": "192.0.2.1"}
    async with serving(tmp_path, environment=settings) as running:
        port = _port(running.ready.http2 or "")
        for peer, is_served in (("192.0.2.1", True), ("192.0.2.9", False)):
            with monkeypatch.context() as patch:
                patch.setattr(LingeringStream, "peer_address", lambda _, peer=peer: peer)
                client = await Http2Client.connect(port)
                if is_served:
                    assert (await client.ask(b"GET", b"/healthz", [])).status == 200
                else:
                    with trio.fail_after(HANGS_AFTER_S):
                        assert await Client(client.stream).is_closed()
                await trio.aclose_forcefully(client.stream)


async def test_http2_has_the_certificate_and_the_rules_of_the_api(tmp_path: Path) -> None:
    authority = trustme.CA()
    settings = write_certificate(authority, tmp_path) | {"MMO_LISTEN_HTTP2": "127.0.0.1:0"}
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with serving(tmp_path, environment=settings) as running:
        url = running.ready.http2 or ""
        assert url.startswith("https://")
        for protocol in ("h2", "http/1.1"):
            trusting.set_alpn_protocols([protocol])
            tcp = await trio.open_tcp_stream("127.0.0.1", _port(url))
            tls = trio.SSLStream(tcp, trusting, server_hostname="localhost")
            await tls.do_handshake()
            assert tls.selected_alpn_protocol() == protocol
            if protocol == "h2":
                answer = await (await Http2Client.start(tls)).ask(b"GET", b"/healthz", [])
            else:
                answer = await Client(tls).ask(visit("api"))
            assert answer.status == 200
            assert answer.headers["strict-transport-security"] == f"max-age={365 * 24 * 3600}"
            await trio.aclose_forcefully(tls)


async def test_a_renewed_certificate_is_for_both_versions_of_http(tmp_path: Path) -> None:
    write_certificate(trustme.CA(), tmp_path)
    certificates = Certificates(tmp_path / "chain.pem", tmp_path / "key.pem")
    before = certificates.context(), certificates.http2_context()
    certificates.reload()
    assert certificates.context() is not before[0]
    assert certificates.http2_context() is not before[1]
    kept = certificates.context(), certificates.http2_context()
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(SettingsError):
        certificates.reload()
    assert (certificates.context(), certificates.http2_context()) == kept


async def test_the_metrics_say_how_long_the_certificate_in_use_lasts(tmp_path: Path) -> None:
    settings = write_certificate(trustme.CA(), tmp_path, expires_at=IN_THREE_DAYS)
    async with serving(tmp_path, environment=settings) as running:
        answer = await ask(f"{running.ready.console}/metrics")
    [left] = re.findall(r"^mmo_certificate_seconds_left ([0-9.]+)$", answer.body.decode(), re.M)
    assert 0 < float(left) <= 3 * 86_400


def test_a_certificate_that_was_not_read_again_expires_as_before(tmp_path: Path) -> None:
    write_certificate(trustme.CA(), tmp_path, expires_at=IN_THREE_DAYS)
    certificates = Certificates(tmp_path / "chain.pem", tmp_path / "key.pem")
    expires_at = certificates.expires_at
    assert expires_at == int(IN_THREE_DAYS.timestamp()) * SECOND
    write_certificate(trustme.CA(), tmp_path)
    assert certificates.expires_at == expires_at
    certificates.reload()
    assert certificates.expires_at > expires_at


async def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    write_certificate(trustme.CA(), tmp_path)
    key = serialization.load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    protected = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"a passphrase"),
    )
    (tmp_path / "key.pem").write_bytes(protected)
    with pytest.raises(SettingsError, match=r"listen\.tls_key: the key is protected"):
        Certificates(tmp_path / "chain.pem", tmp_path / "key.pem")


@pytest.mark.parametrize("is_set", [False, True])
async def test_what_serves_http2_is_imported_where_it_is_set(tmp_path: Path, is_set: bool) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text('[listen]\nhttp2 = "127.0.0.1:0"' if is_set else "")
    command = (sys.executable, "-X", "importtime", *COMMAND[1:])
    log = tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", tmp_path, "--config", config, *FREE_PORTS, log=log, command=command
    ) as running:
        assert ("http2" in running.ready) == is_set
        assert ("mmo_trio.http.asgi.http2_connection" in log.read_text()) == is_set


def write_certificate(
    authority: trustme.CA, directory: Path, *, expires_at: datetime | None = None
) -> dict[str, str]:
    """Write a certificate for localhost; return the settings that name it."""
    made = authority.issue_cert("localhost", not_after=expires_at)
    (directory / "key.pem").write_bytes(made.private_key_pem.bytes())
    (directory / "chain.pem").write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    return {
        "MMO_LISTEN_TLS_CERTIFICATE": str(directory / "chain.pem"),
        "MMO_LISTEN_TLS_KEY": str(directory / "key.pem"),
    }


async def test_however_often_it_is_asked_to_end_it_ends_cleanly(tmp_path: Path) -> None:
    async with serving_process(
        "sandbox", "--data", tmp_path, *FREE_PORTS, log=tmp_path / "log"
    ) as running:
        with trio.fail_after(HANGS_AFTER_S):
            while running.process.poll() is None:
                running.process.terminate()
                await trio.sleep(0.002)
        assert running.process.returncode == 0
