"""The page about operation agrees with settings, suspense book and log events."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import trustme

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.messages.changes import SuspenseReason
from mmo_trio.brands.file import parse_brands
from mmo_trio.settings import load_settings
from mmo_trio.settings.sections import SECTIONS, SETTINGS
from tests.support.time_limits import HANGS_AFTER_S

TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(rf"`({'|'.join(SECTIONS)})\.([a-z_]+)`")


@pytest.fixture
def page(root: Path) -> str:
    """Return the page about operation."""
    return (root / "docs/operating.md").read_text(encoding="utf-8")


def test_every_reason_of_the_suspense_book_has_its_action(page: str) -> None:
    table = page.partition("## The suspense book")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(SuspenseReason)


def test_the_log_events_that_it_names_are_logged(root: Path, page: str) -> None:
    table = page.partition("| Event |")[2].partition("\n\n")[0]
    events = re.findall(r"`([a-z]+_[a-z_]+)`", table)
    source = "".join(path.read_text("utf-8") for path in (root / "src").rglob("*.py"))
    assert len(events) > 10
    assert [each for each in events if f'"{each}' not in source] == []


def test_every_row_about_postgresql_is_tested(root: Path, page: str) -> None:
    """A test names its row by the first cell."""
    table = page.partition("| What is set |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    tested = []
    for file in (root / "tests/runtime/storage/postgres").rglob("test_*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "operating_row":
                tested += [ast.literal_eval(each) for each in call.args]
    assert len(rows) > 20
    assert sorted(rows) == sorted(tested)


@pytest.mark.parametrize("name", ["README.md", "docs/operating.md", "docs/callbacks.md"])
def test_pages_name_only_existing_settings(root: Path, name: str) -> None:
    for section, key in NAMED.findall((root / name).read_text(encoding="utf-8")):
        if (section, key) != ("gateway", "db"):
            assert f"{section}.{key}" in SETTINGS


def test_the_settings_to_copy_can_be_loaded(page: str, tmp_path: Path) -> None:
    text, *_ = TOML.findall(page)
    file = tmp_path / "mmo.toml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings(file=file, environment={})
    assert settings.gateway.base_url == "https://pay.example.com"
    assert list(settings.providers) == ["sandbox"]


def test_the_brands_to_copy_can_be_read(page: str) -> None:
    _, text, *_ = TOML.findall(page)
    assert tomllib.loads(text)
    [configured] = parse_brands(text, source="brands.toml", providers={"sandbox": "Sandbox"}, rules=EgressRules())
    assert configured.brand.id == "acme"


def test_the_start_of_the_page_leads_up_to_serving(page: str, tmp_path: Path) -> None:
    for name, text in zip(("mmo.toml", "brands.toml"), TOML.findall(page), strict=False):
        local = text.replace("/etc/mmo", str(tmp_path)).replace("/var/lib/mmo", str(tmp_path))
        (tmp_path / name).write_text(local, encoding="utf-8")
    certificate = trustme.CA().issue_cert("pay.example")
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "chain.pem"))
    start = page.partition("## Start")[2].partition("\n## ")[0]
    [block] = re.findall(r"^```sh\n(.*?)^```$", start, re.MULTILINE | re.DOTALL)
    *lines, last = block.replace("/etc/mmo", str(tmp_path)).splitlines()
    assert last.startswith("mmo serve ")
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
    assert (tmp_path / "gateway.db").exists()
    assert (tmp_path / "master.key").exists()
