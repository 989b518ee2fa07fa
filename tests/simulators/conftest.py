"""`async def` tests run in Trio without a mark."""

from __future__ import annotations

from pytest_trio.enable_trio_mode import *  # noqa: F403
