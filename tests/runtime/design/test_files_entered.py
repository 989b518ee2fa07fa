"""Few files are entered for what a gateway does most, so that a reader can follow it.

A payment's life is played in a sandbox with SQLite, with its caches warm, and each of four parts of
it several times:

- **creation**: from the accepted connection to the answer, with the commit;
- **look-up**: from the accepted connection to the answer, with the read;
- **tick**: the scheduler finds that a hosted page has closed, and the end of its payment is decided
  and committed, with the callback that is to be sent;
- **result**: the operator's notification is committed, and the merchant's answer to the callback.

What counts are the files that the tasks and threads of a part enter each time
(`tests.support.call_trace`), so what merely happens at the same time, such as the work of each
second, does not. The operator and the request log of the sandbox count as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import Factory, define, frozen

from tests.support.call_trace import CallTrace, Entry
from tests.support.merchant import TIMEOUT_S
from tests.support.sandbox_gateway import Running, serving

ROUNDS = 5
ACCEPTANCE = Entry("SQLite writer", "mmo_sansio/payments/rules/submission.py")
"""That an operator has taken a payment is decided."""
AFTER_COMMIT = Entry(
    "mmo_trio.engine.engine.Engine._decide_batches", "mmo_trio/workers/dispatcher.py"
)
"""What was committed is passed to who does it."""


@frozen
class Part:
    """A part of a payment's life."""

    tasks: tuple[str, ...]
    """The ends of the names of the tasks and threads that serve it."""
    files_max: int


CONNECTION = ("_Acceptor.accept_from", "ServerConnection.run")
COMMIT = ("Engine._decide_batches", "SQLite writer")
PARTS = {
    "creation": Part((*CONNECTION, *COMMIT), 37),
    "look-up": Part((*CONNECTION, "SQLite reader"), 24),
    "tick": Part(("Scheduler.run", *COMMIT), 22),
    "result": Part(("SandboxOperatorWorker.run", *COMMIT, "DeliveryPool._deliver"), 50),
}


@define
class Played:
    """What was entered in each round of each part."""

    rounds: dict[str, list[Counter[Entry]]] = Factory(lambda: {name: [] for name in PARTS})

    def files(self, name: str) -> Sequence[str]:
        """Return the files that were entered in each round of a part, with their calls in the
        last."""
        part = PARTS[name]
        calls = [_calls_by_file(entered, part) for entered in self.rounds[name]]
        files = frozenset.intersection(*map(frozenset, calls))
        return [f"{file} {calls[-1][file]}" for file in sorted(files)]


def _calls_by_file(entered: Counter[Entry], part: Part) -> Counter[str]:
    calls = Counter[str]()
    for (task, file), count in entered.items():
        if task.endswith(part.tasks):
            calls[file] += count
    return calls


@asynccontextmanager
async def silent_merchant() -> AsyncIterator[str]:
    """Give the URL of an endpoint that accepts connections and never says anything."""
    listener, *_ = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        yield f"https://localhost:{listener.socket.getsockname()[1]}/callback"


async def play(directory: Path) -> Played:
    trace = CallTrace()
    played = Played()
    with trace.watching():
        async with serving(directory) as sandbox:
            await _pay(sandbox)
            for _ in range(ROUNDS):
                with trace.recording() as entered:
                    accepted = await sandbox.merchant.accepted()
                played.rounds["creation"].append(entered)

                with trace.recording() as entered:
                    await _wait_for(entered, ACCEPTANCE)

                with trace.recording() as entered:
                    await sandbox.outcome_of(accepted["gatewayReference"])
                played.rounds["result"].append(entered)

                with trace.recording() as entered:
                    await sandbox.merchant.status(accepted["gatewayReference"])
                played.rounds["look-up"].append(entered)

                async with silent_merchant() as url:
                    page = await sandbox.merchant.accepted("web/payin", resultUrl=url)
                    with trace.recording(until=AFTER_COMMIT) as entered:
                        await sandbox.advance("73h")
                        await sandbox.merchant.ended(page["gatewayReference"])
                    played.rounds["tick"].append(entered)

    return played


async def _wait_for(entered: Counter[Entry], entry: Entry) -> None:
    """Return once it was entered."""
    with trio.fail_after(TIMEOUT_S):
        while entry not in entered:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def _pay(sandbox: Running) -> None:
    """Make a payment whose way fills the caches."""
    accepted = await sandbox.merchant.accepted()
    await sandbox.outcome_of(accepted["gatewayReference"])
    await sandbox.merchant.status(accepted["gatewayReference"])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return trio.run(play, tmp_path_factory.mktemp("sandbox"))


@pytest.mark.parametrize("name", PARTS)
def test_few_files_are_entered(played: Played, name: str) -> None:
    files = played.files(name)
    listing = "\n".join(files)
    assert len(files) <= PARTS[name].files_max, f"with the number of calls:\n{listing}"
