"""An account is rehearsed with an operator: each payment is made once, however often the rehearsal
is killed, and what it writes is what the operator said, without a secret or a number."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import Factory, define, field, frozen

from mmo_sansio.values.clock import MINUTE, SECOND, Instant, Span, later
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.mpesa.api import MpesaSimulator
from mmo_simulators.operators.registry import ACCOUNT_OPTIONS, open_simulator
from mmo_simulators.server.serving import serve
from mmo_trio.settings.service import CLOCK_OFFSET_FILE
from mmo_trio.system.clock import GatewayClock, write_offset
from tests.runtime.workers.providers.test_captures import MEMBERS, assert_leads_to
from tests.support.captures import KINDS, Capture, CapturedOperator, PlayedPayment
from tests.support.evidence import Mark, Statement
from tests.support.killed_rehearsal import ANSWERED, DOOMED, FINISHING, SENDING, TOLD
from tests.support.merchant import ask
from tests.support.mmo_process import COMMAND, environment_without_settings
from tests.support.private_texts import ENCODINGS, decoded_forms
from tests.support.provider_packages import package_paths
from tests.support.reserved_port import reserved_port
from tests.support.time_limits import HANGS_AFTER_S

NAME = "rehearsed"
KILLED_COMMAND = (sys.executable, "-m", "tests.support.killed_rehearsal")


@frozen
class Case:
    """An operator that is rehearsed."""

    operator: str
    payment: str
    """The step of the first pay-in."""
    payments: Mapping[str, int]
    """How many payments of each kind its book has in the end."""
    number: str
    """Of the person who pays."""
    gives_number: bool = False
    portal: str | None = None
    """The account of the simulator in which the address of callbacks is set; None: requests name
    it."""
    killed_otherwise: Mapping[str, str] = Factory(dict)
    """Where steps are killed whose result a lost answer or callback would change."""
    asked_after: Span = Span(61 * SECOND)
    """How much later a run is that comes after a lost answer: it asks, and is told at once."""
    unknown: frozenset[str] = frozenset()
    """The steps whose outcome nobody can tell whose answer was lost."""
    questions: Sequence[str] = ("account",)
    """The first steps, which move no money."""

    @property
    def kind(self) -> str:
        return ACCOUNT_OPTIONS[self.operator]["kind"]

    def __str__(self) -> str:
        return self.operator


CASES = (
    Case("mtn", "prompt", {"requesttopay": 2, "transfer": 1, "refund": 1}, "46733123999"),
    Case(
        "mpesa",
        "prompt",
        {"stk_push": 1, "b2c": 2, "reversal": 1},
        "254708374149",
        # M-Pesa's answer holds the only id by which it can be asked, and its callback the code.
        # That of a reversal comes once, perhaps while nothing listens: no question replaces it.
        killed_otherwise={"prompt": TOLD, "refusal": FINISHING, "refund": FINISHING},
        questions=("account", "registration"),
    ),
    Case(
        "airtel",
        "prompt",
        {"collection": 1, "disbursement": 1, "refund": 1},
        "256752000000",
        gives_number=True,
        portal="collection",
        # A refusal of what is sent again says nothing of the first, so it would take longer.
        killed_otherwise={"refusal": FINISHING},
        asked_after=Span(31 * MINUTE),
        unknown=frozenset(("refund",)),
    ),
    Case(
        "pawapay", "deposit", {"deposit": 2, "payout": 1, "refund": 1}, "250783456789",
        portal="merchant",
    ),
)  # fmt: skip


@define(eq=False)
class Operator:
    """A simulator on its socket, whose time passes only while somebody rehearses with it."""

    simulator: Simulator
    now: Instant = Factory(lambda: GatewayClock().wall_time())
    origin: str = field(init=False)

    async def pass_time(self, is_doomed: Callable[[], bool]) -> None:
        """Let time pass until somebody is doomed: no callback comes to who is being killed, as some
        operators send each once."""
        while not is_doomed():
            self.now = later(self.now, SECOND)
            await ask(f"{self.origin}/_simulator/book")  # Whoever asks has it look at its clock.
            await trio.sleep(0.05)

    async def counts(self) -> dict[str, int]:
        """Return how many payments of each kind its book has."""
        book = (await ask(f"{self.origin}/_simulator/book")).json
        kinds = [each["kind"] for each in book["payments"]]
        return {kind: kinds.count(kind) for kind in set(kinds)}


@define(eq=False)
class Rehearsing:
    """One rehearsal, in as many runs as it takes."""

    case: Case
    operator: Operator
    directory: Path
    port: int
    options: dict[str, str]
    ahead: Span = Span(0)
    """How far the clock of the next run is ahead."""
    said: str = ""

    @property
    def folder(self) -> Path:
        return self.directory / "rehearsal"

    async def run(self, *killed_at: str, answers: str | None = None) -> int:
        """Run the command, or kill it there, and return its exit code."""
        doomed = self.directory / DOOMED
        doomed.unlink(missing_ok=True)
        write_offset(self.directory / CLOCK_OFFSET_FILE, self.ahead)
        command = (*KILLED_COMMAND, *killed_at) if killed_at else COMMAND
        given = {"--public-url": f"http://127.0.0.1:{self.port}", "--port": str(self.port)}
        if self.case.gives_number:
            given["--number"] = f"+{self.case.number}"
        arguments = [text for pair in given.items() for text in pair]
        to = ["--to", self.folder, "--data", self.directory, *arguments]
        path = [*package_paths(self.directory / "packages"), os.environ.get("PYTHONPATH", "")]
        environment = environment_without_settings() | {
            f"MMO_PROVIDER__{NAME.upper()}__{key.upper()}": value
            for key, value in self.options.items()
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        process = await trio.lowlevel.open_process(
            [*command, "providers", "rehearse", NAME, *map(str, to)]
            + (["--yes"] if answers is None else []),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self.said = ""
        with trio.fail_after(HANGS_AFTER_S):
            async with process.stdin, process.stdout, trio.open_nursery() as nursery:
                if answers is not None:
                    await process.stdin.send_all(answers.encode())
                is_heard = False
                async for chunk in process.stdout:
                    self.said += chunk.decode()
                    if not is_heard and "Rehearsing" in self.said:
                        is_heard = True
                        nursery.start_soon(self.operator.pass_time, doomed.exists)
                nursery.cancel_scope.cancel()
            return await process.wait()

    async def run_until_killed(self, step: str, point: str) -> None:
        """Run the command, which is killed at this point of a step."""
        code = await self.run(step, point)
        assert code == -signal.SIGKILL, (step, self.said)
        assert step not in self.verdicts
        if point == ANSWERED:
            self.ahead = Span(self.ahead + self.case.asked_after)

    async def enter_address(self) -> None:
        """Enter the address of callbacks in the operator's portal, as a person does."""
        found = re.search(r"Callbacks come to (\S+):", self.said)
        assert found, self.said
        if self.case.portal is not None:
            portal = {"account": self.case.portal, "callback_url": found[1]}
            body = json.dumps({"accounts": [portal]}).encode()
            set_ = await ask(
                f"{self.operator.origin}/_simulator/accounts", method="POST", body=body
            )
            assert set_.status == 200, set_.body

    @property
    def verdicts(self) -> dict[str, str]:
        """Return what each finished step has shown."""
        steps = [json.loads(each.read_text()) for each in (self.folder / "steps").iterdir()]
        return {each["step"]: each["verdict"] for each in steps}

    def given(self) -> Sequence[Path]:
        """Return all files but those that nobody is given."""
        private = self.folder / "private"
        files = [each for each in self.folder.rglob("*") if each.is_file()]
        return [each for each in files if private not in each.parents]


@asynccontextmanager
async def rehearsing(case: Case, directory: Path) -> AsyncIterator[Rehearsing]:
    operator = Operator(open_simulator(case.operator))
    async with serve(operator.simulator, now=lambda: operator.now) as operator.origin:
        options = {**ACCOUNT_OPTIONS[case.operator], "base_url": operator.origin}
        if isinstance(operator.simulator, MpesaSimulator):
            certificate = directory / "mpesa.pem"
            certificate.write_text(operator.simulator.certificate, encoding="utf-8")
            options["certificate_file"] = str(certificate)
        with reserved_port() as port:
            yield Rehearsing(case, operator, directory, port, options)


@pytest.mark.spec("A5", "S6")
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_rehearsal_that_is_killed_in_each_step_makes_each_payment_once(
    case: Case, tmp_path: Path
) -> None:
    async with rehearsing(case, tmp_path) as rehearsed:
        for step in case.questions:
            await rehearsed.run_until_killed(step, SENDING)
        await rehearsed.enter_address()
        # Nobody consents to what moves money.
        await rehearsed.run(answers="n\n" * 9)
        assert rehearsed.verdicts == dict.fromkeys(case.questions, "held"), rehearsed.said
        assert await rehearsed.operator.counts() == {}

        steps = step_names(rehearsed.said)
        for step in steps[len(case.questions) :]:
            await rehearsed.run_until_killed(step, killed_at(case, step))
        assert await rehearsed.run() == bool(case.unknown), rehearsed.said

        wanted = {step: "differs" if step in case.unknown else "held" for step in steps}
        assert rehearsed.verdicts == wanted, rehearsed.said
        assert await rehearsed.operator.counts() == case.payments
        assert_nothing_private(rehearsed)
        assert_contributes(rehearsed, steps)


def step_names(said: str) -> Sequence[str]:
    """Return the names of the steps, in their order."""
    return re.findall(r"^[0-9]+/[0-9]+ (\w+): ", said, re.MULTILINE)


def killed_at(case: Case, step: str) -> str:
    """Return where a step is killed: where it hurts most, or where it has sent nothing but a
    question."""
    if step in case.killed_otherwise:
        return case.killed_otherwise[step]
    if step in (case.payment, "payout", "refusal", "refund"):
        return ANSWERED
    return FINISHING if step.endswith("_callback") else SENDING


def assert_nothing_private(rehearsed: Rehearsing) -> None:
    """Fail where a file that is given away has a secret, a number or a name, however written."""
    case = rehearsed.case
    kind = KINDS[case.kind]
    secrets = {value for key, value in rehearsed.options.items() if key in kind.secrets}
    tokens = set(re.findall(r"/hooks/\w+/(\w+)", rehearsed.said))
    private = {*secrets, *tokens, case.number, case.number[-9:], "JANE DOE", "Jane Doe"}
    assert tokens

    for file in rehearsed.given():
        text = file.read_text(encoding="utf-8")
        shown = list(decoded_forms(text))
        for each in private:
            if len(each) < 8:
                assert f'"{each}"' not in text, (file, each)
                continue
            for encode in ENCODINGS.values():
                assert encode(each) not in text, (file, each)
            assert not [form for form in shown if each in form], (file, each)


def assert_contributes(rehearsed: Rehearsing, steps: Sequence[str]) -> None:
    """Fail where the files are not what the project takes: captures that play to what they say, and
    rows of statements."""
    recordings = {each.stem for each in (rehearsed.folder / "recordings").iterdir()}
    assert recordings == {each for each in steps if not each.endswith("_callback")}
    captures = sorted((rehearsed.folder / "captures" / rehearsed.case.kind).iterdir())
    assert [each.stem.split("_", 3)[3] for each in captures] == sorted(
        {rehearsed.case.payment, "refusal", "payout"}
    )
    for file in captures:
        document = json.loads(file.read_text(encoding="utf-8"))
        assert document.keys() <= MEMBERS
        capture = Capture(rehearsed.case.kind, file.stem, document)
        played = PlayedPayment(capture, CapturedOperator(capture))
        played.play()
        assert_leads_to(played, document["leads_to"])
    rows = tomllib.loads((rehearsed.folder / "statements.toml").read_text(encoding="utf-8"))
    statements = [Statement(**row) for row in rows["statement"]]
    assert len(statements) == len(steps) - len(captures)
    assert {each.mark for each in statements} == {Mark.OBSERVED}
