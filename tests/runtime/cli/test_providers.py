"""Staff close a provider, list payments with an unknown outcome, and resolve them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from click.testing import CliRunner, Result
from trio.testing import MockClock

from mmo_sansio.messages.inputs import Input
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Span, earlier, elapsed, later
from mmo_sansio.values.money import Money
from mmo_trio.cli.commands import providers
from mmo_trio.cli.group import main
from mmo_trio.cli.support.target import machine_user
from mmo_trio.engine.engine import continue_clock, submit_once
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.providers.account_notes import REQUESTED, finding_note
from tests.simulation.stores.simulated_run import at_once, quiet_server

OLD, NEW, DONE, ODD = (a.numbered_reference(number) for number in range(1, 5))


def mmo(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def as_json(*arguments: object) -> Any:
    result = mmo(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def fill(url: str, ago: Span, inputs: Sequence[Input]) -> None:
    async with open_store(url, serving=True) as store:
        for input_ in inputs:
            await submit_once(store, input_, GatewayClock(offset=Span(-ago)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    url = f"sqlite:///{tmp_path / 'gateway.db'}"
    odd = a.succeeded(ODD, final=Money(100, "UGX"))
    long_ago: list[Input] = []
    for number, reference in enumerate((OLD, DONE, ODD)):
        long_ago += [
            a.a_create_payment(reference, merchant_reference=f"order-{number}"),
            a.a_begin_submission(reference),
        ]
    long_ago += [a.succeeded(DONE), odd]
    trio.run(fill, url, Span(HOUR + MINUTE), long_ago)
    of_now: list[Input] = [
        a.a_create_payment(NEW, merchant_reference="order-9"),
        a.a_begin_submission(NEW),
    ]
    trio.run(fill, url, Span(0), of_now)
    return tmp_path


@pytest.mark.spec("S6")
def test_what_is_unknown_for_an_hour_is_stuck(data: Path) -> None:
    found = as_json("tx", "list", "--stuck", "--data", data)
    assert [each["transaction"]["gatewayReference"] for each in found] == [OLD, ODD]
    assert as_json("tx", "list", "--stuck", "--brand", "other", "--data", data) == []
    assert len(as_json("tx", "list", "--stuck", "--limit", 1, "--data", data)) == 1


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S2", "S5")
def test_a_person_cannot_contradict_what_the_provider_has_told(data: Path) -> None:
    words = ("--reason", "stuck", "--evidence", "line 7", "--data", data)
    said = mmo("tx", "resolve", ODD, "--failed", *words)
    assert said.exit_code == 1
    assert "The evidence on record is against it" in said.stderr
    [event] = as_json("audit", "list", "--about", f"payment:{ODD}", "--data", data)
    assert event["act"] == "resolution_failed"
    assert event["detail"]["remark"].startswith("The evidence on record is against it: ")
    done = as_json("tx", "resolve", ODD, "--succeeded", *words)["transaction"]
    assert (done["status"], done["completionSource"]) == ("success", "manual")


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S4")
def test_a_person_cannot_count_a_receipt_twice(data: Path) -> None:
    deposit = a.a_deposit(provider_reference="SFC123XYZ9", gateway_reference=a.UNUSED_REFERENCE)
    trio.run(fill, f"sqlite:///{data / 'gateway.db'}", Span(0), [deposit])
    words = ("--succeeded", "--reason", "stuck", "--evidence", "line 7", "--data", data)
    said = mmo("tx", "resolve", OLD, "--provider-reference", "SFC123XYZ9", *words)
    assert said.exit_code == 1
    assert f"The receipt SFC123XYZ9 is the one of {a.UNUSED_REFERENCE}." in said.stderr
    done = as_json("tx", "resolve", OLD, "--provider-reference", "SFC123XYZ8", *words)[
        "transaction"
    ]
    assert (done["status"], done["providerReference"]) == ("success", "SFC123XYZ8")


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S5", "S6")
def test_a_person_cannot_fail_what_may_be_arriving(data: Path) -> None:
    words = ("--failed", "--reason", "stuck", "--evidence", "line 7", "--data", data)
    said = mmo("tx", "resolve", NEW, *words)
    assert (said.exit_code, "may be receiving it just now" in said.stderr) == (1, True)
    trio.run(fill, f"sqlite:///{data / 'gateway.db'}", Span(0), [a.accepted(NEW)])
    assert as_json("tx", "resolve", NEW, *words)["transaction"]["status"] == "failed"


@pytest.mark.spec("S1", "S3", "S5")
def test_what_has_expired_is_stuck_no_longer_and_what_is_told_then_waits_for_a_person(
    tmp_path: Path,
) -> None:
    url, words = f"sqlite:///{tmp_path / 'gateway.db'}", ("--data", tmp_path)
    long_ago: list[Input] = [a.a_create_payment(OLD), a.a_begin_submission(OLD)]
    of_now: list[Input] = [a.a_wake(OLD), a.succeeded(OLD)]
    trio.run(fill, url, Span(4 * DAY), long_ago)
    (stuck,) = as_json("tx", "list", "--stuck", *words)
    assert stuck["transaction"]["gatewayReference"] == OLD
    trio.run(fill, url, Span(0), of_now)
    assert as_json("tx", "list", "--stuck", *words) == []
    (failed,) = as_json("tx", "list", "--status", "failed", *words)
    assert failed["transaction"]["errorCode"] == "transaction_expired"
    (entry,) = as_json("suspense", "list", *words)
    assert (entry["reason"], entry["gatewayReference"]) == ("late_result", OLD)
    by_hand = ("--succeeded", "--reason", "late", "--evidence", "line 7", *words)
    assert mmo("tx", "resolve", OLD, *by_hand).exit_code == 1


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S2", "E1")
def test_a_failure_by_hand_needs_no_code(data: Path) -> None:
    words = ("--reason", "stuck", "--evidence", "line 7", "--data", data)
    done = as_json("tx", "resolve", OLD, "--failed", *words)["transaction"]
    assert (done["status"], done["errorCode"]) == ("failed", "provider_timeout")


@pytest.mark.spec("K3")
def test_there_is_no_button_that_calls_back_again() -> None:
    commands = mmo("tx", "--help").stdout
    assert "resolve" in commands
    assert not any(word in commands for word in ("resend", "retry", "again"))


def test_a_provider_is_closed_and_opened(data: Path) -> None:
    words = ("--user", "amina", "--data", data)
    assert as_json("providers", "list", "--data", data)[0]["open"] is True
    assert mmo("providers", "disable", "sandbox", "--reason", "broken", *words).exit_code == 0
    (row,) = as_json("providers", "list", "--data", data)
    assert (row["name"], row["open"], row["closedBy"], row["reason"]) == (
        "sandbox", False, f"{machine_user().name} for amina", "broken",
    )  # fmt: skip
    assert mmo("providers", "disable", "sandbox", "--reason", "x", *words).exit_code == 1
    assert mmo("providers", "disable", "sandbx", "--reason", "x", *words).exit_code == 2
    assert mmo("providers", "disable", "sandbox", "--reason", " ", *words).exit_code == 2
    assert mmo("providers", "enable", "sandbox", "--data", data).exit_code == 0
    assert mmo("providers", "enable", "sandbox", "--data", data).exit_code == 1
    assert mmo("providers", "enable", "sandbx", "--data", data).exit_code == 2


def test_check_config_opens_providers(tmp_path: Path) -> None:
    config = tmp_path / "mmo.toml"
    config.write_text('[provider.momo]\nkind = "mtn_momo"\nmarket = "sandbox"\nmarkt = "x"\n')
    refused = mmo("check-config", "--config", config)
    assert refused.exit_code == 2
    assert "provider.momo.markt (MMO_PROVIDER__MOMO__MARKT)" in refused.stderr
    assert "market" in refused.stderr


async def find_out(url: str, *findings: AccountFinding) -> None:
    async with open_store(url, serving=False) as store:
        for each in findings:
            await store.admin.note_provider(finding_note(each, GatewayClock().wall_time()))


def test_a_check_has_the_worst_first_and_a_summary(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kenya", "tanzania", "uganda"):
        monkeypatch.setenv(f"MMO_PROVIDER__{name.upper()}__KIND", "mpesa_daraja")
    works, unknown = AccountState.WORKS, AccountState.UNKNOWN
    url = f"sqlite:///{data / 'gateway.db'}"
    trio.run(
        find_out,
        url,
        AccountFinding("kenya", "passkey", works, "0", "It works."),
        AccountFinding("kenya", "pull", unknown, "", "No answer."),
        AccountFinding("uganda", "sign-in", AccountState.REFUSED, "HTTP 400", "Wrong keys."),
    )
    checked = mmo("providers", "check", "--data", data)
    assert checked.exit_code == 1
    lines = checked.stdout.splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["uganda", "sign-in", "refused"],
        ["kenya", "pull", "unknown"],
        ["kenya", "passkey", "works"],
    ]
    assert not re.search(r"\.[0-9]{6}Z", checked.stdout)
    summary = "1 of 3 accounts works; uganda: sign-in refused, tanzania: not checked yet."
    assert summary in checked.stderr

    trio.run(find_out, url, AccountFinding("uganda", "sign-in", unknown, "HTTP 500", "Down."))
    without_token = mmo("providers", "check", "uganda", "--data", data)
    assert without_token.exit_code == 1
    assert "0 of 1 account work; uganda: sign-in unknown." in without_token.stderr

    alone = mmo("providers", "check", "kenya", "--data", data)
    assert (alone.exit_code, "1 of 1 account works." in alone.stderr) == (0, True)


def test_the_list_marks_accounts_by_which_no_money_moves(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMO_PROVIDER__PLAY__KIND", "sandbox")
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    rows = {
        each["name"]: each["simulated"] for each in as_json("providers", "list", "--data", data)
    }
    assert rows == {"play": True, "kenya": None}, "nothing is known of an account without options"
    listed = mmo("providers", "list", "--data", data).stdout.splitlines()
    assert [line.split()[0] for line in listed if " simulated" in line] == ["name", "play"]


def test_only_accounts_with_an_operator_are_checked_and_recorded(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    assert as_json("providers", "check", "--data", data) == []
    unknown = mmo("providers", "check", "kenia", "--data", data)
    assert (unknown.exit_code, "kenya" in unknown.output) == (2, True)
    file = data / "kenya.jsonl"
    assert mmo("providers", "record", "sandbox", "--to", file, "--data", data).exit_code == 2
    file.write_text("kept")
    existing = mmo("providers", "record", "kenya", "--to", file, "--data", data)
    assert (existing.exit_code, file.read_text()) == (2, "kept")
    assert "Name a new file." in existing.output


async def set_back(url: str, by: Span) -> GatewayClock:
    """Let the gateway's own time be this far ahead of the wall clock; return a clock that goes on
    with it, as that of a process that serves does."""
    clock = GatewayClock()
    record = clock.record()
    async with open_store(url, serving=True) as store:
        await store.save_clock_record(evolve(record, time=later(record.time, by)))
        await continue_clock(clock, store)
    return clock


@pytest.mark.spec("S3")
def test_a_recording_ends_by_the_time_that_those_who_record_go_by(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded once it is over by the gateway's own time, though the wall clock was set
    back since."""
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    monkeypatch.setattr(providers, "CHECK_QUIET_S", 0.0)
    url = f"sqlite:///{data / 'gateway.db'}"
    clock = trio.run(set_back, url, Span(DAY))
    seen: list[ProviderNote] = []

    async def look(store: Store, *_: object) -> None:
        seen.extend(await store.admin.provider_notes(NoteTopic.RECORDING))

    monkeypatch.setattr(providers, "_watch_recording", look)
    result = mmo("providers", "record", "kenya", "--to", data / "new.jsonl", "--data", data)
    assert result.exit_code == 0, result.output
    [asked] = seen
    assert Span(0) < elapsed(clock.own_time(), asked.at) <= 10 * MINUTE


@pytest.mark.spec("S3")
@pytest.mark.parametrize("ahead", [Span(3 * DAY), Span(-3 * DAY)], ids=["ahead", "behind"])
def test_balances_are_those_of_the_last_hours_by_the_gateways_own_time(
    data: Path, ahead: Span
) -> None:
    url = f"sqlite:///{data / 'gateway.db'}"
    clock = trio.run(set_back, url, ahead)

    async def note(ago: Span) -> None:
        at = earlier(clock.own_time(), ago)
        known = AccountBalance("sandbox", "KES", Money(1_000, "KES"), at, is_float=True)
        async with open_store(url, serving=True) as store:
            await store.admin.record_balances([known])

    trio.run(note, Span(2 * DAY))
    assert as_json("providers", "balances", "--data", data) == []
    trio.run(note, Span(HOUR))
    assert [row["balance"] for row in as_json("providers", "balances", "--data", data)] == ["10.00"]


@pytest.mark.spec("E1")
async def test_a_request_for_an_account_that_is_gone_fails_no_check_of_others(
    autojump_clock: MockClock,
) -> None:
    store = at_once(quiet_server())
    await store.admin.note_provider(ProviderNote("gone", NoteTopic.CHECK, content=REQUESTED))

    async def take_requests_away() -> None:
        while True:
            await trio.sleep(0.1)
            for request in await store.admin.provider_notes(NoteTopic.CHECK):
                if request.provider == "kenya" and request.content == REQUESTED:
                    await store.admin.note_provider(evolve(request, content=""))

    async with trio.open_nursery() as serving:
        serving.start_soon(take_requests_away)
        await providers._ask_process(store, ["kenya"])
        serving.cancel_scope.cancel()
