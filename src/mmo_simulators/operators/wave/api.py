"""Simulates Wave: the Business API of one wallet, the page of its payers, and its webhooks.

    POST /v1/checkout/sessions                          a session
    GET  /v1/checkout/sessions/{id}, ?transaction_id=, /search?client_reference=
    POST /v1/checkout/sessions/{id}/expire, /refund
    POST /v1/payout, /v1/payout/{id}/reverse            a pay-out
    GET  /v1/payout/{id}, /v1/payouts/search?client_reference=
    GET  /v1/balance, /v1/transactions?date=            the wallet's money
    POST /v1/verify_recipient/                          whether a name is a wallet's
    GET, POST /c/{id}                                   where the payer approves

A payer approves at the page, by `decision=approve&mobile=%2B221...`; without a number it is the one
that the session is restricted to. A fault is planned `at` checkout, payout or refund (a
submission), expire, ask (a question about one) or account (all else). `end_after` has the payer of
a session approve by himself, and a pay-out be processed for so long; `end_with` has each attempt,
or the pay-out, fail with a code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from html import escape
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs, urlencode

from attrs import Factory, define, evolve, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Span, later, to_datetime
from mmo_simulators.common.faults import (
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    FaultScript,
    find_fault,
    respond_with_faults,
)
from mmo_simulators.common.messages import JSON_HEADERS, json_response, path_and_query
from mmo_simulators.common.operator_routes import SimulatedCall, SimulatedRoute, match_route
from mmo_simulators.common.simulator import DueQueue, earliest
from mmo_simulators.operators.wave.request_checks import (
    PAYOUT_MEMBERS,
    SESSION_MEMBERS,
    check_key,
    parse_amount,
    parse_document,
    rejected,
)
from mmo_simulators.operators.wave.signatures import HEADER, check_signature, sign
from mmo_simulators.operators.wave.wallets import (
    BUSINESS_NAME,
    WALLET,
    SimulatedPayout,
    SimulatedSession,
    SimulatedWallets,
)

# The key and the secret of a simulator that was given no others.
API_KEY: Final = "wave_sn_prod_simulated-key"
WEBHOOK_SECRET: Final = "wave_sn_WHS_simulated-secret"

# Where payers are sent by answers that came over no socket, as in tests.
PAYER_ORIGIN: Final = "https://pay.wave.com"

# Who pays a session by himself that is restricted to nobody.
PAYER: Final = "+221761110000"

# How long a payer takes who approves by himself.
APPROVAL_DELAY: Final = Span(2 * SECOND)

# How long after a webhook without a 2xx the next one is sent: for three days in all.
REPETITION_DELAYS: Final = tuple(
    Span(delay) for delay in (0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 2 * DAY)
)

# How many transactions are on a page of their list.
PAGE_ITEMS: Final = 100

# The codes that a pay-out is refused with at once.
REFUSED_WITH_422: Final = frozenset(
    {
        "insufficient-funds",
        "recipient-minor",
        "recipient-account-blocked",
        "recipient-account-inactive",
        "recipient-limit-exceeded",
    }
)

_SETTINGS: Final = {"webhook_url", "webhook_secrets", "signing_secret", "payers_act_after_s"}


@frozen(eq=False)
class _Webhook:
    session: SimulatedSession
    body: bytes
    vain: int = 0
    """How many attempts to send it were in vain before this one."""


@define(eq=False)
class WaveSimulator:
    """Simulates Wave with one merchant."""

    api_key: str = field(default=API_KEY, repr=False)
    webhook_url: str | None = None
    """Where webhooks are sent; None: none are."""
    webhook_secrets: Sequence[str] = field(default=(WEBHOOK_SECRET,), repr=False)
    """What webhooks are signed with: several while keys rotate."""
    signing_secret: str | None = field(default=None, repr=False)
    """What requests have to be signed with; None: they need no signature."""
    payers_act_after: Span | None = None
    """After how long payers approve by themselves; None: at the page only."""
    wallets: SimulatedWallets = Factory(SimulatedWallets)
    faults: FaultScript = Factory(FaultScript)
    _answers: dict[str, tuple[bytes, HttpResponse]] = Factory(dict)
    """The first answer to each Idempotency-Key, with the body of its request."""
    _attempts: DueQueue[SimulatedSession] = Factory(DueQueue)
    _pending_payouts: DueQueue[SimulatedPayout] = Factory(DueQueue)
    _webhooks: DueQueue[_Webhook] = Factory(DueQueue)
    _sent: dict[HttpRequest, _Webhook] = Factory(dict)
    """Those without a response, by their requests."""
    _events: int = 0

    def handle_request(
        self, request: HttpRequest, *, now: Instant
    ) -> HttpResponse | DroppedConnection:
        """Return the response to a request of its API, or of a payer."""
        # What has fallen due counts for this request, as no clock runs here.
        self._complete_due(now=now)
        path, _ = path_and_query(request)
        match = match_route(ROUTES, request.method, path)
        if match is None:
            faults = self.faults.take_matching("account")
            return respond_with_faults(faults, lambda: _not_found("resource"))

        route, segments = match
        faults = self.faults.take_matching(route.operation)
        call = SimulatedCall(request, path, segments, faults, now)
        return respond_with_faults(faults, lambda: self._respond(route, call))

    def take_due_callbacks(self, *, now: Instant) -> Sequence[HttpRequest]:
        """Return the webhooks to send now."""
        self._complete_due(now=now)
        due = [webhook for _, webhook in self._webhooks.take_due(now=now)]
        # Taken all the same: an address that is set later gets nothing of before.
        if self.webhook_url is None:
            return []
        return [self._send_webhook(self.webhook_url, webhook, now=now) for webhook in due]

    def next_due_at(self) -> Instant | None:
        """Return when the next attempt, result or webhook is due."""
        return earliest(
            self._attempts.next_due_at(),
            self._pending_payouts.next_due_at(),
            self._webhooks.next_due_at(),
        )

    def on_callback_response(
        self, request: HttpRequest, response: HttpResponse | None, *, now: Instant
    ) -> None:
        """Send the webhook again, for three days, unless the response is a 2xx."""
        webhook = self._sent.pop(request, None)
        if webhook is None or (response is not None and 200 <= response.status < 300):
            return

        vain = webhook.vain + 1
        if vain < len(REPETITION_DELAYS):
            at = later(now, REPETITION_DELAYS[vain])
            self._webhooks.schedule(evolve(webhook, vain=vain), at=at)

    def open_accounts(self, accounts: Sequence[Mapping[str, Any]]) -> None:
        """Open wallets, `{"account": "+221761110000", "balance": "100"}` or `"wallet"`, also with
        the `"name"` of who has it, and replace the settings of the portal, `{"account": "merchant",
        "webhook_url", "webhook_secrets", "signing_secret", "payers_act_after_s"}`. Raises
        ValueError."""
        for account in accounts:
            match dict(account):
                case {"account": "merchant", **settings} if settings.keys() <= _SETTINGS:
                    self._apply_settings(**settings)
                case {"account": str(holder), "balance": str(balance)}:
                    self.wallets.open_wallet(holder, balance)
                    if isinstance(name := account.get("name"), str):
                        self.wallets.names[holder] = name
                case _:
                    raise ValueError("account and balance must be text")

    def snapshot(self) -> Mapping[str, Any]:
        """Return every balance, session, pay-out and refund."""
        return self.wallets.snapshot()

    def _apply_settings(
        self,
        webhook_url: Any = None,
        webhook_secrets: Any = (WEBHOOK_SECRET,),
        signing_secret: Any = None,
        payers_act_after_s: Any = None,
    ) -> None:
        texts = (webhook_url, signing_secret)
        if not all(text is None or isinstance(text, str) for text in texts):
            raise ValueError("webhook_url and signing_secret must be text or null")
        if not all(isinstance(secret, str) for secret in webhook_secrets):
            raise ValueError("webhook_secrets must be texts")
        if not isinstance(payers_act_after_s, int | float | None):
            raise ValueError("payers_act_after_s must be a number or null")

        # All at once, after all are checked: a bad member changes nothing.
        self.webhook_url = webhook_url
        self.signing_secret = signing_secret
        self.webhook_secrets = tuple(webhook_secrets)
        self.payers_act_after = None
        if payers_act_after_s is not None:
            self.payers_act_after = Span(round(payers_act_after_s * SECOND))

    def _complete_due(self, *, now: Instant) -> None:
        """Let payers approve who do so by themselves, and end what is due."""
        for at, session in self._attempts.take_due(now=now):
            # A session may have ended before this payer came.
            self.wallets.expire_due(now=at)
            if session.is_open:
                payer = session.document.get("restrict_payer_mobile") or PAYER
                self._attempt(session, payer, now=at)
        for at, payout in self._pending_payouts.take_due(now=now):
            self.wallets.pay_out(payout, now=at)
        self.wallets.expire_due(now=now)

    def _attempt(self, session: SimulatedSession, payer: str, *, now: Instant) -> None:
        self.wallets.attempt(session, payer, now=now)
        kind = "payment_failed"
        if session.transaction_id:
            kind = "completed"

        self._events += 1
        event = {
            "id": f"EV_{self._events:012d}",
            "type": f"checkout.session.{kind}",
            "data": session.describe(),
        }
        # As it is at this moment: a webhook that is repeated says what the first one said.
        body = json_response(200, event).body
        for delay in session.callback_delays:
            self._webhooks.schedule(_Webhook(session, body), at=later(now, delay))

    def _send_webhook(self, url: str, webhook: _Webhook, *, now: Instant) -> HttpRequest:
        signature = (HEADER, sign(webhook.body, self.webhook_secrets, now=now))
        request = HttpRequest("POST", url.encode(), (*JSON_HEADERS, signature), webhook.body)
        webhook.session.webhook_count += 1
        self._sent[request] = webhook
        return request

    def _respond(self, route: SimulatedRoute[WaveHandler], call: SimulatedCall) -> HttpResponse:
        # A payer at the page has no key.
        if route.operation != "page":
            check_key(call.request, self.api_key)
            if self.signing_secret is not None:
                try:
                    check_signature(call.request, self.signing_secret, now=call.now)
                except ValueError as error:
                    raise rejected(401, "invalid-auth", str(error)) from None
        return route.handler(self, call)

    def _create_session(self, call: SimulatedCall) -> HttpResponse:
        document = parse_document(call.request, SESSION_MEMBERS)
        amount = parse_amount(document, "amount", self.wallets.currency)
        id = f"cos-{len(self.wallets.sessions) + 1:013d}"
        shown = urlencode({"a": document["amount"], "c": amount.currency, "m": BUSINESS_NAME})
        session = SimulatedSession(
            id, document, amount, f"{_payer_origin(call.request)}/c/{id}?{shown}", call.now
        )

        # 1. What a script says of this session.
        scripted = find_fault(EndWith, call.faults)
        if scripted is not None:
            session.scripted_code = scripted.code

        callback = find_fault(CallBack, call.faults)
        if callback is not None:
            session.callback_delays = callback.after

        self.wallets.sessions[id] = session

        # 2. When its payer acts: at the page, unless a script or the settings say otherwise.
        acts_after = self.payers_act_after
        delayed = find_fault(EndAfter, call.faults)
        if delayed is not None:
            acts_after = delayed.span
        elif scripted is not None:
            acts_after = acts_after or APPROVAL_DELAY

        if acts_after is not None:
            self._attempts.schedule(session, at=later(call.now, acts_after))

        return json_response(200, session.describe())

    def _session(self, call: SimulatedCall) -> HttpResponse:
        return json_response(200, self._session_named(call).describe())

    def _session_by_transaction(self, call: SimulatedCall) -> HttpResponse:
        asked = _asked(call, "transaction_id")
        for session in self.wallets.sessions.values():
            if asked is not None and session.transaction_id == asked:
                return json_response(200, session.describe())
        return _not_found("checkout-session")

    def _search_sessions(self, call: SimulatedCall) -> HttpResponse:
        return _search(call, [session.describe() for session in self.wallets.sessions.values()])

    def _expire(self, call: SimulatedCall) -> HttpResponse:
        session = self._session_named(call)
        if not session.is_open:
            words = f"The session is {session.checkout_status}."
            raise rejected(409, "checkout-session-not-open", words)
        self.wallets.expire(session, at=call.now)
        return HttpResponse(200)

    def _refund(self, call: SimulatedCall) -> HttpResponse:
        return self._give_back(self._session_named(call), call)

    def _refund_transaction(self, call: SimulatedCall) -> HttpResponse:
        for session in self.wallets.sessions.values():
            if session.transaction_id == call.segments["id"]:
                return self._give_back(session, call)
        return _not_found("transaction")

    def _give_back(self, session: SimulatedSession, call: SimulatedCall) -> HttpResponse:
        scripted = find_fault(EndWith, call.faults)
        if scripted is not None:
            code: str | None = scripted.code
        else:
            code = self.wallets.refund(session, now=call.now)

        if code is not None:
            raise rejected(400, code, "The payment can't be refunded.")
        return HttpResponse(200)

    def _pay_out(self, call: SimulatedCall) -> HttpResponse:
        key = (call.request.value(b"idempotency-key") or b"").decode("latin-1")
        if not key:
            detail = {"loc": ["Idempotency-Key"], "msg": "field required"}
            raise rejected(400, "request-validation-error", "Request invalid", detail)

        # The same answer for the same key, also a refusal (assumed, from docs.wave.com/payout).
        if key in self._answers:
            body, answer = self._answers[key]
            if body != call.request.body:
                words = "The key was used with another body."
                raise rejected(422, "idempotency-mismatch", words)

            return answer

        answer = self._first_answer(call)
        self._answers[key] = (call.request.body, answer)
        return answer

    def _first_answer(self, call: SimulatedCall) -> HttpResponse:
        document = parse_document(call.request, PAYOUT_MEMBERS)
        amount = parse_amount(document, "receive_amount", self.wallets.currency)

        # 1. Why it fails, if it does: as a script says, or for want of money.
        code = None
        scripted = find_fault(EndWith, call.faults)
        if scripted is not None:
            code = scripted.code

        if code is None and self.wallets.balance(WALLET).minor < amount.minor:
            code = "insufficient-funds"

        # 2. Refused at once where nothing delays it; otherwise it fails later, with the same code.
        delayed = find_fault(EndAfter, call.faults)
        if delayed is None and code in REFUSED_WITH_422:
            return rejected(422, code, code.replace("-", " ").capitalize()).response

        # 3. Taken: it ends at once, later, or, by a delay without a span, never.
        id = f"pt-{len(self.wallets.payouts) + 1:013d}"
        payout = SimulatedPayout(id, document, amount, call.now, code)
        self.wallets.payouts[id] = payout
        if delayed is None:
            self.wallets.pay_out(payout, now=call.now)
        elif delayed.span is not None:
            self._pending_payouts.schedule(payout, at=later(call.now, delayed.span))

        return json_response(200, payout.describe())

    def _payout(self, call: SimulatedCall) -> HttpResponse:
        payout = self.wallets.payouts.get(call.segments["id"])
        if payout is None:
            return _not_found("payout")
        return json_response(200, payout.describe())

    def _search_payouts(self, call: SimulatedCall) -> HttpResponse:
        return _search(call, [payout.describe() for payout in self.wallets.payouts.values()])

    def _reverse(self, call: SimulatedCall) -> HttpResponse:
        payout = self.wallets.payouts.get(call.segments["id"])
        if payout is None:
            return _not_found("payout")
        code = self.wallets.reverse(payout, now=call.now)
        if code is not None:
            raise rejected(422, code, "The pay-out can't be reversed.")
        return HttpResponse(200)

    def _verify_recipient(self, call: SimulatedCall) -> HttpResponse:
        document = parse_document(call.request, ("mobile",))
        known = self.wallets.names.get(document["mobile"])
        name = document.get("name")

        # As people write it: capitals make no difference (assumed).
        match = "NAME_NOT_KNOWN"
        if known is not None and name is not None:
            match = "NO_MATCH"
            if known.casefold() == name.casefold():
                match = "MATCH"

        return json_response(200, {"within_limits": True, "name_match": match})

    def _balance(self, call: SimulatedCall) -> HttpResponse:
        balance = self.wallets.balance(WALLET)
        return json_response(200, {"amount": balance.text, "currency": balance.currency})

    def _transactions(self, call: SimulatedCall) -> HttpResponse:
        text = _asked(call, "date") or to_datetime(call.now).date().isoformat()
        after = _asked(call, "after") or "0"
        try:
            begin, day = int(after), date.fromisoformat(text)
        except ValueError:
            detail = {"loc": ["date"], "msg": "invalid value"}
            raise rejected(400, "request-validation-error", "Request invalid", detail) from None

        # A cursor is the number of items before it, as text: no client may count on that.
        items = list(self.wallets.transactions_of(day))
        end = begin + PAGE_ITEMS
        start_cursor = None
        if begin:
            start_cursor = after

        pages = {
            "start_cursor": start_cursor,
            "end_cursor": str(end),
            "has_next_page": end < len(items),
        }
        return json_response(200, {"page_info": pages, "date": text, "items": items[begin:end]})

    def _page(self, call: SimulatedCall) -> HttpResponse:
        """Return the page at which a payer approves."""
        session = self._session_named(call)
        number = session.document.get("restrict_payer_mobile") or PAYER
        sentence = f"{BUSINESS_NAME} asks for {session.amount}: {session.checkout_status}."
        form = (
            f'<form method="post"><label>Number <input name="mobile" value="{escape(number)}">'
            '</label> <button name="decision" value="approve">Pay</button>'
            ' <button name="decision" value="decline">Back</button></form>'
        )
        page = f"<!doctype html><title>Wave</title><p>{escape(sentence)}</p>"
        if session.is_open:
            page += form
        return _html(200, page)

    def _approve(self, call: SimulatedCall) -> HttpResponse:
        """Let a payer try to pay, or go back, and send him to the merchant."""
        session = self._session_named(call)
        form = parse_qs(call.request.body.decode("ascii", "replace"))
        payer = form.get("mobile", [session.document.get("restrict_payer_mobile") or PAYER])[0]
        tries = session.is_open and form.get("decision") != ["decline"]
        if tries:
            self._attempt(session, payer, now=call.now)
        # To the merchant in either case; where to says what has come of it, and proves nothing.
        back = session.document["error_url"]
        if tries and session.transaction_id is not None:
            back = session.document["success_url"]
        return HttpResponse(303, ((b"location", back.encode()),))

    def _session_named(self, call: SimulatedCall) -> SimulatedSession:
        session = self.wallets.sessions.get(call.segments["id"])
        if session is None:
            raise rejected(404, "checkout-session-not-found", "The session was not found.")
        return session


def _payer_origin(request: HttpRequest) -> str:
    """Return where payers are sent: to Wave, unless the request came to a socket of this
    machine."""
    host = request.value(b"host")
    if host is None:
        return PAYER_ORIGIN
    return f"http://{host.decode('latin-1')}"


def _asked(call: SimulatedCall, name: str) -> str | None:
    return parse_qs(path_and_query(call.request)[1]).get(name, [None])[0]


def _search(call: SimulatedCall, documents: Sequence[Mapping[str, Any]]) -> HttpResponse:
    asked = _asked(call, "client_reference")
    if asked is None:
        detail = {"loc": ["client_reference"], "msg": "field required"}
        raise rejected(400, "request-validation-error", "Request invalid", detail)
    matching = [document for document in documents if document["client_reference"] == asked]
    return json_response(200, {"result": matching})


def _not_found(what: str) -> HttpResponse:
    return json_response(404, {"code": f"{what}-not-found", "message": "It was not found."})


def _html(status: int, page: str) -> HttpResponse:
    return HttpResponse(status, ((b"content-type", b"text/html; charset=utf-8"),), page.encode())


WaveHandler: TypeAlias = Callable[[WaveSimulator, SimulatedCall], HttpResponse]
_SESSIONS: Final = "/v1/checkout/sessions"

# All that is offered.
ROUTES: Final[tuple[SimulatedRoute[WaveHandler], ...]] = (
    SimulatedRoute("checkout", "POST", _SESSIONS, WaveSimulator._create_session),
    SimulatedRoute("ask", "GET", _SESSIONS, WaveSimulator._session_by_transaction),
    SimulatedRoute("ask", "GET", f"{_SESSIONS}/search", WaveSimulator._search_sessions),
    SimulatedRoute("ask", "GET", f"{_SESSIONS}/{{id}}", WaveSimulator._session),
    SimulatedRoute("expire", "POST", f"{_SESSIONS}/{{id}}/expire", WaveSimulator._expire),
    SimulatedRoute("refund", "POST", f"{_SESSIONS}/{{id}}/refund", WaveSimulator._refund),
    SimulatedRoute("payout", "POST", "/v1/payout", WaveSimulator._pay_out),
    SimulatedRoute("ask", "GET", "/v1/payouts/search", WaveSimulator._search_payouts),
    SimulatedRoute("ask", "GET", "/v1/payout/{id}", WaveSimulator._payout),
    SimulatedRoute("account", "POST", "/v1/payout/{id}/reverse", WaveSimulator._reverse),
    SimulatedRoute("account", "POST", "/v1/verify_recipient/", WaveSimulator._verify_recipient),
    SimulatedRoute("account", "GET", "/v1/balance", WaveSimulator._balance),
    SimulatedRoute("account", "GET", "/v1/transactions", WaveSimulator._transactions),
    SimulatedRoute(
        "refund", "POST", "/v1/transactions/{id}/refund", WaveSimulator._refund_transaction
    ),
    SimulatedRoute("page", "GET", "/c/{id}", WaveSimulator._page),
    SimulatedRoute("page", "POST", "/c/{id}", WaveSimulator._approve),
)
