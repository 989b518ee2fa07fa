"""Finds which API keys' payments send their results to which hosts, as a thief of a key chooses the
hosts (A4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import trio
from attrs import Factory, define

from mmo_sansio.http.egress_rules import parse_url
from mmo_sansio.values.clock import SECOND, MonotonicInstant, Span, later
from mmo_sansio.values.model import Status, Transaction
from mmo_trio.storage.interface.admin_types import BrandRecord, PaymentFilter, StoredApiKey
from mmo_trio.storage.sql.admin_store import AdminStore

# The newest payments of a brand that count; so many are read at most.
# Ten pages: more would hold up callbacks that wait for the answer.
PAYMENTS_READ_MAX = 5_000

READ_AGAIN_AFTER = Span(5 * SECOND)
_PAGE_PAYMENTS = 500


@define
class UsedHosts:
    """Remembers what it has read, so that many deliveries to hosts that are not known cost
    little."""

    _store: AdminStore
    _monotonic: Callable[[], MonotonicInstant]
    _known: dict[str, tuple[Mapping[str, Set[str]], MonotonicInstant]] = Factory(dict)
    _reading: trio.Lock = Factory(trio.Lock)

    async def is_used(self, brand: str, url: str, keys: Set[str]) -> bool:
        """Return whether a payment that one of these keys made sends results to the host of this
        URL; one of the last READ_AGAIN_AFTER may be missed."""
        host = parse_url(url).host

        # One reads, the others find what it has read.
        async with self._reading:
            known, read_at = self._known.get(brand, ({}, None))
            is_old = read_at is None or self._monotonic() >= later(read_at, READ_AGAIN_AFTER)
            if is_old and not keys & known.get(host, set()):
                # The time before the read: what is stored meanwhile may be missing in it.
                read_at = self._monotonic()
                known = keys_by_host(await _newest_payments(self._store, brand))
                self._known[brand] = known, read_at

        return bool(keys & known.get(host, set()))


async def open_hosts(
    store: AdminStore, record: BrandRecord, maker: StoredApiKey
) -> Mapping[str, bool]:
    """Return the hosts to which results of payments that this key made are still to go, each with
    whether they are held back once the key is retired."""
    brand, newest = record.brand.id, await _newest_payments(store, record.brand.id)
    recorded = await store.callbacks(brand=brand, limit=2 * PAYMENTS_READ_MAX)
    concluded = {record.gateway_reference for record in recorded}

    # Results that are still to come, and those that have ended and are not yet delivered.
    pending = await store.find_transactions(
        brand=brand, status=Status.PENDING, limit=PAYMENTS_READ_MAX
    )
    ended = (
        payment
        for payment in newest
        if payment.status is not Status.PENDING and payment.reference not in concluded
    )
    is_open = keys_by_host([*pending, *ended])
    used, vouching = keys_by_host(newest), keys_to_vouch(record, maker)
    return {
        host: vouching is not None and not vouching & used.get(host, set())
        for host, keys in sorted(is_open.items())
        if str(maker.id) in keys
    }


def keys_by_host(payments: Iterable[Transaction]) -> Mapping[str, Set[str]]:
    """Return the hosts to which these payments send results and codes, each with the ids of the
    keys that made them."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for order in (payment.order for payment in payments):
        for url in (order.result_url, order.display_qr_url):
            if url is not None and order.api_key_id is not None:
                found[parse_url(url).host].add(order.api_key_id)
    return dict(found)


def keys_to_vouch(record: BrandRecord, maker: StoredApiKey) -> Set[str] | None:
    """Return the ids of the keys that vouch for hosts by payments of their own, once the maker of a
    payment is retired; None if nobody has to, as the brand's configuration names the hosts."""
    # The configuration names the hosts, which no thief of a key can change.
    if record.brand.result_hosts:
        return None
    return {str(key.id) for key in record.keys if key.leaked_at is None and key.id != maker.id}


async def _newest_payments(store: AdminStore, brand: str) -> Sequence[Transaction]:
    page = await store.list_payments(PaymentFilter(brand=brand, limit=_PAGE_PAYMENTS))
    found = list(page.transactions)
    # In pages, so that no read of the store takes long.
    while page.next_position is not None and len(found) < PAYMENTS_READ_MAX:
        page = await store.list_payments(
            PaymentFilter(brand=brand, before=page.next_position, limit=_PAGE_PAYMENTS)
        )
        found += page.transactions
    return found
