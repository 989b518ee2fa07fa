"""Runs what carries payments to their callbacks: the gateway on both stores with an operator inside
or over HTTP, and two rivals on PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen
from tests.support.reserved_port import reserved_port

from bench import machine, merchants, servers
from bench.servers import HERE, Database, NotServed, Server

SHOPS = 20
RIVALS = servers.RIVALS / "life"
METHODS = {"mpesa_ke": {"country": "KE", "limits": {"KES": ["10", "150000"]}}}
QUEUE_WORKERS = 2


@frozen
class Running:
    """Holds the processes of a contender that serves."""

    server: Server
    workers: Sequence[int] = ()
    """Its processes beside the server's."""
    brokers: Sequence[int] = ()
    """Processes of what keeps its queue."""

    @property
    def measured(self) -> Sequence[int]:
        """Return the processes whose processor time is the contender's own."""
        return [self.server.pid, *self.workers]


Start = Callable[[], AbstractContextManager[Running]]
"""Starts a contender on what it has stored so far."""


@frozen
class Contender:
    """Holds one way to carry payments to their callbacks."""

    key: str
    name: str
    prepared: Callable[[Path, Database], AbstractContextManager[Start]]
    """Makes an empty store, and runs what outlives a crash of the contender: operator, broker."""
    has_database: bool = True


def shop_keys() -> list[str]:
    """Return the API keys of the shops."""
    return [merchants.key_of(number) for number in range(SHOPS)]


@contextmanager
def _operator(folder: Path) -> Iterator[str]:
    """Run the operator on the load's core, and yield its URL."""
    log = folder / "operator.log"
    command = [sys.executable, "-m", "bench.quick_operator"]
    path = {"PYTHONPATH": str(HERE.parent)}
    with servers.process(command, log=log, core=machine.LOAD_CORE, environment=path) as child:
        yield servers.first_line(child, log).split()[1]


def _notify(operator: str, server: str) -> None:
    """Tell an operator where a contender listens."""
    target = server.removeprefix("http://").rstrip("/").encode()
    request = urllib.request.Request(f"{operator}/target", target, method="POST")
    urllib.request.urlopen(request, timeout=5).read()


@contextmanager
def _gateway(
    folder: Path, database: Database, *, on_postgres: bool, by_http: bool
) -> Iterator[Start]:
    """Prepare the gateway."""
    environment: dict[str, str] = {}
    brands = merchants.brands(SHOPS)
    operator = None
    with ExitStack() as stack:
        if on_postgres:
            environment["MMO_DATABASE_URL"] = database.fresh("ours")
        if by_http:
            operator = stack.enter_context(_operator(folder))
            account = servers.momo_account(operator)
            environment |= {f"MMO_PROVIDER__MOMO__{key}": value for key, value in account.items()}
            brands = brands.replace('provider = "sandbox"', 'provider = "momo"')

        @contextmanager
        def start() -> Iterator[Running]:
            with servers.gateway(folder, brands=brands, environment=environment) as server:
                if operator is not None:
                    _notify(operator, server.url)
                yield Running(server)

        yield start


@contextmanager
def _rival_store(folder: Path, database: Database, name: str) -> Iterator[dict[str, str]]:
    """Run a rival's operator, make its database, and yield its environment."""
    dsn = database.fresh(name, RIVALS / "schema.sql")
    methods = json.dumps(METHODS)
    rows = (
        f"('shop-{number}', '\\x{hashlib.sha256(key.encode()).hexdigest()}', '{key}', '{methods}')"
        for number, key in enumerate(shop_keys())
    )
    database.ask(dsn, f"insert into merchants values {', '.join(rows)}")
    with _operator(folder) as operator:
        yield {
            "RIVAL_DSN": dsn,
            "RIVAL_OPERATOR": operator,
            "RIVAL_AUTHORITY": str(folder / "ca.pem"),
            "PYTHONPATH": str(RIVALS),
        }


@contextmanager
def _served(
    application: str, folder: Path, port: int, environment: Mapping[str, str]
) -> Iterator[Server]:
    """Run a rival's application under uvicorn with uvloop and httptools."""
    url, log = f"http://127.0.0.1:{port}", folder / f"{application}.log"
    command = [sys.executable, "-m", "uvicorn", f"{application}:app", "--port", str(port)]
    quiet = ["--log-level", "warning", "--no-access-log"]
    begin = time.monotonic()
    with servers.process(
        [*command, *quiet], log=log, core=machine.SERVER_CORE, environment=environment
    ) as child:
        while not servers.answers(url):
            if child.poll() is not None or time.monotonic() > begin + servers.PATIENCE_S:
                raise NotServed(f"{application}: {log.read_text()}")
            time.sleep(0.05)
        _notify(environment["RIVAL_OPERATOR"], url)
        yield Server(application, "", url, "", child.pid, time.monotonic() - begin)


@contextmanager
def _in_tasks(folder: Path, database: Database, *, asks: bool) -> Iterator[Start]:
    """Prepare the rival whose work under way lives in its own process."""
    with _rival_store(folder, database, "in_tasks") as stored, reserved_port() as port:
        environment = stored | {
            "RIVAL_WEBHOOKS": f"http://127.0.0.1:{port}/operator",
            "RIVAL_ASKS": "1" if asks else "0",
        }

        @contextmanager
        def start() -> Iterator[Running]:
            with _served("in_tasks", folder, port, environment) as server:
                yield Running(server)

        yield start


@contextmanager
def _in_queue(folder: Path, database: Database) -> Iterator[Start]:
    """Prepare the rival whose work under way lives in Redis."""
    if shutil.which("redis-server") is None:
        raise NotServed("redis-server is not installed.")
    redis_home = folder / "redis"
    redis_home.mkdir(parents=True)
    with (
        _rival_store(folder, database, "in_queue") as stored,
        reserved_port() as port,
        reserved_port() as redis_port,
    ):
        environment = stored | {
            "RIVAL_WEBHOOKS": f"http://127.0.0.1:{port}/operator",
            "RIVAL_ASKS": "1",
            "RIVAL_REDIS": f"redis://127.0.0.1:{redis_port}/0",
        }
        redis = ["redis-server", "--port", str(redis_port), "--bind", "127.0.0.1"]
        durable = ["--dir", str(redis_home), "--appendonly", "yes"]
        celery = [sys.executable, "-m", "celery", "-A", "in_queue:queue", "worker"]
        few = ["--concurrency", str(QUEUE_WORKERS), "--loglevel", "warning"]

        with servers.process(
            [*redis, *durable], log=folder / "redis.log", core=machine.SERVER_CORE
        ) as broker:

            @contextmanager
            def start() -> Iterator[Running]:
                with (
                    servers.process(
                        [*celery, *few],
                        log=folder / "celery.log",
                        core=machine.SERVER_CORE,
                        environment=environment,
                    ) as worker,
                    _served("in_queue", folder, port, environment) as server,
                ):
                    yield Running(server, [worker.pid], [broker.pid])

            yield start


OURS_ASKS = Contender(
    "ours_asks",
    "mmo-gateway, PostgreSQL, MTN's requests",
    partial(_gateway, on_postgres=True, by_http=True),
)
TASKS_ASK = Contender(
    "tasks_ask",
    "FastAPI, asyncpg and tasks, asks",
    partial(_in_tasks, asks=True),
)
OURS_POSTGRES = Contender(
    "ours_postgres",
    "mmo-gateway, PostgreSQL, sandbox's operator",
    partial(_gateway, on_postgres=True, by_http=False),
)
OURS_SQLITE = Contender(
    "ours_sqlite",
    "mmo-gateway, SQLite, sandbox's operator",
    partial(_gateway, on_postgres=False, by_http=False),
    has_database=False,
)
TASKS_BELIEVE = Contender(
    "tasks_believe",
    "FastAPI, asyncpg and tasks, believes",
    partial(_in_tasks, asks=False),
)
QUEUE_ASKS = Contender(
    "queue_asks",
    "FastAPI, SQLAlchemy, Celery and Redis, asks",
    _in_queue,
)
CONTENDERS = (OURS_ASKS, TASKS_ASK, OURS_POSTGRES, OURS_SQLITE, TASKS_BELIEVE, QUEUE_ASKS)
