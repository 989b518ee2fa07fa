"""Every export of the shell's face can be imported."""

from __future__ import annotations

import pytest

import mmo_trio


@pytest.mark.parametrize("name", mmo_trio.__all__)
def test_every_export_of_the_shell_is_reachable(name: str) -> None:
    assert getattr(mmo_trio, name) is not None
