"""`mmo tx reverse` and `mmo tx reversals`: money of a payment back, from the command line to the
operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from mmo_sansio.messages.inputs import BeginSubmission, Input
from mmo_sansio.messages.replies import ReversalApplied
from mmo_sansio.messages.reversals import (
    RequestReversal,
    ReversalCannotTell,
    ReversalFailed,
    ReversalUnreachable,
    ReversalWoke,
)
from mmo_sansio.values.model import Source
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.commands import reversals
from mmo_trio.cli.support.target import MachineUser, machine_user
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.open_store import open_store
from mmo_trio.system.clock import GatewayClock
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import brand, creation, reference, succeeded
from tests.runtime.cli.test_brands import mmo

PAID = reference(1)
FIRST = f"{PAID}-1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A sandbox's folder with a paid payment."""
    create_master_key(tmp_path / "master.key")

    async def fill() -> None:
        async with open_store(f"sqlite:///{tmp_path}/gateway.db", serving=True) as store:
            await store.admin.save_brands([brand("acme")])
            await submit_batch(
                store, (creation(1), NOON), (BeginSubmission(PAID), NOON), (succeeded(1), NOON)
            )
            await submit_batch(store, (creation(2), NOON))

    trio.run(fill)
    return tmp_path


def as_json(*words: Any) -> Any:
    result = mmo(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refusal(*words: Any) -> str:
    result = mmo(*words)
    assert result.exit_code == 1, result.output
    return str(result.stderr)


def test_another_user_of_the_machine_approves(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = as_json(
        "tx", "reverse", PAID, "--reason", "Paid twice.", "--amount", "10.00", "--data", data
    )
    assert (asked["id"], asked["state"], asked["amount"]) == (FIRST, "requested", "10.00 KES")
    assert "another user" in refusal("tx", "reversals", "approve", FIRST, "--data", data)
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    refused = refusal("tx", "reversals", "approve", FIRST, "--data", data)
    assert "approves it in the console" in refused
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
    approved = as_json("tx", "reversals", "approve", FIRST, "--data", data)
    assert (approved["state"], approved["approvedBy"]) == ("approved", "cli:brian")
    (listed,) = as_json("tx", "reversals", "list", "--data", data)
    (shown,) = as_json("tx", "reversals", "show", PAID, "--data", data)
    assert listed == shown == approved
    told = mmo("explain", PAID, "--data", data)
    assert "asked for money back [nothing → requested]" in " ".join(told.output.split())


def test_a_name_that_was_typed_is_recorded_and_is_no_other_pair_of_eyes(data: Path) -> None:
    asked = as_json(
        "tx", "reverse", PAID, "--reason", "Paid twice.", "--user", "amina", "--data", data
    )
    assert asked["askedBy"] == f"cli:{machine_user().name}"
    assert "another user" in refusal(
        "tx", "reversals", "approve", FIRST, "--user", "brian", "--data", data
    )
    recorded = {
        (each["act"], each["detail"].get("user"))
        for each in as_json("audit", "list", "--data", data)
    }
    assert recorded >= {("reversal_requested", "amina"), ("refused", "brian")}


@pytest.mark.usefixtures("commands_approve")
def test_what_was_not_sent_is_taken_back(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_json("tx", "reverse", PAID, "--reason", "Paid twice.", "--data", data)
    ended = as_json("tx", "reversals", "refuse", FIRST, "--remark", "A mistake.", "--data", data)
    assert (ended["state"], ended["remark"]) == ("failed", "A mistake.")
    assert as_json("tx", "reversals", "list", "--data", data) == []
    assert len(as_json("tx", "reversals", "list", "--all", "--data", data)) == 1
    by_hand = (
        "tx",
        "reversals",
        "resolve",
        FIRST,
        "--succeeded",
        "--evidence",
        "line 7",
        "--data",
        data,
    )
    assert "another user" in refusal(*by_hand)
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    assert "only one that was sent" in refusal(*by_hand)


@pytest.mark.spec("S6")
def test_staff_are_told_what_to_do_where_nothing_can_ask_the_operator(data: Path) -> None:
    async def report(*reports: Input) -> None:
        async with open_store(f"sqlite:///{data}/gateway.db", serving=True) as store:
            for each in reports:
                assert isinstance(await submit_once(store, each, GatewayClock()), ReversalApplied)

    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "amina", needs_approval=False)
    trio.run(
        report, asked, ReversalWoke(FIRST, "one"), ReversalUnreachable(FIRST, "sandbox", "lost")
    )
    assert "portal" not in mmo("tx", "reversals", "list", "--data", data).stderr
    trio.run(report, ReversalCannotTell(FIRST, "sandbox", version=3))
    for words in (("list",), ("show", PAID)):
        said = " ".join(mmo("tx", "reversals", *words, "--data", data).stderr.split())
        assert (
            f"The gateway can't ask sandbox about {FIRST}. Look for the payment's receipt" in said
        )
        assert f"mmo tx reversals resolve {FIRST} --succeeded" in said


def test_what_could_not_be_sent_for_a_day_is_told(data: Path) -> None:
    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "amina", needs_approval=False)

    async def approve_long_ago() -> None:
        async with open_store(f"sqlite:///{data}/gateway.db", serving=True) as store:
            (reply,) = await submit_batch(store, (asked, NOON))
            assert isinstance(reply, ReversalApplied)

    trio.run(approve_long_ago)
    for words in (("list",), ("show", PAID)):
        said = " ".join(mmo("tx", "reversals", *words, "--data", data).stderr.split())
        assert f"{FIRST} could not be sent to sandbox for a day" in said
        assert f"mmo tx reversals refuse {FIRST}" in said


@pytest.mark.spec("S6")
def test_a_part_that_is_asked_for_again_is_asked_for_once(data: Path) -> None:
    """A command whose outcome nobody knows is repeated."""
    ask = ("tx", "reverse", PAID, "--reason", "Paid twice.", "--amount", "10.00", "--data", data)
    as_json(*ask)
    assert f"{FIRST} of 10.00 KES, requested" in refusal(*ask)
    assert "add --number 2" in refusal(*ask)
    assert "asked back meanwhile" in refusal(*ask, "--number", "1")
    assert as_json(*ask, "--number", "2")["id"] == f"{PAID}-2"
    as_json("tx", "reversals", "refuse", FIRST, "--remark", "no", "--data", data)
    as_json("tx", "reversals", "refuse", f"{PAID}-2", "--remark", "no", "--data", data)
    assert as_json(*ask)["id"] == f"{PAID}-3", "what has failed is in nobody's way"


@pytest.mark.spec("S5")
def test_a_failed_reversal_that_the_statement_has_is_put_right(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RequestReversal(PAID, "acme", None, "Paid twice.", "cli:amina", needs_approval=False)

    async def fail() -> None:
        async with open_store(f"sqlite:///{data}/gateway.db", serving=True) as store:
            refused = ReversalFailed(FIRST, "sandbox", Source.WEBHOOK, "No.")
            for input_ in (asked, ReversalWoke(FIRST, "one"), refused):
                reply = await submit_once(store, input_, GatewayClock())
                assert isinstance(reply, ReversalApplied)

    trio.run(fail)
    by_hand = ("tx", "reversals", "resolve", FIRST, "--succeeded", "--evidence", "line 7")
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("amina"))
    assert "another user" in refusal(*by_hand, "--data", data)
    monkeypatch.setattr(reversals, "machine_user", lambda: MachineUser("brian"))
    assert "another user ends it in the console" in refusal(*by_hand, "--data", data)
    monkeypatch.setenv("MMO_CONSOLE_COMMANDS_APPROVE", "true")
    ended = as_json(*by_hand, "--data", data)
    assert (ended["state"], ended["endedBy"]) == ("moved_after_all", "cli:brian")
    again = refusal("tx", "reverse", PAID, "--reason", "Paid twice.", "--data", data)
    assert "All that was paid has been asked back." in again
    told = " ".join(mmo("explain", PAID, "--data", data).stdout.split())
    assert "reversal 1 had failed, and has moved its money after all" in told
    listed = mmo("tx", "reversals", "list", "--all", "--data", data).stdout
    assert "moved after all" in listed


def test_wrong_words_are_refused_with_a_sentence(data: Path) -> None:
    ask = ("tx", "reverse", PAID, "--data", data)
    assert mmo(*ask, "--reason", " ").exit_code == 2
    assert mmo(*ask, "--reason", "why", "--amount", "ten").exit_code == 2
    thousands = mmo(*ask, "--reason", "why", "--amount", "10.000")
    assert thousands.exit_code == 2
    assert "a point may be meant to part thousands" in thousands.stderr
    assert "at most" in refusal(*ask, "--reason", "why", "--amount", "99999999")
    assert "has succeeded" in refusal(
        "tx", "reverse", reference(2), "--reason", "why", "--data", data
    )
    assert "no transaction" in refusal("tx", "reverse", "NONE", "--reason", "why", "--data", data)
    assert "There is no reversal" in refusal("tx", "reversals", "approve", "NONE-1", "--data", data)
