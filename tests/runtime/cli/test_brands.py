"""Brands and their keys from the command line, and the receiver that believes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trio
from attrs import evolve
from click.testing import CliRunner, Result

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded, Input
from mmo_sansio.values.clock import Instant
from mmo_trio.brands.apply import BrandsPlan
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.commands import brands as brands_command
from mmo_trio.cli.commands import listen
from mmo_trio.cli.group import main
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.cli.support.http_client import send_request
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.admin_store import AdminStore
from tests.conformance.driver import after_noon, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.mmo_process import FREE_PORTS
from tests.support.time_limits import HANGS_AFTER_S

BRANDS = """
[[brand]]
id = "acme"
name = "Acme Ltd"
api_keys = ["acme-key-of-the-file"]
  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["direct/payin"]
  limits.KES = { min = "10", max = "150000" }
"""
FURTHER = """
[[brand]]
id = "zuri"
name = "Zuri"
"""
GIVEN = "acme-key-of-the-file"


def mmo(*arguments: object) -> Result:
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert GIVEN not in done.output
    return done


def as_json(*arguments: object) -> Any:
    done = mmo(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory whose store has two brands, one of them with a key of the file."""
    (tmp_path / "brands.toml").write_text(BRANDS + FURTHER)
    folder = tmp_path / "data"
    folder.mkdir()
    made = as_json("brands", "apply", tmp_path / "brands.toml", "--data", folder)
    assert made["added"] == ["acme", "zuri"]
    assert [*made["madeKeys"]] == ["zuri"]
    return folder


def in_use(data: Path, brand: str) -> list[int]:
    keys = as_json("brands", "show", brand, "--data", data)["keys"]
    return [key["id"] for key in keys if key["retiredAt"] is None]


@pytest.mark.spec("A5")
def test_brands_are_shown_without_their_keys(data: Path) -> None:
    listed = as_json("brands", "list", "--data", data)
    assert [each["id"] for each in listed] == ["acme", "zuri"]
    shown = as_json("brands", "show", "acme", "--data", data)
    assert shown == listed[0]
    assert shown["methods"][0]["limits"] == {
        "KES": {"min": "10.00", "max": "150000.00", "daily": {}}
    }
    assert "mpesa_ke" in mmo("brands", "show", "acme", "--data", data).stdout
    assert "Acme Ltd" in mmo("brands", "list", "--data", data).stdout
    missing = mmo("brands", "show", "nobody", "--data", data)
    assert (missing.exit_code, missing.stdout) == (1, "")


def test_applying_again_changes_nothing(data: Path, tmp_path: Path) -> None:
    again = as_json("brands", "apply", tmp_path / "brands.toml", "--data", data)
    assert again["unchanged"] == ["acme", "zuri"]
    assert again["madeKeys"] == {}


def test_brands_are_removed_only_when_pruning(data: Path, tmp_path: Path) -> None:
    (tmp_path / "brands.toml").write_text(BRANDS.replace("Acme Ltd", "Acme"))
    words = ("brands", "apply", tmp_path / "brands.toml", "--data", data)
    listed = as_json(*words)
    assert (listed["changed"], listed["removed"]) == (["acme"], [])
    done = mmo(*words, "--prune")
    assert "remove: zuri" in done.stderr
    assert [each["id"] for each in as_json("brands", "list", "--data", data)] == ["acme"]


def test_a_dry_run_shows_each_change_and_changes_nothing(data: Path, tmp_path: Path) -> None:
    before = as_json("brands", "list", "--data", data)
    (tmp_path / "brands.toml").write_text(
        BRANDS.replace('max = "150000"', 'max = "1000"') + FURTHER
    )
    words = ("brands", "apply", tmp_path / "brands.toml", "--data", data)
    said = mmo(*words, "--dry-run")
    assert said.exit_code == 0
    assert (
        "acme: method mpesa_ke (KE), limits.KES.max: KES 150,000.00 -> KES 1,000.00" in said.stderr
    )
    assert as_json("brands", "list", "--data", data) == before
    assert as_json(*words)["differences"] == [
        {
            "brand": "acme",
            "member": "method mpesa_ke (KE), limits.KES.max",
            "before": "150000.00 KES",
            "after": "1000.00 KES",
        }
    ]
    [recorded] = [
        each for each in as_json("audit", "list", "--data", data) if "1000.00 KES" in str(each)
    ]
    assert "150000.00 KES" in str(recorded)


def test_methods_are_removed_only_when_pruning(data: Path, tmp_path: Path) -> None:
    (tmp_path / "brands.toml").write_text('[[brand]]\nid = "acme"\nname = "Acme Ltd"\n' + FURTHER)
    words = ("brands", "apply", tmp_path / "brands.toml", "--data", data)
    kept = mmo(*words)
    assert "acme: mpesa_ke (KE)" in kept.stderr
    assert as_json("brands", "show", "acme", "--data", data)["methods"] != []
    pruned = mmo(*words, "--prune")
    assert "acme: method mpesa_ke (KE): provider sandbox -> none" in pruned.stderr
    assert as_json("brands", "show", "acme", "--data", data)["methods"] == []


def test_a_brand_with_pending_payments_is_not_removed(data: Path, tmp_path: Path) -> None:
    async def create() -> None:
        async with open_store(
            f"sqlite:///{data / 'gateway.db'}", serving=False, create=False
        ) as store:
            await submit_batch(store, (creation(1, brand_id="zuri"), after_noon(1)))

    trio.run(create)
    (tmp_path / "brands.toml").write_text(BRANDS)
    refused = mmo("brands", "apply", tmp_path / "brands.toml", "--prune", "--data", data)
    assert refused.exit_code == 2
    assert "1 of its payments are pending" in refused.stderr
    assert [each["id"] for each in as_json("brands", "list", "--data", data)] == ["acme", "zuri"]


def test_a_file_without_a_brand_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "brands.toml").write_text("")
    refused = mmo("brands", "apply", tmp_path / "brands.toml", "--data", data)
    assert refused.exit_code == 2
    assert "has no brand" in refused.stderr


def test_a_fault_in_the_file_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "brands.toml").write_text(BRANDS.replace('provider = "sandbox"', 'provider = "x"'))
    done = mmo("brands", "apply", tmp_path / "brands.toml", "--data", data)
    assert done.exit_code == 2
    assert "provider" in done.stderr
    missing = mmo("brands", "apply", tmp_path / "none.toml", "--data", data)
    assert missing.exit_code == 2
    assert "none.toml" in missing.stderr


@pytest.mark.spec("A4", "A5")
def test_another_brands_number_is_no_key_of_this_one_and_its_own_are_named(data: Path) -> None:
    (acme,), (zuri,) = in_use(data, "acme"), in_use(data, "zuri")
    assert acme != zuri, "unique in the store"
    refused = mmo("brands", "key", "retire", "zuri", acme, "--data", data)
    assert refused.exit_code == 1
    assert f"zuri has no such key in use; in use are: {zuri}." in refused.stderr
    assert in_use(data, "acme") == [acme]


@pytest.mark.spec("A4", "A5")
def test_a_key_is_added_shown_once_and_retired(data: Path) -> None:
    made = mmo("brands", "key", "add", "acme", "--data", data)
    api_key = made.stdout.strip()
    assert len(api_key) > 40
    first, second = in_use(data, "acme")
    assert api_key not in mmo("brands", "show", "acme", "--data", data).output
    assert mmo("brands", "key", "retire", "acme", first, "--data", data).exit_code == 0
    assert in_use(data, "acme") == [second]
    again = mmo("brands", "key", "retire", "acme", first, "--data", data)
    assert again.exit_code == 1
    assert f"in use are: {second}" in again.stderr
    last = mmo("brands", "key", "retire", "acme", api_key, "--data", data)
    assert last.exit_code == 0
    assert "no key any more" in last.stderr
    assert mmo("brands", "key", "add", "nobody", "--data", data).exit_code == 1


@pytest.mark.parametrize("command", ["key add", "apply"])
def test_a_brand_that_is_removed_while_it_gets_a_key_is_said_to_be_gone(
    data: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    add_key = AdminStore.add_key

    async def remove_and_add_key(admin: AdminStore, brand: str, *rest: bytes, now: Instant) -> bool:
        await admin.save_brands((), removed=[brand])
        return await add_key(admin, brand, *rest, now=now)

    (data / "brands.toml").write_text(BRANDS + FURTHER.replace("zuri", "baraka"))
    monkeypatch.setattr(AdminStore, "add_key", remove_and_add_key)
    words, gone = {
        "key add": (("key", "add", "acme"), "acme"),
        "apply": (("apply", data / "brands.toml"), "baraka"),
    }[command]
    done = mmo("brands", *words, "--data", data)
    assert done.exit_code == 1
    assert f"There is no brand {gone} any more" in done.stderr


def paid_with_each_key(data: Path, *paid: tuple[int, str, bool]) -> None:
    """Payments of acme, each made with a key, with results for a host, and told to the merchant or
    still pending."""

    async def create() -> None:
        async with open_store(
            f"sqlite:///{data / 'gateway.db'}", serving=False, create=False
        ) as store:
            for number, (key, host, is_told) in enumerate(paid):
                made = creation(number)
                draft = evolve(made.draft, result_url=f"https://{host}:8443/results?n={number}")
                steps: list[Input] = [evolve(made, draft=draft, api_key_id=str(key))]
                if is_told:
                    attempt = DeliveryAttempt(
                        DeliveryOutcome.DELIVERED, draft.result_url or "", 204
                    )
                    steps += [BeginSubmission(reference(number)), succeeded(number)]
                    steps.append(CallbackConcluded(reference(number), attempt))
                for each in steps:
                    await submit_batch(store, (each, after_noon(number)))

    trio.run(create)


def retire_at_a_terminal(data: Path, key: int, answer: bytes, *options: str) -> tuple[int, str]:
    """The exit code and what is shown; the answer is typed."""
    terminal, end = os.openpty()
    try:
        os.write(terminal, answer)
        words = [
            sys.executable,
            "-m",
            "mmo_trio.cli",
            "brands",
            "key",
            "retire",
            "acme",
            str(key),
            *options,
        ]
        words += ["--data", str(data)]
        done = subprocess.run(
            words, stdin=end, capture_output=True, timeout=HANGS_AFTER_S, check=False
        )
    finally:
        os.close(terminal)
        os.close(end)
    return done.returncode, done.stderr.decode()


@pytest.mark.spec("A4")
def test_who_adds_a_key_reads_first_what_to_tell_the_merchant(data: Path) -> None:
    said = mmo("brands", "key", "add", "acme", "--data", data).stderr
    assert said.startswith("For the merchant: accept both keys before you use this one.")
    assert "the oldest in use once that is retired" in said


@pytest.mark.spec("A4")
def test_a_retirement_lists_the_hosts_of_open_results_and_asks_whether_the_key_leaked(
    data: Path,
) -> None:
    mmo("brands", "key", "add", "acme", "--data", data)
    first, second = in_use(data, "acme")
    paid_with_each_key(
        data,
        (first, "thief.example", False),
        (first, "shop.example", False),
        (first, "told.example", True),
        (second, "shop.example", True),
        (second, "other.example", False),
    )
    shown = [
        "Results to come: shop.example",
        "Results to come: thief.example, held back, as no other key has used it",
    ]
    code, said = retire_at_a_terminal(data, first, b"y\n")
    assert code == 1
    assert [line for line in said.splitlines() if line.startswith("Results")] == shown
    assert "End the key with --leaked" in said
    assert in_use(data, "acme") == [first, second], "nothing was changed"
    code, said = retire_at_a_terminal(data, second, b"y\n", "--yes")
    assert (code, "known to somebody else" in said) == (0, False)
    done = mmo("brands", "key", "retire", "acme", first, "--data", data)
    assert done.exit_code == 0, "nobody is asked where nobody can answer"
    assert [line for line in done.stderr.splitlines() if line.startswith("Results")] == shown


@pytest.mark.spec("A4")
def test_a_key_is_retired_as_leaked_and_the_keys_that_it_disclosed_are_named(data: Path) -> None:
    mmo("brands", "key", "add", "acme", "--data", data)
    mmo("brands", "key", "add", "acme", "--data", data)
    first, second, third = in_use(data, "acme")
    done = mmo("brands", "key", "retire", "acme", second, "--leaked", "--data", data)
    assert done.exit_code == 0
    assert "Nothing more is sent for payments that were made with it" in done.stderr
    assert "may have carried" not in done.stderr, "while it was in use they carried itself"
    again = mmo("brands", "key", "retire", "acme", second, "--leaked", "--data", data)
    assert again.exit_code == 1
    assert f"not yet marked as leaked are: {first}, {third}" in again.stderr
    assert mmo("brands", "key", "retire", "acme", first, "--data", data).exit_code == 0
    late = mmo("brands", "key", "retire", "acme", first, "--leaked", "--data", data)
    assert late.exit_code == 0, "also when it is retired already"
    assert f"may have carried these keys: {third}. Retire them as leaked, too:" in late.stderr
    assert f"    mmo brands key retire acme {third} --leaked --data {data}\n" in late.stderr
    keys = as_json("brands", "show", "acme", "--data", data)["keys"]
    assert [each["leakedAt"] is not None for each in keys] == [True, True, False]
    assert [each["retiredAt"] is not None for each in keys] == [True, True, False]
    last = as_json("audit", "list", "--data", data)[0]
    assert (last["act"], last["about"], last["detail"]["leaked"]) == (
        "key_retired",
        "brand:acme",
        True,
    )


@pytest.mark.spec("M5", "S4")
def test_show_tells_the_tax_authority_and_whose_deposits_are_taken(
    data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "deposits.toml"
    file.write_text(
        """
        [[brand]]
        id = "tana"
        name = "Tana"
          [[brand.method]]
          key = "mpesa_ke"
          provider = "sandbox"
          country = "KE"
          flows = ["direct/taxpayout"]
          limits.KES = { min = "10", max = "150000" }
          tax_authority_id = "KRA"
          tax_authority_account = "572572"
          push_accounts = ["174379/TANA"]
        """,
        encoding="utf-8",
    )
    assert mmo("brands", "apply", file, "--data", data).exit_code == 0
    [method] = as_json("brands", "show", "tana", "--data", data)["methods"]
    shown = {
        name: method[name] for name in ("taxAuthorityId", "taxAuthorityAccount", "pushAccounts")
    }
    assert shown == {
        "taxAuthorityId": "KRA",
        "taxAuthorityAccount": "572572",
        "pushAccounts": ["174379/TANA"],
    }
    text = mmo("brands", "show", "tana", "--data", data).stdout
    assert all(word in text for word in ("KRA", "572572", "174379/TANA"))


@pytest.mark.spec("A2")
def test_a_plan_of_before_does_not_undo_an_emergency_stop(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_plan = brands_command._print_plan

    def read_slowly(plan: BrandsPlan) -> None:
        print_plan(plan)
        assert mmo("brands", "disable", "acme", "--data", data).exit_code == 0

    monkeypatch.setattr(brands_command, "_print_plan", read_slowly)
    file = data / "brands.toml"
    file.write_text(BRANDS.replace('name = "Acme Ltd"', 'name = "Acme Limited"'))
    applied = mmo("brands", "apply", file, "--data", data)
    assert applied.exit_code == 1
    assert "somebody has changed acme meanwhile" in applied.stderr
    assert as_json("brands", "show", "acme", "--data", data)["enabled"] is False
    acts = [event["act"] for event in as_json("audit", "list", "--data", data)]
    assert acts[0] == "brand_disabled"


@pytest.mark.spec("A2")
def test_a_brand_is_disabled_and_enabled(data: Path) -> None:
    for command, enabled in (("disable", False), ("enable", True)):
        assert mmo("brands", command, "acme", "--data", data).exit_code == 0
        assert as_json("brands", "show", "acme", "--data", data)["enabled"] is enabled
    assert mmo("brands", "disable", "nobody", "--data", data).exit_code == 1


@pytest.mark.spec("A5")
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "another"])
def test_a_wrong_master_key_is_refused_and_no_other_is_made(
    data: Path, tmp_path: Path, is_missing: bool
) -> None:
    (data / "master.key").unlink()
    if not is_missing:
        create_master_key(data / "master.key")
    remedy = "there is no such file" if is_missing else "its keys are not those of the store"
    for words in (
        ("brands", "apply", tmp_path / "brands.toml"),
        ("brands", "key", "add", "zuri"),
        ("brands", "disable", "acme"),
        ("db", "check"),
    ):
        done = mmo(*words, "--data", data)
        assert done.exit_code == 2, (words, done.output)
        assert "keys.master_key_file" in done.stderr
        assert remedy in done.stderr, words
        assert is_missing is not (data / "master.key").exists()
    listen = mmo("listen", "--port", "0", "--data", data)
    assert listen.exit_code == 2
    assert "keys.master_key_file" in listen.stderr
    sandbox = mmo("sandbox", "--data", data, *FREE_PORTS)
    assert (sandbox.exit_code, sandbox.stdout) == (2, "")
    assert remedy in sandbox.stderr
    assert is_missing is not (data / "master.key").exists()
    assert len(in_use(data, "zuri")) == 1
    assert as_json("brands", "show", "acme", "--data", data)["enabled"]


@contextmanager
def listening(*arguments: object) -> Iterator[tuple[str, Iterator[Any]]]:
    """A running `mmo listen`: its address, and what it prints."""
    words = [sys.executable, "-m", "mmo_trio.cli", "listen", "--port", "0", "--json"]
    process = subprocess.Popen(
        [*words, *map(str, arguments)], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        printed = (json.loads(line) for line in process.stdout)
        yield next(printed)["listening"], printed
    finally:
        process.terminate()
        process.communicate(timeout=HANGS_AFTER_S)
    assert process.returncode == 0


@pytest.mark.spec("K1")
def test_the_receiver_believes_the_keys_of_the_sandbox(data: Path) -> None:
    body = {"gatewayReference": "01K5TESTTESTTESTTESTTEST00", "status": "success"}
    trusted = data / "ca.pem"
    with listening("--data", data) as (address, printed):
        refused = send_request(address, body=body, headers={"X-API-KEY": "wrong"}, ca_file=trusted)
        assert refused.status == 401
        line = next(printed)
        assert (line["refused"], line["key"], line["response"]) == ("X-API-KEY", "wrong", 401)
        believed = send_request(address, body=body, headers={"X-API-KEY": GIVEN}, ca_file=trusted)
        assert believed.status == 204
        line = next(printed)
        assert (line["callback"], line["key"], line["response"]) == (body, "ok", 204)


def test_the_receiver_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("--data", tmp_path, "--key", GIVEN) as (address, _):
        port = address.rstrip("/").rpartition(":")[2]
        taken = mmo("listen", "--data", tmp_path, "--key", "k", "--port", port)
        assert taken.exit_code == 2
        assert f"--port {port}" in taken.stderr
    monkeypatch.setattr(listen, "KEYS_WAIT_S", 0)
    done = mmo("listen", "--data", tmp_path)
    assert done.exit_code == 1
    assert "mmo sandbox" in done.stderr
    assert "--key" in done.stderr


def test_the_receiver_looks_for_keys_once_a_second_until_they_are_there(
    data: Path, tmp_path: Path
) -> None:
    later, pauses = tmp_path / "later", list[float]()

    def start_sandbox_after_three(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            data.rename(later)

    assert GIVEN.encode() in listen._await_sandbox_keys(later, start_sandbox_after_three)
    assert pauses == [1.0] * 3
    pauses.clear()
    with pytest.raises(NegativeAnswer, match="no API keys"):
        listen._await_sandbox_keys(tmp_path / "never", pauses.append)
    assert pauses == [1.0] * listen.KEYS_WAIT_S


class Sandbox(BaseHTTPRequestHandler):
    """Moves its clock when the advance is three days, and refuses any other."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        good = (self.path, body) == ("/sandbox/clock", {"advance": "3d"})
        self.send_response(200 if good else 400)
        self.end_headers()
        self.wfile.write(b'{"now":"2026-11-24T00:00:00.000000Z"}')

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def running(data: Path) -> Iterator[HTTPServer]:
    """A sandbox that says where it runs."""
    server = HTTPServer(("127.0.0.1", 0), Sandbox)
    (data / "running.json").write_text(
        json.dumps({"pages": f"http://127.0.0.1:{server.server_port}"})
    )
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_running_sandbox_moves_its_clock_itself(data: Path, running: HTTPServer) -> None:
    done = mmo("sandbox-clock", "advance", "72h", "--data", data)
    assert done.stdout == "2026-11-24T00:00:00.000000Z\n"
    assert "running sandbox" in done.stderr
    assert not (data / "clock-offset").exists()
    refused = mmo("sandbox-clock", "advance", "1d", "--data", data)
    assert refused.exit_code == 1
    assert "answered 400" in refused.stderr


def test_a_sandbox_that_is_gone_leaves_its_clock_to_the_next(
    data: Path, running: HTTPServer
) -> None:
    gone = {"pages": "http://127.0.0.1:1"}
    (data / "running.json").write_text(json.dumps(gone))
    done = mmo("sandbox-clock", "advance", "1d", "--data", data)
    assert done.exit_code == 0
    assert (data / "clock-offset").exists()


def test_a_hold_stops_what_waits_and_lasts_until_the_brand_is_enabled(
    data: Path, tmp_path: Path
) -> None:
    async def create() -> None:
        async with open_store(
            f"sqlite:///{data / 'gateway.db'}", serving=False, create=False
        ) as store:
            for number in range(450):
                await submit_batch(store, (creation(number), after_noon(number)))
            await submit_batch(store, (BeginSubmission(reference(7)), after_noon(1_000)))

    trio.run(create)
    done = mmo("brands", "disable", "acme", "--hold", "--data", data)
    assert "Stopped: 449. Submitted before, and going on: 1." in done.stderr
    again = mmo("brands", "disable", "acme", "--hold", "--data", data)
    assert "Stopped: 0. Submitted before, and going on: 1." in again.stderr
    shown = as_json("brands", "show", "acme", "--data", data)
    assert (shown["enabled"], bool(shown["heldAt"]), bool(shown["heldBy"])) == (False, True, True)
    assert "no, on hold" in mmo("brands", "list", "--data", data).stdout
    mmo("brands", "apply", tmp_path / "brands.toml", "--data", data)
    assert as_json("brands", "show", "acme", "--data", data)["heldAt"], (
        "the file does not end a hold"
    )
    event = as_json("audit", "list", "--data", data)
    assert any(each["act"] == "brand_disabled" and each["detail"].get("hold") for each in event)
    timeline = as_json("explain", reference(3), "--data", data)
    assert timeline
    mmo("brands", "enable", "acme", "--data", data)
    shown = as_json("brands", "show", "acme", "--data", data)
    assert (shown["enabled"], shown["heldAt"]) == (True, None)
