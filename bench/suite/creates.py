"""Measures creates per second: the gateway, two rivals, and PostgreSQL alone."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from attrs import evolve

from bench import machine, servers
from bench.load import DIRECT, WEB, LoadResult, Requests, ratio, round_of
from bench.options import Options
from bench.report import COMPARISON, Goal, Outcome, Table, comparison
from bench.servers import Database, NotServed, Server

SCHEMA = servers.RIVALS / "schema.sql"
CLIENTS = 16
OURS = servers.HERE / "ours.sql"
WORKERS = (1, 2)
OUR_SQLITE = "mmo-gateway, SQLite"
OUR_POSTGRES = "mmo-gateway, PostgreSQL"
WHOLE = "direct pay-in, whole life"
"""More than a create, so it isn't held against the rivals' creates."""


def run(options: Options) -> Outcome:
    """Run alternating rounds with 64 connections; each create is durable before its answer."""
    notes = []
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(options.folder))
        dsn = database.fresh("rivals", SCHEMA)
        contenders: list[tuple[Server, Requests]] = []
        patient = servers.patient_gateway(options.folder / "patient", name=OUR_SQLITE)
        contenders.append(outbox_only(stack.enter_context(patient)))
        ours = stack.enter_context(servers.gateway(options.folder / "sqlite"))
        contenders += both_ways(ours)
        try:
            patient = servers.patient_gateway(
                options.folder / "patient-on-postgres",
                name=OUR_POSTGRES,
                environment={"MMO_DATABASE_URL": database.fresh("patient")},
                database_pid=database.pid,
            )
            contenders.append(outbox_only(stack.enter_context(patient)))
            on_postgres = stack.enter_context(our_postgres(options.folder, database))
            contenders += both_ways(on_postgres)
        except NotServed as reason:
            notes.append(f"{OUR_POSTGRES} isn't there: {reason}")
        both = stack.enter_context(servers.rivals(options.folder, dsn, database))
        contenders += [(each, DIRECT) for each in both]
        rounds: list[list[LoadResult]] = [[] for _ in contenders]
        by_pgbench = []
        for number in range(options.rounds):
            for place, (server, asked) in enumerate(contenders):
                measured = round_of(server, asked, seconds=options.seconds, run=f"{place}-{number}")
                rounds[place].append(measured)
            by_pgbench.append(pgbench(database, dsn, options.seconds))
        about_database = database.version()
    results = [(server, measured) for (server, _), measured in zip(contenders, rounds, strict=True)]
    table = Table(
        "64 connections, medians",
        COMPARISON,
        [*comparison(results), _pgbench_row("the rivals' statement", results[0][1], by_pgbench)],
        "the server's own core, which is full with ours and both rivals; with pgbench it is"
        " PostgreSQL's. Between ours"
        " and the floor stands what the engine does for a create: deciding it, rendering its"
        " object, and writing its"
        " reference, payment, outbox and journal, about 100 µs (see Creates in the engine); the"
        " floor binds one row.",
    )
    fastapi, raw = results[-2][1], results[-1][1]
    creates_only = [each for each in results[:-2] if not each[0].name.endswith(WHOLE)]
    goals: list[Goal] = []
    for server, mine in creates_only:
        goals.append(Goal(f"{server.name} : FastAPI", 2.0, ratio(mine, fastapi), " x"))
        goals.append(Goal(f"{server.name} : raw ASGI", 1.0, ratio(mine, raw), " x"))
    return Outcome(
        "creates",
        "Creates over HTTP",
        f"One process, {options.rounds} rounds of {options.seconds} s for each in turn, the same"
        " bodies and full"
        f" durability for all. Rivals and pgbench use {about_database}. After a web pay-in is"
        " answered nothing"
        " follows until its page is used, as nothing follows a rival's create. A direct pay-in also"
        " goes into the"
        " outbox. With an operator in another process that takes 9 s for each, as people at their"
        " phones do, 28 leave"
        " the outbox each second. With the sandbox operator, which answers at once in our own"
        " process, each is"
        " submitted, its result taken, and its callback concluded (nobody listens there), all on"
        " the same core: work"
        " that no rival does. Processor times hold all that follows a create.",
        [table, workers(options.folder / "workers", options.rounds, options.seconds)],
        goals,
        notes=notes,
    )


def workers(folder: Path, turns: int, seconds: int) -> Table:
    """Measure one worker and two on PostgreSQL, and their statements on PostgreSQL alone."""
    folder.mkdir()
    rounds: dict[str, list[tuple[Server, LoadResult]]] = {}
    by_pgbench = []
    with ExitStack() as stack:
        database = stack.enter_context(servers.postgres(folder, is_spread=True))
        statements = database.fresh("statements")
        servers.migrate(servers.configured(folder / "statements", statements))
        nodes = [
            stack.enter_context(servers.node(folder / f"{count}", database, workers=count))
            for count in WORKERS
        ]
        for turn in range(turns):
            for node in nodes:
                for way, (server, asked) in enumerate(both_ways(node)):
                    measured = round_of(server, asked, seconds=seconds, run=f"{way}-{turn}")
                    rounds.setdefault(server.name, []).append((server, measured))
            lengths = _lengths(database, database.beside(f"workers_{WORKERS[0]}"))
            by_pgbench.append(pgbench(database, statements, seconds, OURS, lengths, is_spread=True))
    results = [(each[0][0], [measured for _, measured in each]) for each in rounds.values()]
    name = "our statements, one create in each transaction"
    return Table(
        "Workers on PostgreSQL, 64 connections, medians; server, database, load and the operator,"
        " which answers over HTTP, share both cores",
        COMPARISON,
        [*comparison(results), _pgbench_row(name, results[1][1], by_pgbench)],
        "both cores, which are full: what a second worker gains is what the others leave idle. Our"
        " batches write what"
        " pgbench writes one by one.",
    )


def _lengths(database: Database, dsn: str) -> list[str]:
    """Return the variables for pgbench that describe a gateway's rows."""
    results = database.ask(
        dsn,
        "select avg(length(order_row))::integer, avg(length(progress))::integer,"
        " avg(length(object))::integer from transactions",
    )
    names = ("order_bytes", "progress_bytes", "object_bytes")
    values = zip(names, results.strip().split("|"), strict=True)
    return [word for name, value in values for word in ("-D", f"{name}={value}")]


def outbox_only(server: Server) -> tuple[Server, Requests]:
    """Return the gateway when creates enter the outbox faster than the operator accepts them."""
    does = f"{server.does}; submits at the pace of a slow operator"
    return evolve(server, name=f"{server.name}: direct pay-in, slow operator", does=does), DIRECT


def web_only(server: Server) -> tuple[Server, Requests]:
    """Return the gateway when nothing follows a create."""
    does = "all validation, brand rules, reference check, journal, a page's token; no outbox yet"
    return evolve(server, name=f"{server.name}: web pay-in", does=does), WEB


def both_ways(server: Server) -> list[tuple[Server, Requests]]:
    """Return the gateway twice: with creates only, and with complete payments."""
    whole = evolve(
        server,
        name=f"{server.name}: {WHOLE}",
        does=f"{server.does}; then submits it, takes its result, concludes its callback",
    )
    return [web_only(server), (whole, DIRECT)]


def our_postgres(folder: Path, database: Database) -> AbstractContextManager[Server]:
    """Run the gateway on PostgreSQL; raises NotServed on entering when that store is not
    installed."""
    return servers.gateway(
        folder / "on-postgres",
        name=OUR_POSTGRES,
        environment={"MMO_DATABASE_URL": database.fresh("gateway")},
        database_pid=database.pid,
    )


def pgbench(
    database: Database,
    dsn: str,
    seconds: int,
    script: Path = servers.RIVALS / "create.sql",
    values: Sequence[str] = (),
    *,
    is_spread: bool = False,
) -> float:
    """Return a script's transactions per second without HTTP: prepared, with pgbench on one core or
    both."""
    command = [str(database.programs / "pgbench"), "-n", "-c", str(CLIENTS), "-j", "1"]
    command += ["-M", "prepared", "-T", str(seconds), "-f", str(script), *values, dsn]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
    )
    if is_spread:
        machine.spread(child.pid)
    else:
        machine.pin(child.pid, machine.SERVER_CORE)
    printed, errors = child.communicate()
    assert child.returncode == 0, errors
    line = next(line for line in printed.splitlines() if line.startswith("tps"))
    return float(line.split()[2])


def _pgbench_row(what: str, ours: list[LoadResult], statements: list[float]) -> list[str]:
    middle = statistics.median(statements)
    share = statistics.median(
        mine.per_s / each for mine, each in zip(ours, statements, strict=True)
    )
    name = f"pgbench, {what}, {CLIENTS} clients"
    does = "no HTTP, no checks: what the database itself can do"
    return [name, f"{middle:,.0f}", "", "", f"{share:.2f} x", "", "", does]
