"""The commands of the page on emergencies restore a backup, in the order in which it has them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mmo_sansio.messages.queries import LookUpByMerchantReference
from tests.support.restorable_gateway import PAID, RestorableGateway, SqliteFile, Step

STEP = re.compile(r"^(\d)\. (.*?)(?=^\d\. |\n\n)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`mmo (db [^`]+|tx list[^`]+|brands key retire[^`]+)`")


@pytest.fixture
def gateway(tmp_path: Path) -> RestorableGateway:
    """A gateway that has paid two salaries, of which a backup of before has one, not submitted."""
    (tmp_path / "store").mkdir()
    gateway = RestorableGateway(tmp_path, SqliteFile(tmp_path / "store" / "gateway.db"))
    gateway.set_up()
    for _ in range(3):
        assert gateway.mmo("brands", "key", "add", PAID).exit_code == 0
    gateway.play([Step.PAY, Step.BACK_UP, Step.SERVE, Step.PAY, Step.SERVE])
    return gateway


def steps_to_restore(root: Path) -> dict[int, list[str]]:
    """The commands of each step that restores a backup."""
    page = (root / "docs" / "emergencies.md").read_text(encoding="utf-8")
    section = page.partition("## Restore a backup\n")[2].partition("\n## ")[0]
    return {
        int(number): [" ".join(each.split()) for each in COMMAND.findall(text)]
        for number, text in STEP.findall(section)
    }


@pytest.mark.spec("C6", "S6", "C12")
def test_the_steps_that_restore_a_backup_pay_nothing_twice(
    root: Path, gateway: RestorableGateway
) -> None:
    steps = steps_to_restore(root)
    assert [len(steps[number]) for number in range(1, 9)] == [0, 0, 1, 3, 2, 0, 1, 2]
    gateway.do(Step.RESTORE)
    early = gateway.mmo(*shlex.split(steps[8][0]))
    assert early.exit_code == 1, "before step 4 it is refused"
    ledger = gateway.folder / "ledger.csv"
    ledger.write_text("order,total\nsalary-1,150.00\nsalary-2,150.00\n")

    for number in range(3, 9):
        for command in steps[number]:
            done = gateway.mmo(*shlex.split(command.replace("FILE", str(ledger))))
            assert done.exit_code == 0, (command, done.output)
        if number == 4:
            gateway.judge_prepared()
        if number == 6:
            assert gateway.serve(gateway.submit_all)
    gateway.play([Step.PAY, Step.SERVE])

    assert not gateway.violations
    assert gateway.book == {"salary-1": 1, "salary-2": 1, "salary-3": 1}
    lost = LookUpByMerchantReference(PAID, "salary-2")
    assert gateway.read(lambda store: store.look_up(lost)) is None, "404, and 422 if it is repeated"


@pytest.mark.spec("C6")
def test_a_store_that_nobody_has_prepared_is_refused_as_the_page_says(
    gateway: RestorableGateway,
) -> None:
    gateway.do(Step.RESTORE)
    assert "is not prepared" in gateway.mmo("tx", "list").output
    assert not gateway.serve(gateway.submit_all)
