"""The simulated Wave does what its documentation says, and takes nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.testing import START
from mmo_sansio.values.clock import DAY, MINUTE, SECOND, Instant, Span, later
from mmo_simulators.common.faults import (
    CallBack,
    DroppedConnection,
    EndAfter,
    EndWith,
    Fault,
    LoseAnswer,
    PlannedFault,
)
from mmo_simulators.operators.wave.api import API_KEY, PAYER, WEBHOOK_SECRET, WaveSimulator
from mmo_simulators.operators.wave.signatures import HEADER, sign
from tests.support.answer_rows import Row, check_answer, read_rows
from tests.support.bodies import changed_body, documented, read_bodies

HOOK = "https://gw.example/hooks/wave/token"
SESSION: Mapping[str, Any] = documented("wave", "session_request")
PAYOUT: Mapping[str, Any] = documented("wave", "payout_request")
FATOU = {"account": "+221555110219", "name": "Fatou Ndiaye"}
KEY = {"authorization": f"Bearer {API_KEY}"}


@define(eq=False)
class Merchant:
    """Uses the API, and its payers their page."""

    simulator: WaveSimulator = Factory(lambda: WaveSimulator(webhook_url=HOOK))
    now: Instant = START

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = KEY,
    ) -> HttpResponse | DroppedConnection:
        fields = tuple((name.encode(), value.encode()) for name, value in headers.items())
        request = HttpRequest(method, path.encode(), fields, body)
        return self.simulator.handle_request(request, now=self.now)

    def ask(
        self, method: str, path: str, document: object = None, **headers: str
    ) -> tuple[int, Any]:
        """The status of an answer, and its document."""
        body = b"" if document is None else json.dumps(document).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.send(method, path, body, {**KEY, **named})
        assert isinstance(answer, HttpResponse)
        return answer.status, json.loads(answer.body) if answer.body else None

    def session(self, **members: Any) -> dict[str, Any]:
        status, session = self.ask("POST", "/v1/checkout/sessions", {**SESSION, **members})
        assert status == 200, session
        return dict(session)

    def look(self, id: str) -> dict[str, Any]:
        status, session = self.ask("GET", f"/v1/checkout/sessions/{id}")
        assert status == 200
        return dict(session)

    def approve(self, id: str, mobile: str = PAYER) -> HttpResponse:
        """Press the button of the payer's page."""
        answer = self.send("POST", f"/c/{id}", f"mobile={mobile.replace('+', '%2B')}".encode(), {})
        assert isinstance(answer, HttpResponse)
        return answer

    def pay_out(self, key: str = "k1", **members: Any) -> tuple[int, Any]:
        return self.ask("POST", "/v1/payout", {**PAYOUT, **members}, idempotency_key=key)

    def wait(self, span: int) -> list[HttpRequest]:
        """The webhooks that are sent until then."""
        self.now = later(self.now, Span(span))
        return list(self.simulator.take_due_callbacks(now=self.now))

    def plan(self, operation: str, *faults: Fault) -> None:
        self.simulator.faults.plan([PlannedFault(operation, fault) for fault in faults])

    def balances(self) -> dict[str, int]:
        rows = self.simulator.snapshot()["accounts"]
        return {row["account"]: int(row["balance"]) for row in rows}


def event_of(request: HttpRequest) -> dict[str, Any]:
    return dict(json.loads(request.body))


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("requests.txt")))
def test_requests(row: Row) -> None:
    merchant = Merchant()
    merchant.simulator.open_accounts([{**FATOU, "balance": "0"}])
    body = changed_body(read_bodies("wave"), row.answer, {})
    headers = {name: value for name, value in {**KEY, **row.members}.items() if value}
    answer = merchant.send("POST", f"/v1/{row.operation}", body, headers)
    assert isinstance(answer, HttpResponse)
    check_answer(row, answer)
    assert merchant.simulator.snapshot()["payments"] == []


class TestKeys:
    def test_a_key_that_demands_signatures_takes_signed_requests_only(self) -> None:
        merchant = Merchant(WaveSimulator(signing_secret="S"))
        body = json.dumps(SESSION).encode()
        signed = sign(body, ["S"], now=START).decode()
        old = sign(body, ["S"], now=Instant(START - 301 * SECOND)).decode()
        for signature, status in ((None, 401), ("x", 401), (old, 401), (signed, 200)):
            headers = KEY if signature is None else {**KEY, HEADER.decode(): signature}
            answer = merchant.send("POST", "/v1/checkout/sessions", body, headers)
            assert isinstance(answer, HttpResponse)
            assert answer.status == status


class TestSessions:
    def test_a_session_is_answered_as_in_the_documentation(self) -> None:
        session = Merchant().session()
        assert session == {
            **SESSION,
            "id": session["id"],
            "checkout_status": "open",
            "payment_status": "processing",
            "last_payment_error": None,
            "business_name": "Test Shop",
            "wave_launch_url": f"https://pay.wave.com/c/{session['id']}?a=1000&c=XOF&m=Test+Shop",
            "when_created": "2026-09-21T14:13:20Z",
            "when_expires": "2026-09-21T14:43:20Z",
            "when_completed": None,
        }

    def test_a_session_twice_is_two_sessions_which_a_search_finds(self) -> None:
        merchant = Merchant()
        ids = [merchant.session()["id"], merchant.session()["id"]]
        assert len(set(ids)) == 2
        path = "/v1/checkout/sessions/search?client_reference"
        status, found = merchant.ask("GET", f"{path}=order-42")
        assert (status, [each["id"] for each in found["result"]]) == (200, ids)
        assert merchant.ask("GET", f"{path}=another") == (200, {"result": []})

    def test_a_payer_pays_at_the_page_and_is_sent_back(self) -> None:
        merchant = Merchant()
        id = merchant.session()["id"]
        opening = merchant.balances()["wallet"]
        answer = merchant.approve(id)
        assert (answer.status, answer.value(b"location")) == (303, b"https://example.com/success")
        session = merchant.look(id)
        assert (session["checkout_status"], session["payment_status"]) == ("complete", "succeeded")
        assert session["when_completed"] == "2026-09-21T14:13:20Z"
        assert merchant.balances()["wallet"] == opening + 1000
        assert merchant.approve(id).value(b"location") == b"https://example.com/error"
        assert merchant.balances()["wallet"] == opening + 1000
        found = merchant.ask(
            "GET", f"/v1/checkout/sessions?transaction_id={session['transaction_id']}"
        )
        assert found == (200, session)

    def test_a_failed_attempt_leaves_it_open(self) -> None:
        merchant = Merchant()
        merchant.simulator.open_accounts([{"account": PAYER, "balance": "999"}])
        id = merchant.session()["id"]
        assert merchant.approve(id).value(b"location") == b"https://example.com/error"
        session = merchant.look(id)
        assert session["checkout_status"] == "open"
        assert session["last_payment_error"]["code"] == "insufficient-funds"
        merchant.simulator.open_accounts([{"account": PAYER, "balance": "1000"}])
        merchant.approve(id)
        assert merchant.look(id)["payment_status"] == "succeeded"
        events = [event_of(each)["type"] for each in merchant.wait(SECOND)]
        assert events == ["checkout.session.payment_failed", "checkout.session.completed"]

    def test_only_the_named_number_may_pay_a_restricted_session(self) -> None:
        merchant = Merchant()
        id = merchant.session(restrict_payer_mobile="+221770000000")["id"]
        merchant.approve(id, PAYER)
        assert merchant.look(id)["last_payment_error"]["code"] == "payer-mobile-mismatch"
        merchant.approve(id, "+221770000000")
        assert merchant.look(id)["payment_status"] == "succeeded"

    def test_it_expires_after_half_an_hour(self) -> None:
        merchant = Merchant()
        id = merchant.session()["id"]
        merchant.now = later(START, Span(30 * MINUTE - SECOND))
        assert merchant.look(id)["checkout_status"] == "open"
        merchant.now = later(START, Span(30 * MINUTE))
        session = merchant.look(id)
        assert (session["checkout_status"], session["payment_status"]) == ("expired", "cancelled")
        assert merchant.approve(id).value(b"location") == b"https://example.com/error"
        assert merchant.look(id) == session

    def test_a_payer_may_go_back_and_pay_later(self) -> None:
        merchant = Merchant()
        id = merchant.session()["id"]
        answer = merchant.send("POST", f"/c/{id}", b"decision=decline", {})
        assert isinstance(answer, HttpResponse)
        assert answer.value(b"location") == b"https://example.com/error"
        assert merchant.look(id)["payment_status"] == "processing"
        merchant.approve(id)
        assert merchant.look(id)["payment_status"] == "succeeded"

    def test_it_is_expired_once_and_never_after_it_was_paid(self) -> None:
        merchant = Merchant()
        paid, unpaid = merchant.session()["id"], merchant.session()["id"]
        merchant.approve(paid)
        answers = [
            merchant.ask("POST", f"/v1/checkout/sessions/{id}/expire")[0]
            for id in (unpaid, unpaid, paid, "cos-unknown")
        ]
        assert answers == [200, 409, 409, 404]
        assert merchant.look(unpaid)["checkout_status"] == "expired"
        assert merchant.look(paid)["checkout_status"] == "complete"

    def test_payers_may_approve_by_themselves(self) -> None:
        merchant = Merchant()
        merchant.plan("checkout", EndAfter(Span(5 * SECOND)))
        id = merchant.session()["id"]
        (paid,) = merchant.wait(5 * SECOND)
        assert event_of(paid)["data"] == merchant.look(id)
        merchant.plan("checkout", EndWith("blocked-account"))
        id = merchant.session()["id"]
        (failed,) = merchant.wait(5 * SECOND)
        assert event_of(failed)["type"] == "checkout.session.payment_failed"
        assert merchant.look(id)["last_payment_error"]["code"] == "blocked-account"


class TestRefunds:
    def test_a_refund_is_made_once_however_often_it_is_asked_for(self) -> None:
        merchant = Merchant()
        id = merchant.session()["id"]
        opening = merchant.balances()["wallet"]
        path = f"/v1/checkout/sessions/{id}/refund"
        assert merchant.ask("POST", path)[1]["code"] == "checkout-refund-failed"
        merchant.approve(id)
        receipt = merchant.look(id)["transaction_id"]
        assert [merchant.ask("POST", path) for _ in range(2)] == [(200, None)] * 2
        assert merchant.ask("POST", f"/v1/transactions/{receipt}/refund") == (200, None)
        assert merchant.balances()["wallet"] == opening
        status, listed = merchant.ask("GET", "/v1/transactions?date=2026-09-21")
        assert status == 200
        assert [
            (each["transaction_id"], each["amount"], each.get("is_reversal"))
            for each in listed["items"]
        ] == [(receipt, "1000", None), (receipt, "-1000", True)]

    def test_the_list_has_pages_and_days(self) -> None:
        merchant = Merchant()
        for number in range(120):
            assert merchant.pay_out(f"k{number}", receive_amount="1")[0] == 200
        first = merchant.ask("GET", "/v1/transactions?date=2026-09-21")[1]
        cursor = first["page_info"]["end_cursor"]
        second = merchant.ask("GET", f"/v1/transactions?date=2026-09-21&after={cursor}")[1]
        assert (len(first["items"]), len(second["items"])) == (100, 20)
        assert second["page_info"]["has_next_page"] is False
        assert merchant.ask("GET", "/v1/transactions?date=2026-09-20")[1]["items"] == []
        assert merchant.ask("GET", "/v1/transactions?date=x")[0] == 400


class TestPayouts:
    def test_a_pay_out_is_answered_as_in_the_documentation(self) -> None:
        merchant = Merchant()
        opening = merchant.balances()["wallet"]
        status, payout = merchant.pay_out()
        told = {"id": payout["id"], "fee": "0", "name": None, "status": "succeeded"}
        assert status == 200
        assert payout == {**PAYOUT, **told, "timestamp": "2026-09-21T14:13:20Z"}
        assert merchant.balances()["wallet"] == opening - 1000
        assert merchant.ask("GET", f"/v1/payout/{payout['id']}") == (200, payout)
        found = merchant.ask("GET", "/v1/payouts/search?client_reference=invoice-7")
        assert found == (200, {"result": [payout]})

    def test_the_same_key_pays_once_and_gives_the_first_answer(self) -> None:
        merchant = Merchant()
        merchant.plan("payout", LoseAnswer())
        sent = json.dumps(PAYOUT).encode()
        assert isinstance(
            merchant.send("POST", "/v1/payout", sent, {**KEY, "idempotency-key": "k"}),
            DroppedConnection,
        )
        first = merchant.pay_out("k")
        opening = merchant.balances()["wallet"]
        assert merchant.pay_out("k") == first
        assert merchant.balances()["wallet"] == opening == 10_000_000 - 1000
        status, refusal = merchant.pay_out("k", receive_amount="2000")
        assert (status, refusal["code"]) == (422, "idempotency-mismatch")

    def test_a_lack_of_money_is_refused_at_once(self) -> None:
        merchant = Merchant()
        merchant.simulator.open_accounts([{"account": "wallet", "balance": "999"}])
        status, refusal = merchant.pay_out()
        assert (status, refusal["code"]) == (422, "insufficient-funds")
        assert merchant.balances()["wallet"] == 999

    def test_one_may_be_processed_for_a_while_and_fail_then(self) -> None:
        merchant = Merchant()
        merchant.plan("payout", EndAfter(Span(MINUTE)), EndWith("recipient-minor"))
        payout = merchant.pay_out()[1]
        assert payout["status"] == "processing"
        merchant.now = later(START, MINUTE)
        ended = merchant.ask("GET", f"/v1/payout/{payout['id']}")[1]
        assert (ended["status"], ended["payout_error"]["error_code"]) == (
            "failed",
            "recipient-minor",
        )

    def test_it_is_reversed_within_three_days(self) -> None:
        merchant = Merchant()
        payout = merchant.pay_out()[1]
        path = f"/v1/payout/{payout['id']}/reverse"
        assert [merchant.ask("POST", path)[0] for _ in range(2)] == [200, 200]
        assert merchant.balances()["wallet"] == 10_000_000
        late = merchant.pay_out("k2")[1]
        merchant.now = later(START, Span(4 * DAY))
        assert merchant.ask("POST", f"/v1/payout/{late['id']}/reverse")[0] == 422


class TestWebhooks:
    def test_a_webhook_is_signed_over_its_time_and_body(self) -> None:
        merchant = Merchant()
        merchant.approve(merchant.session()["id"])
        (webhook,) = merchant.wait(SECOND)
        assert webhook.target == HOOK.encode()
        assert webhook.value(HEADER) == sign(webhook.body, [WEBHOOK_SECRET], now=merchant.now)
        assert event_of(webhook)["type"] == "checkout.session.completed"

    def test_it_has_several_signatures_while_keys_rotate(self) -> None:
        merchant = Merchant(WaveSimulator(webhook_url=HOOK, webhook_secrets=("old", "new")))
        merchant.approve(merchant.session()["id"])
        (webhook,) = merchant.wait(SECOND)
        assert (webhook.value(HEADER) or b"").count(b"v1=") == 2

    @pytest.mark.parametrize("status", [None, 301, 500])
    def test_one_without_a_2xx_is_sent_again_for_three_days(self, status: int | None) -> None:
        merchant = Merchant()
        merchant.approve(merchant.session()["id"])
        times = 0
        while (due := merchant.simulator.next_due_at()) is not None:
            merchant.now = due
            for webhook in merchant.simulator.take_due_callbacks(now=due):
                times += 1
                answer = None if status is None else HttpResponse(status)
                merchant.simulator.on_callback_response(webhook, answer, now=due)
        assert times == 7
        assert merchant.now - START > 3 * DAY

    def test_one_that_is_taken_is_not(self) -> None:
        merchant = Merchant()
        merchant.approve(merchant.session()["id"])
        (webhook,) = merchant.wait(SECOND)
        merchant.simulator.on_callback_response(webhook, HttpResponse(204), now=merchant.now)
        assert merchant.simulator.next_due_at() is None

    def test_one_may_come_twice_or_never(self) -> None:
        merchant = Merchant()
        merchant.plan("checkout", CallBack((Span(0), Span(SECOND))))
        merchant.approve(merchant.session()["id"])
        assert len(merchant.wait(SECOND)) == 2
        merchant.plan("checkout", CallBack(()))
        merchant.approve(merchant.session()["id"])
        assert merchant.wait(DAY) == []


@pytest.mark.parametrize(
    "account",
    [
        {"account": 7, "balance": "1"},
        {"account": "merchant", "webhook_url": 7},
        {"account": "merchant", "webhook_secrets": [7]},
        {"account": "merchant", "payers_act_after_s": "soon"},
        {"account": "merchant", "unknown": 1},
        {"account": PAYER, "balance": "many"},
    ],
)
def test_an_account_of_the_wrong_form_is_refused(account: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|number|amount"):
        WaveSimulator().open_accounts([account])


def test_what_is_not_offered_is_not_found() -> None:
    assert Merchant().ask("GET", "/v1/payout-batch/pb-1")[0] == 404
