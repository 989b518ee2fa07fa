"""Provides an account with pawaPay, payments of it, and the examples of pawaPay's documentation,
byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from mmo_provider_pawapay import PAWAPAY, PawapayProvider
from mmo_provider_pawapay.adapter import open_pawapay

from mmo_sansio import Money, Transaction
from mmo_sansio.providers import AdapterContext, HttpRequest, HttpResponse, Stage, Type
from mmo_sansio.testing import START, a_party, a_transaction
from mmo_sansio.testing.adapter_conformance import TransparentCiphers

TOKEN: Final = "SECRET-api-token"
HOOKS_URL: Final = "https://pay.example/hooks/pawapay/0123abcd"
NAME: Final = "pawapay"
AMOUNT: Final = Money(1500, "ZMW")

EC_KEY: Final = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())
EC_PRIVATE_PEM: Final = EC_KEY.private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
).decode()


def public_pem(key: Any) -> str:
    """The public key of a private key, in PEM."""
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert isinstance(pem, bytes)
    return pem.decode()


def an_account(**options: Any) -> PawapayProvider:
    """An account in Zambia's market of MTN."""
    chosen = {"market": "MTN_MOMO_ZMB", "api_token": TOKEN, **options}
    return open_pawapay(
        NAME, PAWAPAY.title, chosen, AdapterContext(HOOKS_URL, TransparentCiphers())
    )


def a_payment(
    reference: str, type: Type = Type.PAYIN, amount: Money = AMOUNT, **members: Any
) -> Transaction:
    """A payment that is being submitted, with that gatewayReference."""
    members = {
        "stage": Stage.SUBMITTING,
        "submitted_at": START,
        "msisdn": "+260763456789",
        **members,
    }
    return a_transaction(
        members.pop("stage"),
        gateway_reference=reference,
        type=type,
        provider=NAME,
        country="ZM",
        requested=amount,
        party=a_party(msisdn=members.pop("msisdn")),
        **members,
    )


def answering(
    answer: HttpResponse | Exception, sent: list[HttpRequest]
) -> Callable[[HttpRequest], HttpResponse]:
    """An exchange that answers submissions and polls; the active configuration is not to be had."""

    def exchange(request: HttpRequest) -> HttpResponse:
        if b"/active-conf" in request.target:
            return HttpResponse(503)
        sent.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return exchange


# https://docs.pawapay.io/v2/docs/deposits and https://docs.pawapay.io/v2/docs/payouts
DEPOSIT_REQUEST: Final = """{
    "depositId": "afb57b93-7849-49aa-babb-4c3ccbfe3d79",
    "amount": "100",
    "currency": "RWF",
    "payer": {
        "type": "MMO",
        "accountDetails": {
            "phoneNumber": "250783456789",
            "provider": "MTN_MOMO_RWA"
        }
    }
}"""
PAYOUT_REQUEST: Final = """{
    "payoutId": "afb57b93-7849-49aa-babb-4c3ccbfe3d79",
    "amount": "100",
    "currency": "RWF",
    "recipient": {
        "type": "MMO",
        "accountDetails": {
            "phoneNumber": "250783456789",
            "provider": "MTN_MOMO_RWA"
        }
    }
}"""

INITIATED_ID: Final = "f4401bd2-1568-4140-bf2d-eb77d2b2b639"
# https://docs.pawapay.io/v2/api-reference/deposits/initiate-deposit
ACCEPTED: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "status": "ACCEPTED",
  "created": "2020-10-19T11:17:01Z"
}"""
DUPLICATE_IGNORED: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "status": "DUPLICATE_IGNORED",
  "created": "2020-10-19T11:17:01Z"
}"""
REJECTED: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "status": "REJECTED",
  "failureReason": {
    "failureCode": "INVALID_PHONE_NUMBER",
    "failureMessage": "The phone number '2607634' seems to be invalid for the provider 'MTN_MOMO_ZMB'."
  }
}"""  # noqa: E501
INVALID_INPUT: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "status": "REJECTED",
  "failureReason": {
    "failureCode": "INVALID_INPUT",
    "failureMessage": "We are unable to parse the body of the request."
  }
}"""
AUTHENTICATION_ERROR: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "status": "REJECTED",
  "failureReason": {
    "failureCode": "AUTHENTICATION_ERROR",
    "failureMessage": "The API token in the request is invalid."
  }
}"""
UNKNOWN_ERROR: Final = b"""{
  "depositId": "f4401bd2-1568-4140-bf2d-eb77d2b2b639",
  "failureReason": {
    "failureCode": "UNKNOWN_ERROR",
    "failureMessage": "Unable to process request due to an unknown problem."
  }
}"""

FOUND_ID: Final = "8917c345-4791-4285-a416-62f24b6982db"
# https://docs.pawapay.io/v2/api-reference/deposits/check-deposit-status; "phoneNUmber" is the
# documentation's own.
DEPOSIT_COMPLETED: Final = b"""{
  "status": "FOUND",
  "data": {
    "depositId": "8917c345-4791-4285-a416-62f24b6982db",
    "status": "COMPLETED",
    "amount": "123.00",
    "currency": "ZMW",
    "country": "ZMB",
    "payer": {
      "type": "MMO",
      "accountDetails": {
        "phoneNUmber": "260763456789",
        "provider": "MTN_MOMO_ZMB"
      }
    },
    "customerMessage": "To ACME company",
    "clientReferenceId": "REF-987654321",
    "created": "2020-10-19T08:17:01Z",
    "providerTransactionId": "12356789",
    "metadata": {
      "orderId": "ORD-123456789",
      "customerId": "customer@email.com"
    }
  }
}"""
# https://docs.pawapay.io/v2/api-reference/payouts/check-payout-status
PAYOUT_COMPLETED: Final = b"""{
"status": "FOUND",
"data": {
"payoutId": "8917c345-4791-4285-a416-62f24b6982db",
"status": "COMPLETED",
"amount": "123.00",
"currency": "ZMW",
"country": "ZMB",
"recipient": {
"type": "MMO",
"accountDetails": {
"phoneNumber": "260763456789",
"provider": "MTN_MOMO_ZMB"
}
},
"customerMessage": "From ACME company",
"created": "2020-10-19T08:17:01Z",
"providerTransactionId": "12356789",
"metadata": {
"orderId": "ORD-123456789",
"customerId": "customer@email.com"
}
}
}"""
DEPOSIT_FAILED: Final = b"""{
  "status": "FOUND",
  "data": {
    "depositId": "8917c345-4791-4285-a416-62f24b6982db",
    "status": "FAILED",
    "amount": "123.00",
    "currency": "ZMW",
    "country": "ZMB",
    "payer": {
      "type": "MMO",
      "accountDetails": {
        "phoneNumber": "260763456789",
        "provider": "MTN_MOMO_ZMB"
      }
    },
    "clientReferenceId": "REF-987654321",
    "customerMessage": "To ACME company",
    "created": "2020-10-19T08:17:01Z",
    "failureReason": {
      "failureCode": "PAYMENT_NOT_APPROVED",
      "failureMessage": "The customer did not approve the authorisation for this payment"
    },
    "metadata": {
      "orderId": "ORD-123456789",
      "customerId": "customer@email.com"
    }
  }
}"""
NOT_FOUND: Final = b"""{
  "status": "NOT_FOUND"
}"""

# https://docs.pawapay.io/v2/docs/signatures: a callback; the key is not published.
SIGNED_CALLBACK_HEADERS: Final = (
    (b"content-type", b"application/json; charset=UTF-8"),
    (
        b"content-digest",
        b"sha-512=:0ki7QBS/0MA424uwOq3k5HnJnL5SRkPjit12m0YMpd4JgWiMvm9+yNT3FunkpDaTSsKhTkliQwJlRw9bgsos9w==:",
    ),
    (b"signature-date", b"2024-05-02T16:45:51.131905Z"),
    (
        b"signature",
        b"sig-pp=:MEQCIHFvGCUgyxmmowMufO4Yk20pBs3JHRax81si2QZVi9ByAiBPpg1WBhQjZ6fmi3a/gKcWiQ73Qm9Ol35On3c4K/flew==:",
    ),
    (
        b"signature-input",
        b'sig-pp=("@method" "@authority" "@path" "signature-date" "content-digest" "content-type")'
        b';alg="ecdsa-p256-sha256";keyid="CUSTOMER_TEST_KEY";created=1714657551;expires=1714657611',
    ),
)
SIGNED_CALLBACK_BASE: Final = (
    b'"@method": POST\n'
    b'"@authority": localhost:8080\n'
    b'"@path": /callback\n'
    b'"signature-date": 2024-05-02T16:45:51.131905Z\n'
    b'"content-digest": sha-512=:'
    b"0ki7QBS/0MA424uwOq3k5HnJnL5SRkPjit12m0YMpd4JgWiMvm9+yNT3FunkpDaTSsKhTkliQwJlRw9bgsos9w==:\n"
    b'"content-type": application/json; charset=UTF-8\n'
    b'"@signature-params": ("@method" "@authority" "@path" "signature-date" "content-digest" '
    b'"content-type")'
    b';alg="ecdsa-p256-sha256";keyid="CUSTOMER_TEST_KEY";created=1714657551;expires=1714657611'
)

# https://docs.pawapay.io/v2/api-reference/toolkit/active-configuration
ACTIVE_CONFIGURATION: Final = """{
"companyName": "Merchant Inc.",
"signatureConfiguration": {
"signedRequestsOnly": true,
"signedCallbacks": true
},
"countries": [
{
"country": "BEN",
"displayName": {
"en": "Benin",
"fr": "Le Benin"
},
"prefix": "229",
"flag": "https://cdn.com/ben_flag.png",
"providers": [
{
"provider": "MTN_MOMO_BEN",
"displayName": "MTN",
"logo": "https://cdn.com/mtn_logo.png",
"nameDisplayedToCustomer": "Merchant Inc.",
"currencies": [
{
"currency": "XOF",
"displayName": "KSh",
"operationTypes": [
{
"DEPOSIT": {
"authType": "PROVIDER_AUTH",
"pinPrompt": "AUTOMATIC",
"pinPromptRevivable": true,
"pinPromptInstructions": {
"channels": [
{
"type": "USSD",
"displayName": {
"en": "Not getting the PIN prompt?",
"fr": "Not getting Le Pin prompt"
},
"quickLink": "tel*182*1*3%23",
"instructions": {
"en": [
{
"text": "Dial *182# on your phone",
"template": "Dial {{shortCode}} on your phone",
"variables": {
"shortCode": "*182#"
}
}
],
"fr": [
{
"text": "Composez *182# sur votre téléphone",
"template": "Composez {{shortCode}} sur votre téléphone",
"variables": {
"shortCode": "*182#"
}
}
]
}
}
]
},
"minTransactionLimit": "1",
"maxTransactionLimit": "1000",
"decimalsInAmount": "NONE",
"status": "OPERATIONAL",
"callbackUrl": "https://merchant.com/depositCallback"
}
},
{
"operationType": "PAYOUT",
"minTransactionLimit": "1",
"maxTransactionLimit": "1000",
"decimalsInAmount": "NONE",
"status": "DELAYED",
"callbackUrl": "https://merchant.com/payoutCallback"
},
{
"operationType": "REFUND",
"minTransactionLimit": "1",
"maxTransactionLimit": "1000",
"decimalsInAmount": "NONE",
"status": "CLOSED",
"callbackUrl": "https://merchant.com/refundCallback"
},
{
"operationType": "USSD_DEPOSIT",
"callbackUrl": "https://merchant.com/ussdCallback"
},
{
"operationType": "NAME_LOOKUP"
}
]
}
]
}
]
}
]
}""".encode()

# https://docs.pawapay.io/v2/api-reference/toolkit/availability
AVAILABILITY: Final = b"""[
  {
    "country": "GHA",
    "providers": [
      {
        "provider": "VODAFONE_GHA",
        "operationTypes": [
          {
            "operationType": "DEPOSIT",
            "status": "OPERATIONAL"
          },
          {
            "operationType": "PAYOUT",
            "status": "DELAYED"
          }
        ]
      },
      {
        "provider": "MTN_MOMO_GHA",
        "operationTypes": [
          {
            "operationType": "DEPOSIT",
            "status": "OPERATIONAL"
          },
          {
            "operationType": "PAYOUT",
            "status": "OPERATIONAL"
          }
        ]
      },
      {
        "provider": "AIRTELTIGO_GHA",
        "operationTypes": [
          {
            "operationType": "DEPOSIT",
            "status": "CLOSED"
          },
          {
            "operationType": "PAYOUT",
            "status": "DELAYED"
          }
        ]
      }
    ]
  },
  {
    "country": "ZMB",
    "providers": [
      {
        "provider": "MTN_MOMO_ZMB",
        "operationTypes": [
          {
            "operationType": "DEPOSIT",
            "status": "CLOSED"
          },
          {
            "operationType": "PAYOUT",
            "status": "OPERATIONAL"
          }
        ]
      },
      {
        "provider": "AIRTEL_OAPI_ZMB",
        "operationTypes": [
          {
            "operationType": "DEPOSIT",
            "status": "OPERATIONAL"
          },
          {
            "operationType": "PAYOUT",
            "status": "DELAYED"
          }
        ]
      }
    ]
  }
]"""

# https://docs.pawapay.io/v2/docs/failure_codes
FAILURE_CODES: Final = tuple(
    """
    NO_AUTHENTICATION AUTHENTICATION_ERROR AUTHORISATION_ERROR HTTP_SIGNATURE_ERROR INVALID_INPUT
    MISSING_PARAMETER UNSUPPORTED_PARAMETER INVALID_PARAMETER AMOUNT_OUT_OF_BOUNDS INVALID_AMOUNT
    INVALID_PHONE_NUMBER INVALID_CURRENCY INVALID_PROVIDER DUPLICATE_METADATA_FIELD
    DEPOSITS_NOT_ALLOWED PAYOUTS_NOT_ALLOWED REFUNDS_NOT_ALLOWED REMITTANCES_NOT_ALLOWED
    PROVIDER_TEMPORARILY_UNAVAILABLE INVALID_CALLBACK_URL INVALID_DATE_RANGE WALLET_NOT_FOUND
    NOT_FOUND INVALID_STATE PAYMENT_NOT_APPROVED INSUFFICIENT_BALANCE PAYMENT_IN_PROGRESS
    PAYER_NOT_FOUND PAYER_LIMIT_REACHED RECIPIENT_NOT_FOUND RECIPIENT_LIMIT_REACHED
    WALLET_LIMIT_REACHED MANUALLY_CANCELLED PAWAPAY_WALLET_OUT_OF_FUNDS AMOUNT_TOO_LARGE
    DEPOSIT_ALREADY_REFUNDED REFUND_IN_PROGRESS TRANSACTION_ALREADY_IN_PROCESS UNSPECIFIED_FAILURE
    UNKNOWN_ERROR
    """.split()  # noqa: SIM905 - a list of these would be a line for each.
)
"""Those of requests, then those of payments."""
