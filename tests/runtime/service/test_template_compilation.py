"""The templates of the pages are compiled ahead for convenience alone: no payment waits for it, and
no fault of it ends a gateway."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest
import trio

from mmo_trio.http.asgi.web_app import WebApp
from mmo_trio.service import process
from tests.support.sandbox_gateway import serving


async def test_a_template_that_cannot_be_read_ends_no_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = trio.Event()

    async def fail(_: WebApp) -> None:
        tried.set()
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(process, "TEMPLATES_WAIT_S", 0.0)
    monkeypatch.setattr(WebApp, "compile_templates", fail)
    async with serving(tmp_path) as sandbox:
        await tried.wait()
        accepted = await sandbox.merchant.accepted()
        ended = await sandbox.merchant.ended(accepted["gatewayReference"])
        assert ended["status"] == "success"


async def test_a_stop_does_not_wait_for_templates_that_are_not_compiled_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TEMPLATES_WAIT_S", math.inf)
    async with serving(tmp_path):
        pass


async def test_a_stop_does_not_wait_for_those_that_are_being_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = trio.Event()

    async def compile_for_ever(_: WebApp) -> None:
        begun.set()
        await trio.sleep_forever()

    monkeypatch.setattr(process, "TEMPLATES_WAIT_S", 0.0)
    monkeypatch.setattr(WebApp, "compile_templates", compile_for_ever)
    async with serving(tmp_path):
        await begun.wait()
