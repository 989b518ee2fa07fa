"""Plays the situations of `mmo conform` at an endpoint of the examples."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from attrs import evolve

from mmo_merchant.endpoint_check.check import Probe, check_endpoint, numbered
from mmo_merchant.endpoint_check.player import played_endpoint
from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_merchant.endpoint_check.situations.verdict import VerdictKind
from mmo_sansio.http.egress_rules import parse_url
from mmo_sansio.values.clock import Instant

ALL_SITUATIONS = frozenset(each.name for each in SITUATIONS)
PAUSE_S = 0.02
"""Between the pieces of a slow request: less than for real endpoints, as they are many."""
SETTLE_S = 1.0
"""For effects that come late; those of the examples have come before their answers."""


async def shortcomings(
    url: str, key: str, ca_file: Path, probe: Probe, names: Set[str]
) -> dict[str, tuple[str, ...]]:
    """The situations of these names in which the endpoint did not pass, with the reasons."""
    endpoint = evolve(played_endpoint(parse_url(url), key.encode(), ca_file), pause_s=PAUSE_S)
    played = numbered(SITUATIONS, run="01JDC0NF0RM0000000", now=Instant(1_790_000_000_000_000))
    chosen = [each for each in played if each[0].name in names]
    verdicts = await check_endpoint(endpoint, chosen, probe=probe, settle_s=SETTLE_S)
    assert len(verdicts) == len(names)
    return {
        each.situation.name: each.reasons
        for each in verdicts
        if each.kind is not VerdictKind.PASSED
    }
