"""Sends one request to a server within three seconds and prints the result; a test stops this
process."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_trio.http.client.client import HttpClient, tls_context
from mmo_trio.system.clock import BootClock

DEADLINE_S = 3.0


async def main(url: str, authority: Path) -> None:
    """Print the result in one line."""
    client = HttpClient(rules=EgressRules(), context=tls_context(authority))
    request = HttpRequest("POST", url.encode(), (), b"{}")
    try:
        answer = await client.call_provider(request, deadline_s=DEADLINE_S)
        print("answered", answer.status)
    except ExchangeFailed as failure:
        print("perhaps sent" if failure.may_have_arrived else "not sent")


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]), clock=BootClock())
