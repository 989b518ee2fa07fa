"""Runs `mmo` and ends this process without warning at a point of one step of a rehearsal.

python -m tests.support.killed_rehearsal STEP POINT providers rehearse …"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from mmo_trio.cli.group import main
from mmo_trio.rehearsal.folder import RehearsalFolder
from mmo_trio.rehearsal.gateway import StepRecorder

SENDING: Final = "sending"
"""A request is about to leave."""
ANSWERED: Final = "answered"
"""The answer to a submission is here, and nobody has learnt it."""
TOLD: Final = "told"
"""What the operator calls the payment is known."""
FINISHING: Final = "finishing"
"""The step has ended, and nothing says so."""

DOOMED: Final = "doomed"
"""The file beside the folder that is there once the step begins in which this process will end
before a callback may come."""


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(step: str, point: str) -> None:
    """Let this process end there."""
    if point in (ANSWERED, TOLD):
        announce(step)
    match point:
        case "sending" | "answered":
            kill_at_exchange(step, is_answered=point == ANSWERED)
        case "told":
            kill_in(step, "keep_begun", lambda begun: begun.known_as is not None)
        case "finishing":
            kill_in(step, "finish", lambda _: True)


def announce(step: str) -> None:
    """Say when the step begins, before anything of it is sent."""
    call = RehearsalFolder.keep_begun

    def announced(folder: RehearsalFolder, name: str, begun: Any) -> None:
        if name == step:
            (folder.path.parent / DOOMED).touch()
        call(folder, name, begun)

    setattr(RehearsalFolder, "keep_begun", announced)  # noqa: B010  # A method of a frozen class.


def kill_in(step: str, method: str, is_meant: Callable[[Any], bool]) -> None:
    """Let this process end where a method of the folder is called about this step."""
    call = getattr(RehearsalFolder, method)

    def killed(folder: RehearsalFolder, name: str, about: Any) -> None:
        if name == step and is_meant(about):
            kill()
        call(folder, name, about)

    setattr(RehearsalFolder, method, killed)


def kill_at_exchange(step: str, *, is_answered: bool) -> None:
    """Let this process end at the first request of the step that is no sign-in, or after its first
    submission."""
    original: Any = StepRecorder.send

    async def killed(recorder: StepRecorder, request: Any, *, send: Any, may_send: Any) -> Any:
        async def send_or_die(request: Any) -> Any:
            signs_in = b"token" in request.target or b"oauth" in request.target
            is_meant = recorder.step == step and not signs_in
            if is_meant and not is_answered:
                kill()
            answer = await send(request)
            if is_meant and request.method == "POST":
                kill()
            return answer

        return await original(recorder, request, send=send_or_die, may_send=may_send)

    setattr(StepRecorder, "send", killed)  # noqa: B010  # It has another signature.


if __name__ == "__main__":
    kill_at(sys.argv.pop(1), sys.argv.pop(1))
    main(prog_name="mmo")
