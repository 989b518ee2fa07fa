"""Keeps a rehearsal in a folder, so that one that was killed goes on where it was.

private/        the store of its payments, its master key and that of its recordings: never
                given to anybody
recordings/     what was said in each step, redacted, a line for each exchange
steps/          what each finished step has shown
captures/, statements.toml
                what the project takes, written from these"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import asdict, evolve, frozen

from mmo_sansio.values.clock import Instant
from mmo_trio.rehearsal.verdicts import Outcome, Verdict

_FOLDERS: Final = frozenset(("private", "recordings", "steps"))


class OtherRehearsal(Exception):
    """Raised for a folder that holds something else; the message is a sentence for a person."""


@frozen
class BegunStep:
    """A step that was begun, and may have moved money."""

    reference: str
    """The gatewayReference of its payment, the same however often the step is begun."""
    began_at: Instant
    """In wall time."""
    runs: int
    """How many runs have begun it: with more than one it was interrupted."""
    known_as: str | None = None
    """What the operator calls its payment until that has ended; None: by our own id, or unknown."""


@frozen
class RehearsalFolder:
    """The files of one rehearsal. What is replaced is replaced at once, and what is added is a line
    at a time: a killed process leaves nothing half written that is read again."""

    path: Path

    @property
    def private(self) -> Path:
        return self.path / "private"

    def open(self, about: Mapping[str, str], day: str) -> str:
        """Make the folder, or go on in it; return the day on which the rehearsal began. Raises
        OtherRehearsal for a folder of something else."""
        # 1. Go on: with the same account only, as its payments are there.
        file = self.private / "about.json"
        if file.exists():
            known = json.loads(file.read_text("utf-8"))
            began = str(known.pop("day"))
            if known != about:
                named = ", ".join(known.values())
                raise OtherRehearsal(f"{self.path} holds the rehearsal of {named}.")

            return began

        # 2. Begin. Our own folders may stand there, of a run that was killed before it had written
        #    the file.
        if self.path.exists() and {path.name for path in self.path.iterdir()} - _FOLDERS:
            raise OtherRehearsal(f"{self.path} is not empty, and holds no rehearsal.")

        for name in ("", *_FOLDERS):
            (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)

        write_new(self.private / "recording.key", secrets.token_hex(16))

        # The last one: with it all is there.
        write_new(file, json.dumps({**about, "day": day}))
        return day

    @property
    def recording_key(self) -> bytes:
        """The key from which the stand-ins of all steps are made."""
        return bytes.fromhex((self.private / "recording.key").read_text("ascii"))

    def find_begun(self, step: str) -> BegunStep | None:
        """Return a step that was begun; None: nothing of it can have been sent."""
        file = self._begun(step)
        if not file.exists():
            return None

        members = json.loads(file.read_text("utf-8"))
        return BegunStep(**{**members, "began_at": Instant(members["began_at"])})

    def other_ids(self, step: str) -> Sequence[str]:
        """Return what the payments of other steps are called, by us and by their operator."""
        files = self.private.glob("begun_*.json")
        names = {file.stem.removeprefix("begun_") for file in files} - {step}
        begun = [each for name in names if (each := self.find_begun(name))]
        return [id for record in begun for id in (record.reference, record.known_as) if id]

    def begin(self, step: str, reference: str, now: Instant) -> BegunStep:
        """Note that a step begins, before anything of it is sent; one that was begun keeps its
        reference and its time."""
        known = self.find_begun(step)
        if known is None:
            begun = BegunStep(reference, now, 1)
        else:
            begun = evolve(known, runs=known.runs + 1)

        self.keep_begun(step, begun)
        self._conclude_exchange()
        return begun

    def keep_begun(self, step: str, begun: BegunStep) -> None:
        """Write what is known of a step that was begun."""
        write_new(self._begun(step), json.dumps(asdict(begun)))

    def forget(self, step: str) -> None:
        """Forget that a step was begun, of which nothing was sent."""
        self._begun(step).unlink(missing_ok=True)

    def note_sending(self, step: str, line: Mapping[str, Any]) -> None:
        """Keep what is about to be sent in a step, as an exchange without an answer: whoever goes
        on after a kill records it so, unless its answer is recorded under the same number."""
        write_new(self._sending, json.dumps({"step": step, "line": line}))

    def note_answered(self) -> None:
        """Forget what was being sent, as it is recorded."""
        self._sending.unlink(missing_ok=True)

    def append(self, step: str, line: Mapping[str, Any]) -> None:
        """Add an exchange to the recording of a step; nothing of it where the disk is full. Raises
        OSError."""
        file = os.open(self._recording(step), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Cut off again where the disk took a part of it: half a line could not be read.
            known_bytes = os.fstat(file).st_size
            text = f"{json.dumps(line)}\n".encode()
            if os.write(file, text) < len(text):
                os.ftruncate(file, known_bytes)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)

    def recorded(self, step: str) -> Sequence[Mapping[str, Any]]:
        """Return the exchanges of a step, in their order."""
        file = self._recording(step)
        if not file.exists():
            return ()
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    def finish(self, step: str, outcome: Outcome) -> None:
        """Note what a step has shown: it is never played again."""
        members = {"step": step, "verdict": outcome.verdict, "seen": outcome.seen}
        write_new(self.path / "steps" / f"{step}.json", json.dumps(members, indent=2) + "\n")

    def outcome_of(self, step: str) -> Outcome | None:
        """Return what a finished step has shown; None: it is not finished."""
        file = self.path / "steps" / f"{step}.json"
        if not file.exists():
            return None

        members = json.loads(file.read_text("utf-8"))
        return Outcome(Verdict(members["verdict"]), members["seen"])

    def contribute(self, file: str, text: str) -> None:
        """Write a file of those that the project takes."""
        path = self.path / file
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new(path, text)

    def _conclude_exchange(self) -> None:
        """Add what was being sent when an earlier run was killed to the recording of its own step,
        without an answer, unless its answer was recorded."""
        if not self._sending.exists():
            return

        # Killed between the line and the end of the note, it has its answer already.
        noted = json.loads(self._sending.read_text("utf-8"))
        step = noted["step"]
        sent = noted["line"]
        if all(line.get("number") != sent["number"] for line in self.recorded(step)):
            self.append(step, sent)

        self.note_answered()

    @property
    def _sending(self) -> Path:
        return self.private / "sending.json"

    def _begun(self, step: str) -> Path:
        return self.private / f"begun_{step}.json"

    def _recording(self, step: str) -> Path:
        return self.path / "recordings" / f"{step}.jsonl"


def write_new(path: Path, text: str) -> None:
    """Write a file that appears, or is replaced, when it is complete, and is its owner's alone."""
    draft = path.with_name(f".{path.name}.part")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

    draft.replace(path)
