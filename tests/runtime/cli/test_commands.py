"""The command administers a store: what it prints, how it ends, and what it never shows."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from rich.console import Console

from mmo_sansio import __version__
from mmo_sansio.api.outgoing import transaction_object
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.messages.inputs import Input
from mmo_sansio.testing import builders as a
from mmo_sansio.values import clock
from mmo_sansio.values.model import Transaction
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.brands.master_key import create_master_key, load_master_keys
from mmo_trio.cli.commands.serve import announce_sandbox
from mmo_trio.cli.group import main
from mmo_trio.cli.support.target import machine_user
from mmo_trio.engine.engine import submit_once
from mmo_trio.settings.service import ServiceAddresses
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sqlite.startup import scripts
from mmo_trio.system.build import commit
from mmo_trio.system.clock import GatewayClock, read_offset
from tests.support.command_tree import commands_of
from tests.support.time_limits import HANGS_AFTER_S

SECRET = "sk-a-very-secret-key"
PAID, LATE, WAITING, OTHERS = (a.numbered_reference(number) for number in range(1, 5))

INPUTS: list[Input] = [
    a.a_create_payment(PAID, merchant_reference="order-1", labels='{"till":"4","rate":1.50}'),
    a.a_begin_submission(PAID),
    a.accepted(PAID),
    a.succeeded(PAID, provider_reference="RCPT1", final=a.KES("149.00"), fee=a.KES("1.50")),
    a.callback_concluded(PAID, DeliveryOutcome.TIMEOUT),
    a.failed(PAID),
    a.a_create_payment(LATE, merchant_reference="order-2"),
    a.a_begin_submission(LATE),
    a.failed(LATE),
    a.a_create_payment(WAITING, merchant_reference="order-3"),
    a.a_begin_submission(WAITING),
    a.a_create_payment(
        OTHERS, brand=a.a_brand(id="zuri", name="Zuri [bold]"), merchant_reference="order-1"
    ),
]


async def fill(url: str, keyring: KeyRing, inputs: Sequence[Input]) -> None:
    """A store with two brands and some payments."""
    async with open_store(url, serving=True) as store:
        await store.admin.save_brands([a.a_brand(), a.a_brand(id="zuri", name="Zuri [bold]")])
        await store.admin.add_key(
            "acme", b"digest", keyring.seal("acme", SECRET.encode()), now=a.START
        )
        for input_ in inputs:
            await submit_once(store, input_, GatewayClock())


async def stored(url: str, reference: str) -> Transaction:
    async with open_store(url, serving=False) as store:
        found = await store.transaction(reference)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own data directory is one of the test's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "mmo-gateway" / "sandbox"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a sandbox that made some payments."""
    folder = tmp_path / "data"
    folder.mkdir()
    create_master_key(folder / "master.key")
    trio.run(
        fill,
        f"sqlite:///{folder}/gateway.db",
        KeyRing(*load_master_keys(folder / "master.key")),
        INPUTS,
    )
    return folder


def mmo(*arguments: object) -> Result:
    """What the command says and how it ends; a fault of ours comes through."""
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert SECRET not in done.output
    return done


def as_json(*arguments: object) -> Any:
    done = mmo(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(exit_code: int, *arguments: object) -> str:
    """What a command that ends with this code says on standard error; nothing stands on standard
    output."""
    done = mmo(*arguments)
    assert done.exit_code == exit_code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_says_its_version() -> None:
    assert mmo("--version").stdout == f"mmo {__version__} ({commit()})\n"


@pytest.mark.parametrize("command", [*commands_of(main)])
def test_every_command_has_help(command: str) -> None:
    done = mmo(command, "--help")
    assert done.exit_code == 0
    assert "Usage: main " + command in done.stdout


@pytest.mark.spec("T4")
@pytest.mark.parametrize("reference", [PAID, PAID.lower(), "order-2"])
def test_a_transaction_is_shown_by_either_reference(data: Path, reference: str) -> None:
    shown = mmo("tx", "show", reference, "--data", data, "--json").stdout
    found = PAID if reference != "order-2" else LATE
    transaction = trio.run(stored, f"sqlite:///{data}/gateway.db", found)
    assert f'"transaction":{transaction_object(transaction).decode()}}}' in shown
    assert json.loads(shown)["brand"] == "acme"
    assert found in mmo("tx", "show", reference, "--data", data).stdout


def test_a_reference_that_two_brands_have_needs_the_brand(data: Path) -> None:
    said = refusal(2, "tx", "show", "order-1", "--data", data)
    assert "acme, zuri" in said
    assert "--brand" in said
    found = as_json("tx", "show", "order-1", "--brand", "zuri", "--data", data)
    assert found["transaction"]["gatewayReference"] == OTHERS


def test_what_is_not_there_is_a_negative_answer(data: Path) -> None:
    assert "no transaction" in refusal(1, "tx", "show", "nothing", "--data", data)
    assert "no transaction" in refusal(1, "explain", "nothing", "--data", data)
    assert "no open entry 99" in refusal(
        1, "suspense", "close", 99, "--note", "seen", "--data", data
    )


def test_transactions_are_listed_the_newest_first(data: Path) -> None:
    listed = as_json("tx", "list", "--data", data)
    found = [each["transaction"]["gatewayReference"] for each in listed]
    assert found == [OTHERS, WAITING, LATE, PAID]
    pending = as_json("tx", "list", "--status", "pending", "--brand", "acme", "--data", data)
    assert [each["transaction"]["gatewayReference"] for each in pending] == [WAITING]
    assert len(mmo("tx", "list", "--limit", 2, "--data", data).stdout.splitlines()) == 3


def test_transactions_are_listed_by_the_beginning_of_a_reference(data: Path) -> None:
    listed = as_json(
        "tx", "list", "--reference", PAID[:-1].lower(), "--brand", "acme", "--data", data
    )
    assert PAID in [each["transaction"]["gatewayReference"] for each in listed]
    assert as_json("tx", "list", "--reference", "rder", "--data", data) == []
    assert "only one of --stuck" in refusal(
        2, "tx", "list", "--stuck", "--reference", "o", "--data", data
    )


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S1", "S2")
def test_an_operator_completes_a_payment_by_hand(data: Path) -> None:
    done = as_json(
        "tx", "resolve", "order-3", "--succeeded", "--evidence", "line 7",
        "--reason", "statement of today",
        "--user", "amina", "--data", data,
    )  # fmt: skip
    assert done["transaction"]["status"] == "success"
    assert done["transaction"]["completionSource"] == "manual"
    explained = as_json("explain", "order-3", "--data", data)
    last = explained["timeline"][-1]
    assert (last["actor"], last["detail"]["reason"]) == (
        f"user:{machine_user().name} for amina",
        "statement of today",
    )
    assert last["detail"]["evidence"] == "line 7"
    said = refusal(1, "tx", "resolve", "order-3", "--failed", "user_timeout",
                   "--evidence", "line 7", "--reason", "x", "--data", data)  # fmt: skip
    assert "has succeeded, and a result does not change" in said


@pytest.mark.spec("S1")
def test_where_four_eyes_are_required_a_command_proposes_and_ends_nothing(data: Path) -> None:
    words = ("tx", "resolve", "order-3", "--evidence", "line 7", "--reason", "statement of today")
    said = mmo(*words, "--succeeded", "--user", "amina", "--data", data)
    assert (said.exit_code, "Proposed. Another user approves it" in said.stderr) == (0, True)
    assert as_json("tx", "show", "order-3", "--data", data)["transaction"]["status"] == "pending"
    assert "There is a proposal about this payment already." in refusal(
        1, *words, "--failed", "--data", data
    )
    proposed = next(
        each
        for each in as_json("audit", "list", "--data", data)
        if each["act"] == "resolution_proposed"
    )
    assert proposed["actor"] == f"cli:{machine_user().name}"
    assert proposed["detail"]["user"] == "amina"


def test_a_resolution_says_what_it_needs(data: Path) -> None:
    words = ("tx", "resolve", "order-3", "--data", data)
    assert "--reason" in refusal(2, *words, "--succeeded", "--evidence", "line 7")
    assert "--reason is empty" in refusal(
        2, *words, "--succeeded", "--evidence", "line 7", "--reason", " "
    )
    assert "--failed" in refusal(2, *words, "--reason", "x", "--evidence", "x")
    assert "user_timeout" in refusal(
        2, *words, "--failed", "no_idea", "--evidence", "x", "--reason", "x"
    )


@pytest.mark.spec("S5", "E1")
def test_a_payment_is_explained(data: Path) -> None:
    explained = as_json("explain", PAID, "--data", data)
    text = " ".join(explained["conclusions"])
    assert "It succeeded with 149.00 KES, as the provider notified us." in text
    assert "settled another amount" in text
    assert "took longer than it may" in text
    assert "not sent again" in text
    assert "To do in the suspense book: entry 1." in text
    first = explained["conclusions"][0]
    assert first.startswith("It ended as success, ")
    assert (
        "later test reported failed, user_cancelled. Entry 2 of the suspense book is to do."
        in first
    )
    assert [each["what"] for each in explained["timeline"]][:2] == [
        "CreatePayment",
        "BeginSubmission",
    ]
    assert explained["callbacks"][0]["outcome"] == "timeout"
    assert [each["reason"] for each in explained["suspense"]] == [
        "settled_less",
        "conflicting_result",
    ]
    shown = mmo("explain", PAID, "--data", data).stdout
    assert "has the payment and has not decided yet" in shown
    assert '"finalAmount":{"value":149.00,"currency":"KES"}' in shown

    failed = " ".join(as_json("explain", LATE, "--data", data)["conclusions"])
    assert "The customer refused the payment." in failed
    assert "The callback has no outcome yet: a gateway that serves this store sends it." in failed
    pending = " ".join(as_json("explain", WAITING, "--data", data)["conclusions"])
    assert "It is pending" in pending


@pytest.mark.spec("S5")
def test_what_a_merchant_was_told_wrong_is_listed_with_a_text_to_send(data: Path) -> None:
    (found,) = as_json("tx", "list", "--told-wrong", "--data", data)
    assert (found["transaction"]["gatewayReference"], found["brand"]) == (PAID, "acme")
    wrong = found["toldWrong"]
    assert (wrong["told"], wrong["reported"], wrong["isCalledBack"]) == ("success", "failed", False)
    assert wrong["receipt"] == "RCPT1"
    assert ": it failed, user_cancelled, receipt RCPT1." in wrong["message"]
    assert wrong["toldAt"] == found["transaction"]["completedAt"]
    assert as_json("explain", PAID, "--data", data)["toldWrong"] == wrong
    assert as_json("explain", LATE, "--data", data)["toldWrong"] is None
    assert as_json("tx", "list", "--told-wrong", "--brand", "zuri", "--data", data) == []
    shown = mmo("tx", "list", "--told-wrong", "--data", data)
    assert "success 20" in shown.stdout
    assert "mmo explain" in shown.stderr
    assert "only one of --stuck" in refusal(
        2, "tx", "list", "--told-wrong", "--stuck", "--data", data
    )
    assert "leave --status out" in refusal(
        2, "tx", "list", "--told-wrong", "--status", "failed", "--data", data
    )
    assert "\nYou may not have the money." in mmo("explain", PAID, "--data", data).stdout
    assert (
        mmo(
            "suspense", "close", wrong["suspenseEntry"], "--note", "told them", "--data", data
        ).exit_code
        == 0
    )
    assert as_json("tx", "list", "--told-wrong", "--data", data) == []


@pytest.mark.spec("S5")
def test_the_suspense_book_is_read_and_closed(data: Path) -> None:
    less, entry = as_json("suspense", "list", "--data", data)
    assert (less["reason"], less["gatewayReference"]) == ("settled_less", PAID)
    assert (entry["reason"], entry["gatewayReference"]) == ("conflicting_result", PAID)
    assert as_json("suspense", "show", entry["id"], "--data", data) == entry
    assert (entry["merchantReference"], entry["requested"]) == ("order-1", "150.00 KES")
    head, first, second = mmo("suspense", "list", "--data", data).stdout.splitlines()
    assert head.split()[:6] == ["id", "first", "reported", "times", "reason", "amount"]
    assert re.search(r" [0-9:T-]{19}Z +1 +settled_less +KES\s149.00 +order-1 +test ", first)
    assert re.search(r" [0-9:T-]{19}Z +1 +conflicting_result +KES\s1[0-9.]+ +order-1 ", second)
    words = ("suspense", "close", entry["id"], "--user", "amina", "--data", data)
    assert "--note" in refusal(2, *words)
    assert mmo(*words, "--note", "refunded").exit_code == 0
    assert as_json("suspense", "list", "--data", data) == [less]
    [_, closed] = as_json("suspense", "list", "--all", "--data", data)
    assert (closed["closedBy"], closed["note"]) == (f"{machine_user().name} for amina", "refunded")
    assert "no open entry" in refusal(1, *words, "--note", "again")


@pytest.mark.spec("G6", "R7")
def test_records_are_exported_exactly(data: Path) -> None:
    lines = mmo("records", "export", "--format", "ndjson", "--data", data).stdout.splitlines()
    transaction = trio.run(stored, f"sqlite:///{data}/gateway.db", PAID)
    told = transaction_object(transaction).decode()
    assert f'{{"brand":"acme",{told[1:-1]},"simulated":false}}' in lines
    found = [json.loads(line)["gatewayReference"] for line in lines]
    assert found == [PAID, LATE, WAITING, OTHERS]

    table = mmo("records", "export", "--format", "csv", "--data", data).stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["gatewayReference"] for row in rows] == found
    first = rows[0]
    assert first["finalAmount.value"] == "149.00"
    assert first["providerData.fee.value"] == "1.50"
    assert first["labels"] == '{"till":"4","rate":1.50}'
    assert rows[1]["finalAmount.value"] == ""
    assert rows[1]["errorCode"] == "user_cancelled"


def test_a_timeline_has_a_paragraph_for_each_step_where_a_table_is_too_narrow(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = Console(width=80, highlight=False)
    monkeypatch.setattr("mmo_trio.cli.commands.payments.terminal", lambda: narrow)
    lines = mmo("explain", PAID, "--data", data).stdout.splitlines()
    step = next(number for number, line in enumerate(lines) if line.endswith(" merchant"))
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} UTC", lines[step - 1])
    assert re.fullmatch(r"[0-9:]{8}\.[0-9]{3} merchant", lines[step])
    assert lines[step + 1].startswith("asked for the payment")
    assert "callback: not delivered (no answer in time) (" in "\n".join(lines)


def test_a_timeline_has_the_date_once(data: Path) -> None:
    shown = mmo("explain", PAID, "--data", data).stdout
    table = shown[shown.index("when (UTC)") : shown.index("What the merchant sees")]
    dates = re.findall(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", table, re.MULTILINE)
    times = re.findall(r"^[0-9:]{8}\.[0-9]{3}  ", table, re.MULTILINE)
    assert len(dates) == len(set(dates)) in (1, 2), "2 where midnight came in between"
    assert len(times) > 4


def test_the_audit_log_is_written_in_words_on_a_terminal(data: Path) -> None:
    mmo("providers", "disable", "sandbox", "--reason", "they asked", "--data", data)
    row = mmo("audit", "list", "--data", data).stdout.splitlines()[1]
    assert re.search(
        r" [0-9-]{10}T[0-9:]{8}Z .*provider_closed +provider:sandbox +.*reason they asked", row
    )
    assert (
        mmo("providers", "list", "--data", data)
        .stdout.split("closedAt")[0]
        .rstrip()
        .endswith("simulated")
    )


def test_an_export_takes_page_after_page(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmo_trio.cli.commands.stored_records.PAGE_SIZE", 1)
    file = data / "all.ndjson"
    (data / ".all.ndjson.part").touch(mode=0o644)
    done = mmo("records", "export", "--format", "ndjson", "--output", file, "--data", data)
    assert done.stderr == "4 transactions.\n"
    assert len(file.read_text().splitlines()) == 4
    assert file.stat().st_mode & 0o777 == 0o600, "it has personal data"


def test_an_export_has_no_formula_unless_it_is_to_be_exact(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.cli.commands.stored_records.row_cells", lambda *_: ["=1+1"])
    words = ("records", "export", "--format", "csv", "--data", data)
    assert mmo(*words).stdout.splitlines()[1:] == ["'=1+1"] * 4
    assert mmo(*words, "--exact").stdout.splitlines()[1:] == ["=1+1"] * 4


def test_an_export_can_be_narrowed(data: Path) -> None:
    words = ("records", "export", "--format", "ndjson", "--data", data)
    assert len(mmo(*words, "--status", "pending", "--brand", "acme").stdout.splitlines()) == 1
    assert mmo(*words, "--to", "2026-01-01").stdout == ""
    assert "mmo brands list" in refusal(1, *words, "--brand", "nobody")
    assert "--format" in refusal(2, "records", "export", "--data", data)


def test_an_export_that_fails_leaves_the_file_as_it_was(data: Path) -> None:
    file = data / "records.csv"
    file.write_text("of yesterday")
    words = ("records", "export", "--format", "csv", "--output", file)
    refusal(1, *words, "--brand", "nobody", "--data", data)
    refusal(3, *words, "--data", data / "none")
    assert file.read_text() == "of yesterday"
    assert not [*data.glob(".records*")]


def test_a_store_that_is_not_there_is_unreachable(tmp_path: Path, home: Path) -> None:
    for words in (("tx", "list"), ("suspense", "list"), ("explain", "x"), ("db", "check")):
        said = refusal(3, *words, "--data", tmp_path / "none")
        assert "none/gateway.db" in said
        assert "--data" in said
    assert str(home) in refusal(3, "tx", "list")


def test_the_environment_names_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMO_DATABASE_URL", f"sqlite:///{data}/gateway.db")
    assert len(as_json("tx", "list")) == 4


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"no database at all" * 100)
    assert "The store can't be used" in refusal(3, "tx", "list", "--data", tmp_path)


def test_the_store_is_made_and_checked(tmp_path: Path) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text(f'[database]\nurl = "sqlite:///{tmp_path}/made.db"\n')
    last = max(scripts())
    first = mmo("db", "migrate", "--config", config)
    assert first.exit_code == 0
    steps = [line for line in first.stderr.splitlines() if line.startswith("Migration ")]
    assert steps == [f"Migration {number} of {last} begins." for number in range(1, last + 1)]
    again = mmo("db", "migrate", "--config", config)
    assert again.exit_code == 0
    assert "Migration" not in again.stderr
    assert (tmp_path / "made.db").exists()
    assert as_json("db", "check", "--config", config) == {"faults": []}
    assert as_json("tx", "list", "--config", config) == []


def test_the_settings_are_checked_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mmo.toml"
    monkeypatch.setenv("MMO_KEYS_MASTER_KEY_FILE", str(tmp_path / "master.key"))
    create_master_key(tmp_path / "master.key")
    config.write_text(
        '[limits]\nqueue = 7\n[provider.mpesa]\nkind = "mpesa_daraja"\nshortcode = 174379\n'
        'consumer_key = "k"\nconsumer_secret = "s"\nhooks_name = "kenya"\n'
    )
    monkeypatch.setenv("MMO_PROVIDER__MPESA__PASSKEY", SECRET)
    shown = as_json("check-config", "--config", config)
    assert shown["limits.queue"] == {"value": "7", "default": False}
    assert shown["provider.mpesa.passkey"]["value"] == "***"
    assert shown["provider.mpesa.shortcode"]["value"] == "174379"
    assert "limits.queue" in mmo("check-config", "--config", config).stdout
    config.write_text("[limits]\nqeue = 7\n")
    for words in (("check-config",), ("serve",), ("tx", "list")):
        said = refusal(2, *words, "--config", config)
        assert "mmo.toml: limits.qeue" in said
        assert "Did you mean queue?" in said


def test_serving_refuses_what_is_unsafe(tmp_path: Path) -> None:
    assert "PostgreSQL" in refusal(2, "serve", "--workers", 2)
    config = tmp_path / "mmo.toml"
    config.write_text(
        'database.url = "postgresql://127.0.0.1/mmo"\nprovider.test.kind = "sandbox"\n'
    )
    said = refusal(2, "serve", "--config", config, "--workers", 2)
    assert "provider.test: its simulated operator lives in one process" in said
    assert "Use --workers 1, or an operator that processes can share: `mmo simulate mtn`." in said
    assert "tls_certificate" in refusal(2, "serve", "--api", "0.0.0.0:8080")
    said = refusal(2, "sandbox", "--data", tmp_path, "--pages", "0.0.0.0:8081")
    assert "listen.pages" in said
    assert "HOST:PORT" in refusal(2, "serve", "--api", "8080")


def test_a_sandbox_that_does_not_run_keeps_the_moved_clock(data: Path) -> None:
    for days in (3, 5):
        words = ("sandbox-clock", "advance", f"{days}d", "--data", data)
        done = mmo(*words) if days == 3 else mmo(*words, "--json")
        assert done.exit_code == 0
        assert "for the next start" in done.stderr
    assert read_offset(data / "clock-offset") == 8 * clock.DAY
    assert "SPAN must be a duration" in refusal(2, "sandbox-clock", "advance", "3", "--data", data)
    assert "mmo sandbox" in refusal(1, "sandbox-clock", "advance", "3d", "--data", data / "none")


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S3")
def test_administration_keeps_to_the_sandboxs_clock(data: Path) -> None:
    assert mmo("sandbox-clock", "advance", "1d", "--data", data).exit_code == 0
    words = (
        "tx",
        "resolve",
        "order-3",
        "--succeeded",
        "--evidence",
        "line 7",
        "--reason",
        "seen",
        "--data",
        data,
    )
    done = as_json(*words)["transaction"]
    assert done["completedAt"][:10] > done["createdAt"][:10]


@pytest.mark.usefixtures("commands_approve")
def test_administration_records_the_true_time_although_a_clock_was_ahead_before(data: Path) -> None:
    assert mmo("sandbox-clock", "advance", "1d", "--data", data).exit_code == 0
    words = ("--reason", "seen", "--data", data)
    ahead = as_json("tx", "resolve", "order-3", "--succeeded", "--evidence", "line 7", *words)[
        "transaction"
    ]
    (data / "clock-offset").unlink()
    after = as_json(
        "tx", "resolve", OTHERS, "--failed", "user_timeout", "--evidence", "line 7", *words
    )["transaction"]
    assert ahead["completedAt"] > after["completedAt"] > after["createdAt"]


def test_a_sandbox_says_where_a_person_begins_and_where_the_data_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announce_sandbox(
        Path("/there"), ServiceAddresses("http://a", "http://p", "http://c", "demo", "key")
    )
    ready, start, data = capsys.readouterr().out.splitlines()
    assert ready == "READY api=http://a pages=http://p console=http://c brand=demo api_key=key"
    assert start == "Start at http://p/ with a payment page and a virtual phone."
    assert data == "`mmo sandbox --data /there --reset` begins again without its data."


def test_the_command_is_a_process_of_its_own(data: Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "mmo_trio.cli", *map(str, arguments)]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=HANGS_AFTER_S, check=False
        )

    shown = run("tx", "show", PAID, "--data", data, "--json")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["transaction"]["gatewayReference"] == PAID
    missing = run("tx", "show", "nothing", "--data", data)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert run("no-such-command").returncode == 2
