"""Lists the scenarios of `mmo trigger`: what a merchant and the sandbox do, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from attrs import frozen

from mmo_sansio.providers.sandbox.scenarios import SCENARIOS
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import Operation


@frozen
class RequestPayment:
    """The merchant requests a payment, and the gateway answers."""

    operation: Operation = Operation.DIRECT_PAYIN
    sandbox_scenario: str = "success"
    """What the sandbox's operator does, as in the header `X-Sandbox-Scenario`."""


@frozen
class AdvanceClock:
    """The clock of the sandbox moves forward."""

    by: str
    """A span such as `3d`."""


class PlayedStep(Enum):
    """Is a step without details of its own."""

    REQUEST_AGAIN = "request_again"
    """The merchant sends the same request again (C12)."""
    CONFIRM_PAGE = "confirm_page"
    """The payer presses the button of the payment page (W1)."""
    MAKE_DEPOSIT = "make_deposit"
    """A payer sends money by the menu of their phone (S4)."""
    AWAIT_QR_CODE = "await_qr_code"
    """The gateway sends the QR code (Q1)."""
    AWAIT_CALLBACK = "await_callback"
    """The gateway sends the result (K1)."""
    SHOW_DELIVERY = "show_delivery"
    """The gateway records the outcome of the callback (K2)."""
    LOOK_UP = "look_up"
    """The merchant looks the payment up (L1)."""


ScenarioPart: TypeAlias = RequestPayment | AdvanceClock | PlayedStep


@frozen
class PlayedScenario:
    """Is a whole scenario."""

    name: str
    title: str
    """What happens, for people."""
    parts: tuple[ScenarioPart, ...]
    status: str = "success"
    """How the payment ends."""
    error_code: str | None = None
    is_receiver_down: bool = False
    """Whether the merchant's receiver answers 503."""


_END = (PlayedStep.AWAIT_CALLBACK, PlayedStep.LOOK_UP)


def _failure(name: str, code: ErrorCode) -> PlayedScenario:
    title = f"A pay-in fails with {code.value}."
    return PlayedScenario(name, title, (RequestPayment(sandbox_scenario=name), *_END), "failed", code.value)


PLAYED_SCENARIOS: Mapping[str, PlayedScenario] = MappingProxyType(
    {
        each.name: each
        for each in (
            PlayedScenario("success", "A pay-in succeeds.", (RequestPayment(), *_END)),
            *(
                _failure(each.name, each.steps[0].failure)
                for each in SCENARIOS
                if len(each.steps) == 1 and each.steps[0].failure is not None
            ),
            PlayedScenario(
                "late_success",
                "A pay-in is pending at first, and succeeds ten seconds later.",
                (RequestPayment(sandbox_scenario="slow"), PlayedStep.LOOK_UP, AdvanceClock("15s"), *_END),
            ),
            PlayedScenario(
                "other_amount",
                "A pay-in succeeds with another amount than requested.",
                (RequestPayment(sandbox_scenario="other_amount"), *_END),
            ),
            PlayedScenario(
                "expiry",
                "A pay-in has no result, and expires after three days.",
                (RequestPayment(sandbox_scenario="never"), PlayedStep.LOOK_UP, AdvanceClock("3d"), *_END),
                "failed",
                ErrorCode.TRANSACTION_EXPIRED.value,
            ),
            PlayedScenario(
                "qr",
                "A pay-in by QR code: the code comes first, then the result.",
                (RequestPayment(Operation.QR_PAYIN), PlayedStep.AWAIT_QR_CODE, *_END),
            ),
            PlayedScenario(
                "web",
                "A pay-in on the payment page: the payer confirms it there.",
                (RequestPayment(Operation.WEB_PAYIN), PlayedStep.LOOK_UP, PlayedStep.CONFIRM_PAGE, *_END),
            ),
            PlayedScenario("payout", "A pay-out succeeds.", (RequestPayment(Operation.DIRECT_PAYOUT), *_END)),
            PlayedScenario("tax", "A tax payout succeeds.", (RequestPayment(Operation.DIRECT_TAXPAYOUT), *_END)),
            PlayedScenario(
                "offline_deposit",
                "A payer sends money without a request of the merchant.",
                (PlayedStep.MAKE_DEPOSIT, PlayedStep.LOOK_UP),
            ),
            PlayedScenario(
                "repeated_request",
                "The merchant sends the same request twice: the second one is refused, and one payment is made.",
                (RequestPayment(), PlayedStep.REQUEST_AGAIN, *_END),
            ),
            PlayedScenario(
                "receiver_down",
                "The merchant's receiver answers 503: the only callback is lost, and a look-up finds the result.",
                (RequestPayment(), PlayedStep.AWAIT_CALLBACK, PlayedStep.SHOW_DELIVERY, PlayedStep.LOOK_UP),
                is_receiver_down=True,
            ),
        )
    }
)
"""By name."""
