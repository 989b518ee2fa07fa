"""What lies between the gateway and its PostgreSQL: names, passwords, TLS and poolers. What can't
work is refused at once, with a sentence that says what to set."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import trio
import trustme

from mmo_trio.storage.interface.store import StoreUnavailable, StoreUnusable
from mmo_trio.storage.postgres import open_postgres
from mmo_trio.storage.postgres.errors import translate_error
from mmo_trio.storage.postgres.trio_connection import find_sqlstate
from tests.support.configured_database import live_through_payments, with_parameters
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.pgbouncer import pgbouncer
from tests.support.postgres_process import PostgresProcess, execute, postgres_folder
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S
from tests.support.tls_proxy import tls_proxy

# isort: split
import psycopg

RULES = """
local all all trust
host all barred 127.0.0.1/32 reject
host all known 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresProcess]:
    """Run a server with rules who may connect."""
    with postgres_folder() as folder, reserved_port() as port:
        (folder / "rules").write_text(RULES, encoding="utf-8")
        running = PostgresProcess(folder, port, settings={"hba_file": f"{folder / 'rules'}"})
        running.create()
        running.start()
        try:
            execute(
                running.tcp_url,
                "CREATE ROLE known LOGIN PASSWORD 'right'",
                "CREATE ROLE barred LOGIN",
            )
            yield running
        finally:
            running.stop()


@pytest.fixture
def database(server: PostgresProcess) -> str:
    """Return the name of an empty database."""
    name = f"gateway_{next(_numbers)}"
    execute(server.tcp_url, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    return name


def address(server: PostgresProcess, database: str, user: str = "postgres") -> str:
    """Return the URL of a database."""
    return f"postgresql://{user}@127.0.0.1:{server.port}/{database}"


async def refusal(url: str) -> str:
    """Return why the store was refused at once: another attempt would have been made for a server
    that is away."""
    with pytest.raises(StoreUnusable) as refused:
        async with open_postgres(url, serving=True, timeout_s=300):
            pass
    return str(refused.value)


@pytest.mark.parametrize(
    ("user", "wanted", "remedy"),
    [
        (
            "known:wrong",
            "postgres",
            "give the right password in database.url, ~/.pgpass or PGPASSWORD",
        ),
        ("known", "postgres", "give the right password in database.url, ~/.pgpass or PGPASSWORD"),
        (
            "nobody",
            "postgres",
            "look at the server's pg_hba.conf, the role's right to log in, and sslmode",
        ),
        (
            "barred",
            "postgres",
            "look at the server's pg_hba.conf, the role's right to log in, and sslmode",
        ),
        ("postgres", "nothing", "create the database, or correct its name in database.url"),
    ],
)
async def test_who_may_not_connect_learns_it_at_once(
    server: PostgresProcess, user: str, wanted: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = await refusal(address(server, wanted, user))
    assert remedy in found
    assert "wrong" not in found + caplog.text


async def test_a_refusal_is_understood_in_any_language(server: PostgresProcess) -> None:
    """psycopg knows no SQLSTATE of a connection that failed, and the server's sentence may be
    German."""
    conninfo = f"host=127.0.0.1 port={server.port} user=known password=wrong dbname=postgres"
    sentence = psycopg.OperationalError(
        'connection failed: FATAL:  Passwort-Authentifizierung für Benutzer "known"'
    )
    refused = psycopg.OperationalError("Connection refused")
    assert await trio.to_thread.run_sync(find_sqlstate, conninfo, sentence) == "28P01"
    assert await trio.to_thread.run_sync(find_sqlstate, conninfo, refused) is None


async def test_a_server_that_starts_is_waited_for(server: PostgresProcess, database: str) -> None:
    server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            async with open_postgres(address(server, database), serving=True, timeout_s=0.2):
                pass
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, server.start)
            async with open_postgres(
                address(server, database), serving=True, timeout_s=60
            ) as store:
                await store.check()
    except BaseException:
        server.stop()
        server.start()
        raise


@pytest.mark.parametrize(
    "lost", [psycopg.errors.DuplicatePreparedStatement, psycopg.errors.InvalidSqlStatementName]
)
def test_a_statement_that_another_session_has_is_a_sign_of_a_pooler(
    lost: type[psycopg.Error],
) -> None:
    translated = translate_error(lost("prepared statement"))
    assert isinstance(translated, StoreUnavailable)
    assert "set pool_mode = session" in str(translated)


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """Return the TLS of a server that is named `localhost`; whoever signed its certificate is in
    `ca.pem`, and another authority in `other.pem`."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(f"{tmp_path / 'ca.pem'}")
    trustme.CA().cert_pem.write_to_path(f"{tmp_path / 'other.pem'}")
    return context


async def test_a_server_that_proves_its_name_is_trusted(
    server: PostgresProcess, database: str, context: ssl.SSLContext, tmp_path: Path
) -> None:
    async with tls_proxy(server.port, context) as port:
        url = f"postgresql://postgres@localhost:{port}/{database}"
        await live_through_payments(
            with_parameters(url, sslmode="verify-full", sslrootcert=f"{tmp_path / 'ca.pem'}")
        )


@pytest.mark.parametrize(
    ("host", "file", "has_tls", "reason"),
    [
        ("localhost", "other.pem", True, "certificate verify failed"),
        ("127.0.0.1", "ca.pem", True, "does not match host name"),
        ("localhost", "missing.pem", True, "does not exist"),
        ("localhost", "ca.pem", False, "server does not support SSL"),
    ],
)
async def test_a_server_that_does_not_prove_its_name_is_refused(
    server: PostgresProcess,
    database: str,
    context: ssl.SSLContext,
    tmp_path: Path,
    host: str,
    file: str,
    has_tls: bool,
    reason: str,
) -> None:
    async with tls_proxy(server.port, context if has_tls else None) as port:
        url = f"postgresql://postgres@{host}:{port}/{database}"
        assert reason in await refusal(
            with_parameters(url, sslmode="verify-full", sslrootcert=f"{tmp_path / file}")
        )


async def test_a_pooler_of_sessions_works(server: PostgresProcess, database: str) -> None:
    with pgbouncer(server, "session") as url:
        await live_through_payments(url.replace("/postgres", f"/{database}"))


@pytest.mark.parametrize(
    ("pool_mode", "is_round_robin"),
    [
        ("transaction", True),
        pytest.param("transaction", False, marks=pytest.mark.long),
        pytest.param("statement", False, marks=pytest.mark.long),
    ],
)
async def test_a_pooler_of_transactions_is_refused(
    server: PostgresProcess, database: str, pool_mode: str, is_round_robin: bool, tmp_path: Path
) -> None:
    with pgbouncer(server, pool_mode, is_round_robin=is_round_robin) as url:
        url = url.replace("/postgres", f"/{database}")
        assert "set pool_mode = session" in await refusal(url)
        if pool_mode == "statement" or is_round_robin:
            return
        async with trio.open_nursery() as nursery:
            for command in (
                ("db", "migrate"),
                ("db", "check"),
                ("serve",),
                ("serve", "--workers", "2"),
            ):
                nursery.start_soon(_is_refused, url, tmp_path, command)
    assert execute(
        address(server, database), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    ) == [(0,)]


async def _is_refused(url: str, folder: Path, command: tuple[str, ...]) -> None:
    """Run a command; it must end with a sentence."""
    config = folder / f"{'-'.join(command)}.toml"
    config.write_text(
        f"""
        [database]
        url = "{url}"
        [listen]
        api = "127.0.0.1:0"
        pages = "127.0.0.1:0"
        console = "127.0.0.1:0"
        [keys]
        master_key_file = "{folder / "master.key"}"
        """,
        encoding="utf-8",
    )
    with trio.fail_after(HANGS_AFTER_S):
        done = await trio.run_process(
            [*COMMAND, *command, "--config", f"{config}"],
            env=environment_without_settings(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"set pool_mode = session" in done.stderr, (command, done.stderr)
    assert done.returncode == 3, (command, done.stderr)
