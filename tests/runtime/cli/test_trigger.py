"""`mmo trigger` plays whole scenarios against a running sandbox, each to the end that it
promises."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
import trio
from click.testing import CliRunner, Result

from mmo_sansio.providers.sandbox.scenarios import SCENARIOS
from mmo_trio.cli.commands.trigger import PLAYED_SCENARIOS, PlayedStep, _Play, _Report
from mmo_trio.cli.group import main
from mmo_trio.sandbox.callback_receiver import (
    DEFAULT_PORT,
    ReceivedKind,
    ReceivedRequest,
    ReceiverAnswer,
)
from tests.conformance.inputs import brand
from tests.support.browser_gateway import serving_sandbox
from tests.support.effort import by_effort
from tests.support.time_limits import HANGS_AFTER_S

FAILURES = [
    name for name, each in PLAYED_SCENARIOS.items() if each.title.startswith("A pay-in fails with")
]
NAMES = [name for name in PLAYED_SCENARIOS if name not in FAILURES[by_effort(2, None) :]]
"""Failures differ in their code only, so two of them are enough for a quick run."""


def trigger(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(main, ["trigger", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of a sandbox that runs."""
    with serving_sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running.directory


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_is_played_to_its_end(sandbox: Path, name: str) -> None:
    scenario = PLAYED_SCENARIOS[name]
    done = trigger(name, "--data", sandbox, "--json")
    assert done.exit_code == 0, done.output
    steps = json.loads(done.stdout)
    last = json.loads(steps[-1]["bodies"][-1])
    assert (last["status"], last["errorCode"]) == (scenario.status, scenario.error_code)
    sent = [each for each in steps if each["step"].startswith("The gateway sends")]
    awaited = [
        each
        for each in scenario.parts
        if each in (PlayedStep.AWAIT_CALLBACK, PlayedStep.AWAIT_QR_CODE)
    ]
    deposits = [each for each in scenario.parts if each is PlayedStep.MAKE_DEPOSIT]
    assert len(sent) == len(awaited) + len(deposits)
    if not deposits:
        assert all(each["status"] == (503 if scenario.is_receiver_down else 204) for each in sent)


@contextmanager
def closing_server(port: int) -> Iterator[None]:
    """Listen during the block, and close each connection at once."""

    def close_each() -> None:
        with suppress(OSError):  # It is shut down.
            while True:
                server.accept()[0].close()

    with socket.create_server(("127.0.0.1", port)) as server:
        thread = Thread(target=close_each)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_the_result_of_an_offline_deposit_is_shown(sandbox: Path) -> None:
    done = trigger("offline_deposit", "--data", sandbox)
    assert done.exit_code == 0, done.output
    # Another program may listen there, such as `mmo listen` of somebody else on this machine.
    received = (
        "The gateway sends the result: POST /deposits, its X-API-KEY is right -> 204" in done.stdout
    )
    assert received or "The gateway records the delivery: " in done.stdout
    with suppress(OSError), closing_server(DEFAULT_PORT):
        taken = trigger("offline_deposit", "--data", sandbox)
        assert taken.exit_code == 0, taken.output
        assert f"to https://127.0.0.1:{DEFAULT_PORT}/deposits, where others listen." in taken.stdout
        assert "The gateway records the delivery: " in taken.stdout


def test_people_see_each_step(sandbox: Path) -> None:
    done = trigger("qr", "--data", sandbox)
    assert done.exit_code == 0, done.output
    steps = re.findall(r"^(\d)\. (.*)$", done.stdout, re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4"]
    assert "POST /gateway/mmo/v2/qr/payin/mpesa_ke -> 200" in steps[0][1]
    assert "QR code: POST /qr" in steps[1][1]
    assert "result: POST /results" in steps[2][1]
    assert '"qrPayload":"0002' in done.stdout


async def test_a_result_that_comes_before_the_qr_code_is_not_forgotten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = _Report(as_json=True)
    play = _Play("", "", b"", brand(), shown, PLAYED_SCENARIOS["qr"], reference="own")
    for kind, reference in (
        (ReceivedKind.CALLBACK, "another"),
        (ReceivedKind.CALLBACK, "own"),
        (ReceivedKind.QR_CODE, "own"),
    ):
        body = {"gatewayReference": reference}
        play.take(ReceivedRequest("/", True, kind, body, b"", False, ReceiverAnswer(204), 0))
    with trio.fail_after(HANGS_AFTER_S):
        await play.run(PlayedStep.AWAIT_QR_CODE)
        await play.run(PlayedStep.AWAIT_CALLBACK)
    shown.end()
    assert [each["step"].split(":")[0] for each in json.loads(capsys.readouterr().out)] == [
        "The gateway sends the QR code",
        "The gateway sends the result",
    ]


def test_every_failure_of_the_sandbox_can_be_triggered() -> None:
    failures = {
        each.steps[0].failure
        for each in SCENARIOS
        if each.steps and each.steps[0].failure is not None
    }
    assert {each.error_code for each in PLAYED_SCENARIOS.values()} >= failures


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    listed = trigger("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in PLAYED_SCENARIOS)
    unknown = trigger("nothing", "--data", tmp_path)
    assert unknown.exit_code == 2
    assert "mmo trigger --list" in unknown.stderr
    nowhere = trigger("success", "--data", tmp_path)
    assert nowhere.exit_code == 1
    assert "mmo sandbox" in nowhere.stderr
