"""The metrics of a float are in the base units of Prometheus."""

from __future__ import annotations

from mmo_sansio.providers.common.balances import AccountBalance, FloatForecast
from mmo_sansio.testing import KES, START
from mmo_trio.metrics.prometheus import _float_metrics
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.workers.providers.float_monitor import LOW, KnownFloat


def test_what_a_float_lasts_is_told_in_seconds() -> None:
    balance = AccountBalance("kenya", "Utility Account", KES("5000.50"), START, is_float=True)
    note = ProviderNote("kenya", NoteTopic.FLOAT, "Utility Account", START, LOW)
    families = _float_metrics([KnownFloat(FloatForecast(balance, hours_left=2.5), note)])
    values = {sample.name: sample.value for family in families for sample in family.samples}
    assert values == {
        "mmo_provider_balance": 5000.5,
        "mmo_provider_float_seconds_left": 9000,
        "mmo_provider_float_low": 1,
    }
