"""Lists the simulators by the name that `mmo simulate` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mmo_sansio.providers.common.interface import RsaPadding
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.airtel.api import open_airtel
from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.mtn.api import MtnSimulator
from mmo_simulators.operators.pawapay.api import open_pawapay

SIMULATORS: Final[Mapping[str, Callable[[], Simulator]]] = MappingProxyType(
    {"airtel": open_airtel, "mpesa": open_mpesa, "mtn": MtnSimulator, "pawapay": open_pawapay}
)
"""Functions that open a new operator, with accounts to begin with."""


def open_simulator(operator: str, pin_padding: str | None = None) -> Simulator:
    """Open an operator; `pin_padding` is the only one that Airtel Money accepts for PINs, None: it accepts all.

    Raises ValueError for the padding of another operator.
    """
    if pin_padding is None:
        return SIMULATORS[operator]()
    if operator != "airtel":
        raise ValueError("only airtel has PINs that are encrypted with a padding")
    return open_airtel((RsaPadding(pin_padding),))
