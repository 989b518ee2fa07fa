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

import pytest
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
from mmo_trio.settings.service import ServiceAddresses
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite.startup import scripts
from mmo_trio.system.build import commit
from mmo_trio.system.clock import read_offset
from tests.support.command_tree import commands_of
from tests.support.commands import SECRET, as_json, in_store, mmo, refusal, submit
from tests.support.time_limits import HANGS_AFTER_S

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


def fill(data: Path) -> None:
    """Make a sandbox's store with two brands, one of which has a key, and INPUTS."""
    data.mkdir(parents=True)
    create_master_key(data / "master.key")
    sealed = KeyRing(*load_master_keys(data / "master.key")).seal("acme", SECRET.encode())

    async def add_brands(store: Store) -> None:
        await store.admin.save_brands([a.a_brand(), a.a_brand(id="zuri", name="Zuri [bold]")])
        await store.admin.add_key("acme", b"digest", sealed, now=a.START)

    in_store(data, add_brands)
    submit(data, *INPUTS)


def stored(data: Path, reference: str) -> Transaction:
    found = in_store(data, lambda store: store.transaction(reference), serving=False)
    assert found is not None
    return found


@pytest.fixture
def data(data: Path) -> Path:
    """The data directory of a sandbox that made some payments."""
    fill(data)
    return data


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
    shown = mmo(f"tx show {reference} --json").stdout
    found = PAID if reference != "order-2" else LATE
    transaction = stored(data, found)
    assert f'"transaction":{transaction_object(transaction).decode()}}}' in shown
    assert json.loads(shown)["brand"] == "acme"
    assert found in mmo(f"tx show {reference}").stdout


def test_a_reference_that_two_brands_have_needs_the_brand(data: Path) -> None:
    said = refusal(2, "tx show order-1")
    assert "acme, zuri" in said
    assert "--brand" in said
    found = as_json("tx show order-1 --brand zuri")
    assert found["transaction"]["gatewayReference"] == OTHERS


def test_what_is_not_there_is_a_negative_answer(data: Path) -> None:
    assert "no transaction" in refusal(1, "tx show nothing")
    assert "no transaction" in refusal(1, "explain nothing")
    assert "no open entry 99" in refusal(1, "suspense close 99 --note seen")


def test_transactions_are_listed_the_newest_first(data: Path) -> None:
    listed = as_json("tx list")
    found = [each["transaction"]["gatewayReference"] for each in listed]
    assert found == [OTHERS, WAITING, LATE, PAID]
    pending = as_json("tx list --status pending --brand acme")
    assert [each["transaction"]["gatewayReference"] for each in pending] == [WAITING]
    assert len(mmo("tx list --limit 2").stdout.splitlines()) == 3


def test_transactions_are_listed_by_the_beginning_of_a_reference(data: Path) -> None:
    listed = as_json("tx list --reference", PAID[:-1].lower(), "--brand", "acme")
    assert PAID in [each["transaction"]["gatewayReference"] for each in listed]
    assert as_json("tx list --reference rder") == []
    assert "only one of --stuck" in refusal(2, "tx list --stuck --reference o")


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S1", "S2")
def test_an_operator_completes_a_payment_by_hand(data: Path) -> None:
    words = ("--evidence", "line 7", "--reason", "statement of today")
    done = as_json("tx resolve order-3 --succeeded --user amina", *words)["transaction"]
    assert (done["status"], done["completionSource"]) == ("success", "manual")
    last = as_json("explain order-3")["timeline"][-1]
    assert last["actor"] == f"user:{machine_user().name} for amina"
    assert (last["detail"]["reason"], last["detail"]["evidence"]) == (
        "statement of today",
        "line 7",
    )
    said = refusal(1, "tx resolve order-3 --failed user_timeout", *words)
    assert "has succeeded, and a result does not change" in said


@pytest.mark.spec("S1")
def test_where_four_eyes_are_required_a_command_proposes_and_ends_nothing(data: Path) -> None:
    words = ("tx resolve order-3 --evidence", "line 7", "--reason", "statement of today")
    said = mmo(*words, "--succeeded", "--user", "amina")
    assert (said.exit_code, "Proposed. Another user approves it" in said.stderr) == (0, True)
    assert as_json("tx show order-3")["transaction"]["status"] == "pending"
    assert "There is a proposal about this payment already." in refusal(1, *words, "--failed")
    proposed = next(each for each in as_json("audit list") if each["act"] == "resolution_proposed")
    assert proposed["actor"] == f"cli:{machine_user().name}"
    assert proposed["detail"]["user"] == "amina"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--succeeded", "--evidence", "x"), "--reason"),
        (("--succeeded", "--evidence", "x", "--reason", " "), "--reason is empty"),
        (("--reason", "x", "--evidence", "x"), "--failed"),
        (("--failed", "no_idea", "--evidence", "x", "--reason", "x"), "user_timeout"),
    ],
)
def test_a_resolution_says_what_it_needs(data: Path, words: Sequence[str], said: str) -> None:
    assert said in refusal(2, "tx resolve order-3", *words)


@pytest.mark.spec("S5", "E1")
def test_a_payment_is_explained(data: Path) -> None:
    explained = as_json(f"explain {PAID}")
    text = " ".join(explained["conclusions"])
    assert "It succeeded with 149.00 KES, as the provider notified us." in text
    assert "settled another amount" in text
    assert "took longer than it may" in text
    assert "not sent again" in text
    assert "To do in the suspense book: entry 1." in text
    first = explained["conclusions"][0]
    assert first.startswith("It ended as success, ")
    assert "later test reported failed, user_cancelled. Entry 2 of the suspense book" in first
    steps = [each["what"] for each in explained["timeline"]]
    assert steps[:2] == ["CreatePayment", "BeginSubmission"]
    assert explained["callbacks"][0]["outcome"] == "timeout"
    reasons = [each["reason"] for each in explained["suspense"]]
    assert reasons == ["settled_less", "conflicting_result"]
    shown = mmo(f"explain {PAID}").stdout
    assert "has the payment and has not decided yet" in shown
    assert '"finalAmount":{"value":149.00,"currency":"KES"}' in shown

    failed = " ".join(as_json(f"explain {LATE}")["conclusions"])
    assert "The customer refused the payment." in failed
    assert "The callback has no outcome yet: a gateway that serves this store sends it." in failed
    pending = " ".join(as_json(f"explain {WAITING}")["conclusions"])
    assert "It is pending" in pending


@pytest.mark.spec("S5")
def test_what_a_merchant_was_told_wrong_is_listed_with_a_text_to_send(data: Path) -> None:
    (found,) = as_json("tx list --told-wrong")
    assert (found["transaction"]["gatewayReference"], found["brand"]) == (PAID, "acme")
    wrong = found["toldWrong"]
    assert (wrong["told"], wrong["reported"], wrong["isCalledBack"]) == ("success", "failed", False)
    assert wrong["receipt"] == "RCPT1"
    assert ": it failed, user_cancelled, receipt RCPT1." in wrong["message"]
    assert wrong["toldAt"] == found["transaction"]["completedAt"]
    assert as_json(f"explain {PAID}")["toldWrong"] == wrong
    assert as_json(f"explain {LATE}")["toldWrong"] is None
    assert as_json("tx list --told-wrong --brand zuri") == []
    shown = mmo("tx list --told-wrong")
    assert "success 20" in shown.stdout
    assert "mmo explain" in shown.stderr
    assert "only one of --stuck" in refusal(2, "tx list --told-wrong --stuck")
    assert "leave --status out" in refusal(2, "tx list --told-wrong --status failed")
    assert "\nYou may not have the money." in mmo(f"explain {PAID}").stdout
    assert mmo("suspense close", wrong["suspenseEntry"], "--note", "told them").exit_code == 0
    assert as_json("tx list --told-wrong") == []


@pytest.mark.spec("S5")
def test_the_suspense_book_is_read_and_closed(data: Path) -> None:
    less, entry = as_json("suspense list")
    assert (less["reason"], less["gatewayReference"]) == ("settled_less", PAID)
    assert (entry["reason"], entry["gatewayReference"]) == ("conflicting_result", PAID)
    assert as_json("suspense show", entry["id"]) == entry
    assert (entry["merchantReference"], entry["requested"]) == ("order-1", "150.00 KES")
    head, first, second = mmo("suspense list").stdout.splitlines()
    assert head.split()[:6] == ["id", "first", "reported", "times", "reason", "amount"]
    assert re.search(r" [0-9:T-]{19}Z +1 +settled_less +KES\s149.00 +order-1 +test ", first)
    assert re.search(r" [0-9:T-]{19}Z +1 +conflicting_result +KES\s1[0-9.]+ +order-1 ", second)
    words = ("suspense close --user amina", entry["id"])
    assert "--note" in refusal(2, *words)
    assert mmo(*words, "--note", "refunded").exit_code == 0
    assert as_json("suspense list") == [less]
    [_, closed] = as_json("suspense list --all")
    assert (closed["closedBy"], closed["note"]) == (f"{machine_user().name} for amina", "refunded")
    assert "no open entry" in refusal(1, *words, "--note", "again")


@pytest.mark.spec("G6", "R7")
def test_records_are_exported_exactly(data: Path) -> None:
    lines = mmo("records export --format ndjson").stdout.splitlines()
    transaction = stored(data, PAID)
    told = transaction_object(transaction).decode()
    assert f'{{"brand":"acme",{told[1:-1]},"simulated":false}}' in lines
    found = [json.loads(line)["gatewayReference"] for line in lines]
    assert found == [PAID, LATE, WAITING, OTHERS]

    table = mmo("records export --format csv").stdout
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
    lines = mmo(f"explain {PAID}").stdout.splitlines()
    step = next(number for number, line in enumerate(lines) if line.endswith(" merchant"))
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} UTC", lines[step - 1])
    assert re.fullmatch(r"[0-9:]{8}\.[0-9]{3} merchant", lines[step])
    assert lines[step + 1].startswith("asked for the payment")
    assert "callback: not delivered (no answer in time) (" in "\n".join(lines)


def test_a_timeline_has_the_date_once(data: Path) -> None:
    shown = mmo(f"explain {PAID}").stdout
    table = shown[shown.index("when (UTC)") : shown.index("What the merchant sees")]
    dates = re.findall(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", table, re.MULTILINE)
    times = re.findall(r"^[0-9:]{8}\.[0-9]{3}  ", table, re.MULTILINE)
    assert len(dates) == len(set(dates)) in (1, 2), "2 where midnight came in between"
    assert len(times) > 4


def test_the_audit_log_is_written_in_words_on_a_terminal(data: Path) -> None:
    mmo("providers disable sandbox --reason", "they asked")
    row = mmo("audit list").stdout.splitlines()[1]
    assert re.search(
        r" [0-9-]{10}T[0-9:]{8}Z .*provider_closed +provider:sandbox +.*reason they asked", row
    )
    assert mmo("providers list").stdout.split("closedAt")[0].rstrip().endswith("simulated")


def test_an_export_takes_page_after_page(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmo_trio.cli.commands.stored_records.PAGE_SIZE", 1)
    file = data / "all.ndjson"
    (data / ".all.ndjson.part").touch(mode=0o644)
    done = mmo(f"records export --format ndjson --output {file}")
    assert done.stderr == "4 transactions.\n"
    assert len(file.read_text().splitlines()) == 4
    assert file.stat().st_mode & 0o777 == 0o600, "it has personal data"


def test_an_export_has_no_formula_unless_it_is_to_be_exact(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmo_trio.cli.commands.stored_records.row_cells", lambda *_: ["=1+1"])
    words = ("records export --format csv",)
    assert mmo(*words).stdout.splitlines()[1:] == ["'=1+1"] * 4
    assert mmo(*words, "--exact").stdout.splitlines()[1:] == ["=1+1"] * 4


def test_an_export_can_be_narrowed(data: Path) -> None:
    words = ("records export --format ndjson",)
    assert len(mmo(*words, "--status", "pending", "--brand", "acme").stdout.splitlines()) == 1
    assert mmo(*words, "--to", "2026-01-01").stdout == ""
    assert "mmo brands list" in refusal(1, *words, "--brand", "nobody")
    assert "--format" in refusal(2, "records export")


def test_an_export_that_fails_leaves_the_file_as_it_was(data: Path) -> None:
    file = data / "records.csv"
    file.write_text("of yesterday")
    words = (f"records export --format csv --output {file}",)
    refusal(1, *words, "--brand", "nobody")
    refusal(3, *words, "--data", data / "none")
    assert file.read_text() == "of yesterday"
    assert not [*data.glob(".records*")]


def test_a_store_that_is_not_there_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in ("tx list", "suspense list", "explain x", "db check"):
        said = refusal(3, line, "--data", tmp_path / "none")
        assert "none/gateway.db" in said
        assert "--data" in said
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nowhere"))
    assert str(tmp_path / "nowhere") in refusal(3, "tx list")


def test_the_environment_names_the_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMO_DATABASE_URL", f"sqlite:///{data}/gateway.db")
    assert len(as_json("tx list")) == 4


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"no database at all" * 100)
    assert "The store can't be used" in refusal(3, f"tx list --data {tmp_path}")


def test_the_store_is_made_and_checked(tmp_path: Path) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text(f'[database]\nurl = "sqlite:///{tmp_path}/made.db"\n')
    last = max(scripts())
    first = mmo(f"db migrate --config {config}")
    assert first.exit_code == 0
    steps = [line for line in first.stderr.splitlines() if line.startswith("Migration ")]
    assert steps == [f"Migration {number} of {last} begins." for number in range(1, last + 1)]
    again = mmo(f"db migrate --config {config}")
    assert again.exit_code == 0
    assert "Migration" not in again.stderr
    assert (tmp_path / "made.db").exists()
    assert as_json(f"db check --config {config}") == {"faults": []}
    assert as_json(f"tx list --config {config}") == []


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
    shown = as_json(f"check-config --config {config}")
    assert shown["limits.queue"] == {"value": "7", "default": False}
    assert shown["provider.mpesa.passkey"]["value"] == "***"
    assert shown["provider.mpesa.shortcode"]["value"] == "174379"
    assert "limits.queue" in mmo(f"check-config --config {config}").stdout
    config.write_text("[limits]\nqeue = 7\n")
    for line in ("check-config", "serve", "tx list"):
        said = refusal(2, line, "--config", config)
        assert "mmo.toml: limits.qeue" in said
        assert "Did you mean queue?" in said


def test_serving_refuses_what_is_unsafe(tmp_path: Path) -> None:
    assert "PostgreSQL" in refusal(2, "serve --workers 2")
    config = tmp_path / "mmo.toml"
    config.write_text(
        'database.url = "postgresql://127.0.0.1/mmo"\nprovider.test.kind = "sandbox"\n'
    )
    said = refusal(2, f"serve --config {config} --workers 2")
    assert "provider.test: its simulated operator lives in one process" in said
    assert "Use --workers 1, or an operator that processes can share: `mmo simulate mtn`." in said
    assert "tls_certificate" in refusal(2, "serve --api 0.0.0.0:8080")
    said = refusal(2, f"sandbox --data {tmp_path} --pages 0.0.0.0:8081")
    assert "listen.pages" in said
    assert "HOST:PORT" in refusal(2, "serve --api 8080")


def test_a_sandbox_that_does_not_run_keeps_the_moved_clock(data: Path) -> None:
    for line in ("sandbox-clock advance 3d", "sandbox-clock advance 5d --json"):
        done = mmo(line)
        assert done.exit_code == 0
        assert "for the next start" in done.stderr
    assert read_offset(data / "clock-offset") == 8 * clock.DAY
    assert "SPAN must be a duration" in refusal(2, "sandbox-clock advance 3")
    assert "mmo sandbox" in refusal(1, "sandbox-clock advance 3d --data", data / "none")


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S3")
def test_administration_records_the_true_time_although_a_clock_was_ahead_before(data: Path) -> None:
    assert mmo("sandbox-clock advance 1d").exit_code == 0
    words = ("--reason", "seen", "--evidence", "line 7")
    ahead = as_json("tx resolve order-3 --succeeded", *words)["transaction"]
    (data / "clock-offset").unlink()
    after = as_json(f"tx resolve {OTHERS} --failed user_timeout", *words)["transaction"]
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
