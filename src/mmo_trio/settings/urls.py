"""Under which addresses the world knows a gateway."""

from __future__ import annotations

from urllib.parse import urlsplit

from attrs import frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_trio.settings import Settings
from mmo_trio.settings.service import ServiceAddresses


@frozen
class PublicUrls:
    """Each begins with a scheme; none ends with a slash."""

    base: str
    hosted_pages: str
    error_docs: str
    webhooks: str

    @classmethod
    def from_settings(cls, settings: Settings, addresses: ServiceAddresses) -> PublicUrls:
        """As they are set; where they aren't, the listeners' own."""
        pages = (settings.gateway.hpp_url or addresses.pages).rstrip("/")
        base = (settings.gateway.base_url or addresses.api).rstrip("/")
        return cls(
            base=base,
            hosted_pages=pages,
            error_docs=(settings.gateway.error_docs_url or f"{pages}/errors").rstrip("/"),
            webhooks=(settings.gateway.hooks_url or base).rstrip("/"),
        )

    def egress_rules(self, settings: Settings) -> EgressRules:
        """Where merchants' URLs may lead: as set, and never to ourselves (K7)."""
        return EgressRules(
            allow_private=settings.egress.allow_private,
            allowed_ports=frozenset(settings.egress.allowed_ports),
            own_hosts=frozenset(urlsplit(each).netloc for each in (self.base, self.hosted_pages)),
        )
