"""The address under which an operator sends a payer back (clauses W2, W3)."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.testing import START, UNUSED_REFERENCE, a_transaction
from mmo_sansio.values.model import Flow, Page, Stage
from mmo_sansio.values.return_links import SEPARATOR, is_return_key, return_key, return_url

ORDER = a_transaction(Stage.AWAITING_RESULT, flow=Flow.WEB, page=Page("token-1", START)).order


@pytest.mark.spec("W3")
def test_it_tells_nothing_of_the_pages_token() -> None:
    url = return_url("https://pages.example", ORDER)
    assert url == f"https://pages.example/pay/{return_key(ORDER)}/back"
    assert "token-1" not in url


@pytest.mark.spec("W2", "W3")
def test_a_key_is_that_of_one_payment_only() -> None:
    key = return_key(ORDER)
    assert is_return_key(key, ORDER)
    others = (
        evolve(ORDER, gateway_reference=UNUSED_REFERENCE),
        evolve(ORDER, page=Page("token-2", START)),
        evolve(ORDER, page=None),
    )
    assert not any(is_return_key(key, other) for other in others)
    proof = key.partition(SEPARATOR)[2]
    forged = (
        f"{UNUSED_REFERENCE}{SEPARATOR}{proof}",
        f"{ORDER.gateway_reference}{SEPARATOR}{'0' * len(proof)}",
        f"{ORDER.gateway_reference}{SEPARATOR}",
        key[:-1],
        key + "0",
    )
    assert not any(is_return_key(text, ORDER) for text in forged)


def test_an_order_without_a_page_has_none() -> None:
    with pytest.raises(ValueError, match="without a page"):
        return_key(evolve(ORDER, page=None))
