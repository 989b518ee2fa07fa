"""Simulates pawaPay: the Merchant API v2 of one account, with its wallets and callbacks.

    POST /v2/deposits, /v2/payouts, /v2/refunds      a submission
    GET  /v2/deposits/{id}, ...                      its status
    GET  /v2/active-conf, /v2/availability           what the account may do, and what works
    GET  /v2/wallet-balances, /v2/public-key/http    the account's money, the key of callbacks
    POST /v2/predict-provider                        of which provider a number probably is
    GET, POST /approve/{id}                          the operator's page, where its payers approve

Numbers of the operator's own sandbox mean what they mean there (`markets`); any other has a wallet.
A fault is planned `at` deposit, payout or refund (a submission), ask (a status), predict or account
(all else)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from attrs import Factory, define, field
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.money import Money
from mmo_simulators.common.faults import DroppedConnection, FaultScript, respond_with_faults
from mmo_simulators.common.messages import json_response, parse_json_object, path_and_query
from mmo_simulators.common.operator_routes import SimulatedCall, SimulatedRoute, match_route
from mmo_simulators.operators.pawapay.accounts import (
    CLOSED,
    COMPLETED,
    DELAYED,
    SimulatedPawapayAccounts,
    SimulatedPawapayPayment,
    payment_document,
    timestamp,
)
from mmo_simulators.operators.pawapay.approval_page import approval_page
from mmo_simulators.operators.pawapay.markets import (
    COUNTRIES,
    PROVIDERS,
    WALLETS,
    Authorisation,
    OperationType,
    SimulatedCountry,
    SimulatedProvider,
)
from mmo_simulators.operators.pawapay.request_checks import (
    Rejected,
    check_code,
    check_token,
    parse_amount,
    parse_party,
    parse_submission,
    predict_provider,
)
from mmo_simulators.operators.pawapay.signatures import (
    CALLBACK_KEY_ID,
    check_request_signature,
    sign_callback,
)

# The token of a simulator that was given no other.
API_TOKEN: Final = "simulated-pawapay-token"

COMPANY: Final = "Test Shop"
_SETTINGS: Final = {"callback_url", "signs_callbacks", "request_key"}

# How a payer gets a code; any but WRONG_CODE is taken.
_CODE_STEPS: Final = {
    "en": (
        "Dial *144*4*6*AMOUNT# on your phone.",
        "Confirm there with your PIN: a code comes by SMS.",
    ),
    "fr": ("Composez le *144*4*6*MONTANT# sur votre téléphone.", "Tapez votre code secret."),
}

PAGE_PATH: Final = "/approve/"
PROCESSING: Final = "PROCESSING"
HTML: Final = ((b"content-type", b"text/html; charset=utf-8"),)
JSON_UTF8: Final = ((b"content-type", b"application/json; charset=UTF-8"),)


@define(eq=False)
class PawapaySimulator:
    """Simulates pawaPay with one merchant."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    """Signs the callbacks."""
    api_token: str = field(default=API_TOKEN, repr=False)
    callback_url: str | None = None
    """Where callbacks are sent; None: none are."""
    signs_callbacks: bool = True
    request_key: ec.EllipticCurvePublicKey | None = None
    """The key that has to have signed submissions; None: they need no signature."""
    accounts: SimulatedPawapayAccounts = Factory(SimulatedPawapayAccounts)
    faults: FaultScript = Factory(FaultScript)
    _sent_callbacks: dict[HttpRequest, tuple[SimulatedPawapayPayment, int]] = Factory(dict)

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API."""
        # What has fallen due counts for this request, as no clock runs here.
        self.accounts.complete_due(now=now)
        path, _ = path_and_query(request)
        if path.startswith(PAGE_PATH):
            return self._page(request, path.removeprefix(PAGE_PATH), now=now)

        match = match_route(ROUTES, request.method, path)
        if match is None:
            return respond_with_faults(
                self.faults.take_matching("account"), lambda: json_response(404, {})
            )

        route, segments = match
        call = SimulatedCall(
            request, path, segments, self.faults.take_matching(route.operation), now
        )
        return respond_with_faults(call.faults, lambda: self._respond(route.handler, call))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the callbacks to send now."""
        self.accounts.complete_due(now=now)
        # Taken all the same: an address that is set later gets nothing of before.
        due = list(self.accounts.take_due_callbacks(now=now))
        return [
            self._callback(payment, vain, self.callback_url, now)
            for payment, vain in due
            if self.callback_url
        ]

    def next_due_at(self) -> Instant | None:
        """Return when the next result or callback is due."""
        return self.accounts.next_due_at()

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Send the callback again, for 15 minutes, unless the response is a 200."""
        payment, vain = self._sent_callbacks.pop(request, (None, 0))
        if payment is not None and (response is None or response.status != 200):
            self.accounts.call_back(payment, vain + 1, now=now)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open wallets, `{"account": "ZMB/ZMW", "balance": "100.00"}`, replace the settings of the
        dashboard, `{"account": "merchant", "callback_url", "signs_callbacks", "request_key"}`, and
        set what a provider can process, `{"account": "MTN_MOMO_ZMB", "DEPOSIT": "CLOSED"}`. Raises
        ValueError."""
        for account in accounts:
            match dict(account):
                case {"account": "merchant", **settings} if settings.keys() <= _SETTINGS:
                    self._apply_settings(**settings)
                case {"account": str(provider), **states} if provider in PROVIDERS:
                    for operation, status in states.items():
                        self.accounts.set_availability(provider, OperationType(operation), status)
                case {"account": str(wallet), "balance": str(balance)}:
                    self.accounts.open_wallet(wallet, balance)
                case _:
                    raise ValueError("account and balance must be text")

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance and every payment that was accepted."""
        return self.accounts.snapshot()

    def _apply_settings(
        self, callback_url: Any = None, signs_callbacks: Any = True, request_key: Any = None
    ) -> None:
        if not isinstance(callback_url, str | None) or not isinstance(request_key, str | None):
            raise ValueError("callback_url and request_key must be text or null")

        key = None
        if request_key is not None:
            key = load_pem_public_key(request_key.encode())

        if not isinstance(key, ec.EllipticCurvePublicKey | None):
            raise ValueError("request_key must be a public key of the curve P-256, in PEM")

        # All at once, after all are checked: a bad member changes nothing.
        self.callback_url = callback_url
        self.signs_callbacks = bool(signs_callbacks)
        self.request_key = key

    def _callback(
        self, payment: SimulatedPawapayPayment, vain: int, url: str, now: Instant
    ) -> HttpRequest:
        body = json_response(200, payment_document(payment, payment.result)).body
        request = HttpRequest("POST", url.encode(), JSON_UTF8, body)
        if self.signs_callbacks:
            # Each time anew: a signature lasts for a minute, and repetitions come later.
            request = sign_callback(request, self.key, now=now)
        self._sent_callbacks[request] = (payment, vain)
        return request

    def _page(self, request: HttpRequest, id: str, *, now: Instant) -> HttpResponse:
        """Show the operator's page, or take what the payer says there and lead him back."""
        payment = self.accounts.payments.get((OperationType.DEPOSIT, id))
        if payment is None or payment.page_url is None:
            return HttpResponse(404, HTML, b"<p>There is no such payment.")

        if request.method != "POST":
            is_open = payment.page_at(now) is not None
            return HttpResponse(200, HTML, approval_page(payment, is_open=is_open))

        is_approved = request.body == b"decision=approve"
        self.accounts.approve(payment, is_approved, now=now)

        # Wherever the merchant wants the payer to come back to; it proves nothing.
        back = payment.document.get("failedUrl")
        if is_approved:
            back = payment.document.get("successfulUrl")
        if back is None:
            return HttpResponse(200, HTML, b"<p>You can close this page.")

        return HttpResponse(303, ((b"location", back.encode()),))

    def _respond(self, handler: PawapayHandler, call: SimulatedCall) -> HttpResponse:
        """Return the response of a handler, or the rejection of the request, which repeats a
        submission's id."""
        try:
            check_token(call.request, self.api_token)
            return handler(self, call)
        except Rejected as rejected:
            return rejected.response(_submitted_id(call.request))

    def _submit(self, operation: OperationType, call: SimulatedCall) -> HttpResponse:
        # 1. Who asks: the token was checked before, the signature is of the body.
        if self.request_key is not None:
            try:
                check_request_signature(call.request, self.request_key, now=call.now)
            except ValueError as error:
                raise Rejected(
                    "HTTP_SIGNATURE_ERROR", f"The request could not be verified: {error}."
                ) from None

        # 2. A repetition: the first submission counts, whatever the second says.
        document = parse_submission(call.request, operation)
        id = document[operation.id_member].lower()
        known = self.accounts.payments.get((operation, id))
        if known is not None:
            return _initiation(known, "DUPLICATE_IGNORED")

        # 3. What it is about: a refund's party and currency are those of its deposit.
        refunded = None
        if operation is OperationType.REFUND:
            refunded, amount = self._find_refunded(document)
            country = refunded.country
            provider = refunded.provider
            msisdn = refunded.msisdn
        else:
            country, provider, msisdn = parse_party(document, operation)
            amount = parse_amount(document, country, provider, operation)

        if operation is OperationType.DEPOSIT:
            check_code(document, provider)

        ending = provider.test_outcomes(operation).get(msisdn, COMPLETED)
        payment = SimulatedPawapayPayment(
            operation=operation,
            id=id,
            country=country,
            provider=provider,
            msisdn=msisdn,
            amount=amount,
            document=document,
            created_at=call.now,
            ending=ending,
            refunded=refunded,
            page_url=_page_url(call.request, id, provider, operation),
        )

        # 4. Whether it can be processed: only money out can wait for a provider.
        is_deposit = operation is OperationType.DEPOSIT
        status = self.accounts.status_of(provider, operation)
        if status == CLOSED or (is_deposit and status == DELAYED):
            words = f"The provider '{provider.code}' is currently not able to process payments."
            raise Rejected("PROVIDER_TEMPORARILY_UNAVAILABLE", words)

        if not is_deposit and not self.accounts.has_funds_for(payment):
            raise Rejected("PAWAPAY_WALLET_OUT_OF_FUNDS", "The wallet does not have enough funds.")

        self.accounts.accept(payment, call.faults, now=call.now)
        return _initiation(payment, "ACCEPTED")

    def _find_refunded(self, document: Mapping[str, Any]) -> tuple[SimulatedPawapayPayment, Money]:
        """Return the deposit that is to be refunded, and how much of it: all that is left if
        nothing else is said."""
        deposit = self.accounts.payments.get((OperationType.DEPOSIT, document["depositId"].lower()))
        if deposit is None:
            raise Rejected("NOT_FOUND", "The deposit was not found.")
        if deposit.result != COMPLETED:
            raise Rejected("INVALID_STATE", "Only a completed deposit can be refunded.")

        refunds = list(self.accounts.refunds_of(deposit))
        if any(refund.result is None for refund in refunds):
            raise Rejected(
                "REFUND_IN_PROGRESS", "Another refund of this deposit is being processed."
            )

        # Parts of it may have been given back before.
        left = Money(
            deposit.amount.minor - sum(refund.amount.minor for refund in refunds),
            deposit.amount.currency,
        )
        if left.minor == 0:
            raise Rejected("DEPOSIT_ALREADY_REFUNDED", "The deposit has been refunded.")
        if "amount" not in document:
            return deposit, left

        members = {"currency": left.currency, **document}
        amount = parse_amount(members, deposit.country, deposit.provider, OperationType.REFUND)
        if amount.currency != left.currency:
            raise Rejected("INVALID_CURRENCY", f"The deposit is in {left.currency}.")
        if amount.minor > left.minor:
            raise Rejected("AMOUNT_TOO_LARGE", f"{left} of the deposit can be refunded.")

        return deposit, amount

    def _status(self, operation: OperationType, call: SimulatedCall) -> HttpResponse:
        payment = self.accounts.payments.get((operation, call.segments["id"].lower()))
        if payment is None:
            return json_response(200, {"status": "NOT_FOUND"})

        # What a script says to questions, while the callback says another thing.
        document = payment_document(payment, payment.polled_code or payment.result)
        own = {
            name: payment.document[name]
            for name in ("clientReferenceId",)
            if name in payment.document
        }
        if (page_url := payment.page_at(call.now)) is not None and document["status"] == PROCESSING:
            document |= {"nextStep": "REDIRECT_TO_AUTH_URL", "authorizationUrl": page_url}

        return json_response(200, {"status": "FOUND", "data": {**document, **own}})

    def _active_configuration(self, call: SimulatedCall) -> HttpResponse:
        signatures = {
            "signedRequestsOnly": self.request_key is not None,
            "signedCallbacks": self.signs_callbacks,
        }

        def describe(country: SimulatedCountry, provider: SimulatedProvider) -> dict[str, Any]:
            currencies = [
                {
                    "currency": currency,
                    "displayName": currency,
                    "operationTypes": {
                        operation: self._terms(country, provider, operation, currency)
                        for operation in _asked_operations(call)
                    },
                }
                for currency in country.limits
            ]
            return {
                "displayName": provider.name,
                "nameDisplayedToCustomer": COMPANY,
                "currencies": currencies,
            }

        countries = [
            {**described, "displayName": {"en": country.name}, "prefix": country.prefix}
            for country, described in _described(call, describe)
        ]
        document = {
            "companyName": COMPANY,
            "signatureConfiguration": signatures,
            "countries": countries,
        }
        return json_response(200, document)

    def _terms(
        self,
        country: SimulatedCountry,
        provider: SimulatedProvider,
        operation: OperationType,
        currency: str,
    ) -> dict[str, Any]:
        """Return the terms of an operation, as the active configuration says them."""
        decimals = "NONE"
        if provider.decimals(operation):
            decimals = "TWO_PLACES"

        least, greatest = country.limits[currency]
        terms = {
            "minAmount": least,
            "maxAmount": greatest,
            "decimalsInAmount": decimals,
            "status": self.accounts.status_of(provider, operation),
            "callbackUrl": self.callback_url,
        }

        # How a payer approves is said of deposits only: nobody approves what is paid out.
        if operation is OperationType.DEPOSIT:
            return {**_authorisation(provider), **terms}
        return terms

    def _availability(self, call: SimulatedCall) -> HttpResponse:
        def describe(_: SimulatedCountry, provider: SimulatedProvider) -> dict[str, Any]:
            states = [
                (asked_operation, self.accounts.status_of(provider, asked_operation))
                for asked_operation in _asked_operations(call)
            ]
            return {
                "operationTypes": [
                    {"operationType": operation, "status": status} for operation, status in states
                ]
            }

        return json_response(200, [described for _, described in _described(call, describe)])

    def _wallet_balances(self, call: SimulatedCall) -> HttpResponse:
        asked = [
            (country.code, currency)
            for country, currency in WALLETS
            if country in _asked_countries(call)
        ]
        texts = [
            (code, self.accounts.balance(code, currency).text, currency, "")
            for code, currency in asked
        ]
        balances = [
            dict(zip(("country", "balance", "currency", "provider"), text, strict=True))
            for text in texts
        ]
        return json_response(200, {"balances": balances})

    def _predict_provider(self, call: SimulatedCall) -> HttpResponse:
        return predict_provider(call.request)

    def _public_keys(self, call: SimulatedCall) -> HttpResponse:
        pem = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return json_response(200, [{"id": CALLBACK_KEY_ID, "key": pem.decode()}])


def open_pawapay() -> PawapaySimulator:
    """Return an operator with a fresh key."""
    return PawapaySimulator(ec.generate_private_key(ec.SECP256R1()))


def _initiation(payment: SimulatedPawapayPayment, status: str) -> HttpResponse:
    document = {
        payment.operation.id_member: payment.id,
        "status": status,
        "created": timestamp(payment.created_at),
    }
    # What comes next for a deposit: its result, or the address of the page (documented).
    if payment.operation is OperationType.DEPOSIT and status == "ACCEPTED":
        document["nextStep"] = "FINAL_STATUS"
        if payment.page_url is not None:
            document["nextStep"] = "GET_AUTH_URL"
    return json_response(200, document)


def _page_url(
    request: HttpRequest, id: str, provider: SimulatedProvider, operation: OperationType
) -> str | None:
    """Return the page of a deposit whose payer approves there, on the host that was asked; None for
    any other payment."""
    is_deposit = operation is OperationType.DEPOSIT
    if not is_deposit or provider.authorisation is not Authorisation.REDIRECT_AUTH:
        return None
    # Where the simulator was reached, as only there its page is served.
    target = urlsplit(request.target.decode("latin-1"))
    host = target.netloc or (request.value(b"host") or b"").decode("latin-1")
    return f"{target.scheme or 'http'}://{host}{PAGE_PATH}{id}"


def _authorisation(provider: SimulatedProvider) -> dict[str, Any]:
    """Return how payers of a provider approve, as the active configuration says it."""
    described: dict[str, Any] = {"authType": provider.authorisation}
    if provider.authorisation is Authorisation.PROVIDER_AUTH:
        described["pinPrompt"] = "AUTOMATIC"

    # Assumed: documented of prompts is this form, and of a code the name only.
    if provider.authorisation is Authorisation.PREAUTH:
        steps = {
            language: [{"text": text, "template": text, "variables": {}} for text in texts]
            for language, texts in _CODE_STEPS.items()
        }
        channel = {"type": "USSD", "displayName": {"en": "USSD"}, "instructions": steps}
        described["authTokenInstructions"] = {"channels": [channel]}

    return described


def _submitted_id(request: HttpRequest) -> dict[str, str]:
    """Return what stands before the reason of a rejection: of a submission its id, if that can be
    read."""
    operation = _OPERATIONS.get(path_and_query(request)[0])
    if operation is None or request.method != "POST":
        return {}

    try:
        id = parse_json_object(request.body).get(operation.id_member)
    except ValueError:
        id = None

    if id is None:
        return {"status": "REJECTED"}

    return {operation.id_member: str(id), "status": "REJECTED"}


_OPERATIONS: Final = {f"/v2/{operation.lower()}s": operation for operation in OperationType}


def _asked(call: SimulatedCall, name: str) -> str | None:
    return parse_qs(path_and_query(call.request)[1]).get(name, [None])[0]


def _asked_countries(call: SimulatedCall) -> Sequence[SimulatedCountry]:
    return [country for country in COUNTRIES if _asked(call, "country") in (None, country.code)]


def _asked_operations(call: SimulatedCall) -> Sequence[OperationType]:
    return [
        operation
        for operation in OperationType
        if _asked(call, "operationType") in (None, operation)
    ]


def _described(
    call: SimulatedCall, describe: Callable[[SimulatedCountry, SimulatedProvider], dict[str, Any]]
) -> Iterator[tuple[SimulatedCountry, dict[str, Any]]]:
    """Yield the countries that are asked for, each with its document and those of its providers."""
    for country in _asked_countries(call):
        providers = [
            {"provider": provider.code, **describe(country, provider)}
            for provider in country.providers
        ]
        yield country, {"country": country.code, "providers": providers}


PawapayHandler: TypeAlias = Callable[[PawapaySimulator, SimulatedCall], HttpResponse]


def _submission_of(operation: OperationType) -> PawapayHandler:
    return lambda simulator, call: simulator._submit(operation, call)


def _status_of(operation: OperationType) -> PawapayHandler:
    return lambda simulator, call: simulator._status(operation, call)


# All that is offered.
ROUTES: Final[tuple[SimulatedRoute[PawapayHandler], ...]] = (
    *(
        SimulatedRoute(operation.lower(), "POST", path, _submission_of(operation))
        for path, operation in _OPERATIONS.items()
    ),
    *(
        SimulatedRoute("ask", "GET", f"{path}/{{id}}", _status_of(operation))
        for path, operation in _OPERATIONS.items()
    ),
    SimulatedRoute("account", "GET", "/v2/active-conf", PawapaySimulator._active_configuration),
    SimulatedRoute("predict", "POST", "/v2/predict-provider", PawapaySimulator._predict_provider),
    SimulatedRoute("account", "GET", "/v2/availability", PawapaySimulator._availability),
    SimulatedRoute("account", "GET", "/v2/wallet-balances", PawapaySimulator._wallet_balances),
    SimulatedRoute("account", "GET", "/v2/public-key/http", PawapaySimulator._public_keys),
)
