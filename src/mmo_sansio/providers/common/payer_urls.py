"""Checks where an operator sends a payer: to a page on a host that the account names."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Protocol, runtime_checkable

from mmo_sansio.http.egress_rules import UrlError, parse_url, result_host_error
from mmo_sansio.messages.inputs import ProviderAccepted
from mmo_sansio.values.payer_actions import OpenUrl


@runtime_checkable
class SendsPayersAway(Protocol):
    """Represents a provider some of whose payers do not confirm on the phone."""

    @property
    def confirms_elsewhere(self) -> bool:
        """Tell whether the payers of this account confirm at a page of the operator, or with a code
        of it."""

    @property
    def payer_hosts(self) -> Collection[str]:
        """Return the only hosts of such pages: names in lower-case ASCII, `*.` before a name stands
        for all names below it. A loopback address stands for a simulator, which has no https."""


def payer_url_error(url: str, hosts: Collection[str]) -> str | None:
    """Return why no payer is sent to this address, in a sentence without it; None: he is."""
    address = url.partition("#")[0]
    try:
        target = parse_url(address)
    except UrlError as error:
        return str(error)
    is_simulator = target.host in hosts and _is_loopback(target.host)
    if target.scheme != "https" and not is_simulator:
        return "The URL must begin with https://."
    if not hosts or result_host_error(address, hosts) is not None:
        return f"The account does not name the host {target.host} for its payers."
    return None


def refused_payer_url(report: object, provider: object) -> str | None:
    """Return why no payer is sent where this report of a provider says; None: he is, or it sends
    nobody anywhere."""
    if not isinstance(report, ProviderAccepted) or not isinstance(report.payer_action, OpenUrl):
        return None
    hosts = provider.payer_hosts if isinstance(provider, SendsPayersAway) else ()
    return payer_url_error(report.payer_action.url, hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
