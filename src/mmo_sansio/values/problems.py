"""Lists every rejection of the merchant API: the causes, in their order of precedence (C9), and the
problems that they become (RFC 7807, clauses P1 to P5)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class FieldError:
    """Names one fault of one field of a request."""

    field: str
    """Dotted path of the field, as the merchant wrote it: `payer.msisdn`, `labels.command`,
    `pageSize`."""
    detail: str
    """What is wrong and what is allowed, in one sentence."""


@frozen
class Problem:
    """Holds a rejection, ready to be rendered as a problem document (P1)."""

    status: int
    """The HTTP status."""
    title: str
    """The short category of the specification's table."""
    error_code: str
    """The generic category; for a dedicated 422 the same as the segment (P2)."""
    segment: str
    """The specific cause: the last path segment of the type URI."""
    detail: str
    """What happened this time, for people."""
    errors: tuple[FieldError, ...] = ()
    """Field faults in the order of C9; empty for rejections that are not about fields."""
    allow: str | None = None
    """The methods that a 405 names in `Allow`."""
    retry_after_s: int | None = None
    """Seconds that a 503 or 429 names in `Retry-After`."""


class ProblemError(Exception):
    """Raised while a request is parsed; caught in one place and answered as its problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@frozen
class ProblemType:
    """A problem type is one reason for a rejection: a row of the specification's error tables."""

    status: int
    title: str
    error_code: str
    segment: str

    def problem(
        self,
        detail: str,
        *errors: FieldError,
        allow: str | None = None,
        retry_after_s: int | None = None,
    ) -> Problem:
        """Return the rejection of this type with this detail and these field faults."""
        # Every 503 says when to come again, as it promises that nothing was stored (P4, P5).
        if retry_after_s is None and self.status == 503:
            retry_after_s = RETRY_AFTER_S

        return Problem(
            self.status,
            self.title,
            self.error_code,
            self.segment,
            detail,
            errors,
            allow,
            retry_after_s,
        )


# The delay in seconds that a 503 advises where nothing else is known: long enough for a short stall
# to pass, short enough for a waiting payer (P4).
RETRY_AFTER_S = 2


def _bad_request(status: int, segment: str) -> ProblemType:
    return ProblemType(status, "Bad request", "bad_request", segment)


def _validation_failed(segment: str) -> ProblemType:
    return ProblemType(400, "Validation failed", "validation_failed", segment)


# What the listener finds in a request line, a head or a body on its way in.
MALFORMED = _bad_request(400, "bad_request")
REQUEST_TIMEOUT = _bad_request(408, "request_timeout")
BODY_TOO_LARGE = _bad_request(413, "body_too_large")
TARGET_TOO_LONG = _bad_request(414, "target_too_long")
HEAD_TOO_LARGE = _bad_request(431, "head_too_large")

# Where to, and who asks.
NOT_FOUND = ProblemType(404, "Not found", "not_found", "not_found")
METHOD_NOT_ALLOWED = ProblemType(
    405, "Method not allowed", "method_not_allowed", "method_not_allowed"
)
UNAUTHORIZED = ProblemType(401, "Unauthorized", "unauthorized", "unauthorized")
MERCHANT_DISABLED = _validation_failed("merchant_disabled")

# What is asked.
VALIDATION_FAILED = _validation_failed("validation_failed")
UNSUPPORTED_METHOD = _validation_failed("config_unsupported_payment_method")
UNSUPPORTED_COUNTRY = _validation_failed("config_unsupported_country")
UNSUPPORTED_CURRENCY = _validation_failed("config_unsupported_currency")
BELOW_MINIMUM = _validation_failed("config_method_transaction_min_limit")
ABOVE_MAXIMUM = _validation_failed("config_method_transaction_max_limit")
DUPLICATE_REFERENCE = ProblemType(
    422,
    "Business logic error",
    "merchant_transactionid_duplicate",
    "merchant_transactionid_duplicate",
)
BUSINESS_LOGIC_ERROR = ProblemType(
    422, "Business logic error", "business_logic_error", "business_logic_error"
)
PENDING_LIMIT = ProblemType(
    422, "Business logic error", "brand_pending_limit", "brand_pending_limit"
)
DAILY_LIMIT = ProblemType(422, "Business logic error", "brand_daily_limit", "brand_daily_limit")

# How often it is asked.
TOO_MANY_REQUESTS = ProblemType(429, "Too many requests", "too_many_requests", "too_many_requests")

# What went wrong on our side.
INTERNAL = ProblemType(
    500, "Internal server error", "internal_server_error", "internal_server_error"
)
UNAVAILABLE = ProblemType(503, "Service unavailable", "service_unavailable", "service_unavailable")

# The causes of a rejected creation; the first one that applies is reported (C9). Two lines of C9
# reuse a cause: a wrong Content-Type and unreadable JSON are MALFORMED after MERCHANT_DISABLED,
# decimals are VALIDATION_FAILED after UNSUPPORTED_CURRENCY.
CREATION_PRECEDENCE: tuple[ProblemType, ...] = (
    MALFORMED,
    TARGET_TOO_LONG,
    HEAD_TOO_LARGE,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    UNAUTHORIZED,
    MERCHANT_DISABLED,
    TOO_MANY_REQUESTS,
    BODY_TOO_LARGE,
    # Field faults come in an order of their own, then what the configuration decides (C9).
    VALIDATION_FAILED,
    UNSUPPORTED_METHOD,
    UNSUPPORTED_COUNTRY,
    UNSUPPORTED_CURRENCY,
    BELOW_MINIMUM,
    ABOVE_MAXIMUM,
    # After all faults of the request: what is refused for one uses no reference up (C12).
    DUPLICATE_REFERENCE,
    PENDING_LIMIT,
    DAILY_LIMIT,
)

# Every cause; each has a page behind its `type` URI.
PROBLEM_TYPES: tuple[ProblemType, ...] = (
    *CREATION_PRECEDENCE,
    REQUEST_TIMEOUT,
    BUSINESS_LOGIC_ERROR,
    INTERNAL,
    UNAVAILABLE,
)


def validation_problem(errors: Sequence[FieldError]) -> Problem:
    """Return the rejection for these field faults, of which there is at least one; its detail is
    that of the first one (C9)."""
    return VALIDATION_FAILED.problem(errors[0].detail, *errors)
