"""The pages for those who run a gateway agree with settings, suspense book, log events and
PostgreSQL."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import yaml

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.messages.changes import SuspenseReason
from mmo_trio.brands.file import parse_brands
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.settings import load_settings
from mmo_trio.settings.sections import SECTIONS, SETTINGS
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.postgres_server import postgres_server
from tests.support.time_limits import HANGS_AFTER_S

TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(rf"`({'|'.join(SECTIONS)})\.([a-z_]+)`")


@pytest.fixture
def page(root: Path) -> str:
    """Return the page by which a gateway begins."""
    return (root / "docs/run_a_gateway.md").read_text(encoding="utf-8")


def test_every_reason_of_the_suspense_book_has_its_action(root: Path) -> None:
    page = (root / "docs/operating.md").read_text(encoding="utf-8")
    table = page.partition("## The suspense book")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(SuspenseReason)


def test_the_log_events_that_are_named_are_logged(root: Path) -> None:
    page = (root / "docs/monitoring.md").read_text(encoding="utf-8")
    table = page.partition("| Event |")[2].partition("\n\n")[0]
    events = re.findall(r"`([a-z]+_[a-z_]+)`", table)
    source = "".join(path.read_text("utf-8") for path in (root / "src").rglob("*.py"))
    assert len(events) > 10
    assert [each for each in events if f'"{each}' not in source] == []


OF_OPERATORS = (
    "run_a_gateway",
    "emergencies",
    "operating",
    "monitoring",
    "postgresql",
    "callbacks",
    "clauses",
)


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{each}.md" for each in OF_OPERATORS)])
def test_pages_name_only_existing_settings(root: Path, name: str) -> None:
    for section, key in NAMED.findall((root / name).read_text(encoding="utf-8")):
        if (section, key) != ("gateway", "db"):
            assert f"{section}.{key}" in SETTINGS


@pytest.fixture
def copied(page: str, tmp_path: Path, empty_database: str) -> Path:
    """Return a folder with the files that the page says to make; the database is an empty one."""
    settings, brands, *_ = TOML.findall(page)
    local = settings.replace("/etc/mmo", str(tmp_path)).replace("/var/lib/mmo", str(tmp_path))
    url = re.findall(r'^url = "(.*)"$', local, re.MULTILINE)[0]
    (tmp_path / "mmo.toml").write_text(local.replace(url, empty_database), encoding="utf-8")
    (tmp_path / "brands.toml").write_text(brands, encoding="utf-8")
    certificate = trustme.CA().issue_cert("pay.example")
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "chain.pem"))
    of_operator = trustme.CA(key_type=trustme.KeyType.RSA).issue_cert(
        "api.example", key_type=trustme.KeyType.RSA
    )
    (tmp_path / "daraja.cer").write_bytes(of_operator.cert_chain_pems[0].bytes())
    for secret in re.findall(r'_file = ".*/(daraja_\w+)"', settings):
        (tmp_path / secret).write_text("a-secret", encoding="utf-8")
    return tmp_path


@pytest.fixture
def empty_database() -> Iterator[str]:
    """The address of an empty database of PostgreSQL."""
    with postgres_server() as server:
        yield server.fresh()


def test_the_settings_to_copy_can_be_loaded(copied: Path) -> None:
    settings = load_settings(file=copied / "mmo.toml", environment={})
    assert settings.gateway.base_url == "https://pay.example.com"
    assert list(settings.providers) == ["mpesa_ke"]


@pytest.mark.parametrize("node", ["one", "two"])
def test_the_compose_files_nodes_take_the_settings_to_copy(
    root: Path, copied: Path, node: str
) -> None:
    compose = yaml.safe_load((root / "deploy/compose.yaml").read_text(encoding="utf-8"))
    environment = {
        name: re.sub("/etc/mmo|/var/lib/mmo", str(copied), value)
        for name, value in compose["services"][node]["environment"].items()
    }
    create_master_key(copied / "master.key")
    command = [*COMMAND, "check-config", "--config", str(copied / "mmo.toml")]
    done = subprocess.run(
        command,
        env=environment_without_settings() | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_brands_to_copy_can_be_read(page: str) -> None:
    _, text, *_ = TOML.findall(page)
    assert tomllib.loads(text)
    [configured] = parse_brands(
        text, source="brands.toml", providers={"mpesa_ke": "M-Pesa"}, rules=EgressRules()
    )
    assert configured.brand.id == "acme"


def test_the_start_of_the_page_leads_up_to_serving(page: str, copied: Path) -> None:
    made = page.partition("## 5. Make the store")[2].partition("\n## ")[0]
    [block] = re.findall(r"^```sh\n(.*?)^```$", made, re.MULTILINE | re.DOTALL)
    lines = block.replace("/etc/mmo", str(copied)).splitlines()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MMO_")}
    for line in lines:
        done = subprocess.run(
            [sys.executable, "-m", "mmo_trio.cli", *shlex.split(line)[1:]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert len(lines) == 4
    assert (copied / "master.key").exists()


UPGRADED = "the new commit"


def test_an_upgrade_leaves_what_serves_alone_until_the_switch(root: Path, tmp_path: Path) -> None:
    """The page's commands, with stand-ins for what reaches the network or needs a service."""
    page = (root / "docs/operating.md").read_text(encoding="utf-8")
    section = page.partition("## Upgrade")[2].partition("\n## ")[0]
    made, switched = re.findall(r"^   ```sh\n(.*?)^   ```$", section, re.MULTILINE | re.DOTALL)
    opt, programs = tmp_path / "opt", tmp_path / "programs"
    old = opt / "mmo-0123456" / "bin"
    old.mkdir(parents=True)
    (opt / "mmo").symlink_to(old.parent)
    serving = written_program(old / "mmo", "echo the old commit")
    programs.mkdir()
    pip = f"printf '#!/bin/sh\\necho {UPGRADED}\\n' > $(dirname $0)/mmo; chmod +x $(dirname $0)/mmo"
    written_program(programs / "pip", pip)
    written_program(programs / "python3", 'mkdir -p "$3/bin"; cp "$(dirname $0)/pip" "$3/bin"')
    written_program(programs / "git", 'test "$1" = pull || echo 89abcde')
    written_program(programs / "sudo", 'shift 2; exec "$@"')
    written_program(programs / "systemctl", f'test "$1" = restart; exec "{opt}/mmo/bin/mmo"')

    def play(commands: str) -> str:
        placed = commands.replace("/opt/", f"{opt}/").replace("/usr/bin/", f"{programs}/")
        environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
        played = subprocess.run(
            ["bash", "-euc", placed], env=environment, capture_output=True, text=True, check=False
        )
        assert played.returncode == 0, played.stderr
        return played.stdout.splitlines()[-1]

    assert play(made) == UPGRADED, "the new version has checked the settings"
    assert (opt / "mmo").resolve() == old.parent
    assert "the old commit" in serving.read_text("utf-8")
    assert play(made + switched) == UPGRADED
    assert (opt / "mmo").resolve() == opt / "mmo-89abcde"
    assert "the old commit" in serving.read_text("utf-8"), "the way back"


def written_program(file: Path, script: str) -> Path:
    """Write a program of the shell."""
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_the_gateway_is_installed_as_it_is_upgraded(root: Path, page: str) -> None:
    upgrade = (root / "docs/operating.md").read_text(encoding="utf-8")
    installed = page.partition("## 1. Install")[2].partition("\n## ")[0]
    commands = re.findall(r'^(?:new=|/usr/bin/python3|"\$new|ln ).*$', installed, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        assert f"   {command}\n" in upgrade


def test_the_unit_that_the_page_starts_serves_the_settings_of_the_page(
    root: Path, page: str
) -> None:
    unit = (root / "deploy/mmo-gateway.service").read_text(encoding="utf-8")
    [start] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert f"ExecStart={start} --workers 2\n" in page
    assert "cp deploy/mmo-gateway.service /etc/systemd/system/" in page
    assert [
        each.name
        for each in (root / "docs").rglob("*.md")
        if "KillMode=" in each.read_text("utf-8")
    ] == []
