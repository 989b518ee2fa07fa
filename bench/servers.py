"""Runs the measured servers, the gateway and its rivals, on the first core, and the rivals'
PostgreSQL."""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import evolve, field, frozen
from tests.support.postgres_process import PostgresProcess, hand_over
from tests.support.reserved_port import reserved_port
from tests.support.shared_operator import PROVIDER, shared_operator

from bench import machine
from mmo_trio.brands.master_key import create_master_key

HERE = Path(__file__).parent
RIVALS = HERE / "rivals"
ROOT = "/gateway/mmo/v2"
RIVAL_KEY = "k_test_0123456789_abcdefg"
PATIENCE_S = 60.0

OURS_DOES = "all validation, brand rules, reference check, journal, outbox"
FASTAPI_DOES = "less than we do: pydantic, reference check, one row; no journal, outbox or brands"
BARE_DOES = "the same rules, journal and rows; little around them"
RAW_DOES = "much less than we do: types, reference check, one row"


MMO = (sys.executable, "-m", "mmo_trio.cli")
BRAND = f"""
[[brand]]
id = "acme"
name = "Acme"
api_keys = ["{{key}}"]

[[brand.method]]
key = "mpesa_ke"
provider = "{PROVIDER}"
country = "KE"
flows = ["direct/payin", "web/payin"]
limits.KES = {{{{ min = "10", max = "150000" }}}}
"""


class NotServed(Exception):
    """Reports that a server did not start; the message is its output."""


@frozen
class Server:
    """Holds a running server."""

    name: str
    does: str
    url: str
    """Scheme, host and port."""
    key: str = field(repr=False)
    pid: int
    started_in_s: float
    """Seconds from the start of its process until it serves."""
    database_pid: int | None = None
    """The process of its database, if that is another one."""
    console: str = ""
    """The URL of the gateway's console."""
    pages: str = ""
    """The URL of the gateway's pages."""
    is_spread: bool = False
    """Whether server, database and load share both cores."""


@frozen
class Database:
    """Holds a PostgreSQL server with default settings: full durability."""

    pid: int
    uri: str
    programs: Path
    """The folder of its programs."""

    def place(self, *, is_spread: bool) -> None:
        """Put its processes, and those that they will start, on both cores or on the load's."""
        for each in machine.family(self.pid):
            if is_spread:
                machine.spread(each)
            else:
                machine.pin(each, machine.LOAD_CORE)

    def fresh(self, name: str, schema: Path | None = None) -> str:
        """Create an empty database and return its connection string."""
        self.ask(self.uri, f"drop database if exists {name}")
        self.ask(self.uri, f"create database {name}")
        dsn = self.beside(name)
        if schema is not None:
            self.ask(dsn, schema.read_text())
        return dsn

    def beside(self, name: str) -> str:
        """Return the connection string of another database of the server."""
        path, question, rest = self.uri.partition("?")
        return f"{path.rpartition('/')[0]}/{name}{question}{rest}"

    def ask(self, dsn: str, statement: str) -> str:
        """Return the result of a statement as plain lines."""
        command = [str(self.programs / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-", dsn]
        done = subprocess.run(command, input=statement, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def version(self) -> str:
        """Return its version and the settings that determine durability."""
        results = self.ask(self.uri, "show server_version; show fsync; show synchronous_commit")
        number, fsync, commit = results.splitlines()
        return f"PostgreSQL {number} (fsync {fsync}, synchronous_commit {commit})"


@contextmanager
def postgres(
    folder: Path, *, is_spread: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[Database]:
    """Run the PostgreSQL that the tests use too, with its data in this folder: on the second core,
    or free on both."""
    home = folder / "postgres"
    home.mkdir(exist_ok=True)
    hand_over(home)
    with reserved_port() as port:
        server = PostgresProcess(home, port, settings=settings or {})
        server.create()
        server.start()
        try:
            database = Database(
                server.pid, server.socket_url, Path(server.programs.path("psql")).parent
            )
            database.place(is_spread=is_spread)
            yield database
        finally:
            server.stop()


@contextmanager
def process(
    command: Sequence[str], *, log: Path, core: int, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a process on one core until the end of the block; log its standard error."""
    with log.open("a") as errors:
        child = subprocess.Popen(
            command,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    machine.pin(child.pid, core)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def first_line(child: subprocess.Popen[str], log: Path) -> str:
    """Return the first line that it prints. Raises NotServed when it ends or prints nothing."""
    assert child.stdout is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        line = child.stdout.readline() if waiting.select(PATIENCE_S) else ""
    if not line:
        raise NotServed(log.read_text().strip().rpartition("\n")[2] or "It said nothing.")
    return line


@contextmanager
def gateway(
    folder: Path,
    *,
    name: str = "mmo-gateway, SQLite",
    brands: str | None = None,
    environment: Mapping[str, str] | None = None,
    database_pid: int | None = None,
) -> Iterator[Server]:
    """Run a sandbox with its data in this folder. `brands`: text of a brands.toml instead of the
    demo brand."""
    folder.mkdir(parents=True, exist_ok=True)
    free = [f"--{door}=127.0.0.1:0" for door in ("api", "pages", "console")]
    command = [*MMO, "sandbox", "--data", str(folder), *free]
    if brands is not None:
        (folder / "brands.toml").write_text(brands)
        command += ["--brands", str(folder / "brands.toml")]
    log, begin = folder / "gateway.log", time.monotonic()
    with process(command, log=log, core=machine.SERVER_CORE, environment=environment) as child:
        words = dict(word.split("=", 1) for word in first_line(child, log).split()[1:])
        took_s = time.monotonic() - begin
        key = words.get("api_key", "")
        api, pages, console = (words[name] for name in ("api", "pages", "console"))
        yield Server(
            name, OURS_DOES, api, key, child.pid, took_s, database_pid, console=console, pages=pages
        )


NODE = """
[database]
url = "{url}"

[keys]
master_key_file = "{folder}/master.key"

[egress]
allow_private = true

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"

{account}
"""


@contextmanager
def node(folder: Path, database: Database, *, workers: int) -> Iterator[Server]:
    """Run `mmo serve` with this many workers and the operator that they share, on both cores
    together with its database and the load."""
    key = secrets.token_hex(12)
    with shared_operator() as operator:
        machine.spread(operator.pid)
        url, account = database.fresh(f"workers_{workers}"), operator.account_settings
        configuration = configured(folder, url, account)
        (folder / "brands.toml").write_text(BRAND.format(key=key))
        command = [*MMO, "serve", "--config", str(configuration), "--workers", str(workers)]
        command += ["--brands", str(folder / "brands.toml")]

        log, begin = folder / "gateway.log", time.monotonic()
        with process(command, log=log, core=machine.SERVER_CORE) as child:
            machine.spread(child.pid)
            words = dict(word.split("=", 1) for word in first_line(child, log).split()[1:])
            took_s = time.monotonic() - begin
            name = f"mmo-gateway, PostgreSQL, {workers} worker{'s' * (workers > 1)}"
            pid, api = child.pid, words["api"]
            yield Server(name, OURS_DOES, api, key, pid, took_s, database.pid, is_spread=True)


def configured(folder: Path, url: str, account: str = "") -> Path:
    """Write the settings and the master key of a gateway on this database. `account`: the table of
    its account with an operator."""
    folder.mkdir(parents=True, exist_ok=True)
    create_master_key(folder / "master.key")
    configuration = folder / "mmo.toml"
    configuration.write_text(NODE.format(url=url, folder=folder, account=account))
    return configuration


def migrate(configuration: Path) -> None:
    """Create the tables of the gateway's store."""
    command = [*MMO, "db", "migrate", "--config", str(configuration)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def patient_gateway(
    folder: Path,
    *,
    name: str,
    environment: Mapping[str, str] | None = None,
    database_pid: int | None = None,
) -> Iterator[Server]:
    """Run the gateway with an operator in another process that takes seconds for each payment:
    created payments leave the outbox at the operator's pace."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "operator.log"
    command = [sys.executable, "-m", "bench.slow_operator"]
    path = {"PYTHONPATH": str(HERE.parent)}
    with process(command, log=log, core=machine.LOAD_CORE, environment=path) as operator:
        account = momo_account(first_line(operator, log).split()[1]) | {"CALLBACKS": "false"}
        settings = {f"MMO_PROVIDER__MOMO__{key}": value for key, value in account.items()}
        with gateway(
            folder,
            name=name,
            brands=_PATIENT_BRAND,
            environment={**(environment or {}), **settings},
            database_pid=database_pid,
        ) as server:
            yield evolve(server, key=RIVAL_KEY)


def momo_account(url: str) -> dict[str, str]:
    """Return the options of an account with an operator that speaks MTN MoMo's requests."""
    return {
        "KIND": "mtn_momo",
        "MARKET": "bench",
        "BASE_URL": url,
        "COLLECTION_SUBSCRIPTION_KEY": "bench",
        "COLLECTION_API_USER": "c72025f5-5cd1-4630-99e4-8ba4722fad56",
        "COLLECTION_API_KEY": "bench",
    }


_PATIENT_BRAND = f"""
[[brand]]
id = "shop"
name = "Shop"
api_keys = ["{RIVAL_KEY}"]

[[brand.method]]
key = "mpesa_ke"
provider = "momo"
country = "KE"
flows = ["direct/payin"]
limits.KES = {{ min = "10", max = "150000" }}
"""


@contextmanager
def fastapi(folder: Path, dsn: str, database: Database) -> Iterator[Server]:
    """Run the FastAPI rival."""
    name = "FastAPI + asyncpg, PostgreSQL"
    with _rival("fastapi_asyncpg", folder, dsn, database, name, FASTAPI_DOES) as server:
        yield server


@contextmanager
def raw_asgi(folder: Path, dsn: str, database: Database) -> Iterator[Server]:
    """Run the ASGI rival without a framework, a lower bound for asyncio."""
    name = "raw ASGI + msgspec + asyncpg, PostgreSQL"
    with _rival("raw_asgi_asyncpg", folder, dsn, database, name, RAW_DOES) as server:
        yield server


@contextmanager
def bare_gateway(folder: Path, *, name: str, database: Database | None = None) -> Iterator[Server]:
    """Run a program of the gateway's rules and rows only, on a file or on a database of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    place = str(folder / "bare.db") if database is None else database.fresh("bare")
    command = [sys.executable, "-m", "bench.bare_gateway", place]
    environment = {"RIVAL_KEY": RIVAL_KEY, "PYTHONPATH": _python_path()}
    log, begin = folder / "bare_gateway.log", time.monotonic()
    with process(command, log=log, core=machine.SERVER_CORE, environment=environment) as child:
        url = first_line(child, log).split()[1]
        took_s = time.monotonic() - begin
        yield Server(
            name,
            BARE_DOES,
            url,
            RIVAL_KEY,
            child.pid,
            took_s,
            None if database is None else database.pid,
        )


@contextmanager
def rivals(folder: Path, dsn: str, database: Database) -> Iterator[list[Server]]:
    """Run both rivals."""
    with ExitStack() as stack:
        yield [stack.enter_context(each(folder, dsn, database)) for each in (fastapi, raw_asgi)]


@contextmanager
def _rival(
    module: str, folder: Path, dsn: str, database: Database, name: str, does: str
) -> Iterator[Server]:
    """Run a rival under uvicorn with uvloop and httptools."""
    command = [sys.executable, "-m", "uvicorn", f"{module}:app"]
    quiet = ["--log-level", "critical", "--no-access-log", "--app-dir", str(RIVALS)]
    environment = {"RIVAL_DSN": dsn, "RIVAL_KEY": RIVAL_KEY}
    log, begin = folder / f"{module}.log", time.monotonic()
    with (
        reserved_port() as port,
        process(
            [*command, *quiet, "--port", str(port)],
            log=log,
            core=machine.SERVER_CORE,
            environment=environment,
        ) as child,
    ):
        url = f"http://127.0.0.1:{port}"
        while not answers(url):
            if child.poll() is not None or time.monotonic() > begin + PATIENCE_S:
                raise NotServed(f"{name}: {log.read_text()}")
            time.sleep(0.05)
        took_s = time.monotonic() - begin
        yield Server(name, does, url, RIVAL_KEY, child.pid, took_s, database.pid)


def _python_path() -> str:
    """Return where a server finds the package of the benchmarks, too."""
    return os.pathsep.join(
        each for each in (str(HERE.parent), os.environ.get("PYTHONPATH")) if each
    )


def answers(url: str) -> bool:
    """Tell whether a server answers, with whatever status."""
    try:
        urllib.request.urlopen(url, timeout=1)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
