"""The shop of the guide does what `mmo conform` asks of an endpoint, and books every result
once."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.support.shop_process import a_shop_process, shortcomings_of


def test_the_shop_on_flask_passes_in_every_situation(tmp_path: Path) -> None:
    with a_shop_process("flask", tmp_path) as shop:
        assert trio.run(shortcomings_of, shop) == {}
