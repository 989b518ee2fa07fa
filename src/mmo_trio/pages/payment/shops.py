"""Says how the shop of a payment looks on its page: name, colour, logo, and what is paid for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from mmo_sansio.values.clock import SECOND, Instant, Span, later
from mmo_sansio.values.model import Brand, Logo, PageAppearance
from mmo_trio.storage.sql.store import Store
from mmo_trio.system.display_text import visible_text

# How late a change of a brand shows on its pages; most pages are opened seconds after another.
SHOPS_TTL = Span(60 * SECOND)
# About three lines on a phone, so that the button stays on the screen.
ORDER_TEXT_CHARACTERS_MAX = 140


@frozen
class Shop:
    """Holds what the page shows of a brand."""

    name: str = ""
    colour_url: str | None = None
    """The address of a stylesheet with the brand's colour."""
    logo_url: str | None = None
    order_label: str | None = None
    support_phone: str | None = None
    support_url: str | None = None

    def order_text(self, labels: str | None) -> str:
        """Return what is paid for, from the labels of a payment, which are JSON; empty where they
        do not say it."""
        if self.order_label is None or labels is None:
            return ""

        # A label may be any JSON; only what reads as a name of something is shown.
        value = json.loads(labels).get(self.order_label)
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            return ""

        # The merchant's text may hold line feeds, and signs that turn around what follows.
        text = " ".join(visible_text(str(value)).split())
        if len(text) <= ORDER_TEXT_CHARACTERS_MAX:
            return text

        return text[: ORDER_TEXT_CHARACTERS_MAX - 1] + "…"


def shop_of(brand: Brand) -> Shop:
    # Both addresses name their content, so that browsers keep it, and a change shows at once.
    look: PageAppearance = brand.appearance
    colour_url = None
    if look.colour is not None:
        colour_url = f"/colour/{look.colour[1:]}.css"

    logo_url = None
    if look.logo is not None:
        logo_url = f"/logo/{logo_digest(look.logo)}"

    return Shop(
        name=brand.name,
        colour_url=colour_url,
        logo_url=logo_url,
        order_label=look.order_label,
        support_phone=look.support_phone,
        support_url=look.support_url,
    )


def logo_digest(logo: Logo) -> str:
    """Return the name under which a logo is served, which changes with the logo."""
    return hashlib.sha256(logo.content).hexdigest()[:16]


@define(eq=False)
class ShopCache:
    """Caches the looks of brands, which change rarely, for a minute."""

    _store: Store
    _own_time: Callable[[], Instant]
    _shops: Mapping[str, Shop] = field(factory=dict, init=False)
    _logos: Mapping[str, Logo] = field(factory=dict, init=False)
    _expires_at: Instant | None = field(default=None, init=False)

    async def shop(self, brand: str) -> Shop:
        """Return the look of this brand; an empty one when it was removed. Raises
        StoreUnavailable."""
        await self._refresh(is_known=brand in self._shops)
        return self._shops.get(brand, Shop())

    async def logo(self, digest: str) -> Logo | None:
        """Return the logo of this name. Raises StoreUnavailable."""
        # Nobody makes the store read by asking for what there is not.
        await self._refresh(is_known=True)
        return self._logos.get(digest)

    async def _refresh(self, *, is_known: bool) -> None:
        now = self._own_time()
        if is_known and self._expires_at is not None and now < self._expires_at:
            return
        # A brand that is not known may be new, so it is looked for before the minute is over.
        brands = [brand.brand for brand in await self._store.admin.brands()]
        self._shops = {brand.id: shop_of(brand) for brand in brands}
        logos = [brand.appearance.logo for brand in brands if brand.appearance.logo is not None]
        self._logos = {logo_digest(logo): logo for logo in logos}
        self._expires_at = later(now, SHOPS_TTL)
