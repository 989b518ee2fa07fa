"""Brands and their keys from the command line, and the receiver that believes them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from attrs import evolve
from click.testing import Result

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_sansio.messages.inputs import BeginSubmission, CallbackConcluded, Input
from mmo_sansio.values.clock import Instant
from mmo_trio.brands.apply import BrandsPlan
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.commands import brands as brands_command
from mmo_trio.cli.commands import listen
from mmo_trio.cli.support.errors import NegativeAnswer
from mmo_trio.storage.sql.admin_store import AdminStore
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.runtime.cli.test_listen import listening, send
from tests.support.commands import SECRET, as_json, in_store, mmo, refusal
from tests.support.mmo_process import COMMAND, FREE_PORTS
from tests.support.time_limits import HANGS_AFTER_S

BRANDS = """
[[brand]]
id = "acme"
name = "Acme Ltd"
api_keys = ["a-key-that-no-command-shows"]
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


Apply = Callable[..., Result]


@pytest.fixture
def apply(tmp_path: Path) -> Apply:
    """Applies a file with this text."""
    file = tmp_path / "brands.toml"

    def write_and_apply(text: str, *options: str) -> Result:
        file.write_text(text)
        return mmo("brands apply", file, *options)

    return write_and_apply


@pytest.fixture
def data(data: Path, apply: Apply) -> Path:
    """A data directory whose store has two brands, one of them with a key of the file."""
    data.mkdir(parents=True)
    made = json.loads(apply(BRANDS + FURTHER, "--json").stdout)
    assert made["added"] == ["acme", "zuri"]
    assert [*made["madeKeys"]] == ["zuri"]
    return data


def in_use(brand: str) -> list[int]:
    keys = as_json(f"brands show {brand}")["keys"]
    return [key["id"] for key in keys if key["retiredAt"] is None]


@pytest.mark.spec("A5")
def test_brands_are_shown_without_their_keys(data: Path) -> None:
    listed = as_json("brands list")
    assert [each["id"] for each in listed] == ["acme", "zuri"]
    shown = as_json("brands show acme")
    assert shown == listed[0]
    assert shown["methods"][0]["limits"] == {
        "KES": {"min": "10.00", "max": "150000.00", "daily": {}}
    }
    assert "mpesa_ke" in mmo("brands show acme").stdout
    assert "Acme Ltd" in mmo("brands list").stdout
    missing = mmo("brands show nobody")
    assert (missing.exit_code, missing.stdout) == (1, "")


def test_applying_again_changes_nothing(data: Path, apply: Apply) -> None:
    again = json.loads(apply(BRANDS + FURTHER, "--json").stdout)
    assert (again["unchanged"], again["madeKeys"]) == (["acme", "zuri"], {})


def test_brands_and_methods_are_removed_only_when_pruning(data: Path, apply: Apply) -> None:
    bare = '[[brand]]\nid = "acme"\nname = "Acme"\n'
    assert "acme: mpesa_ke (KE)" in apply(bare).stderr
    acme, zuri = as_json("brands list")
    assert (acme["name"], len(acme["methods"]), zuri["id"]) == ("Acme", 1, "zuri")
    said = apply(bare, "--prune").stderr
    assert "acme: method mpesa_ke (KE): provider sandbox -> none" in said
    assert "remove: zuri" in said
    (acme,) = as_json("brands list")
    assert acme["methods"] == []


def test_a_dry_run_shows_each_change_and_changes_nothing(data: Path, apply: Apply) -> None:
    before = as_json("brands list")
    lower = BRANDS.replace('max = "150000"', 'max = "1000"') + FURTHER
    member = "method mpesa_ke (KE), limits.KES.max"
    said = apply(lower, "--dry-run")
    assert said.exit_code == 0
    assert f"acme: {member}: KES 150,000.00 -> KES 1,000.00" in said.stderr
    assert as_json("brands list") == before
    [told] = json.loads(apply(lower, "--json").stdout)["differences"]
    amounts = {"before": "150000.00 KES", "after": "1000.00 KES"}
    assert told == {"brand": "acme", "member": member, **amounts}
    [recorded] = [each for each in as_json("audit list") if "1000.00 KES" in str(each)]
    assert "150000.00 KES" in str(recorded)


def test_a_brand_with_pending_payments_is_not_removed(data: Path, apply: Apply) -> None:
    in_store(data, lambda store: submit_batch(store, (creation(1, brand_id="zuri"), NOON)))
    refused = apply(BRANDS, "--prune")
    assert (refused.exit_code, "1 of its payments are pending" in refused.stderr) == (2, True)
    assert [each["id"] for each in as_json("brands list")] == ["acme", "zuri"]


def test_a_fault_in_the_file_is_named(data: Path, apply: Apply, tmp_path: Path) -> None:
    for text, fault in (
        ("", "has no brand"),
        (BRANDS.replace('provider = "sandbox"', 'provider = "x"'), "provider"),
    ):
        refused = apply(text)
        assert (refused.exit_code, fault in refused.stderr) == (2, True), text
    assert "none.toml" in refusal(2, "brands apply", tmp_path / "none.toml")


@pytest.mark.spec("A4", "A5")
def test_another_brands_number_is_no_key_of_this_one_and_its_own_are_named(data: Path) -> None:
    (acme,), (zuri,) = in_use("acme"), in_use("zuri")
    assert acme != zuri, "unique in the store"
    said = refusal(1, f"brands key retire zuri {acme}")
    assert f"zuri has no such key in use; in use are: {zuri}." in said
    assert in_use("acme") == [acme]


@pytest.mark.spec("A4", "A5")
def test_a_key_is_added_shown_once_and_retired(data: Path) -> None:
    made = mmo("brands key add acme")
    assert made.stderr.startswith("For the merchant: accept both keys before you use this one.")
    assert "the oldest in use once that is retired" in made.stderr
    api_key = made.stdout.strip()
    assert len(api_key) > 40
    first, second = in_use("acme")
    assert api_key not in mmo("brands show acme").output
    assert mmo(f"brands key retire acme {first}").exit_code == 0
    assert in_use("acme") == [second]
    assert f"in use are: {second}" in refusal(1, f"brands key retire acme {first}")
    last = mmo(f"brands key retire acme {api_key}")
    assert (last.exit_code, "no key any more" in last.stderr) == (0, True)
    assert mmo("brands key add nobody").exit_code == 1


@pytest.mark.parametrize(
    ("line", "gone"), [("brands key add acme", "acme"), ("brands apply {file}", "baraka")]
)
def test_a_brand_that_is_removed_while_it_gets_a_key_is_said_to_be_gone(
    data: Path, monkeypatch: pytest.MonkeyPatch, line: str, gone: str
) -> None:
    add_key = AdminStore.add_key

    async def remove_and_add_key(admin: AdminStore, brand: str, *rest: bytes, now: Instant) -> bool:
        await admin.save_brands((), removed=[brand])
        return await add_key(admin, brand, *rest, now=now)

    file = data / "brands.toml"
    file.write_text(BRANDS + FURTHER.replace("zuri", "baraka"))
    monkeypatch.setattr(AdminStore, "add_key", remove_and_add_key)
    assert f"There is no brand {gone} any more" in refusal(1, line.format(file=file))


def paid_with_each_key(data: Path, *paid: tuple[int, str, bool]) -> None:
    """Payments of acme, each made with a key, with results for a host, and told to the merchant or
    still pending."""

    async def create(store: Store) -> None:
        for number, (key, host, is_told) in enumerate(paid):
            made = creation(number)
            draft = evolve(made.draft, result_url=f"https://{host}:8443/results?n={number}")
            steps: list[Input] = [evolve(made, draft=draft, api_key_id=str(key))]
            if is_told:
                attempt = DeliveryAttempt(DeliveryOutcome.DELIVERED, draft.result_url or "", 204)
                steps += [BeginSubmission(reference(number)), succeeded(number)]
                steps.append(CallbackConcluded(reference(number), attempt))
            for each in steps:
                await submit_batch(store, (each, after_noon(number)))

    in_store(data, create)


def retire_at_a_terminal(key: int, answer: bytes, *options: str) -> tuple[int, str]:
    """The exit code and what is shown; the answer is typed."""
    terminal, end = os.openpty()
    try:
        os.write(terminal, answer)
        words = [*COMMAND, "brands", "key", "retire", "acme", str(key), *options]
        done = subprocess.run(
            words, stdin=end, capture_output=True, timeout=HANGS_AFTER_S, check=False
        )
    finally:
        os.close(terminal)
        os.close(end)
    return done.returncode, done.stderr.decode()


@pytest.mark.spec("A4")
def test_a_retirement_lists_the_hosts_of_open_results_and_asks_whether_the_key_leaked(
    data: Path,
) -> None:
    mmo("brands key add acme")
    first, second = in_use("acme")
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
    code, said = retire_at_a_terminal(first, b"y\n")
    assert code == 1
    assert [line for line in said.splitlines() if line.startswith("Results")] == shown
    assert "End the key with --leaked" in said
    assert in_use("acme") == [first, second], "nothing was changed"
    code, said = retire_at_a_terminal(second, b"y\n", "--yes")
    assert (code, "known to somebody else" in said) == (0, False)
    done = mmo(f"brands key retire acme {first}")
    assert done.exit_code == 0, "nobody is asked where nobody can answer"
    assert [line for line in done.stderr.splitlines() if line.startswith("Results")] == shown


@pytest.mark.spec("A4")
def test_a_key_is_retired_as_leaked_and_the_keys_that_it_disclosed_are_named(data: Path) -> None:
    mmo("brands key add acme")
    mmo("brands key add acme")
    first, second, third = in_use("acme")
    done = mmo(f"brands key retire acme {second} --leaked")
    assert done.exit_code == 0
    assert "Nothing more is sent for payments that were made with it" in done.stderr
    assert "may have carried" not in done.stderr, "while it was in use they carried itself"
    again = refusal(1, f"brands key retire acme {second} --leaked")
    assert f"not yet marked as leaked are: {first}, {third}" in again
    assert mmo(f"brands key retire acme {first}").exit_code == 0
    late = mmo(f"brands key retire acme {first} --leaked --data {data}")
    assert late.exit_code == 0, "also when it is retired already"
    assert f"may have carried these keys: {third}. Retire them as leaked, too:" in late.stderr
    assert f"    mmo brands key retire acme {third} --leaked --data {data}\n" in late.stderr
    keys = as_json("brands show acme")["keys"]
    assert [each["leakedAt"] is not None for each in keys] == [True, True, False]
    assert [each["retiredAt"] is not None for each in keys] == [True, True, False]
    last = as_json("audit list")[0]
    assert (last["act"], last["about"]) == ("key_retired", "brand:acme")
    assert last["detail"]["leaked"] is True


@pytest.mark.spec("M5", "S4")
def test_show_tells_the_tax_authority_and_whose_deposits_are_taken(
    data: Path, apply: Apply
) -> None:
    taxes = """
  tax_authority_id = "KRA"
  tax_authority_account = "572572"
  push_accounts = ["174379/TANA"]
"""
    assert apply(BRANDS.replace("direct/payin", "direct/taxpayout") + taxes).exit_code == 0
    [method] = as_json("brands show acme")["methods"]
    assert (method["taxAuthorityId"], method["taxAuthorityAccount"]) == ("KRA", "572572")
    assert method["pushAccounts"] == ["174379/TANA"]
    text = mmo("brands show acme").stdout
    assert all(word in text for word in ("KRA", "572572", "174379/TANA"))


@pytest.mark.spec("A2")
def test_a_plan_of_before_does_not_undo_an_emergency_stop(
    data: Path, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    print_plan = brands_command._print_plan

    def read_slowly(plan: BrandsPlan) -> None:
        print_plan(plan)
        assert mmo("brands disable acme").exit_code == 0

    monkeypatch.setattr(brands_command, "_print_plan", read_slowly)
    applied = apply(BRANDS.replace('name = "Acme Ltd"', 'name = "Acme Limited"'))
    assert applied.exit_code == 1
    assert "somebody has changed acme meanwhile" in applied.stderr
    assert as_json("brands show acme")["enabled"] is False
    assert as_json("audit list")[0]["act"] == "brand_disabled"


@pytest.mark.spec("A2")
def test_a_brand_is_disabled_and_enabled(data: Path) -> None:
    for command, enabled in (("disable", False), ("enable", True)):
        assert mmo(f"brands {command} acme").exit_code == 0
        assert as_json("brands show acme")["enabled"] is enabled
    assert mmo("brands disable nobody").exit_code == 1


@pytest.mark.spec("A5")
@pytest.mark.parametrize("is_missing", [True, False], ids=["missing", "another"])
def test_a_wrong_master_key_is_refused_and_no_other_is_made(
    data: Path, tmp_path: Path, is_missing: bool
) -> None:
    (data / "master.key").unlink()
    if not is_missing:
        create_master_key(data / "master.key")
    remedy = "there is no such file" if is_missing else "its keys are not those of the store"
    assert "keys.master_key_file" in refusal(2, "listen --port 0")
    for line in (
        f"brands apply {tmp_path / 'brands.toml'}",
        "brands key add zuri",
        "brands disable acme",
        "db check",
        f"sandbox {' '.join(FREE_PORTS)}",
    ):
        said = refusal(2, line)
        assert remedy in said, line
        assert line.startswith("sandbox") or "keys.master_key_file" in said
        assert is_missing is not (data / "master.key").exists()
    assert len(in_use("zuri")) == 1
    assert as_json("brands show acme")["enabled"]


@pytest.mark.spec("K1")
def test_the_receiver_believes_the_keys_of_the_sandbox(data: Path) -> None:
    body = {"gatewayReference": "01K5TESTTESTTESTTESTTEST00", "status": "success"}
    with listening("--json") as (address, printed):
        assert send(data, address, body, key="wrong") == 401
        line = json.loads(next(printed))
        assert (line["refused"], line["key"], line["response"]) == ("X-API-KEY", "wrong", 401)
        assert send(data, address, body, key=SECRET) == 204
        line = json.loads(next(printed))
        assert (line["callback"], line["key"], line["response"]) == (body, "ok", 204)


def test_the_receiver_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("--key", SECRET) as (address, _):
        port = address.rstrip("/").rpartition(":")[2]
        assert f"--port {port}" in refusal(2, f"listen --key k --port {port}")
    monkeypatch.setattr(listen, "KEYS_WAIT_S", 0)
    said = refusal(1, "listen")
    assert "mmo sandbox" in said
    assert "--key" in said


def test_the_receiver_looks_for_keys_once_a_second_until_they_are_there(
    data: Path, tmp_path: Path
) -> None:
    later, pauses = tmp_path / "later", list[float]()

    def start_sandbox_after_three(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 3:
            data.rename(later)

    assert SECRET.encode() in listen._await_sandbox_keys(later, start_sandbox_after_three)
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
    done = mmo("sandbox-clock advance 72h")
    assert done.stdout == "2026-11-24T00:00:00.000000Z\n"
    assert "running sandbox" in done.stderr
    assert not (data / "clock-offset").exists()
    assert "answered 400" in refusal(1, "sandbox-clock advance 1d")


def test_a_sandbox_that_is_gone_leaves_its_clock_to_the_next(data: Path) -> None:
    (data / "running.json").write_text(json.dumps({"pages": "http://127.0.0.1:1"}))
    assert mmo("sandbox-clock advance 1d").exit_code == 0
    assert (data / "clock-offset").exists()


def test_a_hold_stops_what_waits_and_lasts_until_the_brand_is_enabled(
    data: Path, apply: Apply
) -> None:
    async def create(store: Store) -> None:
        await create_payments(store, range(450))
        await submit_batch(store, (BeginSubmission(reference(7)), after_noon(1_000)))

    in_store(data, create)
    for stopped in (449, 0):
        said = mmo("brands disable acme --hold").stderr
        assert f"Stopped: {stopped}. Submitted before, and going on: 1." in said
    shown = as_json("brands show acme")
    assert (shown["enabled"], bool(shown["heldAt"]), bool(shown["heldBy"])) == (False, True, True)
    assert "no, on hold" in mmo("brands list").stdout
    apply(BRANDS + FURTHER)
    assert as_json("brands show acme")["heldAt"], "the file does not end a hold"
    events = [each for each in as_json("audit list") if each["act"] == "brand_disabled"]
    assert any(each["detail"].get("hold") for each in events)
    assert as_json("explain", reference(3))
    mmo("brands enable acme")
    shown = as_json("brands show acme")
    assert (shown["enabled"], shown["heldAt"]) == (True, None)
