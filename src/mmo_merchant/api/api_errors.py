"""Defines the errors of a merchant's client: the gateway's problems by kind, and what remains
unclear (P1 to P5)."""

from __future__ import annotations

from attrs import frozen

from mmo_sansio.values.model import Status
from mmo_sansio.values.problems import FieldError


@frozen
class ApiProblem:
    """Is a problem document as a merchant receives it (RFC 7807; P1)."""

    status: int
    title: str
    error_code: str
    """The generic category, such as `validation_failed`."""
    cause: str
    """The specific cause: the last segment of the type URI, such as
    `config_method_transaction_min_limit`."""
    detail: str
    errors: tuple[FieldError, ...] = ()
    """The field faults, the first one first; empty where no field is at fault."""
    request_id: str | None = None
    """Names this request in the gateway's logs; give it to the gateway's staff."""
    retry_after_s: int | None = None


class MerchantApiError(Exception):
    """Is the base of all errors of the client."""


class ApiRejection(MerchantApiError):
    """Raised for a request that the gateway has rejected: nothing was stored."""

    def __init__(self, problem: ApiProblem) -> None:
        # In the text too, which is what a merchant copies to the gateway's staff.
        if problem.request_id is None:
            named = ""
        else:
            named = f" (request {problem.request_id})"
        super().__init__(f"{problem.status} {problem.cause}: {problem.detail}{named}")
        self.problem = problem


class KeyRejected(ApiRejection):
    """Raised when the API key is missing, wrong, retired, or of another brand's host (A1, A6)."""


class TransactionNotFound(ApiRejection):
    """Raised when no transaction of the brand has the reference (L1, L2)."""


class ReferenceUsed(ApiRejection):
    """Raised when an earlier payment has the merchantReference (C12): this request has made
    none."""


class GatewayUnavailable(MerchantApiError):
    """Raised when there is no answer, an unreadable one, or the gateway's word that it cannot
    answer now."""

    def __init__(self, detail: str, problem: ApiProblem | None = None) -> None:
        super().__init__(detail)

        # The problem document, where one came. Without one it is unknown who has spoken.
        self.problem = problem


class OutcomeUnclear(MerchantApiError):
    """Raised when a creation was sent and it could not be learnt whether it has made a payment.

    Call `create_or_get` again later, with the same payment: it looks the reference up before it
    sends anything. Never send the payment under another reference."""

    def __init__(self, merchant_reference: str, detail: str) -> None:
        super().__init__(
            f"It is unclear whether the payment {merchant_reference} was made: {detail}"
        )
        self.merchant_reference = merchant_reference


class ReferenceMismatch(MerchantApiError):
    """Raised when the payment under the reference is not the one that was asked for: the reference
    was used for another purpose. Nothing was sent, or it was rejected."""

    def __init__(
        self, gateway_reference: str, status: Status, differences: tuple[str, ...]
    ) -> None:
        names = ", ".join(differences)
        super().__init__(
            f"The reference belongs to the payment {gateway_reference}, which is {status} and has "
            f"another {names}: look at that before you pay anybody again."
        )
        self.gateway_reference = gateway_reference
        self.status = status
        self.differences = differences
