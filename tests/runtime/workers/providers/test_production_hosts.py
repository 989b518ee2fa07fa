"""Each kind of provider knows the hosts at which its operator moves money; at any other its
accounts are simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve
from mmo_provider_pawapay import PAWAPAY

from mmo_sansio.providers.common.interface import Provider
from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind, open_sandbox

KINDS = {**PROVIDER_KINDS, "pawapay": PAWAPAY}

REAL = [
    ("mpesa_daraja", "https://api.safaricom.co.ke"),
    ("mtn_momo", "https://proxy.momoapi.mtn.com"),
    ("mtn_momo", "https://proxy.momoapi.mtn.co.rw"),
    ("mtn_momo", "https://momoapi.momo.africa"),
    ("airtel_money", "https://openapi.airtel.africa"),
    ("airtel_money", "https://openapi.airtel.ug"),
    ("airtel_money", "https://OPENAPI.AIRTEL.CO.ZM:443"),
    ("pawapay", "https://api.pawapay.io"),
]
SIMULATED = [
    ("mpesa_daraja", "https://sandbox.safaricom.co.ke"),
    ("mpesa_daraja", "http://127.0.0.1:8080"),
    ("mpesa_daraja", "https://api.safaricom.co.ke.proxy.example"),
    ("mtn_momo", "https://sandbox.momodeveloper.mtn.com"),
    ("airtel_money", "https://openapiuat.airtel.ug"),
    ("airtel_money", "https://openapiuat.airtel.africa"),
    ("airtel_money", "https://openapi.airtel.example"),
    ("pawapay", "https://api.sandbox.pawapay.io"),
]


def at(url: str) -> Provider:
    adapter: Any = SimpleNamespace(base_url=url)
    return cast(Provider, adapter)


@pytest.mark.parametrize(
    ("kind", "url", "is_simulated"),
    [(*each, False) for each in REAL] + [(*each, True) for each in SIMULATED],
)
def test_the_host_tells_whether_money_moves(kind: str, url: str, is_simulated: bool) -> None:
    assert KINDS[kind].is_simulated(at(url)) is is_simulated


def test_the_sandbox_operator_moves_none() -> None:
    assert PROVIDER_KINDS["sandbox"].is_simulated(open_sandbox("sandbox", "Sandbox", {}))


def test_of_a_kind_that_names_no_hosts_every_account_counts_as_money() -> None:
    kind = ProviderKind("Other", PROVIDER_KINDS["mtn_momo"].factory, ())
    assert not kind.is_simulated(at("https://test.example"))
    hidden = evolve(kind, production_hosts=("api.example",))
    assert not hidden.is_simulated(cast(Provider, SimpleNamespace()))


def test_an_address_without_a_host_that_can_be_read_counts_as_money() -> None:
    kind = evolve(PROVIDER_KINDS["mtn_momo"], production_hosts=("api.example",))
    assert kind.is_simulated(at("https://test.example/v1"))
    for url in ("api.example/v1", ""):
        assert not kind.is_simulated(at(url)), url


def test_each_built_in_kind_but_the_sandbox_names_its_hosts() -> None:
    assert [name for name, kind in KINDS.items() if not kind.production_hosts] == ["sandbox"]
