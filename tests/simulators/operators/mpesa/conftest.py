"""Gives each test a simulated M-Pesa on a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.mpesa_stage import Stage, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage
