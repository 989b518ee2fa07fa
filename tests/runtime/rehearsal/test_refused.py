"""A rehearsal sends nothing where real money may be, and mixes no two accounts in a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.recording import Redactor
from mmo_sansio.values.clock import Instant
from mmo_simulators.operators.registry import ACCOUNT_OPTIONS
from mmo_trio.cli.group import main
from mmo_trio.rehearsal.folder import BegunStep, OtherRehearsal, RehearsalFolder
from mmo_trio.rehearsal.gateway import RealMoney, StepRecorder
from mmo_trio.rehearsal.verdicts import held_if
from mmo_trio.system.clock import GatewayClock

ABOUT = {"account": "a", "kind": "b"}
BEGUN = BegunStep("01K5TESTTESTTESTTESTTEST00", Instant(0), runs=1)


@pytest.fixture
def folder(tmp_path: Path) -> RehearsalFolder:
    """The folder of a rehearsal that was begun."""
    folder = RehearsalFolder(tmp_path / "rehearsal")
    folder.open(ABOUT, "2026-11-29")
    return folder


def rehearse(tmp_path: Path, base_url: str, *options: str, name: str = "mtn_ug") -> Result:
    account = {**ACCOUNT_OPTIONS["mtn"], "base_url": base_url}
    lines = [f"[provider.{name}]", *(f'{key} = "{value}"' for key, value in account.items())]
    config = tmp_path / "mmo.toml"
    config.write_text("\n".join(lines), encoding="utf-8")
    folder = ["--to", str(tmp_path / "rehearsal"), "--config", str(config), "--yes"]
    return CliRunner().invoke(main, ["providers", "rehearse", name, *folder, *options])


@pytest.mark.parametrize(
    "host",
    ["https://proxy.momoapi.mtn.com", "https://proxy.momoapi.mtn.co.rw", "https://x.example"],
)
def test_an_account_whose_host_is_no_known_sandbox_is_refused(tmp_path: Path, host: str) -> None:
    said = rehearse(tmp_path, host)
    assert said.exit_code == 2
    assert "is not known as a sandbox, so real money may move there" in said.stderr
    assert list((tmp_path / "rehearsal" / "recordings").iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--with-real-money",), "needs --number"),
        (("--number", "0752000000"), "with + and the country"),
        (("--public-url", "http://me.example"), "write https://"),
        (("--public-url", "https://me.example/path"), "write https://"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    said = rehearse(tmp_path, "http://127.0.0.1:9", *options)
    assert said.exit_code == 2
    assert words in said.stderr
    assert not (tmp_path / "rehearsal").exists()


def test_an_account_that_is_none_is_refused(tmp_path: Path) -> None:
    said = CliRunner().invoke(
        main,
        ["providers", "rehearse", "none", "--to", str(tmp_path / "x"), "--data", str(tmp_path)],
    )
    assert said.exit_code == 2
    assert "none is no account that can be rehearsed" in said.stderr


async def test_no_request_leaves_for_a_host_that_is_not_allowed(folder: RehearsalFolder) -> None:
    recorder = StepRecorder(folder, "prompt", BEGUN, Redactor(bytes(16), str), GatewayClock())

    async def send(request: HttpRequest) -> HttpResponse:
        raise AssertionError("It was sent.")

    request = HttpRequest("POST", b"https://api.example/pay")
    with pytest.raises(RealMoney) as refusal:
        await recorder.send(request, send=send, may_send=lambda host: host != "api.example")
    assert refusal.value.may_have_arrived is False


def test_a_folder_is_that_of_one_rehearsal(tmp_path: Path) -> None:
    folder = RehearsalFolder(tmp_path / "rehearsal")
    assert folder.open(ABOUT, "2026-11-29") == "2026-11-29"
    assert folder.open(ABOUT, "2026-11-30") == "2026-11-29"
    with pytest.raises(OtherRehearsal):
        folder.open({"account": "c", "kind": "b"}, "2026-11-29")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(OtherRehearsal):
        RehearsalFolder(tmp_path / "full").open(ABOUT, "2026-11-29")


def test_what_was_being_sent_at_a_kill_is_recorded_once_without_an_answer(
    folder: RehearsalFolder,
) -> None:
    begun = folder.begin("prompt", "R1", Instant(1))
    folder.note_sending("prompt", {"from": "gateway", "number": "1.1", "failure": "interrupted"})
    again = folder.begin("prompt", "R2", Instant(2))
    assert (again.reference, again.began_at, again.runs) == (begun.reference, begun.began_at, 2)
    folder.note_sending("prompt", {"from": "gateway", "number": "2.1", "failure": "interrupted"})
    folder.append("prompt", {"from": "gateway", "number": "2.1", "answer": {}})
    folder.begin("prompt", "R3", Instant(3))
    assert [each["number"] for each in folder.recorded("prompt")] == ["1.1", "2.1"]
    assert folder.outcome_of("prompt") is None
    folder.finish("prompt", held_if(True, "It held."))
    assert folder.outcome_of("prompt") == held_if(True, "It held.")


def test_what_was_being_sent_is_recorded_in_its_own_step(folder: RehearsalFolder) -> None:
    folder.begin("prompt", "R1", Instant(1))
    folder.note_sending("prompt", {"from": "gateway", "number": "1.1", "failure": "interrupted"})
    folder.begin("payout", "R2", Instant(2))
    assert [each["number"] for each in folder.recorded("prompt")] == ["1.1"]
    assert folder.recorded("payout") == ()


async def test_what_was_cut_off_is_recorded_once_in_its_own_step(folder: RehearsalFolder) -> None:
    recorder = StepRecorder(folder, "prompt", BEGUN, Redactor(bytes(16), str), GatewayClock())

    async def send(request: HttpRequest) -> HttpResponse:
        scope.cancel()
        await trio.sleep_forever()
        raise AssertionError

    request = HttpRequest("POST", b"https://api.example/pay")
    with trio.CancelScope() as scope:
        await recorder.send(request, send=send, may_send=lambda host: True)
    folder.begin("payout", "R2", Instant(2))
    assert [each["number"] for each in folder.recorded("prompt")] == ["1.1"]
    assert folder.recorded("payout") == ()


def test_a_full_disk_leaves_no_half_line_that_is_read_again(
    folder: RehearsalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.append("prompt", {"number": "1.1"})
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, text: write(file, text[:5]))
        with suppress(OSError):
            folder.append("prompt", {"number": "1.2"})
    assert [each["number"] for each in folder.recorded("prompt")] == ["1.1"]


def test_the_files_are_their_owners_alone(folder: RehearsalFolder) -> None:
    folder.append("prompt", {"from": "operator"})
    for each in (folder.path, *folder.path.rglob("*")):
        assert each.stat().st_mode & 0o077 == 0, each
