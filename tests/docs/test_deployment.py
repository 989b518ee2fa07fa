"""The files of a deployment name exact versions, and agree with one another and with
pyproject.toml."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mmo_sansio.http.ip_rules import FORBIDDEN_RANGES, METADATA
from tests.support.time_limits import HANGS_AFTER_S

ENTRY = re.compile(
    r"^([A-Za-z0-9._-]+)==([^ ;\\]+)(?: ; ([^\\]+?))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: "
    r"\\)?\n)+)",
    re.M,
)
EVERY_ENTRY = re.compile(r"^(?![ #]).+", re.M)

NOT_SUPPORTED = 77
WITHOUT_EXECUTABLE_MEMORY = f"""
import ctypes, mmap
from argon2 import PasswordHasher
from mmo_trio.cli.group import main

REFUSE_EXECUTABLE_MEMORY = 65  # PR_SET_MDWE of prctl(2), which does what the unit's setting does.
if ctypes.CDLL(None).prctl(REFUSE_EXECUTABLE_MEMORY, 1, 0, 0, 0):
    raise SystemExit({NOT_SUPPORTED})
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    PasswordHasher().hash("a password")
    main(["demo", "--once"])
"""
"""Hashes a password and plays a whole payment in a process whose memory never becomes code."""


def locked(text: str) -> dict[str, tuple[Version, str | None]]:
    """Return version and marker of every package of a lock file, all of which have hashes."""
    entries: dict[str, tuple[Version, str | None]] = {
        canonicalize_name(each[1]): (Version(each[2]), each[3]) for each in ENTRY.finditer(text)
    }
    assert len(entries) == len(EVERY_ENTRY.findall(text)), (
        "an entry has no hash, or stands there twice"
    )
    return entries


@pytest.fixture
def lock(root: Path) -> dict[str, tuple[Version, str | None]]:
    return locked((root / "deploy/requirements.lock").read_text(encoding="utf-8"))


def test_the_lock_file_satisfies_the_dependencies(
    root: Path, lock: dict[str, tuple[Version, str | None]]
) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    deployed = [text for extra in ("server", "simulators", "tools") for text in extras[extra]]
    for text in (*project["project"]["dependencies"], *deployed):
        requirement = Requirement(text)
        if requirement.name == project["project"]["name"]:
            continue  # One extra that brings another.
        version, _ = lock[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{text}: run `nox -s lock`"


def test_what_builds_the_wheel_is_locked_too(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    lock = locked((root / "deploy/requirements-build.lock").read_text(encoding="utf-8"))
    assert project["dependency-groups"]["build"] == project["build-system"]["requires"]
    for text in project["build-system"]["requires"]:
        requirement = Requirement(text)
        version, _ = lock[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{text}: run `nox -s lock`"


def test_the_sbom_lists_what_is_locked(
    root: Path, lock: dict[str, tuple[Version, str | None]]
) -> None:
    sbom = json.loads((root / "deploy/sbom.cdx.json").read_text(encoding="utf-8"))
    listed = {
        canonicalize_name(each["name"]): Version(each["version"]) for each in sbom["components"]
    }
    on_linux = {
        name: version for name, (version, marker) in lock.items() if not marker or name in listed
    }
    assert listed == on_linux
    assert all(each.get("licenses") for each in sbom["components"]), "a package without a licence"


def test_the_image_is_built_from_fixed_bytes(root: Path) -> None:
    text = (root / "deploy/Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE_IMAGE=\S+@sha256:[0-9a-f]{64}$", text, re.M)
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${BASE_IMAGE}"}
    installs = re.findall(r"pip install (.*?)(?: \\)?$", text, re.M)
    assert installs
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


class _Readiness(BaseHTTPRequestHandler):
    """Answers as a gateway that is ready, or is not."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("status", [200, 503])
def test_the_image_asks_the_listener_that_it_exposes(
    root: Path, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The documented settings serve TLS, with a certificate for another name than the container's
    own address."""
    text = (root / "deploy/Containerfile").read_text(encoding="utf-8")
    python, *arguments = json.loads(
        re.findall(r"^HEALTHCHECK .*\\\n *CMD (\[.*\])$", text, re.M)[0]
    )
    assert python == "python"
    ports = re.findall(r"^EXPOSE (\d+) \d+$", text, re.M)
    assert f"'https://127.0.0.1:{ports[0]}/readyz'" in arguments[1]
    assert f'api = "0.0.0.0:{ports[0]}"' in (root / "docs/run_a_gateway.md").read_text(
        encoding="utf-8"
    )

    monkeypatch.setattr(_Readiness, "status", status)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Readiness) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("pay.example.com").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"https://127.0.0.1:{server.server_address[1]}/readyz"
        asked = subprocess.run(
            [sys.executable, *arguments], env={"HEALTH_URL": address}, cwd=tmp_path, check=False
        )
        server.shutdown()
        thread.join()
    assert (asked.returncode == 0) is (status == 200)


def test_the_unit_keeps_memory_from_becoming_code_and_the_machine_from_metadata(root: Path) -> None:
    unit = (root / "deploy/mmo-gateway.service").read_text(encoding="utf-8")
    assert "\nMemoryDenyWriteExecute=yes\n" in unit
    denied = [
        ip_network(network)
        for networks in re.findall(r"^IPAddressDeny=(.+)$", unit, re.MULTILINE)
        for network in networks.split()
    ]
    assert denied == [each.network for each in FORBIDDEN_RANGES if each.description == METADATA]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_gateway_works_where_no_memory_becomes_code() -> None:
    program = [sys.executable, "-c", WITHOUT_EXECUTABLE_MEMORY]
    played = subprocess.run(
        program, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
    )
    if played.returncode == NOT_SUPPORTED:
        pytest.skip("the kernel is older than 6.3")
    assert played.returncode == 0, played.stderr
    assert "success" in played.stdout


def test_the_unit_bounds_memory_and_tasks_and_writes_no_core(root: Path) -> None:
    unit = (root / "deploy/mmo-gateway.service").read_text(encoding="utf-8")
    for limit in ("LimitCORE=0", "MemoryMax=", "TasksMax=", "UMask=0077"):
        assert f"\n{limit}" in unit
