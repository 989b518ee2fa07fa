"""Provides a provider whose notifications and tokens a test writes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Factory, define

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import UnmatchedNotified
from mmo_sansio.providers.common.interface import (
    AccessToken,
    Conversation,
    ProviderNotification,
    SignIn,
    SignInFailed,
)
from mmo_sansio.providers.common.operations import DIRECT_PAYOUT, OperationKey, ProviderOperation
from mmo_sansio.providers.registry import AdapterContext, ProviderKind
from mmo_sansio.values.clock import MINUTE, Moment, Span, later
from mmo_sansio.values.model import Transaction

TOKEN_LIFE = Span(10 * MINUTE)


@define
class ScriptedProvider:
    """Signs in at `/token`, whose body is the token; everything else needs it."""

    name: str = "test"
    title: str = "Test Money"
    notification: ProviderNotification = Factory(lambda: UnmatchedNotified("test", "?"))
    operations: Mapping[OperationKey, ProviderOperation] = Factory(dict)
    sends_notifications_once: bool = False
    notified: list[bytes] = Factory(list)
    """The bodies of the notifications that were read."""

    def scope_of(self, request: HttpRequest) -> str | None:
        return None if request.target.endswith(b"/free") else "all"

    def sign_in(self, scope: str, *, now: Moment) -> SignIn:
        answer = yield HttpRequest("POST", b"https://operator.example/token")
        if answer.status != 200:
            raise SignInFailed(f"answered {answer.status}")
        return AccessToken(
            answer.body.decode(), issued_at=now.time, expires_at=later(now.time, TOKEN_LIFE)
        )

    def rejects_token(self, response: HttpResponse) -> bool:
        return response.status == 401

    def submit(self, transaction: Transaction, *, now: Moment) -> Conversation:
        raise NotImplementedError

    def poll(self, transaction: Transaction, *, now: Moment) -> Conversation:
        raise NotImplementedError

    def read_notification(self, request: HttpRequest) -> ProviderNotification:
        self.notified.append(request.body)
        return self.notification

    def answer_notification(self, request: HttpRequest, accepted: bool) -> HttpResponse:
        return HttpResponse(200, (), b"taken" if accepted else b"refused")


def _open_silent(
    name: str, title: str, options: Mapping[str, Any], context: AdapterContext
) -> ScriptedProvider:
    payout = ProviderOperation(
        is_idempotent=True,
        can_be_polled=True,
        not_found_is_final_after=MINUTE,
        poll_intervals=(MINUTE,),
    )
    return ScriptedProvider(name, title, operations={DIRECT_PAYOUT: payout})


SILENT = ProviderKind("Silent Money", _open_silent, ())
"""Pays out, and tells nothing of payees."""
