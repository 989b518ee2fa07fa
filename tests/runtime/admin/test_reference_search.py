"""Payments are found by the beginning of a reference, a bounded number of payments at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mmo_sansio.messages.inputs import BeginSubmission
from mmo_sansio.values.model import Status
from mmo_trio.admin import reference_search
from mmo_trio.admin.reference_search import search_by_beginning
from mmo_trio.storage.interface.admin_types import PaymentPage
from mmo_trio.storage.sql.store import Store
from tests.conformance.driver import after_noon, create_payments, submit_batch
from tests.conformance.inputs import creation, reference, succeeded
from tests.support.sqlite_store import StoreFile


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """Holds five payments of acme and one of globex; two are read at once."""
    monkeypatch.setattr(reference_search, "READ_AT_ONCE", 2)
    async with StoreFile().open() as opened:
        await create_payments(opened, range(5))
        await submit_batch(opened, (creation(5, brand_id="globex"), after_noon(5)))
        yield opened


def references(page: PaymentPage) -> list[str]:
    return [each.reference for each in page.transactions]


async def test_every_reference_is_compared_from_its_beginning(store: Store) -> None:
    every = [reference(number) for number in (5, 4, 3, 2, 1, 0)]
    for beginning, expected in (
        ("order", every),
        ("ORDER", every),
        ("rder", []),
        ("order/3", [reference(3)]),
        ("order 3", [reference(3)]),
        ("#", []),
        (reference(3).lower()[:-1], every),
        (reference(4), [reference(4)]),
    ):
        assert references(await search_by_beginning(store.admin, beginning)) == expected, beginning


async def test_a_search_goes_on_where_it_ended(store: Store) -> None:
    page = await search_by_beginning(store.admin, "order", limit=2)
    assert references(page) == [reference(5), reference(4)]
    page = await search_by_beginning(store.admin, "order", before=page.next_position, limit=2)
    assert references(page) == [reference(3), reference(2)]
    page = await search_by_beginning(store.admin, "order/0", scanned_max=4)
    assert references(page) == []
    page = await search_by_beginning(
        store.admin, "order/0", before=page.next_position, scanned_max=4
    )
    assert (references(page), page.next_position) == ([reference(0)], None)


async def test_brand_and_status_narrow_it(store: Store) -> None:
    await submit_batch(
        store, (BeginSubmission(reference(2)), after_noon(6)), (succeeded(2), after_noon(7))
    )
    assert references(await search_by_beginning(store.admin, "order", brand="globex")) == [
        reference(5)
    ]
    assert references(await search_by_beginning(store.admin, "P", status=Status.SUCCESS)) == [
        reference(2)
    ]
