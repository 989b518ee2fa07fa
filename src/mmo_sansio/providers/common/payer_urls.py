"""Checks where an operator sends a payer: to a page on a host that the account names."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Final, Protocol, runtime_checkable

from mmo_sansio.http.egress_rules import (
    UrlError,
    parse_result_host,
    parse_url,
    result_host_error,
)
from mmo_sansio.messages.inputs import ProviderAccepted
from mmo_sansio.values.fields import InvalidValue, Kind, SettingsError, of_text
from mmo_sansio.values.payer_actions import OpenUrl


@runtime_checkable
class SendsPayersAway(Protocol):
    """Represents a provider whose payers may confirm at a page of its own."""

    @property
    def payer_hosts(self) -> Collection[str]:
        """Return the only hosts of such pages: names in lower-case ASCII, `*.` before a name stands
        for all names below it. A loopback address stands for a simulator, which has no https."""


def _payer_hosts(text: str) -> tuple[str, ...]:
    try:
        # The same patterns and the same parser as for the hosts of merchants' redirects.
        return tuple(parse_result_host(name) for name in text.split())
    except UrlError as error:
        raise InvalidValue(f"holds no host: {error}", f"Write it like {_HOSTS}.") from None


_HOSTS: Final = '"pay.example *.pay.example"'

# Hosts to which payers are sent by https, separated by spaces.
PAYER_HOSTS: Final = Kind("hosts", of_text(_payer_hosts), "hosts, separated by spaces", _HOSTS)


class GatewaySettingError(SettingsError):
    """Reports a setting of the gateway itself with which an account can't work; its location is the
    name of that, such as `gateway.hpp_url`."""


def check_pages_url(pages_url: str, base_url: str) -> None:
    """Check that payers come back to the payment pages by https, where the operator demands that. A
    simulator on this machine, whose `base_url` is http, demands nothing; an empty address is none
    that a payer is given. Raises GatewaySettingError."""
    is_simulator = base_url.startswith("http:")
    if pages_url and not is_simulator and not pages_url.startswith("https://"):
        remedy = 'Write hpp_url = "https://pay.example", the address of the payment pages.'
        raise GatewaySettingError("gateway.hpp_url", "must begin with https://.", remedy)


def payer_url_error(url: str, hosts: Collection[str]) -> str | None:
    """Return why no payer is sent to this address, in a sentence without it; None: he is."""
    address = url.replace("#", "?", 1)  # What is held to a query is held to a fragment.
    try:
        target = parse_url(address)
    except UrlError as error:
        return str(error)

    # Only an address that the account itself names: a foreign one could lead into this network.
    is_simulator = target.host in hosts and _is_loopback(target.host)
    if target.scheme != "https" and not is_simulator:
        return "The URL must begin with https://."

    # A page that imitates the operator's collects PINs, so no host is allowed by default.
    if not hosts or result_host_error(address, hosts) is not None:
        return f"The account does not name the host {target.host} for its payers."

    return None


def refused_payer_url(report: object, provider: object) -> str | None:
    """Return why no payer is sent where this report of a provider says; None: he is, or it sends
    nobody anywhere."""
    if not isinstance(report, ProviderAccepted) or not isinstance(report.payer_action, OpenUrl):
        return None

    if isinstance(provider, SendsPayersAway):
        hosts = provider.payer_hosts
    else:
        hosts = ()
    return payer_url_error(report.payer_action.url, hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
