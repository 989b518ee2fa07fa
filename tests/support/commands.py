"""Gives commands of `mmo` in this process as people type them, and does to their store what else
happens to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import trio
from argon2 import PasswordHasher
from click.testing import CliRunner, Result

from mmo_sansio.messages.inputs import Input
from mmo_sansio.messages.replies import Reply
from mmo_sansio.values.clock import Span
from mmo_trio.cli.group import main
from mmo_trio.engine.engine import submit_once
from mmo_trio.storage.open_store import open_store
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.clock import GatewayClock
from tests.support.password_hasher import CHEAP_HASHER

T = TypeVar("T")

SECRET: Final = "a-key-that-no-command-shows"
"""The API key of tests whose brand has one."""


def mmo(
    line: object,
    *words: object,
    typed: str | None = None,
    password_hasher: PasswordHasher | None = CHEAP_HASHER,
) -> Result:
    """Give a command: its line up to a word with spaces, and further words; None is the hasher of
    production. Return what it says and how it ends; a fault of ours comes through."""
    given = [*str(line).split(), *map(str, words)]
    done = CliRunner().invoke(main, given, input=typed, obj=password_hasher)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert SECRET not in done.output
    return done


def as_json(line: object, *words: object) -> Any:
    """Give a command that must succeed; return what it says with `--json`."""
    done = mmo(line, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(exit_code: int, line: object, *words: object) -> str:
    """Give a command that must end with this code and without standard output; return what it says
    on standard error."""
    done = mmo(line, *words)
    assert done.exit_code == exit_code, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def url_of(folder: Path) -> str:
    """Return the address of the store in a data directory."""
    return f"sqlite:///{folder / 'gateway.db'}"


def in_store(folder: Path, act: Callable[[Store], Awaitable[T]], *, serving: bool = True) -> T:
    """Act on the store in a data directory, which is made if there is none."""

    folder.mkdir(parents=True, exist_ok=True)

    async def run() -> T:
        async with open_store(url_of(folder), serving=serving) as store:
            return await act(store)

    return trio.run(run)


def submit(folder: Path, *inputs: Input, ago: Span = Span(0)) -> Sequence[Reply]:
    """Let the store in a data directory decide these inputs, one after the other, as if it were
    that long ago."""

    async def act(store: Store) -> Sequence[Reply]:
        clock = GatewayClock(offset=Span(-ago))
        return [await submit_once(store, input_, clock) for input_ in inputs]

    return in_store(folder, act)
