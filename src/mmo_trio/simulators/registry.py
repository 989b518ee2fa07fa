"""Lists the simulators by the name that `mmo simulate` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mmo_trio.simulators.airtel.api import open_airtel
from mmo_trio.simulators.base import Simulator
from mmo_trio.simulators.mpesa.keys import open_mpesa
from mmo_trio.simulators.mtn.api import MtnSimulator

SIMULATORS: Final[Mapping[str, Callable[[], Simulator]]] = MappingProxyType(
    {"airtel": open_airtel, "mpesa": open_mpesa, "mtn": MtnSimulator}
)
"""Functions that open a new operator, with accounts to begin with."""
