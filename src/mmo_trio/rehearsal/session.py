"""Runs a rehearsal from its first unfinished step to its end, tells a person, and writes what the
project takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio
from attrs import field, frozen

from mmo_sansio import __version__
from mmo_sansio.http.listener_limits import DEFAULT_LISTENER_LIMITS
from mmo_sansio.providers.common.interface import Finished, Provider, resume
from mmo_sansio.providers.common.rehearsal import (
    AskAccount,
    GiveBack,
    MakePayment,
    Rehearsal,
    RehearsalImpossible,
    RehearsalStep,
)
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.rehearsal.contribution import Place, statement_rows
from mmo_trio.rehearsal.folder import RehearsalFolder
from mmo_trio.rehearsal.gateway import (
    NOWHERE,
    AccountOpener,
    CallbackDoor,
    host_of,
    settings_of_account,
)
from mmo_trio.rehearsal.play import Player, StillOpen
from mmo_trio.rehearsal.verdicts import Outcome, Verdict, not_tried
from mmo_trio.settings import Settings
from mmo_trio.system.clock import GatewayClock
from mmo_trio.system.ids import request_id_generator

# What the table says of a step that a later run goes on with.
STILL_OPEN: Final = "still open"

Row = Mapping[str, str]


@frozen
class Session:
    """One run of a rehearsal."""

    folder: RehearsalFolder
    settings: Settings
    account: str
    day: str
    """On which the rehearsal began, ISO 8601."""
    rehearsal: Rehearsal
    clock: GatewayClock
    tell: Callable[[str], None]
    consents: Callable[[RehearsalStep], bool]
    """Asks a person whether a step may be played that moves money."""
    number: str | None = field(repr=False)
    wait_s: float
    public_url: str | None
    with_real_money: bool

    async def run(self, listeners: Sequence[trio.SocketListener]) -> Sequence[Row]:
        """Play every step that is not finished, and return a row for each. `listeners` receive the
        operator's callbacks. Raises RehearsalImpossible."""
        # 1. The steps, and the host that they go to, before anything is sent to it.
        url = self.public_url or NOWHERE
        settings = settings_of_account(self.settings, self.account, self.folder, url)
        door = CallbackDoor()
        opener = AccountOpener(settings, self.account, self._may_send, self.clock, door)
        async with opener.open_adapter() as (adapter, address):
            steps = self._plan(adapter)
            host = first_host(steps, self.clock)

        if not self._may_send(host):
            raise RehearsalImpossible(
                f"{host} is not known as a sandbox, so real money may move there. Name a sandbox"
                " in base_url, or give --with-real-money."
            )

        self.tell(f"Rehearsing {self.account} with {host}, in {len(steps)} steps.")
        if self.public_url is not None:
            self.tell(f"Callbacks come to {address}: enter it where the portal asks for it.")

        # 2. Each step in its order; callbacks may come during any of them.
        place = self._place(host)
        has_callbacks = self.public_url is not None
        player = Player(self.folder, opener, self._plan, place, self.wait_s, has_callbacks)
        async with trio.open_nursery() as nursery:
            if listeners:
                await nursery.start(partial(_receive, door, listeners))

            outcomes = [
                (step, await self._play(player, f"{number}/{len(steps)}", step))
                for number, step in enumerate(steps, 1)
            ]
            nursery.cancel_scope.cancel()

        # 3. What the project takes, also of a rehearsal that is not finished.
        self.folder.contribute("statements.toml", statement_rows(outcomes, place))
        return [_row(step, outcome) for step, outcome in outcomes]

    def _place(self, host: str) -> Place:
        section = self.settings.providers[self.account]
        told = {name: section.options.get(name) for name in self.rehearsal.told_options}
        return Place(
            section.kind,
            host,
            self.day,
            f"mmo {__version__}",
            {name: str(value) for name, value in told.items() if value is not None},
        )

    def _plan(self, adapter: Provider) -> Sequence[RehearsalStep]:
        """Return the steps; with real money nobody has a test number that refuses. Raises
        RehearsalImpossible."""
        return [
            step
            for step in self.rehearsal.steps(adapter, self.number)
            if not (self.with_real_money and isinstance(step, MakePayment) and step.refused_as)
        ]

    def _may_send(self, host: str) -> bool:
        return self.with_real_money or self.rehearsal.is_sandbox(host)

    async def _play(self, player: Player, count: str, step: RehearsalStep) -> Outcome | None:
        """Play one step, unless it is finished, and return what it has shown; None: it is still
        open."""
        known = self.folder.outcome_of(step.name)
        self.tell(f"\n{count} {step.name}: {step.does}")
        self.tell(f"   Promised: {step.promises} (docs/{step.page})")
        if known is None:
            # A person is asked before money moves, and not again for what was begun.
            moves_money = isinstance(step, MakePayment | GiveBack)
            is_new = self.folder.find_begun(step.name) is None
            if moves_money and is_new and not await trio.to_thread.run_sync(self.consents, step):
                known = not_tried("You did not want it.")
            else:
                if moves_money and not is_new:
                    self.tell("   It was begun before: it is asked about, and not repeated.")

                try:
                    known = await player.play(step)
                except StillOpen as fault:
                    self.tell(f"   Seen: {fault} The next run goes on with it.")
                    return None

            # Nothing was sent of what was not tried: a person is asked again.
            if known.verdict is Verdict.NOT_TRIED:
                self.folder.forget(step.name)
            else:
                self.folder.finish(step.name, known)

        self.tell(f"   Seen: {known.seen} -> {known.verdict}")
        return known


def first_host(steps: Sequence[RehearsalStep], clock: GatewayClock) -> str:
    """Return the host of the account's first question, which is not sent."""
    for step in steps:
        if isinstance(step, AskAccount):
            request = resume(step.begin(clock.moment()))
            if not isinstance(request, Finished):
                return host_of(request)

    raise RehearsalImpossible("No step asks about the account, so nobody knows its host.")


async def _receive(
    door: CallbackDoor,
    listeners: Sequence[trio.SocketListener],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    context = ListenerContext(
        door,
        DEFAULT_LISTENER_LIMITS,
        error_docs_url="about:blank",
        mint_request_id=request_id_generator(),
        drain=trio.Event(),
    )
    await serve_http(context, listeners, task_status=task_status)


def _row(step: RehearsalStep, outcome: Outcome | None) -> Row:
    seen = ""
    verdict = STILL_OPEN
    if outcome is not None:
        seen = outcome.seen
        verdict = str(outcome.verdict)

    return {"step": step.name, "promised": step.promises, "seen": seen, "verdict": verdict}
