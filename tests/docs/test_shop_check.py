"""The shop of the guide does what `mmo conform` asks of an endpoint, and books every result once."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.support.shop_process import check_conformance


@pytest.mark.finding("new-users-conform")
def test_the_shop_on_flask_passes_in_every_situation(tmp_path: Path) -> None:
    trio.run(check_conformance, "flask", tmp_path)
