"""The shop of the guide does what `mmo conform` asks of an endpoint, and books every result once."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from attrs import evolve

from mmo_sansio.http.egress_rules import parse_url
from mmo_sansio.testing.endpoint.situation_table import SITUATIONS
from mmo_sansio.testing.endpoint.verdict import VerdictKind
from mmo_sansio.values.clock import Instant
from mmo_trio.sandbox.endpoint_check import check_endpoint, numbered
from mmo_trio.sandbox.endpoint_player import played_endpoint
from tests.support.shop_process import a_shop_process

KEY = "The-key-0123456789abcdef"
NO_GATEWAY = "http://127.0.0.1:9"
OF_THE_SERVER = {"silent-connections"}
"""What Flask's development server cannot do: it makes one TLS handshake at a time. A server for production can."""


@pytest.mark.finding("new-users-conform")
def test_the_shop_on_flask_passes(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    shop = a_shop_process("flask", tmp_path, authority)
    played = numbered(SITUATIONS, run="01JDC0NF0RM0000000", now=Instant(1_790_000_000_000_000))

    async def report(reference: str) -> str:
        with sqlite3.connect(tmp_path / "shop.db") as database:
            query = "SELECT count(*) FROM mmo_taken_results WHERE gateway_reference = ?"
            return str(database.execute(query, (reference,)).fetchone()[0])

    endpoint = played_endpoint(parse_url(f"{shop.url}/results"), KEY.encode(), tmp_path / "ca.pem")
    chosen = [each for each in played if each[0].name not in OF_THE_SERVER]
    with shop.running(NO_GATEWAY, KEY):
        verdicts = trio.run(partial(check_endpoint, evolve(endpoint, pause_s=0.02), chosen, probe=report))
    failed = {each.situation.name: each.reasons for each in verdicts if each.kind is VerdictKind.FAILED}
    assert failed == {}
    advised = {each.situation.name for each in verdicts if each.kind is VerdictKind.ADVICE}
    assert advised <= {"reference-path"}, "the inbox takes any text as a reference, as a parameter of its statement"
