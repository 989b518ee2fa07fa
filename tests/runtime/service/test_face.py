"""Every export of the shell's faces can be imported."""

from __future__ import annotations

import pytest

import mmo_trio
import mmo_trio.merchant


@pytest.mark.parametrize("name", mmo_trio.__all__)
def test_every_export_of_the_shell_is_reachable(name: str) -> None:
    assert getattr(mmo_trio, name) is not None


@pytest.mark.parametrize("name", mmo_trio.merchant.__all__)
def test_every_export_for_merchants_is_reachable(name: str) -> None:
    assert getattr(mmo_trio.merchant, name) is not None
