"""Sessions: `nox` runs what every change must pass; `nox -l` lists the rest."""

from __future__ import annotations

import os
import shutil

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = [
    "lint",
    "sansio",
    "runtime",
    "contract",
    "smoke",
    "docs",
    "clauses",
    "browser",
]
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

FULL = "3.11"
OTHERS = ["3.12", "3.13"]
IN_FULL = [
    "tests/runtime/contract/test_nodes.py",
    "tests/runtime/contract/test_callback_ownership.py",
    "tests/runtime/contract/test_kill.py",
    "tests/runtime/contract/test_descriptors.py",
    "tests/runtime/http/server/test_listener_descriptors.py",
    "tests/runtime/storage/postgres/test_store.py",
    "tests/runtime/storage/postgres/test_faults.py",
    "tests/runtime/storage/postgres/test_failover.py",
    "tests/runtime/workers/delivery/test_channel_owner.py",
]
STORELESS = [
    *("test_airtel*", "test_mpesa*", "test_mtn*", "test_operator*", "test_provider*"),
    *("test_both_listeners*", "test_deploy*", "test_metrics*", "test_fuzz*", "test_general*"),
    *("test_logs*", "test_money*", "test_api_docs*", "test_problems*"),
]
"""What is the same wherever payments are kept."""
QUICK = {"MMO_TEST_QUICK": "1"}
CORE_ONLY = ["attrs>=24.2,<27"]
CHROMIUMS = ["chromium", "chromium-browser", "google-chrome"]


def install(session: nox.Session, group: str, *, core_only: bool = False) -> None:
    """The project and one of its dependency groups; `core_only` leaves out everything but attrs."""
    if core_only:
        session.install(*CORE_ONLY)
        session.install("--no-deps", ".")
    else:
        session.install(".")
    session.install(*nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group))


@nox.session(python=FULL)
def lint(session: nox.Session) -> None:
    """Form and types: ruff, mypy strict."""
    install(session, "typing")
    install(session, "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")


@nox.session(python=[FULL, *OTHERS])
def sansio(session: nox.Session) -> None:
    """The core with nothing installed but attrs and the test tools."""
    install(session, "sansio", core_only=True)
    session.run("python", "-c", "import importlib.util as u; assert u.find_spec('trio') is None")
    session.run("pytest", "tests/sansio", *session.posargs)


@nox.session(python=FULL)
def runtime(session: nox.Session) -> None:
    """The shell: real sockets, TLS, SQLite, PostgreSQL, processes; a few times what `nodes` tries many times."""
    install(session, "test")
    session.run("pytest", "tests/runtime", *session.posargs, env=QUICK)


@nox.session(python=FULL)
def contract(session: nox.Session) -> None:
    """The merchant's contract once more, with payments kept in PostgreSQL instead of the embedded file; without what
    is the same wherever they are kept. `contract_in_full` leaves nothing out."""
    install(session, "test")
    left_out = [f"--ignore-glob=tests/runtime/contract/{each}" for each in STORELESS]
    session.run("pytest", "tests/runtime/contract", "--store=postgres", *left_out, *session.posargs)


@nox.session(python=FULL)
@nox.parametrize("store", ["postgres", "memory"], ids=["postgres", "memory"])
def contract_in_full(session: nox.Session, store: str) -> None:
    """All of it on another store: `nox -s "contract_in_full(memory)"`."""
    install(session, "test")
    session.run("pytest", "tests/runtime/contract", f"--store={store}", *session.posargs)


@nox.session(python=OTHERS)
def smoke(session: nox.Session) -> None:
    """A payment end to end on the other interpreters."""
    install(session, "test")
    session.run("pytest", "tests/runtime", "-m", "smoke", *session.posargs)


@nox.session(python=FULL)
def docs(session: nox.Session) -> None:
    """Pages that are drawn from the code are current, and their examples run."""
    install(session, "test")
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session(python=FULL)
def browser(session: nox.Session) -> None:
    """What people see, in a real Chromium; `MMO_SCREENSHOTS=1 nox -s browser` draws docs/screenshots anew."""
    if not os.environ.get("MMO_CHROMIUM") and not any(map(shutil.which, CHROMIUMS)):
        session.skip(
            "there is no Chromium. Install it (Debian: apt install chromium), or name one in MMO_CHROMIUM."
        )
    install(session, "browser")
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session(python=FULL)
def clauses(session: nox.Session) -> None:
    """Every clause of the specification with the tests that prove it through a socket."""
    install(session, "test")
    session.run("python", "tests/clauses.py", *session.posargs)


@nox.session(python=FULL)
def simulate(session: nox.Session) -> None:
    """The long simulation of the core: `nox -s simulate -- --seeds 20000`."""
    install(session, "sansio", core_only=True)
    session.run(
        "python", "-m", "tests.sansio.simulation", *(session.posargs or ["--seeds", "20000"])
    )


@nox.session(python=FULL)
def books(session: nox.Session) -> None:
    """1,000 payments with each operator's simulator, with faults and deaths: the books agree to the unit."""
    install(session, "test")
    session.run(
        "pytest",
        "tests/runtime/workers/providers/test_reconciliation.py",
        *session.posargs,
        env={"MMO_TEST_WORLDS": "10"},
    )


@nox.session(python=FULL)
def mutants(session: nox.Session) -> None:
    """Break the law on purpose and see whether a test notices."""
    install(session, "mutants", core_only=True)
    session.run("python", "tests/mutants/run.py", *session.posargs)


@nox.session(python=FULL)
def fuzz(session: nox.Session) -> None:
    """100,000 mutated requests against a whole gateway."""
    install(session, "test")
    session.run(
        "pytest",
        "tests/runtime/contract/test_fuzz.py",
        "--fuzz-requests",
        "100000",
        *session.posargs,
    )


@nox.session(python=FULL)
def nodes(session: nox.Session) -> None:
    """What `runtime` tries a few times, in full: 20 kills of a gateway and 20 of workers of two nodes, 100 races, 200
    cuts at COMMIT, 50 walks over records, crowds of 10,000 requests."""
    install(session, "test")
    session.run("pytest", "-s", *IN_FULL, "--kills", "20", "--races", "100", *session.posargs)


@nox.session(python=FULL)
def schemathesis(session: nox.Session) -> None:
    """Requests made from the OpenAPI document, against a sandbox: `nox -s schemathesis -- --max-examples 500`."""
    install(session, "schemathesis")
    session.run("python", "-m", "tests.fuzzing", *session.posargs)


@nox.session(python=FULL)
def bench(session: nox.Session) -> None:
    """Measurements, printed as ratios of things run in turn; `nox -s bench -- life --minutes 10` runs one of them."""
    install(session, "bench")
    session.run("python", "-m", "bench", *session.posargs)
