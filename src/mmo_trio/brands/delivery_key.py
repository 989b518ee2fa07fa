"""Finds the API key that a callback or QR code carries, and decides when nothing may be sent (A4).

A delivery carries the key that made the payment while that is in use, else the brand's oldest one
in use, as they are at that moment. The maker of the payment chose where the delivery goes; so
nothing is sent for a payment of a key that is known to somebody else, as it would bring the thief
the next key. For a payment of a key that was just retired, nothing is sent to hosts that no other
key has used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, frozen

from mmo_sansio.http.egress_rules import result_host_error
from mmo_sansio.http.exchange import DeliveryOutcome
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Flow, Order
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.brands.used_hosts import UsedHosts, keys_to_vouch
from mmo_trio.storage.interface.admin_types import BrandRecord, StoredApiKey
from mmo_trio.storage.sql.store import Store


@frozen
class DeliveryRefused:
    """Says why a delivery is not sent; this is its recorded outcome."""

    outcome: DeliveryOutcome
    detail: str
    """The reason in a sentence."""


NO_API_KEY = DeliveryRefused(
    DeliveryOutcome.TRANSPORT_ERROR, "The brand has no API key in use, so nothing was sent."
)
KEY_LEAKED = DeliveryRefused(
    DeliveryOutcome.KEY_REVOKED,
    "Nothing was sent for this payment, as its key was retired as leaked.",
)
KEY_MAY_BE_LEAKED = DeliveryRefused(
    DeliveryOutcome.KEY_REVOKED,
    "Nothing was sent for this payment: its key is not on record, and a key of that time was "
    "retired as leaked.",
)
KEY_REMOVED = DeliveryRefused(
    DeliveryOutcome.KEY_REVOKED,
    "Nothing was sent for this payment, as its key was removed together with the brand.",
)
HOST_NOT_VOUCHED_FOR = DeliveryRefused(
    DeliveryOutcome.KEY_REVOKED,
    "Nothing was sent for this payment: its key was retired, and no payment of another key goes "
    "to this host.",
)


@define(eq=False)
class DeliveryKeys:
    """Finds the keys of deliveries in the store. They are never cached."""

    _store: Store
    _keyring: KeyRing
    _used_hosts: UsedHosts
    _reload_master_keys: Callable[[], bool] = lambda: False
    """Reads the keyring's master keys again if they have been replaced, and tells whether they
    have."""

    async def find(self, order: Order, url: str) -> bytes | DeliveryRefused:
        """Return the key that a callback or QR code of this payment to this URL carries now, or why
        nothing may be sent (A4).

        Raises StoreUnavailable, and SealError when the key was sealed with another master key."""
        record = await self._store.brand_record(order.brand)

        # 1. Which key, and whether anything may be sent at all.
        selected = select_delivery_key(record, order, url)
        if isinstance(selected, DeliveryRefused):
            return selected

        assert record is not None, "it has the selected key"

        # 2. The key that made the payment was retired: whoever had it has chosen the host.
        maker = maker_of(order, record.keys)
        if maker is not None and maker.retired_at is not None:
            vouching = keys_to_vouch(record, maker)
            if vouching is not None and not await self._used_hosts.is_used(
                order.brand, url, vouching
            ):
                return HOST_NOT_VOUCHED_FOR

        try:
            return self._keyring.unseal(order.brand, selected.sealed)
        except SealError:
            if not self._reload_master_keys():
                raise
            return self._keyring.unseal(order.brand, selected.sealed)


def select_delivery_key(
    record: BrandRecord | None, order: Order, url: str
) -> StoredApiKey | DeliveryRefused:
    """Return the key that a delivery for this payment to this URL carries, or why nothing may be
    sent (A4).

    `record` is the payment's brand with its keys as they are now; None when it was removed."""
    if record is None:
        in_use = []
    else:
        in_use = [key for key in record.keys if key.retired_at is None]

    if record is None or not in_use:
        return NO_API_KEY

    # Nobody requested a deposit; it goes to the URL of the brand's configuration.
    if order.flow is Flow.PUSH:
        return in_use[0]

    # The key that made the payment, else the oldest one in use (A4).
    maker = maker_of(order, in_use) or in_use[0]
    return _maker_refusal(record.keys, order) or _host_refusal(record.brand, url) or maker


def maker_of(order: Order, keys: Iterable[StoredApiKey]) -> StoredApiKey | None:
    """Return the one of these keys that made this payment; None when none did, as for a payment
    nobody requested."""
    return next((key for key in keys if str(key.id) == order.api_key_id), None)


def _host_refusal(brand: Brand, url: str) -> DeliveryRefused | None:
    """Return why nothing may be sent to this host; None if the brand permits it."""
    error = result_host_error(url, brand.result_hosts)
    if error is None:
        return None
    return DeliveryRefused(DeliveryOutcome.EGRESS_REFUSED, error)


def _maker_refusal(keys: Sequence[StoredApiKey], order: Order) -> DeliveryRefused | None:
    """Return why nothing may be sent to the maker of the payment; None if nothing speaks against
    it."""
    # Older than the record of keys: any leaked one of that time may have made it.
    if order.api_key_id is None:
        leaked = (key for key in keys if key.leaked_at is not None)
        if any(key.added_at <= order.created_at for key in leaked):
            return KEY_MAY_BE_LEAKED
        return None

    maker = maker_of(order, keys)
    if maker is None:
        return KEY_REMOVED
    if maker.leaked_at is None:
        return None

    return KEY_LEAKED


def keys_disclosed_through(
    leaked: StoredApiKey, keys: Sequence[StoredApiKey], *, now: Instant
) -> list[StoredApiKey]:
    """Return the keys that may have been sent to the thief of the leaked one: those that were the
    brand's oldest key in use at some time since the leaked one was retired, as callbacks of its
    payments carried them. While it was in use they carried itself.

    `keys` are all keys of the brand, the oldest first; keys that are themselves marked as leaked
    are left out."""
    # `none_older_since`: when the last of the keys so far went out of use.
    disclosed, none_older_since = [], now if leaked.retired_at is None else leaked.retired_at
    for key in keys:
        in_use_until = now if key.retired_at is None else key.retired_at
        was_oldest = max(none_older_since, key.added_at) < in_use_until
        if was_oldest and key.leaked_at is None and key.id != leaked.id:
            disclosed.append(key)

        none_older_since = max(none_older_since, in_use_until)

    return disclosed
