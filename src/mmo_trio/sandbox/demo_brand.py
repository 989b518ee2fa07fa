"""Defines the demo brand of a sandbox: every flow, several currencies, generous limits."""

from __future__ import annotations

from decimal import Decimal

from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import Brand, Limits, Method, Operation, PageAppearance
from mmo_sansio.values.money import to_money
from mmo_trio.brands.apply import create_key
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.sandbox.callback_receiver import DEFAULT_PORT
from mmo_trio.storage.sql.store import Store

DEMO_BRAND_ID = "demo"

# Where results of its offline deposits are sent: to `mmo listen`.
PUSH_RESULT_URL = f"https://127.0.0.1:{DEFAULT_PORT}/deposits"

# Method key, country, currency, least and largest amount in main units. One is in a currency
# without decimals, where programs that multiply by 100 fail.
_METHODS = (
    ("mpesa_ke", "KE", "KES", 10, 150_000),
    ("mtn_ug", "UG", "UGX", 500, 5_000_000),
    ("airtel_tz", "TZ", "TZS", 500, 5_000_000),
    ("orange_ci", "CI", "XOF", 100, 2_000_000),
)


def build_demo_brand(*, provider: str, title: str) -> Brand:
    """Return the demo brand, with this provider for all its methods."""
    return Brand(
        id=DEMO_BRAND_ID,
        name="Demo Shop",
        push_result_url=PUSH_RESULT_URL,
        appearance=PageAppearance(order_label="order"),
        methods=tuple(
            Method(
                key=key,
                provider=provider,
                provider_title=title,
                country=country,
                operations=frozenset(Operation),
                limits={
                    currency: Limits(
                        to_money(Decimal(least), currency), to_money(Decimal(largest), currency)
                    )
                },
            )
            for key, country, currency, least, largest in _METHODS
        ),
    )


async def ensure_demo_brand(
    store: Store, keyring: KeyRing, *, provider: str, title: str, now: Instant
) -> str:
    """Create the demo brand and a key unless they exist, and return its oldest key in use."""
    # Saved at each start, so that a newer version's demo brand replaces an older one's.
    await store.admin.save_brands([build_demo_brand(provider=provider, title=title)])
    return await find_demo_key(store, keyring) or await create_key(
        store, keyring, DEMO_BRAND_ID, now=now
    )


async def find_demo_key(store: Store, keyring: KeyRing) -> str | None:
    """Return the demo brand's oldest key in use; None without the brand or a key."""
    record = await store.brand_record(DEMO_BRAND_ID)
    if record is None:
        return None

    for key in record.keys:
        if key.retired_at is None:
            return keyring.unseal(DEMO_BRAND_ID, key.sealed).decode()
    return None
