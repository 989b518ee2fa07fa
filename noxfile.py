"""Define the sessions: `nox` runs what every change must pass; `nox -l` lists all of them."""

from __future__ import annotations

import os
import pathlib
import shutil

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "sansio", "runtime", "contract", "smoke", "docs", "clauses", "browser"]
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

MAIN_PYTHON = "3.11"
OTHER_PYTHONS = ["3.12", "3.13"]
LONG_TESTS = [
    "tests/runtime/contract/test_nodes.py",
    "tests/runtime/contract/test_callback_ownership.py",
    "tests/runtime/contract/test_kill.py",
    "tests/runtime/contract/test_descriptors.py",
    "tests/runtime/http/server/test_listener_descriptors.py",
    "tests/runtime/storage/postgres/test_store.py",
    "tests/runtime/storage/postgres/test_faults.py",
    "tests/runtime/storage/postgres/test_failover.py",
    "tests/runtime/storage/postgres/test_stalls.py",
    "tests/runtime/workers/delivery/test_channel_owner.py",
]
ON_EVERY_POSTGRES = [
    "tests/runtime/storage/test_conformance.py",
    "tests/runtime/storage/postgres",
    "tests/runtime/contract/test_nodes.py",
    "tests/runtime/contract/test_kill.py",
]
LONG_ON_POSTGRES = [
    "tests/runtime/storage/postgres/test_plans.py",
    "tests/runtime/contract/test_endurance.py",
    "tests/runtime/contract/test_rest_load.py",
]
STORE_INDEPENDENT = [
    *("test_airtel*", "test_mpesa*", "test_mtn*", "test_operator*", "test_provider*"),
    *("test_both_listeners*", "test_deploy*", "test_metrics*", "test_fuzz*", "test_general*"),
    *("test_logs*", "test_money*", "test_api_docs*", "test_problems*"),
]
"""Tests whose result does not depend on the store."""
FEW_REPETITIONS = {"MMO_TEST_QUICK": "1"}
ON_ALL_PROCESSORS = ["-n", "auto", "--dist", "loadfile"]
"""Most tests of the shell wait; each process takes whole files, as their tests share servers."""
CORE_ONLY = ["attrs>=24.2,<27"]
LOCK = "deploy/requirements.lock"
BUILD_LOCK = "deploy/requirements-build.lock"
SBOM = "deploy/sbom.cdx.json"
LIGHTHOUSE = "lighthouse@12"
CHROMIUMS = ["chromium", "chromium-browser", "google-chrome"]


def install(session: nox.Session, group: str, *, core_only: bool = False) -> None:
    """Install the project and one dependency group; with `core_only`, of the dependencies only
    attrs."""
    if core_only:
        session.install(*CORE_ONLY)
        session.install("--no-deps", ".")
    else:
        session.install(".")
    session.install(*nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group))


@nox.session(python=MAIN_PYTHON)
def lint(session: nox.Session) -> None:
    """Check format, style, types and unused definitions."""
    install(session, "typing")
    install(session, "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("vulture")


@nox.session(python=[MAIN_PYTHON, *OTHER_PYTHONS])
def sansio(session: nox.Session) -> None:
    """Test the core with only attrs and the test tools installed."""
    install(session, "sansio", core_only=True)
    session.run("python", "-c", "import importlib.util as u; assert u.find_spec('trio') is None")
    session.run("pytest", "tests/sansio", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def runtime(session: nox.Session) -> None:
    """Test the shell with real sockets, TLS, stores and processes; `nodes` runs the long tests."""
    install(session, "test")
    session.run(
        "pytest", *ON_ALL_PROCESSORS, "tests/runtime", "tests/simulation", *session.posargs, env=FEW_REPETITIONS
    )


@nox.session(python=MAIN_PYTHON)
def contract(session: nox.Session) -> None:
    """Test the merchant API on PostgreSQL, except what does not depend on the store."""
    install(session, "test")
    left_out = [f"--ignore-glob=tests/runtime/contract/{each}" for each in STORE_INDEPENDENT]
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/runtime/contract", "--store=postgres", *left_out, *session.posargs)


@nox.session(python=MAIN_PYTHON)
@nox.parametrize("store", ["postgres", "memory"], ids=["postgres", "memory"])
def contract_in_full(session: nox.Session, store: str) -> None:
    """Test the whole merchant API on another store: `nox -s "contract_in_full(memory)"`."""
    install(session, "test")
    session.run("pytest", "tests/runtime/contract", f"--store={store}", *session.posargs)


@nox.session(python=OTHER_PYTHONS)
def smoke(session: nox.Session) -> None:
    """Test a payment end to end on the other interpreters."""
    install(session, "test")
    session.run("pytest", "tests/runtime", "-m", "smoke", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def docs(session: nox.Session) -> None:
    """Check that generated pages are current, and run the examples of all pages."""
    install(session, "test")
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def shops(session: nox.Session) -> None:
    """Run the shops of the examples on their frameworks, plant faults into the examples, and run the merchant's client
    with 200 seeds and 3,000 orders of each kind; it needs Node and PHP."""
    install(session, "shops")
    session.run("pytest", "tests/shops", *session.posargs)
    session.run("pytest", "tests/runtime/merchant/test_gap_closer.py", env={"MMO_TEST_SEEDS": "200"})
    session.run("pytest", "tests/sansio/merchant/test_idempotent_creation.py", env={"MMO_TEST_SEEDS": "3000"})


@nox.session(python=MAIN_PYTHON)
def browser(session: nox.Session) -> None:
    """Test the pages in a real Chromium; with MMO_SCREENSHOTS=1, write docs/screenshots again."""
    if not os.environ.get("MMO_CHROMIUM") and not any(map(shutil.which, CHROMIUMS)):
        session.skip("there is no Chromium. Install it (Debian: apt install chromium), or name one in MMO_CHROMIUM.")
    install(session, "browser")
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def lighthouse(session: nox.Session) -> None:
    """Have Lighthouse, which npm installs, judge the pages in Chromium; its figures need a quiet machine."""
    install(session, "browser")
    tools = pathlib.Path(session.create_tmp()).absolute()
    session.run("npm", "install", "--silent", "--prefix", str(tools), LIGHTHOUSE, external=True)
    programs = f"{tools}/node_modules/.bin{os.pathsep}{os.environ['PATH']}"
    session.run("pytest", "-s", "tests/lighthouse", *session.posargs, env={"PATH": programs})


@nox.session(python=MAIN_PYTHON)
def clauses(session: nox.Session) -> None:
    """List every clause of the specification with the tests that prove it through a socket."""
    install(session, "test")
    session.run("python", "tests/clauses.py", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def simulate(session: nox.Session) -> None:
    """Run the long simulation of the core: `nox -s simulate -- --seeds 20000`."""
    install(session, "sansio", core_only=True)
    session.run("python", "-m", "tests.sansio.simulation", *(session.posargs or ["--seeds", "20000"]))


@nox.session(python=MAIN_PYTHON)
def simulate_system(session: nox.Session) -> None:
    """Play seeds of whole gateways in simulated worlds, 500 or as many as `-- --seeds N` or `-- --hours H` says, and
    find every planted bug."""
    install(session, "test")
    session.run("python", "-m", "tests.simulation", *(session.posargs or ["--seeds", "500"]))
    session.run("pytest", "tests/simulation", env={"MMO_TEST_SEEDS": "200"})


@nox.session(python=[MAIN_PYTHON, *OTHER_PYTHONS])
def simulate_digests(session: nox.Session) -> None:
    """Play 100 seeds twice on each Python, in processes that order their sets differently: the first one writes their
    digests, and all others must have the same."""
    install(session, "test")
    digests = pathlib.Path(".nox/simulation_digests.json").absolute()
    if session.python == MAIN_PYTHON:
        digests.unlink(missing_ok=True)
    for hash_seed in ("1", "2"):
        session.run("python", "-m", "tests.simulation.digests", str(digests), env={"PYTHONHASHSEED": hash_seed})


@nox.session(python=MAIN_PYTHON)
def books(session: nox.Session) -> None:
    """Compare the accounts after 1,000 payments with each simulator, with faults and kills."""
    install(session, "test")
    session.run(
        "pytest",
        "tests/runtime/workers/providers/test_reconciliation.py",
        *session.posargs,
        env={"MMO_TEST_WORLDS": "10"},
    )


@nox.session(python=MAIN_PYTHON)
def mutants(session: nox.Session) -> None:
    """Change the payment rules on purpose and see whether a test notices."""
    install(session, "mutants", core_only=True)
    session.run("python", "tests/mutants/run.py", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def fuzz(session: nox.Session) -> None:
    """Send 100,000 mutated requests to a complete gateway."""
    install(session, "test")
    session.run("pytest", "tests/runtime/contract/test_fuzz.py", "--fuzz-requests", "100000", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def nodes(session: nox.Session) -> None:
    """Run the long tests in full: 20 kills of a gateway and 20 of workers of two nodes, 100 races,
    200 cuts at COMMIT, 50 walks over records, crowds of 10,000 requests."""
    install(session, "test")
    session.run("pytest", "-s", *LONG_TESTS, "--kills", "20", "--races", "100", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def postgres(session: nox.Session) -> None:
    """Test store, nodes and failover on each major version of PostgreSQL that can be had (`-- debian15 17`: on two)."""
    install(session, "test")
    printed = session.run("python", "-m", "tests.support.postgres_programs", *session.posargs, silent=True)
    names = str(printed).split()
    for name in names:
        session.run("pytest", "-k", "not sqlite", *ON_EVERY_POSTGRES, f"--postgres={name}", env=FEW_REPETITIONS)
    session.run("pytest", "-s", *LONG_ON_POSTGRES)
    session.log(f"Tested on {', '.join(names)}.")


@nox.session(python=MAIN_PYTHON)
def citus(session: nox.Session) -> None:
    """Test distributed tables on a coordinator of Citus and two workers, which `deploy/citus` builds: the store, the
    whole merchant API, and 10 kills of workers of two nodes."""
    install(session, "test")
    prefix = os.environ.get("MMO_TEST_CITUS") or str(pathlib.Path(".nox/citus-prefix").absolute())
    session.run("deploy/citus/build.sh", prefix, external=True)
    environment = {**FEW_REPETITIONS, "MMO_TEST_CITUS": prefix}
    session.run("pytest", "tests/citus", env=environment)
    session.run("pytest", "-k", "postgresql", "tests/runtime/storage/test_conformance.py", env=environment)
    session.run("pytest", "tests/runtime/contract/test_nodes.py", "--kills", "10", env=environment)
    left_out = [f"--ignore-glob=tests/runtime/contract/{each}" for each in STORE_INDEPENDENT]
    session.run("pytest", "tests/runtime/contract", "--store=postgres", *left_out, env=environment)


@nox.session(python=MAIN_PYTHON)
def clients(session: nox.Session) -> None:
    """Pay with the usual HTTP clients of Java, Go, Node, PHP, Ruby, .NET, Python and curl; a missing one fails."""
    install(session, "clients")
    session.run("pytest", "tests/clients", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def operator_clients(session: nox.Session) -> None:
    """Let clients of the operators that other people wrote use the simulators, each in an environment of its own."""
    install(session, "test")
    environments = pathlib.Path(".nox/operator_clients_environments").absolute()
    session.run("pytest", "tests/operator_clients", *session.posargs, env={"MMO_TEST_CLIENTS": str(environments)})


@nox.session(python=MAIN_PYTHON)
def schemathesis(session: nox.Session) -> None:
    """Send requests generated from the OpenAPI document to a sandbox (`-- --max-examples 500`)."""
    install(session, "schemathesis")
    session.run("python", "-m", "tests.fuzzing", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def bench(session: nox.Session) -> None:
    """Measure ratios of programs run in turn; `nox -s bench -- life --minutes 10` runs one."""
    install(session, "bench")
    session.run("python", "-m", "bench", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def lock(session: nox.Session) -> None:
    """Write the lock files and the SBOM of a deployment: `nox -s lock -- --upgrade` takes newer versions."""
    session.install("uv>=0.9,<1", "cyclonedx-bom>=7,<8")
    compile_ = ("uv", "pip", "compile", "--universal", "--python-version", MAIN_PYTHON, "--generate-hashes", "--quiet")
    header = ("--custom-compile-command", "nox -s lock")
    session.run(*compile_, *header, "pyproject.toml", "-o", LOCK, *session.posargs)
    session.run(*compile_, *header, "--group", "build", "-o", BUILD_LOCK, *session.posargs)
    deployed = pathlib.Path(session.create_tmp()) / "deployed"
    session.run("uv", "venv", "--quiet", "--clear", "--python", MAIN_PYTHON, str(deployed))
    session.run("uv", "pip", "sync", "--quiet", "--require-hashes", "--python", str(deployed), LOCK)
    session.run(
        "cyclonedx-py",
        "environment",
        str(deployed),
        "--pyproject",
        "pyproject.toml",
        "--output-reproducible",
        "--sv",
        "1.6",
        "-o",
        SBOM,
    )


@nox.session(python=MAIN_PYTHON)
def audit(session: nox.Session) -> None:
    """Look every locked package up among the advisories of PyPI; fails also when PyPI cannot be reached."""
    session.install("pip-audit>=2.7,<3")
    for file in (LOCK, BUILD_LOCK):
        session.run("pip-audit", "--require-hashes", "--disable-pip", "--strict", "-r", file, *session.posargs)
