"""Defines the public URLs of a gateway."""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.http.egress_rules import EgressRules, parse_url
from mmo_trio.settings import Settings
from mmo_trio.settings.service import ServiceAddresses


@frozen
class PublicUrls:
    """Holds URLs that begin with a scheme and do not end with a slash."""

    base: str
    hosted_pages: str
    error_docs: str
    webhooks: str

    @classmethod
    def from_settings(cls, settings: Settings, addresses: ServiceAddresses) -> PublicUrls:
        """Return the URLs that are set, and the listeners' own for the others."""
        pages = (settings.gateway.hpp_url or addresses.pages).rstrip("/")
        base = (settings.gateway.base_url or addresses.api).rstrip("/")
        return cls(
            base=base,
            hosted_pages=pages,
            error_docs=(settings.gateway.error_docs_url or f"{pages}/errors").rstrip("/"),
            webhooks=(settings.gateway.hooks_url or base).rstrip("/"),
        )

    def egress_rules(self, settings: Settings) -> EgressRules:
        """Return where merchants' URLs may lead: as set, and never to the gateway itself (K7)."""
        return EgressRules(
            allow_private=settings.egress.allow_private,
            allowed_ports=frozenset(settings.egress.allowed_ports),
            own_hosts=frozenset(parse_url(each).authority for each in (self.base, self.hosted_pages, self.webhooks)),
        )
