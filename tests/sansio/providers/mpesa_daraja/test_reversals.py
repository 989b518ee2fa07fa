"""M-Pesa's reversals: what is sent, what answers and results come to, by the bodies of M-Pesa's own
pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.messages.reversals import (
    ReversalAccepted,
    ReversalFailed,
    ReversalSucceeded,
    ReversalUnreachable,
)
from mmo_sansio.providers.common.interface import AccountFinding, AccountState
from mmo_sansio.providers.common.operations import DIRECT_PAYIN, PUSH, QR_PAYIN, WEB_PAYIN
from mmo_sansio.providers.mpesa_daraja.callback_url import MpesaCallbackKind
from mmo_sansio.providers.mpesa_daraja.reversals import REFUSALS
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import HOUR, SECOND, Moment
from mmo_sansio.values.model import Source, Stage
from mmo_sansio.values.money import Money
from tests.sansio.providers.mpesa_daraja.test_adapter import (
    OPTIONS,
    PAGE,
    RECEIPT,
    adapter,
    callback,
    payment,
    to,
)
from tests.support.bodies import documented
from tests.support.reversals import a_reversal, json_answer, reversal_report

PAYMENT = payment(stage=Stage.SUCCEEDED, provider_reference=RECEIPT)
ID = f"{REFERENCE}-1"
TAKEN = documented("mpesa_daraja", "reversal_taken")
CONVERSATION = TAKEN["OriginatorConversationID"]
AT_RESULT = to(MpesaCallbackKind.REVERSAL_RESULT, reference=ID, version=1, receipt=RECEIPT)


DONE = documented("mpesa_daraja", "reversed")


def refused(code: object) -> dict[str, Any]:
    """The unsuccessful callback of M-Pesa's page."""
    found: dict[str, Any] = documented("mpesa_daraja", "reversal_refused", ResultCode=code)
    return found


def told(url: str, document: object) -> object:
    return adapter().read_notification(callback(url, document))


@pytest.mark.spec("S6")
def test_a_reversal_is_what_the_page_on_reversals_shows() -> None:
    conversation = adapter().reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START))
    report, (request,) = reversal_report(conversation, json_answer(200, TAKEN))
    assert report == ReversalAccepted(ID, "kenya", Source.POLL, CONVERSATION, version=1)
    assert request.target == b"https://sandbox.safaricom.co.ke/mpesa/reversal/v1/request"
    document = json.loads(request.body)
    assert (
        document.pop("QueueTimeOutURL").rpartition("/")[0]
        == document["ResultURL"].rpartition("/")[0]
    )
    assert told(document.pop("ResultURL"), DONE) == ReversalSucceeded(
        ID, "kenya", Source.WEBHOOK, "SKE52PAWR9", Money(15_000, "KES"), version=1
    )
    assert document == {
        "Initiator": OPTIONS["initiator"],
        "SecurityCredential": document["SecurityCredential"],
        "CommandID": "TransactionReversal",
        "TransactionID": RECEIPT,
        "Amount": 150,
        "ReceiverParty": 174379,
        "RecieverIdentifierType": "11",
        "Remarks": ID,
    }


def test_all_that_was_paid_to_the_shortcode_can_be_reversed_and_whole() -> None:
    operations = adapter().reversal_operations
    assert operations.keys() == {DIRECT_PAYIN, WEB_PAYIN, QR_PAYIN, PUSH}
    assert not any(each.can_be_partial for each in operations.values())
    other_shortcode = adapter(deposits="trust", payout_shortcode="600997", merchant_name=None)
    assert other_shortcode.reversal_operations == {}


@pytest.mark.spec("S5")
@pytest.mark.parametrize("code", sorted(REFUSALS))
@pytest.mark.parametrize("as_number", [False, True])
def test_each_documented_refusal_ends_a_reversal(code: str, as_number: bool) -> None:
    given: object = int(code) if as_number and code.isdigit() else code
    assert told(AT_RESULT, refused(given)) == ReversalFailed(
        ID,
        "kenya",
        Source.WEBHOOK,
        REFUSALS[code],
        code,
        lacks_float=code == "1",
        version=1,
    )


def test_the_page_has_each_refusal() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    listed = {
        code.strip("` "): row[0] for row in rows if len(row) == 2 for code in row[1].split(",")
    }
    assert listed.items() >= REFUSALS.items()


@pytest.mark.spec("S5")
def test_a_result_at_an_address_that_is_not_ours_is_not_read() -> None:
    forged = f"{AT_RESULT.rpartition('/')[0]}/{'00' * 60}"
    assert isinstance(told(forged, DONE), UnmatchedNotified)


@pytest.mark.spec("S6")
def test_a_reversal_is_asked_about_by_daraja_s_id_and_answered_by_a_callback() -> None:
    known = a_reversal(PAYMENT, provider_reference=CONVERSATION, is_accepted=True)
    request = next(adapter().poll_reversal(known, PAYMENT, now=Moment.at(START)))
    document = json.loads(request.body)
    assert request.target.endswith(b"/mpesa/transactionstatus/v1/query")
    assert (document["OriginalConversationID"], document["PartyA"]) == (CONVERSATION, 174379)
    assert "TransactionID" not in document
    state = documented("mpesa_daraja", "reversal_state")
    assert told(document["ResultURL"], state) == ReversalSucceeded(
        ID, "kenya", Source.POLL, "SKE52PAWR9", Money(15_000, "KES"), version=1
    )
    unclear = documented("mpesa_daraja", "reversal_state", TransactionStatus=None)
    found = told(document["ResultURL"], unclear)
    assert isinstance(found, ReversalUnreachable)
    assert found.poll_after == HOUR


@pytest.mark.spec("S5", "S6")
def test_what_proves_nothing_is_asked_about_a_second_later() -> None:
    waits = to(MpesaCallbackKind.REVERSAL_QUEUE_TIMEOUT, reference=ID, version=1)
    for url, document, known_as in (
        (AT_RESULT, refused("17"), "3124-481d-b706-10bdd6fbc8e21792398"),
        (waits, {}, None),
    ):
        assert told(url, document) == ReversalAccepted(
            ID, "kenya", Source.WEBHOOK, known_as, SECOND, version=1
        )


def test_results_of_reversals_tell_of_their_own_role() -> None:
    provider = adapter()
    request = next(provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START)))
    url = json.loads(request.body)["ResultURL"]

    def finding(document: object) -> AccountFinding:
        found = provider.read_finding(callback(url, document))
        assert found is not None
        return found

    lacking = finding(refused("21"))
    assert (lacking.part, lacking.state) == ("reversals", AccountState.REFUSED)
    assert "Org Reversals Initiator" in lacking.words
    works = finding(DONE)
    assert (works.part, works.state) == ("reversals", AccountState.WORKS)
    assert lacking.stopped_credential == finding(refused("2001")).stopped_credential == ""


def test_the_credential_of_a_reversal_is_known() -> None:
    provider = adapter()
    request = next(provider.reverse(a_reversal(PAYMENT), PAYMENT, now=Moment.at(START)))
    assert provider.credential_of(request) == provider.account.reverser.credential != ""
