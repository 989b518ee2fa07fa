"""Define the sessions: `nox` is what every change must pass, and `nox -l` lists all of them.

`MMO_EFFORT` says how much a test plays: `quick`, as when it is not set, or `full`, for the end of a
larger piece of work. Sessions that install the same share an environment below `.nox`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import nox
from uv import find_uv_bin

nox.needs_version = ">=2025.10.14"
nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "none"
# Or each process of each test compiles all of its modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parent
MAIN_PYTHON = "3.11"
OTHER_PYTHONS = ["3.12", "3.13"]
IS_CI = "CI" in os.environ
IS_FULL = os.environ.get("MMO_EFFORT", "quick") == "full"

BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder"]
"""Each process takes whole files, as their tests share servers; in the order given, not those of
few tests last: these may take the longest."""
ON_ALL_PROCESSORS = ["-n", "auto", *BY_FILE]
TWO_ON_EACH = ["-n", str(2 * (os.cpu_count() or 1)), *BY_FILE]
THREE_ON_EACH = ["-n", str(3 * (os.cpu_count() or 1)), *BY_FILE]
"""Most tests of the shell wait, so three of them fit on a processor."""

SHELL = [
    "tests/simulation",
    "tests/merchant",
    "tests/runtime",
    "tests/simulators",
    "packages",
    "tests/docs",
]
"""Whatever is tested in the environment of a gateway."""
SAME_ON_EVERY_PYTHON = ["tests/sansio/simulation", "tests/sansio/structure"]
"""What one interpreter tells of all: laws of the core, and texts of its source."""
BOUNDED = ["tests/runtime", "tests/merchant", "tests/simulators", "packages"]
"""What depends on packages of others."""
CONTRACT = "tests/runtime/contract"
FIRST_PAYMENT = f"{CONTRACT}/test_first_payment.py"
"""A payment end to end."""
INDEPENDENT = [
    f"--ignore-glob={CONTRACT}/test_{subject}*"
    for subject in ("airtel", "mpesa", "mtn", "operator", "provider", "api_docs", "deploy")
]
"""Leaves out tests of the contract whose result depends neither on the store nor on the version of
HTTP."""
ON_EVERY_POSTGRES = [
    "tests/runtime/storage/test_conformance.py",
    "tests/runtime/storage/postgres",
    f"{CONTRACT}/test_nodes.py",
    f"{CONTRACT}/test_kill.py",
]

LOCK = "deploy/requirements.lock"
BUILD_LOCK = "deploy/requirements-build.lock"
SBOM = "deploy/sbom.cdx.json"
PROVIDER_PACKAGES = ("packages/mmo-provider-pawapay", "packages/mmo-provider-wave")
OUTSIDE_PASSED = ROOT / ".ci" / "outside"
"""Names the last commit that passed `outside`, and beneath it what that session tests."""

OPENAPI_TOOLS = [
    "@redocly/cli@2",
    "@stoplight/spectral-cli@6",
    "@stoplight/prism-cli@5",
    "openapi-typescript@7",
    "typescript@5",
    "openapi-to-postmanv2@6",
]

TEMPORARY = tempfile.gettempdir()
"""Not the folder that a session makes: the path of a socket below it would be too long."""

_began_at = time.monotonic()
_install_durations_s: list[float] = []


@atexit.register
def print_durations() -> None:
    """Print how long installing took, apart from everything else."""
    if not _install_durations_s:
        return

    installs_s = sum(_install_durations_s)
    rest_s = time.monotonic() - _began_at - installs_s
    print(f"Installing took {installs_s:.0f} s, everything else {rest_s:.0f} s.")


class Environment:
    """An environment below `.nox`, which several sessions may use, brought up to date."""

    def __init__(
        self,
        session: nox.Session,
        name: str,
        *groups: str,
        project: str | None = ".[server]",
        python: str = MAIN_PYTHON,
        options: tuple[str, ...] = (),
    ) -> None:
        self._session = session
        self.folder = ROOT / ".nox" / f"{name}-{python}"
        self.bin = self.folder / "bin"

        began_at = time.monotonic()
        uv = find_uv_bin()
        create = ["venv", "--quiet", "--allow-existing", "--no-python-downloads"]
        session.run(uv, *create, "--python", python, str(self.folder), external=True)

        dependency_groups = nox.project.dependency_groups(
            nox.project.load_toml("pyproject.toml"),
            *groups,
        )
        wanted = [*([project] if project else []), *dependency_groups]
        install = ["pip", "install", "--quiet", "--python", str(self.folder), *options]
        session.run(uv, *install, *wanted, external=True)
        _install_durations_s.append(time.monotonic() - began_at)

    def run(self, program: str, *arguments: str, path: str = "", **environment: str) -> None:
        """Run a program of this environment, which is found first by what it starts; then those
        of the folder `path`."""
        folders = [path, str(self.bin), os.environ["PATH"]]
        variables = {
            "PATH": os.pathsep.join(folder for folder in folders if folder),
            "VIRTUAL_ENV": str(self.folder),
            **environment,
        }
        self._session.run(str(self.bin / program), *arguments, env=variables, external=True)

    def pytest(self, *arguments: str, path: str = "", **environment: str) -> None:
        """Run tests."""
        self.run("pytest", *arguments, path=path, **environment)


def gateway(session: nox.Session, python: str = MAIN_PYTHON) -> Environment:
    """Return the environment of most tests: a gateway, and what tests it."""
    return Environment(session, "gateway", "test", python=python)


def core(session: nox.Session, python: str = MAIN_PYTHON) -> Environment:
    """Return an environment with the core, and nothing but what it needs."""
    environment = Environment(session, "core", "sansio", project=".", python=python)
    is_alone = "import importlib.util as u; assert u.find_spec('trio') is None"
    environment.run("python", "-c", is_alone)
    return environment


def found_pythons(session: nox.Session) -> list[str]:
    """Return those of the other interpreters that are on this machine; CI must have all."""
    find = [find_uv_bin(), "python", "find", "--no-python-downloads"]
    found = []
    for python in OTHER_PYTHONS:
        if subprocess.run([*find, python], capture_output=True, check=False).returncode == 0:
            found.append(python)
        elif IS_CI:
            session.error(f"there is no Python {python}.")
        else:
            session.log(f"Left out: there is no Python {python}.")
    return found


def install_npm(session: nox.Session, *packages: str) -> str:
    """Install packages of npm beside the session; return the folder with their programs."""
    began_at = time.monotonic()
    folder = Path(session.create_tmp()).absolute()
    npm = ("npm", "install", "--silent", "--prefix", str(folder))
    session.run(*npm, *packages, external=True)
    _install_durations_s.append(time.monotonic() - began_at)
    return f"{folder}/node_modules/.bin"


def need(session: nox.Session, programs: dict[str, str]) -> None:
    """Have programs that no Python package brings, each with Debian's packages that do.

    CI, as root, installs what is missing. Elsewhere the session ends, and says what to install.
    """
    searched = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    missing = {
        program: packages
        for program, packages in programs.items()
        if shutil.which(program, path=searched) is None
    }
    if not missing:
        return

    packages = " ".join(missing.values())
    if IS_CI and os.geteuid() == 0:
        began_at = time.monotonic()
        session.run(".ci/install_packages", *packages.split(), external=True)
        _install_durations_s.append(time.monotonic() - began_at)
        return

    message = f"there is no {', no '.join(missing)} (Debian: apt install {packages})."
    if IS_CI:
        session.error(message)
    session.skip(message)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, style and types."""
    environment = Environment(session, "lint", "typing", "lint")
    environment.run("ruff", "format", "--check", ".")
    environment.run("ruff", "check", ".")
    environment.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Test core, shell and documents, but for what is long.

    The core with attrs alone; the shell, the simulators and the packages with real sockets, TLS,
    stores and processes. Then, on the other interpreters, the core without its simulation and
    without the tests that read source texts, and payments end to end.
    """
    if IS_CI:
        need(session, CALLED_BY_TESTS)
    if session.posargs:
        gateway(session).pytest(*ON_ALL_PROCESSORS, *session.posargs)
        return

    core(session).pytest(*ON_ALL_PROCESSORS, "-m", "not long", "tests/sansio")
    gateway(session).pytest(*THREE_ON_EACH, "-m", "not long", *SHELL)

    for python in found_pythons(session):
        left_out = [f"--ignore={folder}" for folder in SAME_ON_EVERY_PYTHON]
        core(session, python).pytest(
            *ON_ALL_PROCESSORS,
            "-m",
            "not long",
            "tests/sansio",
            *left_out,
        )
        gateway(session, python).pytest(FIRST_PAYMENT)


CALLED_BY_TESTS = {
    "php": "php-cli php-curl",
    "zsh": "zsh",
    "fish": "fish",
    "pgbouncer": "pgbouncer",
    "pg_createcluster": "postgresql",
    "promtool": "prometheus",
}
"""What single tests of the default run call; each of them is skipped where its program is missing,
but in CI."""


@nox.session
def browser(session: nox.Session) -> None:
    """Test the pages in a real Chromium.

    MMO_SCREENSHOTS=1 writes docs/screenshots again.
    """
    if not os.environ.get("MMO_CHROMIUM"):
        chromiums = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
        found = next(filter(shutil.which, chromiums), chromiums[0])
        need(session, {found: "chromium-headless-shell"})
    environment = Environment(session, "browser", "browser")
    environment.pytest(*ON_ALL_PROCESSORS, "tests/browser", *session.posargs)


@nox.session
def long(session: nox.Session) -> None:
    """Test what takes too long for every change: kills, races, crowds.

    Then the merchant API on PostgreSQL by HTTP/2, and the documents as a site. With full effort,
    all tests in full, on both versions of HTTP, on each PostgreSQL that can be had, and on Citus.
    """
    if IS_CI:
        need(session, CALLED_BY_TESTS)
    environment = gateway(session)
    if session.posargs:
        environment.pytest(*ON_ALL_PROCESSORS, *session.posargs)
        return

    # In the end one process would play the files of the longest folder alone, so it comes first.
    longest = ["tests/runtime/workers", "tests/merchant"]
    rest = [str(folder) for folder in sorted(Path("tests/runtime").glob("[a-z]*/"))]
    folders = [*longest, *rest, "tests/simulators", "tests/simulation", "tests/docs"]
    contract = [CONTRACT, "--store=postgres", *INDEPENDENT]
    if not IS_FULL:
        environment.pytest(*TWO_ON_EACH, "-m", "long", *folders)
        environment.pytest(*TWO_ON_EACH, "-m", "not long", *contract, "--http=2")
    else:
        environment.pytest(*ON_ALL_PROCESSORS, *folders)
        environment.pytest(*ON_ALL_PROCESSORS, *contract)
        environment.pytest(*ON_ALL_PROCESSORS, "-m", "not long", CONTRACT, "--http=2")
        play_on_every_postgres(session, environment)
        play_on_citus(session, environment)
    build_site(session)


def play_on_every_postgres(session: nox.Session, environment: Environment) -> None:
    """Test store, nodes and failover on each major version of PostgreSQL that can be had."""
    programs = (str(environment.bin / "python"), "-m", "tests.support.postgres_programs")
    names = str(session.run(*programs, silent=True, external=True)).split()
    for name in names:
        chosen = ("-k", "not sqlite", f"--postgres={name}")
        environment.pytest(*ON_ALL_PROCESSORS, *chosen, *ON_EVERY_POSTGRES, MMO_EFFORT="quick")
    session.log(f"Tested on {', '.join(names)}.")


def play_on_citus(session: nox.Session, environment: Environment) -> None:
    """Test distributed tables on a coordinator of Citus and two workers, which takes a quarter of
    an hour to build: the store, nodes that are killed, and the whole merchant API."""
    prefix = os.environ.get("MMO_TEST_CITUS") or str(ROOT / ".nox" / "citus")
    session.run("deploy/citus/build.sh", prefix, external=True)
    for arguments in (
        ["tests/citus"],
        ["-k", "postgresql", "tests/runtime/storage/test_conformance.py"],
        ["-k", "postgresql", "-m", "not long", "tests/runtime/storage/test_input_pairs.py"],
        [f"{CONTRACT}/test_nodes.py"],
        [CONTRACT, "--store=postgres", *INDEPENDENT],
    ):
        environment.pytest(*arguments, MMO_TEST_CITUS=prefix, MMO_EFFORT="quick")


def build_site(session: nox.Session) -> None:
    """Make the pages a site with a search, `docs/_build/index.html`, without a warning."""
    site = Environment(session, "site", "site", project=None)
    strict = ("-n", "-W", "--keep-going", "-b", "dirhtml")
    site.run("sphinx-build", *strict, "docs", "docs/_build")


@nox.session
def outside(session: nox.Session) -> None:
    """Test with other people's programs, and write down which commit passed.

    HTTP clients of eight languages and nghttp2, shops on their frameworks, OpenAPI tools,
    operators' clients, libraries for money and numbers, Schemathesis, nginx, HAProxy and
    LibreOffice; with full effort, the container.
    """
    need(
        session,
        {
            "java": "default-jdk-headless",
            "go": "golang-go",
            "node": "nodejs npm",
            "php": "php-cli php-curl",
            "ruby": "ruby ruby-webrick",
            "curl": "curl",
            "h2load": "nghttp2-client",
            "nginx": "nginx-light",
            "haproxy": "haproxy",
            "soffice": "libreoffice-calc",
        },
    )
    if IS_FULL and os.geteuid() == 0:
        need(session, {"buildah": "buildah", "mmdebstrap": "mmdebstrap"})
    environment = Environment(session, "outside", "outside")
    environment.run(
        "check-jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "deploy/compose.yaml",
    )

    chosen = session.posargs or ["tests/outside"]
    if not IS_FULL:
        chosen.append("--ignore=tests/outside/container")  # Minutes for its base image.
    environment.pytest(
        *ON_ALL_PROCESSORS,
        *chosen,
        path=install_npm(session, *OPENAPI_TOOLS),
        MMO_TEST_CLIENTS=str(ROOT / ".nox" / "operator_clients"),
        TMPDIR=TEMPORARY,
    )
    if session.posargs:
        return

    examples = [] if IS_FULL else ["--max-examples", "10"]
    environment.run("python", "-m", "tests.outside.fuzzing", *examples)
    note_what_passed(session)


def note_what_passed(session: nox.Session) -> None:
    """Write the commit that passed `outside` into the file by which `.ci/run` decides."""
    _, *inputs = OUTSIDE_PASSED.read_text(encoding="utf-8").splitlines()
    changed = session.run("git", "status", "--porcelain", "--", *inputs, silent=True, external=True)
    if changed:
        session.log(f"Not noted in {OUTSIDE_PASSED.name}: what was tested is not committed.")
        return

    commit = str(session.run("git", "rev-parse", "HEAD", silent=True, external=True)).strip()
    OUTSIDE_PASSED.write_text("\n".join([commit, *inputs, ""]), encoding="utf-8")


@nox.session
def simulate(session: nox.Session) -> None:
    """Play many seeds of the core and of whole gateways.

    Then find every planted bug, and compare digests on each Python. `-- --seeds N` or
    `-- --hours H` plays so many seeds of whole gateways only.
    """
    environment = gateway(session)
    if session.posargs:
        environment.run("python", "-m", "tests.simulation", *session.posargs)
        return

    core_seeds, seeds, reversals, compared = ("1000", "20", "100", "16")
    if IS_FULL:
        core_seeds, seeds, reversals, compared = ("20000", "500", "20000", "100")
    environment.run("python", "-m", "tests.sansio.simulation", "--seeds", core_seeds)
    environment.run("python", "-m", "tests.simulation", "--seeds", seeds)
    environment.pytest(*ON_ALL_PROCESSORS, "tests/simulation")
    environment.run("python", "-m", "tests.simulation.reversal_worlds", reversals, "--crowded")

    # Processes that order their sets differently: the first one writes the digests, and all others
    # must have the same.
    digests = ROOT / ".nox" / "simulation_digests.json"
    digests.unlink(missing_ok=True)
    for python in (MAIN_PYTHON, *found_pythons(session)):
        compare = ("-m", "tests.simulation.digests", str(digests), "--seeds", compared)
        for hash_seed in ("1", "2"):
            gateway(session, python).run("python", *compare, PYTHONHASHSEED=hash_seed)


@nox.session
def bounds(session: nox.Session) -> None:
    """Test the shell on the lowest and the newest packages.

    The lowest versions that `pyproject.toml` allows, and the newest, also those that are not final.
    """
    ends = {
        "lowest": ("--resolution", "lowest-direct"),
        "newest": ("--prerelease", "allow", "--upgrade"),
    }
    for name, options in ends.items():
        # Made anew: what is installed already would count as wanted.
        shutil.rmtree(ROOT / ".nox" / f"{name}-{MAIN_PYTHON}", ignore_errors=True)
        environment = Environment(session, name, "test", options=options)
        chosen = session.posargs or ["-m", "not long", *BOUNDED]
        environment.pytest(*TWO_ON_EACH, *chosen, MMO_EFFORT="quick")


@nox.session
def mutants(session: nox.Session) -> None:
    """Say how much the tests see.

    The lines and branches of core and shell that they enter, and the changes to the payment rules,
    made on purpose, that they notice.
    """
    environment = gateway(session)
    measured = [f"--cov={package.name}" for package in sorted(Path("src").glob("mmo_*"))]
    report = ("--cov-branch", "--cov-report=term:skip-covered")
    chosen = ("-m", "not long", "tests/sansio", *SHELL)
    environment.pytest(*TWO_ON_EACH, *measured, *report, *chosen)

    mutated = Environment(session, "mutants", "mutants", project=".")
    mutated.run("python", "tests/mutants/run.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure ratios of programs run in turn; `nox -s bench -- life --minutes 10` runs one."""
    Environment(session, "bench", "bench").run("python", "-m", "bench", *session.posargs)


@nox.session
def lock(session: nox.Session) -> None:
    """Write the lock files and the SBOM of a deployment.

    `nox -s lock -- --upgrade` takes newer versions.
    """
    environment = Environment(session, "lock", "lock", project=None)
    compile_ = [
        *("pip", "compile", "--universal", "--python-version", MAIN_PYTHON),
        *("--generate-hashes", "--quiet", "--custom-compile-command", "nox -s lock"),
    ]
    server = ("--extra", "server", "pyproject.toml", "-o", LOCK)
    build = ("--group", "build", "-o", BUILD_LOCK)
    environment.run("uv", *compile_, *server, *session.posargs)
    environment.run("uv", *compile_, *build, *session.posargs)
    write_sbom(session, environment, SBOM)


def write_sbom(session: nox.Session, environment: Environment, file: str) -> None:
    """Write the software bill of materials of what the lock file installs."""
    deployed = str(Path(session.create_tmp()) / "deployed")
    environment.run("uv", "venv", "--quiet", "--clear", "--python", MAIN_PYTHON, deployed)
    environment.run("uv", "pip", "sync", "--quiet", "--require-hashes", "--python", deployed, LOCK)
    described = ("--pyproject", "pyproject.toml", "--output-reproducible", "--sv", "1.6")
    environment.run("cyclonedx-py", "environment", deployed, *described, "-o", file)


@nox.session
def release(session: nox.Session) -> None:
    """Build, install and try the distributions of what is committed.

    `dist/python` gets them, with their SBOM beside it. They and each extra are installed with pip,
    uv and pipx on each Python, payments are made there, and a store of the newest tag is upgraded.
    `-- v0.1.0` refuses another version, one without a date in CHANGES.md, and a project without a
    published address.
    """
    environment = Environment(session, "release", "release")
    tag = {"MMO_RELEASE_TAG": session.posargs[0]} if session.posargs else {}
    environment.pytest("tests/release/test_version.py", **tag)

    dist = Path("dist")
    source = Path(session.create_tmp()) / "source"
    for folder in (dist, source):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    session.run("git", "archive", "--output", f"{source}.tar", "HEAD", external=True)
    session.run("tar", "-x", "-f", f"{source}.tar", "-C", str(source), external=True)

    tag_or_main = session.posargs[0] if session.posargs else "main"
    environment.run("python", "-m", "tests.release.published_readme", str(source), tag_or_main)

    # With the locked build backend, as the image is built.
    locked = ("--build-constraints", BUILD_LOCK, "--require-hashes")
    build = ("build", "--quiet", *locked, "--out-dir", str(dist / "python"))
    for project in (source, *(source / package for package in PROVIDER_PACKAGES)):
        environment.run("uv", *build, str(project))
    environment.run("twine", "check", "--strict", *map(str, dist.glob("python/*")))
    environment.run("check-wheel-contents", *map(str, dist.glob("python/*.whl")))
    write_sbom(session, environment, str(dist / "mmo-gateway.cdx.json"))

    tests = ("tests/release", "tests/packages")
    environment.pytest(*ON_ALL_PROCESSORS, *tests, TMPDIR=TEMPORARY, **tag)


@nox.session
def audit(session: nox.Session) -> None:
    """Look every locked package up among the advisories of PyPI.

    Fails also when PyPI cannot be reached.
    """
    environment = Environment(session, "audit", "audit", project=None)
    for file in (LOCK, BUILD_LOCK):
        strict = ("--require-hashes", "--disable-pip", "--strict")
        environment.run("pip-audit", *strict, "-r", file, *session.posargs)
