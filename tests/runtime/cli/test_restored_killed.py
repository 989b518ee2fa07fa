"""`mmo db restored` is killed at each step of its work: the store is refused as before, or all of
it is prepared."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tests.support.effort import by_effort
from tests.support.mmo_process import environment_without_settings
from tests.support.restorable_gateway import ON_HOLD, REFUSED, RestorableGateway, SqliteFile, Step

pytestmark = pytest.mark.long


def _killed(gateway: RestorableGateway, moment: int) -> bool:
    """Run `mmo db restored`, and kill it at that moment; return whether it came to it."""
    command = [sys.executable, "-m", "tests.support.killed_command", str(moment)]
    done = subprocess.run(
        [*command, "db", "restored", "--config", str(gateway.config)],
        env=environment_without_settings(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


@pytest.mark.spec("C6", "S6")
@pytest.mark.parametrize("mark", by_effort(["kept"], ["kept", "missing", "damaged"]))
def test_a_preparation_that_is_killed_leaves_no_store_that_pays_twice(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / "store").mkdir()
    gateway = RestorableGateway(tmp_path, SqliteFile(tmp_path / "store" / "gateway.db"))
    gateway.set_up()
    gateway.play([*ON_HOLD, Step.PAY, Step.BACK_UP, Step.SERVE, Step.RESTORE])
    if mark == "missing":
        gateway.mark_file.unlink()
    elif mark == "damaged":
        gateway.mark_file.write_text("{")
    restored, name = gateway.save(), gateway.store_id

    refused = prepared = 0
    was_killed = True
    for moment in count(step=by_effort(4, 1)):
        if not was_killed:
            break
        gateway.load(restored)
        was_killed = _killed(gateway, moment)
        if gateway.store_id == name:
            refused += 1
        else:
            prepared += 1
            gateway.judge_prepared()

        gateway.do(Step.SERVE)
        if mark != "kept" and was_killed:  # Then it may be refused until the mark is there.
            gateway.violations = [each for each in gateway.violations if each != REFUSED]
        gateway.play([Step.RESTORED, Step.STATEMENT, Step.FINISH, Step.SERVE])
        assert not gateway.violations, moment
    assert refused > 1, "before the store had its new name"
    assert prepared > 1, "and with it"
