"""`mmo pay-outs` pays each line of a file once, whatever dies or is lost: its program, answers, the
gateway's store."""

from __future__ import annotations

import csv
import itertools
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
import trio
from attrs import Factory, define

from mmo_sansio.providers.sandbox.journal import SandboxResult, SandboxSubmission
from mmo_sansio.values.money import Money
from mmo_trio.sandbox.operator_worker import read_operator_journal
from mmo_trio.service.wiring import OPERATOR_JOURNAL_FILE
from tests.runtime.contract.test_kill import KEY
from tests.runtime.contract.test_restored import Gateway
from tests.support.effort import QUICK, by_effort
from tests.support.lossy_proxy import lossy_proxy
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.restored_database import copied_folder
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.http1("passes bytes through a proxy")]

COUNTS = [100] if QUICK else [300, pytest.param(10_000, marks=pytest.mark.long)]
"""Lines of a pay-roll, and of a large one."""
KILLS = by_effort(3, 10)
BACK_UP_AFTER, RESTORE_AFTER = by_effort((1, 2), (3, 6))
"""Kills of the program."""
LOSS = 0.02
SEED = 20
FAILED_EVERY = 25
"""Of so many payees one has an account that is blocked."""


@define
class PayRollFile:
    """A pay-roll, and the program that pays it."""

    path: Path
    gateway: str
    amounts: dict[str, Money] = Factory(dict)
    """What each number is to get."""

    def write(self, count: int) -> None:
        """Write a file with so many lines."""
        for number in range(count):
            ending = "107" if number % FAILED_EVERY == 0 else "001"
            self.amounts[f"2547{number:05d}{ending}"] = Money(100 * (10 + number * 7 % 900), "KES")
        lines = [f"{number},{amount.text}" for number, amount in self.amounts.items()]
        self.path.write_text("\n".join(["Phone,Net pay", *lines]) + "\n", encoding="utf-8")

    @property
    def journal(self) -> Path:
        return self.path.with_name(f"{self.path.name}.journal")

    @property
    def results(self) -> Path:
        return self.path.with_name(f"{self.path.name}.results.csv")

    def command(self, *further: str) -> list[str]:
        """The command, with which to go on as well."""
        options = {
            "--map": "msisdn=Phone",
            "--gateway": self.gateway,
            "--currency": "KES",
            "--country": "KE",
            "--method": "mpesa_ke",
            "--result-url": "https://localhost:9/results",
            "--name": "2026-11",
            "--per-second": "500",
            "--poll-s": "1",
            "--patience-s": "15",
        }
        words = [word for option in options.items() for word in option]
        return [*COMMAND, "pay-outs", str(self.path), *words, "--map", "amount=Net pay", *further]

    async def run(self, *further: str) -> tuple[int, str]:
        """Run the command to its end: its exit code, and what it says."""
        with trio.fail_after(10 * HANGS_AFTER_S):
            done = await trio.run_process(
                self.command(*further),
                env=environment_without_settings() | {"API_KEY": KEY},
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return done.returncode, done.stdout.decode()

    async def run_until_killed(self, more: int) -> None:
        """Run the command until its journal has so many more lines, and `kill -9` it."""
        wanted = self._journal_lines() + more
        process = await trio.lowlevel.open_process(
            self.command(),
            env=environment_without_settings() | {"API_KEY": KEY},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with trio.fail_after(HANGS_AFTER_S):
            while self._journal_lines() < wanted and process.poll() is None:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert process.poll() is None, "it was killed too late"
        process.send_signal(signal.SIGKILL)
        await process.wait()

    def _journal_lines(self) -> int:
        return self.journal.read_bytes().count(b"\n") if self.journal.exists() else 0

    def rows(self) -> list[dict[str, str]]:
        """The lines of the result file."""
        with self.results.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


@define
class Book:
    """The operator's book."""

    submitted: dict[str, SandboxSubmission]
    """By phone number."""
    paid: dict[str, Money]

    @classmethod
    def of(cls, gateway: Gateway) -> Book:
        """Read it; no number was submitted twice."""
        entries = read_operator_journal(gateway.folder / OPERATOR_JOURNAL_FILE)
        submissions = [each for each in entries if isinstance(each, SandboxSubmission)]
        submitted = {each.msisdn: each for each in submissions}
        assert len(submitted) == len(submissions), "somebody was paid twice"
        numbers = {each.reference: each.msisdn for each in submissions}
        results = [each for each in entries if isinstance(each, SandboxResult)]
        return cls(
            submitted,
            {numbers[each.reference]: each.final for each in results if each.final is not None},
        )


@contextmanager
def masked(umask: int) -> Iterator[None]:
    """With this umask during the block."""
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def total(rows: list[dict[str, str]], column: str) -> Decimal:
    return sum((Decimal(each[column]) for each in rows), Decimal(0))


@pytest.mark.spec("C2", "C6", "C12", "L1", "L2", "R6", "S6")
@pytest.mark.parametrize("count", COUNTS)
async def test_kills_lost_answers_and_a_restore_pay_nobody_twice(
    tmp_path: Path, count: int
) -> None:
    with copied_folder(tmp_path) as kept, masked(0):
        gateway = Gateway(tmp_path, kept.url)
        await gateway.set_up()
        async with lossy_proxy(loss=LOSS, seed=SEED) as proxy:
            roll = PayRollFile(tmp_path / "salaries.csv", f"http://127.0.0.1:{proxy.port}")
            roll.write(count)
            steps = [0, BACK_UP_AFTER, RESTORE_AFTER, KILLS]
            for begin, end in itertools.pairwise(steps):
                async with gateway.serving() as (process, _):
                    proxy.server_port = process.port
                    for _ in range(begin, end):
                        await roll.run_until_killed(2 * count // (KILLS + 2))
                    proxy.server_port = None
                if end == BACK_UP_AFTER:
                    kept.back_up()
                elif end == RESTORE_AFTER:
                    await roll.run("--status")
                    sent_before = {each["line"] for each in roll.rows()}
                    kept.restore()
                    await close_the_gap(gateway, roll.results)
            async with gateway.serving() as (process, _):
                proxy.server_port = process.port
                code, said = await roll.run()
                proxy.server_port = None
            assert proxy.lost > 0
        rows, book = roll.rows(), Book.of(gateway)
        assert [int(each["line"]) for each in rows] == list(range(2, count + 2)), (
            "each line ends once"
        )
        numbers = dict(zip(roll.amounts, rows, strict=True))
        by_status = {
            status: {number: each for number, each in numbers.items() if each["status"] == status}
            for status in ("success", "failed", "pending")
        }
        assert all(number.endswith("001") for number in by_status["success"])
        assert all(number.endswith("107") for number in by_status["failed"])
        assert {each["errorCode"] for each in by_status["failed"].values()} == {
            "user_account_blocked"
        }
        lost = by_status["pending"]
        assert {each["line"] for each in lost.values()} <= sent_before, (
            "only what the restored store lacks is open"
        )
        assert all(each["message"] for each in lost.values())
        assert (code, bool(lost)) == (3, True), said
        paid_lost = [book.paid[number] for number in lost if number in book.paid]
        assert book.paid.keys() == by_status["success"].keys() | {
            each for each in lost if each in book.paid
        }
        in_book = sum(each.minor for each in book.paid.values())
        told = total(list(by_status["success"].values()), "finalAmount")
        assert Decimal(in_book) / 100 == told + Decimal(sum(each.minor for each in paid_lost)) / 100
        for file in (roll.journal, roll.results):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        if count == COUNTS[0]:
            assert (await roll.run("--status"))[0] == 3
            assert roll.rows() == rows


async def close_the_gap(gateway: Gateway, results: Path) -> None:
    """What staff do after a restore, with the merchant's result file as the ledger of what may have
    been paid."""
    await gateway.mmo("db", "restored")
    columns = [
        f"--map={name}"
        for name in ("reference=merchantReference", "amount=amount", "currency=currency")
    ]
    await gateway.mmo("db", "restored", "--statement", str(results), *columns, "--brand", "acme")
    await gateway.mmo("db", "restored", "--finish")
