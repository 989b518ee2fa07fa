"""The shop of the guide runs: pay, page, callback, and a result whose callback was lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.support.shop_process import a_shop_process, check_shop


@pytest.mark.spec("C4", "K1", "K3")
def test_a_shop_on_flask_takes_each_result_once(tmp_path: Path) -> None:
    with a_shop_process("flask", tmp_path) as shop:
        trio.run(check_shop, shop)
