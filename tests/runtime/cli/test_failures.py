"""A command that fails says why in one sentence, whatever disk, file or terminal it has to do
with."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mmo_sansio.messages.inputs import Input
from mmo_sansio.testing import builders as a
from mmo_sansio.testing.builders import numbered_reference
from mmo_sansio.values.model import DepositTrust
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.group import main
from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.commands import in_store, submit
from tests.support.mmo_process import COMMAND, FREE_PORTS, environment_without_settings
from tests.support.time_limits import HANGS_AFTER_S

TURNED = "order \u202e051\u202c Zoë"


def mmo(*arguments: str | Path, encoding: str = "utf-8") -> Result:
    """Give a command in this process, in a terminal of this encoding."""
    without_settings = {name: None for name in os.environ if name.startswith("MMO_")}
    return CliRunner(charset=encoding, env=without_settings).invoke(main, [*map(str, arguments)])


def run(
    *arguments: str | Path,
    file_bytes_max: int | None = None,
    stdout: Path | None = None,
    **variables: str,
) -> tuple[int, str, str]:
    """Run a process of the command; return its exit code, and what it printed on standard output
    and standard error."""

    def limit_files() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    with open(stdout or os.devnull, "wb") as to:
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=to if stdout else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment_without_settings(), **variables},
            preexec_fn=limit_files,
            timeout=HANGS_AFTER_S,
            check=False,
        )
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    printed = (done.stdout or b"").decode(encoding, "replace")
    return done.returncode, printed, done.stderr.decode(encoding)


def fill_sandbox(folder: Path, *inputs: Input) -> None:
    """Make the store of a sandbox in this folder."""
    create_master_key(folder / "master.key")
    in_store(folder, lambda store: store.admin.save_brands([a.a_brand()]))
    submit(folder, *inputs)


def test_a_sandbox_on_a_disk_that_takes_nothing_says_so(tmp_path: Path) -> None:
    code, _, said = run("sandbox", "--data", tmp_path, *FREE_PORTS, file_bytes_max=0)
    assert code in (2, 3)
    assert said.splitlines()[-1].startswith("Error: ")
    assert "File too large" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "name", ["sandbox-provider.ndjson", "clock-offset", "ca-key.pem", "ca.pem", "running.json"]
)
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    ensure_authority(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    done = mmo("sandbox", "--data", tmp_path, *FREE_PORTS)
    assert (done.exit_code, "Traceback" in done.stderr) == (2, False), done.stderr
    assert f"{tmp_path / name}: Is a directory." in done.stderr


@pytest.mark.parametrize("name", ["sandbox-provider.ndjson", "clock-offset", "ca-key.pem"])
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nonsense \xff\n")
    done = mmo("sandbox", "--data", tmp_path, *FREE_PORTS)
    assert (done.exit_code, "Traceback" in done.stderr) == (2, False), done.stderr
    assert f"Error: {tmp_path / name}" in done.stderr
    assert "remove" in done.stderr


FAULT = """
import sys
from mmo_trio.cli.support.errors import exit_on_fault
from mmo_trio.service.supervisor import run_and_exit

def fail():
    int("2547" + "00000007x")

if sys.argv[1] == "worker":
    run_and_exit(fail)
exit_on_fault(fail)
"""


@pytest.mark.spec("A5", "P3")
@pytest.mark.parametrize("process", ["worker", "single"])
def test_what_ends_a_process_is_logged_without_its_message(process: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULT, process], capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert "builtins.ValueError" in done.stderr
    assert "in fail" in done.stderr
    assert "2547" not in done.stderr.replace('int("2547" + "00000007x")', "")


def test_a_check_goes_on_past_damage_and_names_each_damaged_row(tmp_path: Path) -> None:
    whole, torn, turned = (numbered_reference(each) for each in (1, 2, 3))
    creations = [
        a.a_create_payment(each, merchant_reference=each, page_token=each)
        for each in (whole, torn, turned)
    ]
    fill_sandbox(tmp_path, *creations, a.a_deposit(trust=DepositTrust.UNCONFIRMED))
    with sqlite3.connect(tmp_path / "gateway.db") as connection:
        damage = "UPDATE transactions SET {0} = substr({0}, 1, 40) WHERE gateway_reference = ?"
        connection.execute(damage.format("order_row"), [torn])
        connection.execute(damage.format("progress"), [turned])
        connection.execute("UPDATE deposit_claims SET claim = substr(claim, 1, 40)")
    connection.close()
    done = mmo("db", "check", "--data", tmp_path)
    assert done.exit_code == 1, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "claim DEP-1 of provider test: a stored row is damaged",
        f"transaction {torn}: a stored row is damaged",
        f"transaction {turned}: a stored row is damaged",
    ]
    assert "3 faults: restore a backup" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("records", "export", "--format", "csv"), ("tx", "list"), ("tx", "list", "--json")],
)
def test_an_output_that_takes_nothing_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    fill_sandbox(tmp_path, a.a_create_payment())
    code, _, said = run(*arguments, "--data", tmp_path, stdout=Path("/dev/full"))
    assert said.splitlines()[-1].endswith("can't be written: No space left on device.")
    assert (code, "Traceback" in said) == (2, False)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_every_listing_can_be_printed_on_every_terminal(tmp_path: Path, encoding: str) -> None:
    reference = a.REFERENCE
    fill_sandbox(tmp_path, a.a_create_payment(merchant_reference=TURNED))
    shown = TURNED.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c")
    for arguments in (("tx", "list"), ("explain", reference), ("explain", reference, "--json")):
        done = mmo(*arguments, "--data", tmp_path, encoding=encoding)
        assert done.exit_code == 0, (arguments, done.stderr)
        assert "\u202e" not in done.stdout
        if arguments[-1] == "--json":
            json.loads(done.stdout)
        else:
            assert encoding == "ascii" or shown in done.stdout
    file = tmp_path / "records.ndjson"
    line = ("records", "export", "--format", "ndjson", "--data", tmp_path)
    code, _, said = run(*line, stdout=file, PYTHONIOENCODING=encoding)
    assert code == 0, said
    assert json.loads(file.read_text(encoding="utf-8"))["merchantReference"] == TURNED


def test_a_gateway_without_a_master_key_says_which_command_makes_one(tmp_path: Path) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text(
        f"""
        database.url = "sqlite:///{tmp_path}/gateway.db"
        keys.master_key_file = "{tmp_path}/master.key"
        listen = {{ api = "127.0.0.1:0", pages = "127.0.0.1:0", console = "127.0.0.1:0" }}
        provider.sandbox.kind = "sandbox"
        """,
        encoding="utf-8",
    )
    code, _, said = run("serve", "--config", config)
    assert code == 2
    assert "for a new store `mmo brands apply` makes one" in said
    assert not (tmp_path / "master.key").exists()


def test_a_folder_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    brands = tmp_path / "brands.toml"
    brands.write_text('[[brand]]\nid = "acme"\nname = "Acme"\n', encoding="utf-8")
    code, _, said = run("brands", "apply", brands, "--data", tmp_path / "absent")
    assert code == 3
    assert f"there is no folder {tmp_path / 'absent'}; make it" in said


def texts_of(command: click.Command, name: str) -> Iterator[tuple[str, click.Parameter]]:
    """Every option and argument of a command, and of those below it, that is text."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.StringParamType):
            yield name, parameter
    if isinstance(command, click.Group):
        context = click.Context(main)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from texts_of(found, f"{name} {below}")


def test_every_text_of_a_command_must_be_utf_8() -> None:
    context = click.Context(main)
    texts = list(texts_of(main, "mmo"))
    assert len(texts) > 80
    for name, parameter in texts:
        assert parameter.type.convert("café", parameter, context) == "café"
        with pytest.raises(click.BadParameter, match="is not UTF-8") as refused:
            parameter.type.convert("caf\udce9", parameter, context)
        assert refused.value.param is parameter, name


def test_a_reason_that_is_not_utf_8_is_refused_by_the_name_of_its_option(tmp_path: Path) -> None:
    command = [*COMMAND, "tx", "reverse", numbered_reference(1), "--data", str(tmp_path)]
    done = subprocess.run(
        [*map(os.fsencode, command), b"--reason", b"caf\xe9"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment_without_settings(),
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 2
    assert b"Invalid value for '--reason'" in done.stderr
    assert b"Traceback" not in done.stderr
