"""Checks who makes a request to the simulated Daraja, and rejects requests as Daraja does."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.mpesa_daraja.wire import password
from mmo_simulators.common.faults import RequestRejected
from mmo_simulators.common.messages import json_response
from mmo_simulators.operators.mpesa.accounts import (
    OPERATOR_STATE_CODES,
    SimulatedMpesaAccount,
    SimulatedMpesaAccounts,
)


class MpesaRequestRejected(RequestRejected):
    """A request is rejected as Daraja does."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.document = {"errorCode": code, "errorMessage": message}
        super().__init__(json_response(status, self.document))

    def with_request_id(self, id: str) -> HttpResponse:
        """Return the response that names the request by this id."""
        return json_response(self.status, {"requestId": id, **self.document})


def invalid_field(field: str) -> MpesaRequestRejected:
    """Return the rejection of a field."""
    return MpesaRequestRejected(400, "400.002.02", f"Bad Request - Invalid {field}")


def check_product(accounts: SimulatedMpesaAccounts, shortcode: str, version: int) -> None:
    """Raise MpesaRequestRejected where the app has another version of C2B for the shortcode."""
    account = accounts.accounts.get(shortcode)
    if account is not None and account.c2b_version not in (None, version):
        message = "Error Occurred: Invalid API call as no apiproduct match found"
        raise MpesaRequestRejected(401, "401.003.01", message)


def check_password(accounts: SimulatedMpesaAccounts, form: Mapping[str, str]) -> None:
    """Raise MpesaRequestRejected unless a push has the password of its shortcode."""
    account = accounts.accounts.get(form["BusinessShortCode"])
    if account is None or account.passkey is None:
        raise MpesaRequestRejected(500, "500.001.1001", "Merchant does not exist")
    if form["Password"] != password(account.id, account.passkey, form["Timestamp"]):
        raise MpesaRequestRejected(500, "500.001.1001", "Wrong credentials")


def find_organisation(
    accounts: SimulatedMpesaAccounts, form: Mapping[str, str], field: str = "PartyA"
) -> SimulatedMpesaAccount:
    """Return the organisation that pays or polls, whose shortcode is in this field. Raises
    MpesaRequestRejected."""
    account = accounts.accounts.get(form[field])
    if account is None or account.initiator is None:
        raise invalid_field(field)
    return account


def find_refusal(
    account: SimulatedMpesaAccount, name: str, plain: bytes | None, operation: str
) -> str | None:
    """Return the result code with which the account's initiator is refused this operation, by its
    name, its decrypted password and its roles; None when it may."""
    # Name and password are told together: neither is confirmed alone (assumed).
    if name != account.initiator or plain != (account.initiator_password or "").encode():
        return "2001"
    if account.roles is not None and operation not in account.roles:
        return "21"
    return OPERATOR_STATE_CODES[account.operator_state]


def check_grant_type(query: str) -> None:
    """Raise MpesaRequestRejected unless a token is requested with client credentials."""
    if parse_qs(query).get("grant_type") != ["client_credentials"]:
        raise MpesaRequestRejected(400, "400.008.02", "Invalid grant type passed")


def has_scheme(request: HttpRequest, scheme: bytes) -> bool:
    """Return whether a request has one Authorization, of this scheme, whose case does not matter
    (RFC 9110 11.1)."""
    values = request.values(b"authorization")
    # Two Authorizations could be read in two ways.
    return len(values) == 1 and values[0].partition(b" ")[0].lower() == scheme


def credentials(request: HttpRequest) -> bytes:
    """Return what follows the scheme of a request's Authorization."""
    return (request.value(b"authorization") or b"").partition(b" ")[2].strip()
