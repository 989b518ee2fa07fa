"""A sandbox whose console has users of every role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.sandbox_gateway import Running, Serve, serving

STAFF = {"vera": "viewer", "sam": "support", "ann": "approver", "abe": "approver", "ada": "admin"}

SignedIn: TypeAlias = Callable[[str], Awaitable[ConsoleBrowser]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts sandboxes in a folder of their own."""
    return partial(serving, tmp_path)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Running]:
    """A sandbox with its staff."""
    async with serving(tmp_path) as running:
        await add_users(running.directory, **STAFF)
        yield running


@pytest.fixture
def person(sandbox: Running) -> ConsoleBrowser:
    """Somebody who hasn't signed in."""
    return ConsoleBrowser(sandbox.ready.console)


@pytest.fixture
def signed_in(sandbox: Running) -> SignedIn:
    """Signs somebody in by name."""

    async def sign_in(name: str) -> ConsoleBrowser:
        person = ConsoleBrowser(sandbox.ready.console)
        assert (await person.sign_in(name)).status == 303
        return person

    return sign_in


def _signed_in(name: str) -> object:
    """Return the fixture of somebody who has signed in."""

    @pytest.fixture(name=name)
    async def colleague(signed_in: SignedIn) -> ConsoleBrowser:
        return await signed_in(name)

    return colleague


vera, sam, ann, abe, ada = map(_signed_in, STAFF)
