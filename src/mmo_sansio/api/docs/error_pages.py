"""Explains each `type` URI of a problem and each `errorCode`: cause, who acts, advice, an example
(clauses P1, P2, P4, E1). The pages are made from the catalogues, so no code lacks its page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen

from mmo_sansio.api.outgoing import problem_document
from mmo_sansio.http.request_head import HeadLimits
from mmo_sansio.values import problems
from mmo_sansio.values.error_codes import EXPLANATIONS, ErrorCode
from mmo_sansio.values.problems import PROBLEM_TYPES, FieldError, ProblemType

# As the gateway makes them: a process's random prefix and a counter.
EXAMPLE_REQUEST_ID: Final = "9f3c51ab07-0000002a"


@frozen
class ErrorGuidance:
    """Explains a problem type to its readers."""

    meaning: str
    who_acts: str
    """`merchant`, `staff`, or `nobody` where waiting is enough."""
    advice: str
    example: str
    """A detail as the gateway writes it."""
    fields: tuple[FieldError, ...] = ()
    """Invalid fields of the example."""


@frozen
class ErrorPage:
    """Holds the contents of one code's page."""

    code: str
    """The last segment of the `type` URI, or the errorCode of a failed transaction."""
    title: str
    status: int | None
    """The HTTP status of the rejection; None for a code of a failed transaction."""
    meaning: str
    who_acts: str
    advice: str
    example: Mapping[str, Any]
    """A problem document, or the members of a transaction object that describe the failure."""

    @property
    def example_text(self) -> str:
        """Return the example as JSON for people."""
        return json.dumps(self.example, indent=2)


# One entry for each problem type.
GUIDANCE: Final[Mapping[ProblemType, ErrorGuidance]] = MappingProxyType(
    {
        problems.MALFORMED: ErrorGuidance(
            "The request can't be read: its line, a header field, its Content-Type, or a body"
            " that is no strict JSON object in UTF-8. Nothing was stored.",
            "merchant",
            "Send Content-Type: application/json without a Content-Encoding other than identity, "
            "and a body made by a JSON library: no member twice, no NaN, no bytes after the "
            "object, at most 1,000 members and elements. If it comes in chunks, send no trailers. "
            "The detail names the place.",
            "The body can't be read as a JSON object: Expecting ',' delimiter at line 1, "
            "column 24.",
        ),
        problems.TARGET_TOO_LONG: ErrorGuidance(
            "The path and query of the request are longer than the listener takes.",
            "merchant",
            "Shorten them. References have at most 255 characters, so no right target is "
            "that long.",
            f"The request target is longer than {HeadLimits().target_bytes} bytes.",
        ),
        problems.HEAD_TOO_LARGE: ErrorGuidance(
            "The header fields of the request are too many or too large.",
            "merchant",
            "Leave out fields that the gateway doesn't need, such as cookies; look for a proxy "
            "that adds them.",
            "The request head is larger than 32768 bytes or 100 header fields.",
        ),
        problems.NOT_FOUND: ErrorGuidance(
            "There is nothing at this path; or the transaction is unknown, or another brand's, "
            "which look the same.",
            "merchant",
            "Compare the path with the documentation, letter by letter, and encode references"
            " once. If a creation was answered 503 or not at all, a 404 for its merchantReference"
            " says that no payment was made of it.",
            "There is no such transaction.",
        ),
        problems.METHOD_NOT_ALLOWED: ErrorGuidance(
            "The resource is there, but doesn't know this HTTP method.",
            "merchant",
            "Use one of the methods in the answer's Allow: POST creates, GET looks up.",
            "This resource knows only POST.",
        ),
        problems.UNAUTHORIZED: ErrorGuidance(
            "The API key is missing, given twice, unknown or retired, or the host belongs to "
            "another brand.",
            "merchant",
            "Send your brand's key in exactly one X-Api-Key header, to your brand's host if it"
            " has one. If a key was changed, use the new one; ask the gateway's staff for a key.",
            "Send a valid API key of your brand in the header X-Api-Key.",
        ),
        problems.MERCHANT_DISABLED: ErrorGuidance(
            "The key is right, but the brand is disabled: it can't make requests. Pending"
            " payments run on and are called back.",
            "staff",
            "Ask the gateway's staff why the brand was disabled.",
            "This brand is disabled.",
        ),
        problems.BODY_TOO_LARGE: ErrorGuidance(
            "The body of the request is larger than the gateway takes; it was not read.",
            "merchant",
            "Send a smaller body: members of the largest lengths that are allowed fit, however "
            "they are escaped.",
            "The body is larger than 262144 bytes.",
        ),
        problems.VALIDATION_FAILED: ErrorGuidance(
            "A member of the body, or a parameter of the query, is missing or isn't what it"
            " should be. Nothing was stored, and the merchantReference wasn't used up.",
            "merchant",
            "Each entry of errors names a field and says what would be right. Correct them and"
            " send the request again, with the same reference.",
            "'payer.msisdn' must have at least 3 characters.",
            (
                FieldError("payer.msisdn", "'payer.msisdn' must have at least 3 characters."),
                FieldError("country", "'country' is required."),
            ),
        ),
        problems.UNSUPPORTED_METHOD: ErrorGuidance(
            "The brand has no payment method with this key, or not for this way to pay.",
            "merchant",
            "Method keys are case-sensitive. Use one that your brand has for this flow and"
            " direction, or ask the gateway's staff to add it.",
            "The method 'mpesa_kee' is not configured for direct/payin of this brand. Did you "
            "mean mpesa_ke?",
        ),
        problems.UNSUPPORTED_COUNTRY: ErrorGuidance(
            "The brand's payment method isn't offered in this country.",
            "merchant",
            "Send the ISO 3166-1 alpha-2 code of a country for which the brand has this method, "
            "in capitals.",
            "The country 'UG' is not configured for the method 'mpesa_ke'. Known are: KE.",
        ),
        problems.UNSUPPORTED_CURRENCY: ErrorGuidance(
            "The brand's payment method doesn't take this currency.",
            "merchant",
            "Send the ISO 4217 code of a currency for which the method has limits, in capitals.",
            "The currency 'EUR' is not configured for the method 'mpesa_ke'. Known are: KES.",
        ),
        problems.BELOW_MINIMUM: ErrorGuidance(
            "The amount is below the least that the brand's method takes in this currency.",
            "merchant",
            "Ask for a larger amount. The gateway's staff can change the limit, within the "
            "provider's own.",
            "The amount 5.00 KES is below the minimum of 10.00 KES.",
        ),
        problems.ABOVE_MAXIMUM: ErrorGuidance(
            "The amount is above the most that the brand's method takes in this currency.",
            "merchant",
            "Ask for a smaller amount, or split the payment. The gateway's staff can change the"
            " limit, within the provider's own.",
            "The amount 150001.00 KES is above the maximum of 150000.00 KES.",
        ),
        problems.DUPLICATE_REFERENCE: ErrorGuidance(
            "A payment with this merchantReference was taken already; this request made no "
            "second one.",
            "merchant",
            "If you sent the request again because no answer came, all is well: look the payment "
            "up by its merchantReference. Only the pageUrl of a web pay-in is not told again: "
            "without it, wait until that payment has failed. Repeat a request within 15 minutes "
            "only; later look its reference up before you send it. Never repeat a payment under a "
            "new reference because of this refusal: send a new reference only for another "
            "payment, or for a payment that has failed without moving money. A reference is "
            "refused for 15 minutes after its use; after that a pay-in is accepted under it where "
            "every earlier one has failed, and a pay-out or tax payment is not, unless the "
            "gateway's staff have chosen otherwise for your brand.",
            "The merchantReference 'order-1' was used before. Look the payment up by it, and send "
            "a new reference only for another payment.",
        ),
        problems.PENDING_LIMIT: ErrorGuidance(
            "So many of the brand's payments are pending that no more are accepted.",
            "merchant",
            "Send the same request again, with the same reference, when some of your payments have "
            "ended: nothing was stored. The gateway's staff can change the limit.",
            "1000 payments are pending, which is the limit. Send the request again when some "
            "have ended.",
        ),
        problems.DAILY_LIMIT: ErrorGuidance(
            "The brand's payments of this day by this method would exceed the sum that is set for "
            "a day. Payments that have failed do not count.",
            "merchant",
            "Send the same request again, with the same reference, after 00:00 UTC, or ask the "
            "gateway's staff to change the limit. If you did not make so many payments, say so at "
            "once: your key may have leaked.",
            "With this amount of 500.00 KES the day's payout payments by 'mpesa_ke' would exceed "
            "100000.00 KES. A new day begins at 00:00 UTC.",
        ),
        problems.TOO_MANY_REQUESTS: ErrorGuidance(
            "The brand sends more requests in a second than its limit allows. Nothing was stored.",
            "merchant",
            "Send the same request again, with the same reference, after the seconds that "
            "Retry-After names. Wait for callbacks instead of looking payments up again and again. "
            "The gateway's staff can change the limit.",
            "The limit is 20 requests a second. Send the request again after a moment.",
        ),
        problems.REQUEST_TIMEOUT: ErrorGuidance(
            "The head or the body of the request didn't arrive in time. Nothing was stored.",
            "merchant",
            "Send the request again, at once and whole. If it happens often, look at the "
            "network between.",
            "The body of the request did not arrive in time.",
        ),
        problems.BUSINESS_LOGIC_ERROR: ErrorGuidance(
            "The request is well-formed, but a rule of the business forbids it. Rules with a code"
            " of their own are reported by that; at present all have one.",
            "merchant",
            "Read the detail, and ask the gateway's staff if it doesn't help.",
            "The request can't be carried out.",
        ),
        problems.INTERNAL: ErrorGuidance(
            "Something went wrong in the gateway. Whether a creation was stored is not known.",
            "staff",
            "Look the payment up by its merchantReference before you send it again. The gateway's"
            " staff find the cause in the log by the request id, which is the end of instance and"
            " stands in X-Request-Id.",
            "Something went wrong here; the request id says where to look.",
        ),
        problems.UNAVAILABLE: ErrorGuidance(
            "The gateway can't serve right now. Nothing was stored.",
            "nobody",
            "Send the same request again, with the same reference, after the seconds that "
            "Retry-After names.",
            "Nothing was stored. Send the same request again, with the same reference.",
        ),
    }
)


def error_pages(error_docs_url: str) -> Mapping[str, ErrorPage]:
    """Return a page for each code, by the code: problems in the order of their precedence, then the
    codes of failed transactions. `error_docs_url` is the base of the `type` URIs in the examples.
    """
    pages = [_problem_page(cause, error_docs_url) for cause in PROBLEM_TYPES]
    pages += [_failure_page(code) for code in ErrorCode]
    return MappingProxyType({page.code: page for page in pages})


def _problem_page(problem_type: ProblemType, error_docs_url: str) -> ErrorPage:
    guidance = GUIDANCE[problem_type]
    return ErrorPage(
        code=problem_type.segment,
        title=problem_type.title,
        status=problem_type.status,
        meaning=guidance.meaning,
        who_acts=guidance.who_acts,
        advice=guidance.advice,
        example=example_problem(problem_type, error_docs_url),
    )


def example_problem(problem_type: ProblemType, error_docs_url: str) -> Mapping[str, Any]:
    """Return an example of the problem document of this type."""
    guidance = GUIDANCE[problem_type]
    problem = problem_type.problem(guidance.example, *guidance.fields)
    return problem_document(problem, error_docs_url, EXAMPLE_REQUEST_ID)


def _failure_page(code: ErrorCode) -> ErrorPage:
    explanation = EXPLANATIONS[code]
    example = {"status": "failed", "errorCode": code.value, "errorMessage": explanation.meaning}
    return ErrorPage(
        code=code.value,
        title="Failed payment",
        status=None,
        meaning=explanation.meaning,
        who_acts=explanation.who_acts,
        advice=explanation.advice,
        example=example,
    )
