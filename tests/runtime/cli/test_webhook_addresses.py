"""The address for an operator's notifications is printed for its portal, and it works."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.cli.group import main

SETTINGS = """
[gateway]
hooks_url = "https://hooks.example/"

[keys]
master_key_file = "{directory}/master.key"

[provider.sandbox]
kind = "sandbox"

[provider.airtel_ug]
kind = "airtel_money"

[provider.airtel_ke]
kind = "airtel_money"
hooks_name = "kenya"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    create_master_key(tmp_path / "master.key")
    file = tmp_path / "mmo.toml"
    file.write_text(SETTINGS.format(directory=tmp_path), "utf-8")
    return file


def address(config: Path, name: str) -> Result:
    return CliRunner().invoke(main, ["providers", "address", name, "--config", str(config)])


@pytest.mark.parametrize(("name", "segment"), [("airtel_ug", "airtel_ug"), ("airtel_ke", "kenya")])
def test_the_address_of_an_account_is_printed(config: Path, name: str, segment: str) -> None:
    done = address(config, name)
    token = KeyRing(*load_master_keys(config.parent / "master.key")).webhook_tokens(name)[0]
    assert done.stdout == f"https://hooks.example/hooks/{segment}/{token}\n"


@pytest.mark.parametrize("name", ["sandbox", "nobody"])
def test_who_is_no_account_has_no_address(config: Path, name: str) -> None:
    done = address(config, name)
    assert done.exit_code != 0
    assert "/hooks/" not in done.output
