"""The shops of `examples/` run on each framework: pay, callback, and a result whose callback was
lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.support.shop_process import a_shop_process, check_shop, shortcomings_of

KINDS = ["flask", "fastapi", "django"]


@pytest.mark.spec("C1", "K1", "K3")
@pytest.mark.parametrize("kind", KINDS)
def test_a_shop_takes_each_result_once(kind: str, tmp_path: Path) -> None:
    with a_shop_process(kind, tmp_path) as shop:
        trio.run(check_shop, shop)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shop_passes_in_every_situation_of_the_check(kind: str, tmp_path: Path) -> None:
    with a_shop_process(kind, tmp_path) as shop:
        assert trio.run(shortcomings_of, shop) == {}
