"""Lets one seed decide everything that is random in a simulation.

Each party of it draws from a generator of its own, so that one that is left out, as when the cause
of a failure is narrowed down, changes nothing that the others draw. References, page tokens, API
keys and nonces come from the operating system, by way of `secrets`, `uuid` and `os.urandom`; in a
simulation they come from the seed, too."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from attrs import Factory, define

SOURCES: Final = ((os, "urandom"), (random, "_urandom"))
"""Every place from which the standard library calls the system's source: `uuid` uses the first,
`secrets` the second."""


@define(eq=False)
class SeededChoices:
    """Holds the generators of one simulation."""

    seed: int
    _generators: dict[str, random.Random] = Factory(dict)

    def of(self, party: str) -> random.Random:
        """Return the generator of the party with this name; it is the same one each time.

        What it draws depends on the seed and the name only, on every version of Python."""
        found = self._generators.get(party)
        if found is None:
            found = self._generators[party] = random.Random(
                f"{self.seed}/{party}"
            )  # Text is hashed by SHA-512.
        return found


@contextmanager
def seeded_randomness(generator: random.Random) -> Iterator[None]:
    """Let all bytes from the system's source come from this generator while the block lasts.

    This holds for the whole process, so only one simulation runs in it at a time. Nothing that is
    generated meanwhile is secret."""
    before = [getattr(module, name) for module, name in SOURCES]
    try:
        for module, name in SOURCES:
            setattr(module, name, generator.randbytes)
        yield
    finally:
        for (module, name), found in zip(SOURCES, before, strict=True):
            setattr(module, name, found)
