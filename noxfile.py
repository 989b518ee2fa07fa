"""Define the sessions, in three sizes.

`nox -s quick` judges the change at hand, `nox` is what every change must pass, and `nox -t long`
plays everything that takes longer; with MMO_TEST_SHORT=1 each of those plays a short form. `nox -l`
lists all of them."""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import tempfile
import time

import nox

nox.needs_version = ">=2025.10.14"
nox.options.sessions = ["lint", "sansio", "runtime", "smoke", "docs", "clauses", "weight", "pages"]
nox.options.error_on_missing_interpreters = "CI" in os.environ
nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
)  # Or each process of each test compiles all of its modules again.

MAIN_PYTHON = "3.11"
OTHER_PYTHONS = ["3.12", "3.13"]
IS_SHORT = "MMO_TEST_SHORT" in os.environ
"""Whether long sessions play their short form."""
FEW_REPETITIONS = {"MMO_TEST_QUICK": "1"}
REPETITIONS = FEW_REPETITIONS if IS_SHORT else {}
LONG = ["long"]
"""The tag of the sessions that `nox` leaves out."""
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
INDEPENDENT = [
    *("test_airtel*", "test_mpesa*", "test_mtn*", "test_operator*", "test_provider*"),
    *("test_api_docs*", "test_deploy*"),
]
"""Tests of the contract whose result depends neither on the store nor on the version of HTTP."""
BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder"]
"""Each process takes whole files, as their tests share servers; in the order given, not those of
few tests last: these may take the longest."""
ON_ALL_PROCESSORS = ["-n", "auto", *BY_FILE]
TWO_ON_EACH = ["-n", str(2 * (os.cpu_count() or 1)), *BY_FILE]
THREE_ON_EACH = ["-n", str(3 * (os.cpu_count() or 1)), *BY_FILE]
"""Most tests of the shell wait, so three of them fit on a processor."""
LOCK = "deploy/requirements.lock"
BUILD_LOCK = "deploy/requirements-build.lock"
SBOM = "deploy/sbom.cdx.json"
PROVIDER_PACKAGE = "packages/mmo-provider-pawapay"
LIGHTHOUSE = "lighthouse@12"
OPENAPI_TOOLS = [
    *("@redocly/cli@2", "@stoplight/spectral-cli@6", "@stoplight/prism-cli@5"),
    *("openapi-typescript@7", "typescript@5", "openapi-to-postmanv2@6"),
]
PROXIES = ["nginx", "haproxy"]
CONTAINER_TOOLS = ["buildah", "mmdebstrap"]
CHROMIUMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]

_began_at = time.monotonic()
_install_durations_s: list[float] = []


@atexit.register
def print_durations() -> None:
    """Print how long installing took, apart from everything else."""
    if _install_durations_s:
        installs_s = sum(_install_durations_s)
        print(
            f"Installing took {installs_s:.0f} s, everything else "
            f"{time.monotonic() - _began_at - installs_s:.0f} s."
        )


def install(session: nox.Session, *groups: str, core_only: bool = False) -> None:
    """Install the gateway and dependency groups; with `core_only` the project with nothing but what
    the core needs."""
    project = nox.project.load_toml("pyproject.toml")
    begin = time.monotonic()
    session.install("." if core_only else ".[server]")
    session.install(*nox.project.dependency_groups(project, *groups))
    _install_durations_s.append(time.monotonic() - begin)


def install_npm(session: nox.Session, *packages: str) -> str:
    """Install packages of npm beside the session; return a search path that has their programs and
    the session's."""
    folder, begin = pathlib.Path(session.create_tmp()).absolute(), time.monotonic()
    session.run("npm", "install", "--silent", "--prefix", str(folder), *packages, external=True)
    _install_durations_s.append(time.monotonic() - begin)
    return os.pathsep.join([f"{folder}/node_modules/.bin", str(session.bin), os.environ["PATH"]])


def need_chromium(session: nox.Session) -> None:
    """Skip the session where there is no Chromium, but for CI, which must have one."""
    if not os.environ.get("MMO_CHROMIUM") and not any(map(shutil.which, CHROMIUMS)):
        message = (
            "there is no Chromium. Install it (Debian: apt install chromium), or name one in "
            "MMO_CHROMIUM."
        )
        session.error(message) if "CI" in os.environ else session.skip(message)


@nox.session(python=MAIN_PYTHON)
def quick(session: nox.Session) -> None:
    """Judge the change at hand: its format, style and types, and the tests that mirror it; `-- REV`
    says since when."""
    install(session, "typing", "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    tests = str(session.run("python", "tests/changed.py", *session.posargs, silent=True)).split()
    session.run(
        "pytest",
        *ON_ALL_PROCESSORS,
        "-m",
        "not long",
        "tests/sansio/structure",
        *tests,
        env=FEW_REPETITIONS,
    )


@nox.session(python=MAIN_PYTHON)
def lint(session: nox.Session) -> None:
    """Check format, style, types and unused definitions."""
    install(session, "typing", "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy", "--num-workers", str(os.cpu_count()))
    session.run("vulture")


@nox.session(python=[MAIN_PYTHON, *OTHER_PYTHONS])
def sansio(session: nox.Session) -> None:
    """Test the core with only attrs and the test tools installed; on the other interpreters without
    its simulation, and with few repetitions."""
    install(session, "sansio", core_only=True)
    session.run("python", "-c", "import importlib.util as u; assert u.find_spec('trio') is None")
    is_main = session.python == MAIN_PYTHON
    left_out = [] if is_main else ["--ignore=tests/sansio/simulation"]
    repetitions = {} if is_main else FEW_REPETITIONS
    session.run(
        "pytest", *ON_ALL_PROCESSORS, "tests/sansio", *left_out, *session.posargs, env=repetitions
    )


@nox.session(python=MAIN_PYTHON)
def runtime(session: nox.Session) -> None:
    """Test the shell, the simulators and the packages with real sockets, TLS, stores and processes;
    not what is long."""
    install(session, "test")
    tests = (
        "-m",
        "not long",
        "tests/simulation",
        "tests/merchant",
        "tests/runtime",
        "tests/simulators",
        "packages",
    )
    session.run("pytest", *THREE_ON_EACH, *tests, *session.posargs, env=FEW_REPETITIONS)


@nox.session(python=OTHER_PYTHONS)
def smoke(session: nox.Session) -> None:
    """Test a payment end to end on the other interpreters."""
    install(session, "test")
    session.run("pytest", "tests/runtime", "-m", "smoke", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def docs(session: nox.Session) -> None:
    """Check that generated pages are current, and run the examples of all pages."""
    install(session, "test")
    session.run("pytest", *THREE_ON_EACH, "-m", "not long", "tests/docs", *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def site(session: nox.Session) -> None:
    """Make the pages a site with a search, `docs/_build/index.html`, without a warning."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), "site"))
    session.run(
        "sphinx-build",
        "-n",
        "-W",
        "--keep-going",
        "-b",
        "dirhtml",
        "docs",
        "docs/_build",
        *session.posargs,
    )


@nox.session(python=MAIN_PYTHON)
def clauses(session: nox.Session) -> None:
    """List every clause of the specification with the tests that prove it through a socket."""
    install(session, "test")
    session.run("python", "tests/clauses.py", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def weight(session: nox.Session) -> None:
    """Count lines, modules and the files that four flows enter, beside their budgets: `-- --files`
    names the files."""
    install(session, "test")
    session.run("python", "-m", "tests.weight", *session.posargs)


@nox.session(python=MAIN_PYTHON)
def pages(session: nox.Session) -> None:
    """Pay on the payment page and work in the console in a real Chromium; `browser` tests every
    page."""
    need_chromium(session)
    install(session, "browser")
    session.run("pytest", *ON_ALL_PROCESSORS, "-m", "smoke", "tests/browser", *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def browser(session: nox.Session) -> None:
    """Test the pages in a real Chromium, in its short form without what `pages` plays; with
    MMO_SCREENSHOTS=1, write docs/screenshots again."""
    need_chromium(session)
    install(session, "browser")
    chosen = ["-m", "not smoke"] if IS_SHORT else []
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/browser", *chosen, *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def runtime_in_full(session: nox.Session) -> None:
    """Test the whole shell in full, with 20 kills of workers of two nodes, 100 races, 200 cuts at
    COMMIT, crowds of 10,000 requests; in its short form what `runtime` leaves out, with few
    repetitions."""
    install(session, "test")
    chosen = ["-m", "long"] if IS_SHORT else ["--kills", "20", "--races", "100"]
    of_the_shell = sorted(map(str, pathlib.Path("tests/runtime").glob("[a-z]*/")))
    longest = "tests/runtime/workers"  # In the end one process would play its files alone.
    folders = [longest, "tests/merchant", *of_the_shell, "tests/simulators", "tests/docs"]
    processes = TWO_ON_EACH if IS_SHORT else ON_ALL_PROCESSORS
    session.run("pytest", *processes, *folders, *chosen, *session.posargs, env=REPETITIONS)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def contract(session: nox.Session) -> None:
    """Test the merchant API on PostgreSQL, in its short form by HTTP/2, one variant of each test,
    without what is long or depends on neither."""
    install(session, "test")
    left_out = [f"--ignore-glob=tests/runtime/contract/{each}" for each in INDEPENDENT]
    short = ["-m", "not long", "--http=2", "--one-each", *left_out] if IS_SHORT else []
    chosen = ("tests/runtime/contract", "--store=postgres", *short)
    session.run("pytest", *ON_ALL_PROCESSORS, *chosen, *session.posargs, env=REPETITIONS)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def contract_http2(session: nox.Session) -> None:
    """Test the merchant API by HTTP/2."""
    if IS_SHORT:
        session.skip("contract plays it.")
    install(session, "test")
    session.run(
        "pytest",
        *ON_ALL_PROCESSORS,
        "-m",
        "not long",
        "tests/runtime/contract",
        "--http=2",
        *session.posargs,
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def shops(session: nox.Session) -> None:
    """Run the shops of the examples on their frameworks, plant faults into the examples, and run
    the merchant's client with 200 seeds and 3,000 orders of each kind; it needs Node and PHP."""
    install(session, "shops")
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/shops", *session.posargs)
    for tests, seeds in (
        ("tests/merchant/inbox/test_gap_closer.py", 20 if IS_SHORT else 200),
        ("tests/sansio/merchant/api/test_idempotent_creation.py", 600 if IS_SHORT else 3000),
    ):
        session.run("pytest", tests, env={"MMO_TEST_SEEDS": str(seeds)})


@nox.session(python=MAIN_PYTHON, tags=LONG)
def packages(session: nox.Session) -> None:
    """Install each extra of the wheel into a fresh environment, and run there what it is for: the
    tutorial, the shops of the examples, in the short form one of them, the commands for merchants,
    and the simulators. Test the packages of other distributions, which `runtime` has tested before
    the short form."""
    install(session, "shops")
    chosen = ["-k", "not fastapi and not django"] if IS_SHORT else ["packages"]
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/packages", *chosen, *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def lighthouse(session: nox.Session) -> None:
    """Have Lighthouse, which npm installs, judge the pages in Chromium; its figures need a quiet
    machine."""
    if IS_SHORT:
        session.skip("other work on the machine lowers its figures.")
    need_chromium(session)
    install(session, "browser")
    session.run(
        "pytest",
        "-s",
        "tests/lighthouse",
        *session.posargs,
        env={"PATH": install_npm(session, LIGHTHOUSE)},
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def simulate(session: nox.Session) -> None:
    """Run the long simulation of the core: `nox -s simulate -- --seeds 20000`."""
    install(session, "sansio", core_only=True)
    seeds = "1000" if IS_SHORT else "20000"
    session.run("python", "-m", "tests.sansio.simulation", *(session.posargs or ["--seeds", seeds]))


@nox.session(python=MAIN_PYTHON, tags=LONG)
def simulate_system(session: nox.Session) -> None:
    """Play seeds of whole gateways in simulated worlds, 500 or as many as `-- --seeds N` or `--
    --hours H` says, and find every planted bug, restore a backup in 50 worlds, and ask for 10,000
    reversals in such worlds. In the short form what `runtime` leaves out: the bugs that are found
    soon, a backup in 3 worlds, 100 reversals."""
    install(session, "test")
    if session.posargs or not IS_SHORT:
        session.run("python", "-m", "tests.simulation", *(session.posargs or ["--seeds", "500"]))
    chosen = ["-m", "long"] if IS_SHORT else []
    environment = FEW_REPETITIONS if IS_SHORT else {"MMO_TEST_SEEDS": "200"}
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/simulation", *chosen, env=environment)
    session.run("python", "-m", "tests.simulation.reversal_worlds", "100" if IS_SHORT else "10000")


@nox.session(python=[MAIN_PYTHON, *OTHER_PYTHONS], tags=LONG)
def simulate_digests(session: nox.Session) -> None:
    """Play 100 seeds twice on each Python, in processes that order their sets differently: the
    first one writes their digests, and all others must have the same. In the short form 16 seeds
    once on each, each in an order of its own."""
    install(session, "test")
    digests = pathlib.Path(".nox/simulation_digests.json").absolute()
    if session.python == MAIN_PYTHON:
        digests.unlink(missing_ok=True)
    seeds = "16" if IS_SHORT else "100"
    for hash_seed in (str(session.python)[2:],) if IS_SHORT else ("1", "2"):
        compare = ("python", "-m", "tests.simulation.digests", str(digests), "--seeds", seeds)
        session.run(*compare, env={"PYTHONHASHSEED": hash_seed})


@nox.session(python=MAIN_PYTHON, tags=LONG)
def books(session: nox.Session) -> None:
    """Compare the accounts after 1,000 payments with each simulator, with faults and kills."""
    if IS_SHORT:
        session.skip("runtime_in_full plays its tests.")
    install(session, "test")
    worlds = {"MMO_TEST_WORLDS": "10"}
    session.run(
        "pytest",
        "tests/runtime/workers/providers/test_reconciliation.py",
        *session.posargs,
        env=worlds,
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def mutants(session: nox.Session) -> None:
    """Change the payment rules on purpose and see whether a test notices."""
    if IS_SHORT:
        session.skip("it has no short form.")
    install(session, "mutants", core_only=True)
    session.run("python", "tests/mutants/run.py", *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def fuzz(session: nox.Session) -> None:
    """Send 100,000 mutated requests to a complete gateway."""
    if IS_SHORT:
        session.skip("runtime_in_full sends 5,000.")
    install(session, "test")
    session.run(
        "pytest",
        "tests/runtime/contract/test_fuzz.py",
        "--fuzz-requests",
        "100000",
        *session.posargs,
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def postgres(session: nox.Session) -> None:
    """Test store, nodes and failover on each major version of PostgreSQL that can be had (`--
    debian15 17`: on two)."""
    if IS_SHORT:
        session.skip("runtime_in_full plays its tests on the usual one.")
    install(session, "test")
    printed = session.run(
        "python", "-m", "tests.support.postgres_programs", *session.posargs, silent=True
    )
    names = str(printed).split()
    for name in names:
        chosen = ("-k", "not sqlite", f"--postgres={name}")
        session.run("pytest", *ON_ALL_PROCESSORS, *chosen, *ON_EVERY_POSTGRES, env=FEW_REPETITIONS)
    session.run("pytest", "-s", *LONG_ON_POSTGRES)
    session.log(f"Tested on {', '.join(names)}.")


@nox.session(python=MAIN_PYTHON, tags=LONG)
def citus(session: nox.Session) -> None:
    """Test distributed tables on a coordinator of Citus and two workers, which `deploy/citus`
    builds: the store, the whole merchant API, and 10 kills of workers of two nodes; in the short
    form the store on a cluster that is built already, which MMO_TEST_CITUS names."""
    prefix = os.environ.get("MMO_TEST_CITUS") or str(pathlib.Path(".nox/citus-prefix").absolute())
    if IS_SHORT and not pathlib.Path(prefix, "version").exists():
        session.skip(f"no Citus was built in {prefix}, and to build it takes a quarter of an hour.")
    install(session, "test")
    session.run("deploy/citus/build.sh", prefix, external=True)
    environment = {**FEW_REPETITIONS, "MMO_TEST_CITUS": prefix}
    session.run("pytest", "tests/citus", env=environment)
    if IS_SHORT:
        return
    session.run(
        "pytest", "-k", "postgresql", "tests/runtime/storage/test_conformance.py", env=environment
    )
    pairs = ("-k", "postgresql", "-m", "not long", "tests/runtime/storage/test_input_pairs.py")
    session.run("pytest", *pairs, env=environment)
    session.run("pytest", "tests/runtime/contract/test_nodes.py", "--kills", "10", env=environment)
    left_out = [f"--ignore-glob=tests/runtime/contract/{each}" for each in INDEPENDENT]
    session.run("pytest", "tests/runtime/contract", "--store=postgres", *left_out, env=environment)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def clients(session: nox.Session) -> None:
    """Pay with the usual HTTP clients of Java, Go, Node, PHP, Ruby, .NET, Python and curl, in the
    short form by TLS only; a missing one fails."""
    install(session, "clients")
    chosen = ["-k", "not clear"] if IS_SHORT else []
    session.run("pytest", *ON_ALL_PROCESSORS, "tests/clients", *chosen, *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def openapi_tools(session: nox.Session) -> None:
    """Have checkers, a mock server, generators of clients and Postman read the OpenAPI document,
    and pay with what they make of it; npm installs half of them."""
    install(session, "openapi_tools")
    tools = install_npm(session, *OPENAPI_TOOLS)
    session.run(
        "pytest", *ON_ALL_PROCESSORS, "tests/openapi_tools", *session.posargs, env={"PATH": tools}
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def proxies(session: nox.Session) -> None:
    """Run the shipped configurations of nginx and HAProxy before two gateways; it has no shorter
    form."""
    missing = [
        each
        for each in PROXIES
        if shutil.which(each, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin") is None
    ]
    if missing:
        message = (
            f"there is no {' and no '.join(missing)}. Install them (Debian: apt install "
            f"nginx-light haproxy)."
        )
        session.error(message) if "CI" in os.environ else session.skip(message)
    install(session, "test")
    session.run("pytest", "tests/proxies", *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def container(session: nox.Session) -> None:
    """Check the compose file, build the image of `deploy/Containerfile` on a Debian made from
    packages, and pay through a container of it; in the short form only on a base image that
    MMO_TEST_CONTAINER_BASE names."""
    install(session, "container")
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml"
    )
    if IS_SHORT and not pathlib.Path(os.environ.get("MMO_TEST_CONTAINER_BASE", "/")).is_file():
        session.skip(
            "the compose file is right; no image was built, as to make its base takes minutes."
        )
    missing = [each for each in CONTAINER_TOOLS if shutil.which(each) is None]
    if missing or os.geteuid() != 0:
        reason = (
            f"there is no {' and no '.join(missing)}" if missing else "only root may make the image"
        )
        session.skip(f"{reason} (Debian, as root: apt install buildah mmdebstrap).")
    session.run("pytest", "tests/container", *session.posargs)


@nox.session(python=MAIN_PYTHON, tags=LONG)
def operator_clients(session: nox.Session) -> None:
    """Let clients of the operators that other people wrote use the simulators, each in an
    environment of its own."""
    install(session, "test")
    environments = pathlib.Path(".nox/operator_clients_environments").absolute()
    session.run(
        "pytest",
        "tests/operator_clients",
        *session.posargs,
        env={"MMO_TEST_CLIENTS": str(environments)},
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def schemathesis(session: nox.Session) -> None:
    """Send requests generated from the OpenAPI document to a sandbox (`-- --max-examples 500`)."""
    install(session, "schemathesis")
    session.run(
        "python",
        "-m",
        "tests.fuzzing",
        *(session.posargs or (["--max-examples", "10"] if IS_SHORT else [])),
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def bench(session: nox.Session) -> None:
    """Measure ratios of programs run in turn; `nox -s bench -- life --minutes 10` runs one. The
    short form measures one for seconds, and leaves the stored results as they are."""
    install(session, "bench")
    short = [
        "look_ups",
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--rows",
        "1000",
        "--to",
        session.create_tmp(),
    ]
    session.run("python", "-m", "bench", *(session.posargs or (short if IS_SHORT else [])))


@nox.session(python=MAIN_PYTHON)
def lock(session: nox.Session) -> None:
    """Write the lock files and the SBOM of a deployment: `nox -s lock -- --upgrade` takes newer
    versions."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), "lock"))
    compile_ = (
        "uv",
        "pip",
        "compile",
        "--universal",
        "--python-version",
        MAIN_PYTHON,
        "--generate-hashes",
        "--quiet",
    )
    header = ("--custom-compile-command", "nox -s lock")
    session.run(
        *compile_, *header, "--extra", "server", "pyproject.toml", "-o", LOCK, *session.posargs
    )
    session.run(*compile_, *header, "--group", "build", "-o", BUILD_LOCK, *session.posargs)
    write_sbom(session, SBOM)


def write_sbom(session: nox.Session, file: str) -> None:
    """Write the software bill of materials of what the lock file installs."""
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
        file,
    )


@nox.session(python=MAIN_PYTHON, tags=LONG)
def release(session: nox.Session) -> None:
    """Build the distributions of what is committed into `dist/python`, with their SBOM beside it;
    check them, install them with pip, uv and pipx on each Python, pay there, and upgrade a store of
    the newest tag. `-- v0.1.0` refuses another version, and one without a date in CHANGES.md. The
    short form installs once on each Python."""
    install(session, "release")
    tag = {"MMO_RELEASE_TAG": session.posargs[0]} if session.posargs else {}
    session.run("pytest", "tests/release/test_version.py", env=tag)
    dist, source = pathlib.Path("dist"), pathlib.Path(session.create_tmp()) / "source"
    for folder in (dist, source):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    session.run("git", "archive", "--output", f"{source}.tar", "HEAD", external=True)
    session.run("tar", "-x", "-f", f"{source}.tar", "-C", str(source), external=True)
    for project in (source, source / PROVIDER_PACKAGE):
        session.run(
            "python", "-m", "build", "--quiet", "--outdir", str(dist / "python"), str(project)
        )
    session.run("twine", "check", "--strict", *map(str, dist.glob("python/*")))
    session.run("check-wheel-contents", *map(str, dist.glob("python/*.whl")))
    write_sbom(session, str(dist / "mmo-gateway.cdx.json"))
    # Not the session's own folder: the path of a socket below it would be too long.
    session.run(
        "pytest", *ON_ALL_PROCESSORS, "tests/release", env=tag | {"TMPDIR": tempfile.gettempdir()}
    )


@nox.session(python=MAIN_PYTHON)
def audit(session: nox.Session) -> None:
    """Look every locked package up among the advisories of PyPI; fails also when PyPI cannot be
    reached."""
    session.install("pip-audit>=2.7,<3")
    for file in (LOCK, BUILD_LOCK):
        session.run(
            "pip-audit",
            "--require-hashes",
            "--disable-pip",
            "--strict",
            "-r",
            file,
            *session.posargs,
        )
