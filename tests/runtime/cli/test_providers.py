"""Staff close a provider, list payments with an unknown outcome, and resolve them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from attrs import evolve
from mmo_provider_wave import WAVE
from trio.testing import MockClock

from mmo_sansio.messages.inputs import Input
from mmo_sansio.providers.common.balances import AccountBalance
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_sansio.testing import builders as a
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, Span, earlier, elapsed, later
from mmo_sansio.values.money import Money
from mmo_trio.cli.commands import providers
from mmo_trio.cli.support.target import machine_user
from mmo_trio.engine.engine import continue_clock
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from mmo_trio.workers.providers.account_notes import REQUESTED, finding_note
from tests.simulation.stores.simulated_run import at_once, quiet_server
from tests.support.commands import as_json, in_store, mmo, refusal, submit

OLD, NEW, DONE, ODD = (a.numbered_reference(number) for number in range(1, 5))


@pytest.fixture
def data(data: Path) -> Path:
    odd = a.succeeded(ODD, final=Money(100, "UGX"))
    long_ago: list[Input] = []
    for number, reference in enumerate((OLD, DONE, ODD)):
        long_ago += [
            a.a_create_payment(reference, merchant_reference=f"order-{number}"),
            a.a_begin_submission(reference),
        ]
    submit(data, *long_ago, a.succeeded(DONE), odd, ago=Span(HOUR + MINUTE))
    submit(data, a.a_create_payment(NEW, merchant_reference="order-9"), a.a_begin_submission(NEW))
    return data


@pytest.mark.spec("S6")
def test_what_is_unknown_for_an_hour_is_stuck(data: Path) -> None:
    found = as_json("tx list --stuck")
    assert [each["transaction"]["gatewayReference"] for each in found] == [OLD, ODD]
    assert as_json("tx list --stuck --brand other") == []
    assert len(as_json("tx list --stuck --limit 1")) == 1


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S2", "S5")
def test_a_person_cannot_contradict_what_the_provider_has_told(data: Path) -> None:
    words = ("--reason", "stuck", "--evidence", "line 7")
    against = "The evidence on record is against it"
    assert against in refusal(1, f"tx resolve {ODD} --failed", *words)
    [event] = as_json(f"audit list --about payment:{ODD}")
    assert event["act"] == "resolution_failed"
    assert event["detail"]["remark"].startswith(against)
    line = f"tx resolve {ODD} --succeeded --provider-reference SFC123XYZ8"
    done = as_json(line, *words)["transaction"]
    assert (done["status"], done["completionSource"]) == ("success", "manual")
    assert done["providerReference"] == "SFC123XYZ8"


@pytest.mark.usefixtures("commands_approve")
@pytest.mark.spec("S2", "E1")
def test_a_failure_by_hand_needs_no_code(data: Path) -> None:
    done = as_json(f"tx resolve {OLD} --failed --reason stuck --evidence line-7")["transaction"]
    assert (done["status"], done["errorCode"]) == ("failed", "provider_timeout")


@pytest.mark.spec("K3")
def test_there_is_no_button_that_calls_back_again() -> None:
    commands = mmo("tx --help").stdout
    assert "resolve" in commands
    assert not any(word in commands for word in ("resend", "retry", "again"))


def test_a_provider_is_closed_and_opened(data: Path) -> None:
    assert as_json("providers list")[0]["open"] is True
    close = "providers disable sandbox --user amina --reason"
    assert mmo(f"{close} broken").exit_code == 0
    (row,) = as_json("providers list")
    assert (row["name"], row["open"], row["reason"]) == ("sandbox", False, "broken")
    assert row["closedBy"] == f"{machine_user().name} for amina"
    assert mmo(f"{close} x").exit_code == 1
    assert mmo(close, " ").exit_code == 2
    assert mmo("providers disable sandbx --reason x").exit_code == 2
    ends = [mmo(f"providers enable {name}").exit_code for name in ("sandbox", "sandbox", "sandbx")]
    assert ends == [0, 1, 2]


def find_out(data: Path, *findings: AccountFinding) -> None:
    async def note(store: Store) -> None:
        for each in findings:
            await store.admin.note_provider(finding_note(each, GatewayClock().wall_time()))

    in_store(data, note, serving=False)


def test_a_check_has_the_worst_first_and_a_summary(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kenya", "tanzania", "uganda"):
        monkeypatch.setenv(f"MMO_PROVIDER__{name.upper()}__KIND", "mpesa_daraja")
    works, unknown = AccountState.WORKS, AccountState.UNKNOWN
    find_out(
        data,
        AccountFinding("kenya", "passkey", works, "0", "It works."),
        AccountFinding("kenya", "pull", unknown, "", "No answer."),
        AccountFinding("uganda", "sign-in", AccountState.REFUSED, "HTTP 400", "Wrong keys."),
    )
    checked = mmo("providers check")
    assert checked.exit_code == 1
    listed = [" ".join(line.split()[:3]) for line in checked.stdout.splitlines()[1:]]
    assert listed == ["uganda sign-in refused", "kenya pull unknown", "kenya passkey works"]
    assert not re.search(r"\.[0-9]{6}Z", checked.stdout)
    summary = "1 of 3 accounts works; uganda: sign-in refused, tanzania: not checked yet."
    assert summary in checked.stderr

    find_out(data, AccountFinding("uganda", "sign-in", unknown, "HTTP 500", "Down."))
    without_token = mmo("providers check uganda")
    assert without_token.exit_code == 1
    assert "0 of 1 account work; uganda: sign-in unknown." in without_token.stderr

    alone = mmo("providers check kenya")
    assert (alone.exit_code, "1 of 1 account works." in alone.stderr) == (0, True)


def test_the_list_marks_accounts_by_which_no_money_moves(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMO_PROVIDER__PLAY__KIND", "sandbox")
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    rows = {each["name"]: each["simulated"] for each in as_json("providers list")}
    assert rows == {"play": True, "kenya": None}, "nothing is known of an account without options"
    listed = mmo("providers list").stdout.splitlines()
    assert [line.split()[0] for line in listed if " simulated" in line] == ["name", "play"]


def test_only_accounts_with_an_operator_are_checked_and_recorded(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    assert as_json("providers check") == []
    unknown = mmo("providers check kenia")
    assert (unknown.exit_code, "kenya" in unknown.output) == (2, True)
    file = data / "kenya.jsonl"
    assert mmo(f"providers record sandbox --to {file}").exit_code == 2
    file.write_text("kept")
    existing = mmo(f"providers record kenya --to {file}")
    assert (existing.exit_code, file.read_text()) == (2, "kept")
    assert "Name a new file." in existing.output


def set_back(data: Path, by: Span) -> GatewayClock:
    """Let the gateway's own time be this far ahead of the wall clock; return a clock that goes on
    with it, as that of a process that serves does."""
    clock = GatewayClock()
    record = clock.record()

    async def save(store: Store) -> None:
        await store.save_clock_record(evolve(record, time=later(record.time, by)))
        await continue_clock(clock, store)

    in_store(data, save)
    return clock


@pytest.mark.spec("S3")
def test_a_recording_ends_by_the_time_that_those_who_record_go_by(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded once it is over by the gateway's own time, though the wall clock was set
    back since."""
    monkeypatch.setenv("MMO_PROVIDER__KENYA__KIND", "mpesa_daraja")
    monkeypatch.setattr(providers, "CHECK_QUIET_S", 0.0)
    clock = set_back(data, Span(DAY))
    seen: list[ProviderNote] = []

    async def look(store: Store, *_: object) -> None:
        seen.extend(await store.admin.provider_notes(NoteTopic.RECORDING))

    monkeypatch.setattr(providers, "_watch_recording", look)
    result = mmo("providers record kenya --to", data / "new.jsonl")
    assert result.exit_code == 0, result.output
    [asked] = seen
    assert Span(0) < elapsed(clock.own_time(), asked.at) <= 10 * MINUTE


@pytest.mark.spec("S3")
@pytest.mark.parametrize("ahead", [Span(3 * DAY), Span(-3 * DAY)], ids=["ahead", "behind"])
def test_balances_are_those_of_the_last_hours_by_the_gateways_own_time(
    data: Path, ahead: Span
) -> None:
    clock = set_back(data, ahead)

    def note(ago: Span) -> None:
        at = earlier(clock.own_time(), ago)
        known = AccountBalance("sandbox", "KES", Money(1_000, "KES"), at, is_float=True)
        in_store(data, lambda store: store.admin.record_balances([known]))

    note(Span(2 * DAY))
    assert as_json("providers balances") == []
    note(Span(HOUR))
    assert [row["balance"] for row in as_json("providers balances")] == ["10.00"]


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


def test_the_options_of_a_kind_are_explained_also_of_one_that_a_package_brings(
    provider_packages: object,
) -> None:
    for name, kind in (("mtn_momo", PROVIDER_KINDS["mtn_momo"]), ("wave", WAVE)):
        printed = mmo(f"providers options {name}").stdout
        told = as_json(f"providers options {name}")
        assert [row["option"] for row in told] == [option.name for option in kind.options]
        for option in kind.options:
            assert option.name in printed
            assert option.meaning.replace("`", "") in printed
    assert "Did you mean wave?" in refusal(2, "providers options wav")
