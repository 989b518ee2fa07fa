"""`mmo tx reverse` and `mmo tx reversals`: money of a payment back, from the command line to the
operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.messages.reversals import (
    RequestReversal,
    ReversalCannotTell,
    ReversalFailed,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.values.clock import DAY, Span
from mmo_sansio.values.model import Source
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.commands import reversals
from mmo_trio.cli.support.target import MachineUser, machine_user
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import brand, creation, reference, succeeded
from tests.support.commands import as_json, in_store, mmo, refusal, submit

PAID = reference(1)
FIRST = f"{PAID}-1"


@pytest.fixture
def data(data: Path) -> Path:
    """A sandbox's folder with a paid payment."""
    data.mkdir(parents=True)
    create_master_key(data / "master.key")

    async def fill(store: Store) -> None:
        await store.admin.save_brands([brand("acme")])
        await submit_batch(
            store, (creation(1), NOON), (BeginSubmission(PAID), NOON), (succeeded(1), NOON)
        )
        await submit_batch(store, (creation(2), NOON))

    in_store(data, fill)
    return data


def test_another_user_of_the_machine_approves(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = as_json(f"tx reverse {PAID} --reason", "Paid twice.", "--amount", "10.00")
    assert (asked["id"], asked["state"], asked["amount"]) == (FIRST, "requested", "10.00 KES")
    assert "another user" in refusal(1, f"tx reversals approve {FIRST}")
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    refused = refusal(1, f"tx reversals approve {FIRST}")
    assert "approves it in the console" in refused
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
    approved = as_json(f"tx reversals approve {FIRST}")
    assert (approved["state"], approved["approvedBy"]) == ("approved", "cli:brian")
    (listed,) = as_json("tx reversals list")
    (shown,) = as_json(f"tx reversals show {PAID}")
    assert listed == shown == approved
    told = mmo(f"explain {PAID}")
    assert "asked for money back [nothing → requested]" in " ".join(told.output.split())


def test_a_name_that_was_typed_is_recorded_and_is_no_other_pair_of_eyes(data: Path) -> None:
    asked = as_json(f"tx reverse {PAID} --reason", "Paid twice.", "--user", "amina")
    assert asked["askedBy"] == f"cli:{machine_user().name}"
    assert "another user" in refusal(1, f"tx reversals approve {FIRST} --user brian")
    recorded = {(each["act"], each["detail"].get("user")) for each in as_json("audit list")}
    assert recorded >= {("reversal_requested", "amina"), ("refused", "brian")}


@pytest.mark.usefixtures("commands_approve")
def test_what_was_not_sent_is_taken_back(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_json(f"tx reverse {PAID} --reason", "Paid twice.")
    ended = as_json(f"tx reversals refuse {FIRST} --remark", "A mistake.")
    assert (ended["state"], ended["remark"]) == ("failed", "A mistake.")
    assert as_json("tx reversals list") == []
    assert len(as_json("tx reversals list --all")) == 1
    by_hand = (f"tx reversals resolve {FIRST} --succeeded --evidence", "line 7")
    assert "another user" in refusal(1, *by_hand)
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    assert "only one that was sent" in refusal(1, *by_hand)


@pytest.mark.spec("S6")
def test_staff_are_told_what_to_do_where_nothing_can_ask_the_operator(data: Path) -> None:
    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "amina", needs_approval=False)
    submit(data, asked, ReversalWoke(FIRST, "one"), ReversalUnreachable(FIRST, "sandbox", "lost"))
    assert "portal" not in mmo("tx reversals list").stderr
    submit(data, ReversalCannotTell(FIRST, "sandbox", version=3))
    for words in (("list",), ("show", PAID)):
        said = " ".join(mmo("tx reversals", *words).stderr.split())
        hint = f"The gateway can't ask sandbox about {FIRST}. Look for the payment's receipt"
        assert hint in said
        assert f"mmo tx reversals resolve {FIRST} --succeeded" in said


def test_what_could_not_be_sent_for_a_day_is_told(data: Path) -> None:
    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "amina", needs_approval=False)
    submit(data, asked, ago=Span(2 * DAY))
    for words in (("list",), ("show", PAID)):
        said = " ".join(mmo("tx reversals", *words).stderr.split())
        assert f"{FIRST} could not be sent to sandbox for a day" in said
        assert f"mmo tx reversals refuse {FIRST}" in said


@pytest.mark.spec("S6")
def test_a_part_that_is_asked_for_again_is_asked_for_once(data: Path) -> None:
    """A command whose outcome nobody knows is repeated."""
    ask = (f"tx reverse {PAID} --reason", "Paid twice.", "--amount", "10.00")
    as_json(*ask)
    assert f"{FIRST} of 10.00 KES, requested" in refusal(1, *ask)
    assert "add --number 2" in refusal(1, *ask)
    assert "asked back meanwhile" in refusal(1, *ask, "--number", "1")
    assert as_json(*ask, "--number", "2")["id"] == f"{PAID}-2"
    as_json(f"tx reversals refuse {FIRST} --remark no")
    as_json(f"tx reversals refuse {PAID}-2 --remark no")
    assert as_json(*ask)["id"] == f"{PAID}-3", "what has failed is in nobody's way"


@pytest.mark.spec("S5")
def test_a_failed_reversal_that_the_statement_has_is_put_right(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "cli:amina", needs_approval=False)
    refused = ReversalFailed(FIRST, "sandbox", Source.WEBHOOK, "No.")
    submit(data, asked, ReversalWoke(FIRST, "one"), refused)
    by_hand = (f"tx reversals resolve {FIRST} --succeeded --evidence", "line 7")
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("amina"))
    assert "another user" in refusal(1, *by_hand)
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    assert "another user ends it in the console" in refusal(1, *by_hand)
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
    ended = as_json(*by_hand)
    assert (ended["state"], ended["endedBy"]) == ("moved_after_all", "cli:brian")
    again = refusal(1, f"tx reverse {PAID} --reason", "Paid twice.")
    assert "All that was paid has been asked back." in again
    told = " ".join(mmo(f"explain {PAID}").stdout.split())
    assert "reversal 1 had failed, and has moved its money after all" in told
    listed = mmo("tx reversals list --all").stdout
    assert "moved after all" in listed


def test_wrong_words_are_refused_with_a_sentence(data: Path) -> None:
    ask = (f"tx reverse {PAID}",)
    assert mmo(*ask, "--reason", " ").exit_code == 2
    assert mmo(*ask, "--reason", "why", "--amount", "ten").exit_code == 2
    thousands = mmo(*ask, "--reason", "why", "--amount", "10.000")
    assert thousands.exit_code == 2
    assert "a point may be meant to part thousands" in thousands.stderr
    assert "at most" in refusal(1, *ask, "--reason", "why", "--amount", "99999999")
    assert "has succeeded" in refusal(1, "tx reverse", reference(2), "--reason", "why")
    assert "no transaction" in refusal(1, "tx reverse NONE --reason why")
    assert "There is no reversal" in refusal(1, "tx reversals approve NONE-1")
