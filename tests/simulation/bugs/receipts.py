"""Bugs of the rule that one receipt settles one thing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from mmo_sansio.payments import settlement
from mmo_sansio.payments.rules import deposits, results
from mmo_sansio.payments.rules.deposits import book_deposit
from mmo_trio.admin import resolution


@contextmanager
def receipt_not_claimed_by_staff() -> Iterator[None]:
    """A payment that staff end by hand neither looks at what else has its receipt nor claims it."""

    async def find_nothing(*_: Any) -> None:
        pass

    nothing_claimed = {"receipt_owner": lambda *_: None, "claim_receipt": lambda *_, **__: ()}
    with (
        patch.object(resolution, "_find_payment_with", find_nothing),
        patch.object(
            results, "settlement", SimpleNamespace(**{**vars(settlement), **nothing_claimed})
        ),
    ):
        yield


def deposit_booked_without_its_claim() -> AbstractContextManager[object]:
    """A deposit that is booked at once does not claim its receipt."""
    return patch.object(deposits, "_book_at_once", book_deposit)
