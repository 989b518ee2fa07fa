"""Bugs of the rules that one receipt settles one thing, and that staff end nothing against
evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from mmo_sansio.payments import settlement
from mmo_sansio.payments.rules import results
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


@contextmanager
def evidence_not_looked_at() -> Iterator[None]:
    """Staff may end a payment whatever is known of its money."""

    def find_nothing(*_: Any, **__: Any) -> None:
        return None

    with (
        patch.object(resolution, "find_contradiction", find_nothing),
        patch.object(results, "find_contradiction", find_nothing),
    ):
        yield
