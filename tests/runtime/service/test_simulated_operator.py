"""The simulated operator runs only where a provider of kind `sandbox` is configured."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from mmo_trio.brands.master_key import create_master_key
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from tests.support.merchant import Merchant
from tests.support.merchants import a_brand
from tests.support.mmo_process import (
    COMMAND,
    Process,
    environment_without_settings,
    serving_process,
)
from tests.support.simulated_accounts import account_options

pytestmark = pytest.mark.own_store

SEVERAL = (sys.executable, str(Path(__file__).parents[2] / "support" / "multi_file_service.py"))
STARTED_SLOT = re.compile(r"process_started.*?slot=([\w-]+)")

SETTINGS = """
[keys]
master_key_file = "{keys}/master.key"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"

[provider.operator]
"""
BRAND = a_brand("acme", "the-key-of-the-brand-acme", provider="operator")
DATABASE = """
[database]
url = "sqlite:///{directory}/gateway.db"
"""
SIMULATED = 'kind = "sandbox"\n'
REAL = 'kind = "mtn_momo"\n' + "".join(
    f'{key} = "{value}"\n' for key, value in account_options("mtn").items()
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory that holds the master key."""
    create_master_key(tmp_path / "keys" / "master.key")
    return tmp_path / "keys"


@pytest.fixture
def read_only_keys(keys: Path) -> Iterator[Path]:
    """The same directory, in which the gateway's user may write nothing."""
    keys.chmod(0o500)
    yield keys
    keys.chmod(0o700)


def configure(
    directory: Path, keys: Path, provider: str, *, database: str = "", brands: str = ""
) -> Path:
    """Write the settings with this one provider, and the file of brands."""
    (directory / "brands.toml").write_text(brands, encoding="utf-8")
    file = directory / "mmo.toml"
    text = (SETTINGS + provider + database).format(keys=keys, directory=directory)
    file.write_text(text, encoding="utf-8")
    return file


def files_in(directory: Path) -> set[str]:
    """The names of the files in a directory."""
    return {each.name for each in directory.iterdir()}


def children_of(running: Process) -> int:
    """How many processes the service has started."""
    done = subprocess.run(["ps", "-A", "-o", "ppid="], capture_output=True, text=True, check=True)
    return done.stdout.split().count(str(running.process.pid))


def started_slots(log: Path) -> set[str]:
    """The slots for which the supervisor has started a process."""
    text = re.sub(r"\x1b\[\d*m", "", log.read_text(encoding="utf-8"))
    return set(STARTED_SLOT.findall(text))


async def test_one_process_with_real_providers_opens_no_journal(
    tmp_path: Path, read_only_keys: Path
) -> None:
    settings = configure(tmp_path, read_only_keys, REAL, database=DATABASE)
    async with serving_process("serve", "--config", settings, log=tmp_path / "log") as running:
        assert OPERATOR_JOURNAL_FILE not in files_in(read_only_keys)
        assert children_of(running) == 0


async def test_several_processes_with_real_providers_open_no_journal(
    tmp_path: Path, read_only_keys: Path
) -> None:
    configure(tmp_path, read_only_keys, REAL)
    log = tmp_path / "log"
    async with serving_process(tmp_path, "2", log=log, command=SEVERAL) as running:
        assert OPERATOR_JOURNAL_FILE not in files_in(read_only_keys)
        assert children_of(running) == 2
        assert started_slots(log) == {"preparation", "worker-1", "worker-2"}


async def test_one_process_with_a_sandbox_provider_keeps_a_journal(
    tmp_path: Path, keys: Path
) -> None:
    settings = configure(tmp_path, keys, SIMULATED, database=DATABASE)
    async with serving_process("serve", "--config", settings, log=tmp_path / "log") as running:
        being_written = {".master.key.mark.part"}
        assert files_in(keys) - being_written == {
            "master.key",
            "master.key.mark",
            OPERATOR_JOURNAL_FILE,
        }
        assert children_of(running) == 0


async def test_on_a_database_that_is_shared_a_second_process_of_a_sandbox_is_refused(
    tmp_path: Path, keys: Path, migrated_database: str
) -> None:
    database = f'[database]\nurl = "{migrated_database}"\n'
    settings = configure(tmp_path, keys, SIMULATED, database=database)
    words = ("serve", "--config", settings)
    async with serving_process(*words, log=tmp_path / "log") as running:
        assert children_of(running) == 1
        done = await trio.run_process(
            [*COMMAND, *map(str, words)],
            env=environment_without_settings(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 3
    assert "a sandbox is one process: stop the other, or use" in done.stderr.decode()


async def test_in_production_the_test_numbers_count_and_the_header_does_not(
    tmp_path: Path, keys: Path
) -> None:
    settings = configure(tmp_path, keys, SIMULATED, database=DATABASE, brands=BRAND)
    options = ("--config", settings, "--brands", tmp_path / "brands.toml")
    async with serving_process("serve", *options, log=tmp_path / "log") as running:
        url = "https://shop.example/callback"
        merchant = Merchant(running.ready["api"], "the-key-of-the-brand-acme", url)
        tax = await merchant.accepted("direct/taxpayout", scenario="insufficient_funds")
        unknown = await merchant.accepted(scenario="no_such")
        payin = await merchant.accepted(msisdn="254700000101", scenario="success")
        assert (await merchant.ended(tax["gatewayReference"]))["status"] == "success"
        assert (await merchant.ended(unknown["gatewayReference"]))["status"] == "success"
        assert (await merchant.ended(payin["gatewayReference"]))[
            "errorCode"
        ] == "user_insufficient_funds"
