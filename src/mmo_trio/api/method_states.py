"""Says what would become of a payment by a method now, and which amounts its operator takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import field, frozen

from mmo_sansio.api.extensions import OperationState
from mmo_sansio.providers.common.interface import LimitsDecimals, Provider
from mmo_sansio.values.model import Method, Operation, Type
from mmo_sansio.values.money import decimals_of


@frozen
class MethodStates:
    """Tells the state of methods, by what this process knows."""

    adapters: Mapping[str, Provider]
    """The adapters of all accounts by the provider's name."""
    is_closed: Callable[[str], bool]
    """Tells whether staff have closed a provider to new payments."""
    is_held: Callable[[str, Type], bool]
    """Tells whether payments of a type wait until a provider works again."""
    _limiting: Mapping[str, LimitsDecimals] = field(init=False)
    """Those of the adapters that take fewer decimals than a currency has; to ask whether one does
    costs as much as all other checks of an amount."""

    @_limiting.default
    def _find_limiting(self) -> Mapping[str, LimitsDecimals]:
        found = self.adapters.items()
        return {name: state for name, state in found if isinstance(state, LimitsDecimals)}

    def state_of(self, method: Method, operation: Operation) -> OperationState:
        """Return what would become of a payment now."""
        adapter = self.adapters.get(method.provider)
        # Closed before held: what staff have closed does not open by itself.
        has_account = adapter is not None and (operation.type, operation.flow) in adapter.operations
        if not has_account or self.is_closed(method.provider):
            return OperationState.CLOSED
        if self.is_held(method.provider, operation.type):
            return OperationState.HELD
        return OperationState.OPEN

    def decimals_of(self, method: Method, currency: str) -> int:
        """Return how many decimals an amount may have: those of the currency, unless the operator
        is known to take fewer."""
        adapter = self._limiting.get(method.provider)
        if adapter is None:
            return decimals_of(currency)
        return adapter.amount_decimals(currency)
