"""Answers the name look-ups of a simulation, truly, wrongly or not at all."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from typing import Final

import trio
from attrs import define, field, frozen

HANG_S: Final = 30.0
"""How long a resolver tries before it says that it got no answer."""
UNKNOWN_NAME: Final = socket.EAI_NONAME
NO_ANSWER: Final = socket.EAI_AGAIN


@frozen
class NameConditions:
    """Says how well names are looked up; what is between 0 and 1 is a probability of each
    look-up."""

    latency_s: tuple[float, float] = (0.0005, 0.02)
    failure: float = 0.0
    """The servers of the name fail (SERVFAIL)."""
    hang: float = 0.0
    """No server answers."""
    empty: float = 0.0
    """The name exists but has no address."""


@define(eq=False)
class SimulatedNames:
    """Holds the addresses of all names of a simulated network."""

    generator: random.Random
    report_fault: Callable[[str], None]
    conditions: NameConditions = field(factory=NameConditions, init=False)
    _answers: dict[str, list[Sequence[str]]] = field(factory=dict, init=False)

    def set_addresses(self, name: str, *answers: Sequence[str]) -> None:
        """Let the name have these addresses. With several answers each look-up gets the next one,
        and the last is repeated; without one the name does not exist."""
        self._answers[name] = list(answers)

    async def look_up(self, name: str) -> list[str]:
        """Return the addresses of a name. Raises OSError (gaierror) when there are none."""
        await trio.sleep(self.generator.uniform(*self.conditions.latency_s))
        fault = self._draw_fault()
        if fault is not None:
            self.report_fault(f"name_{fault}")
        if fault == "hang":
            await trio.sleep(HANG_S)
        if fault in ("hang", "failure"):
            raise socket.gaierror(NO_ANSWER, "Temporary failure in name resolution")
        answers = self._answers.get(name, [])
        if not answers or fault == "empty":
            raise socket.gaierror(UNKNOWN_NAME, "Name or service not known")
        return list(answers[0] if len(answers) == 1 else answers.pop(0))

    def _draw_fault(self) -> str | None:
        conditions = self.conditions
        if not (conditions.failure or conditions.hang or conditions.empty):
            return None
        drawn = self.generator.random()
        for name, probability in (
            ("failure", conditions.failure),
            ("hang", conditions.hang),
            ("empty", conditions.empty),
        ):
            if drawn < probability:
                return name
            drawn -= probability
        return None
