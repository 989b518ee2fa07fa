"""Every export of the shell's faces can be imported."""

from __future__ import annotations

import pytest

import mmo_merchant
import mmo_trio


@pytest.mark.parametrize("name", mmo_trio.__all__)
def test_every_export_of_the_shell_is_reachable(name: str) -> None:
    assert getattr(mmo_trio, name) is not None


@pytest.mark.parametrize("name", mmo_merchant.__all__)
def test_every_export_for_merchants_is_reachable(name: str) -> None:
    assert getattr(mmo_merchant, name) is not None
