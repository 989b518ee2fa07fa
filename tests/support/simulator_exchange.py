"""Connects an adapter to an operator's simulator, in virtual time and without sockets, with tokens
and lost answers."""

from __future__ import annotations

from attrs import Factory, define, evolve

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages.inputs import ProviderReport
from mmo_sansio.providers.common.interface import (
    AccessToken,
    ExchangeFailed,
    Provider,
    SignInFailed,
    SignsIn,
    drive,
)
from mmo_sansio.values.clock import Instant, Moment
from mmo_sansio.values.model import Transaction
from mmo_simulators.common.faults import DroppedConnection, Fault, PlannedFault
from mmo_simulators.common.simulator import Simulator


@define
class SimulatorAccount:
    """Acts as the shell's account for an adapter."""

    provider: Provider
    simulator: Simulator
    now: Instant
    tokens: dict[str, AccessToken] = Factory(dict)
    requests: list[HttpRequest] = Factory(list)
    """The sent requests, without tokens."""

    def submit(self, transaction: Transaction) -> ProviderReport:
        """Run the conversation of a submission."""
        return drive(self.provider.submit(transaction, now=Moment.at(self.now)), self.exchange)

    def poll(self, transaction: Transaction) -> ProviderReport:
        """Run the conversation of a poll."""
        return drive(self.provider.poll(transaction, now=Moment.at(self.now)), self.exchange)

    def plan(self, at: str, *faults: Fault) -> None:
        """Let these faults happen to the next requests of an operation."""
        self.simulator.faults.plan([PlannedFault(at, fault) for fault in faults])

    def balances(self) -> dict[str, str]:
        """The balances in the simulator's book, by account."""
        return {each["account"]: each["balance"] for each in self.simulator.snapshot()["accounts"]}

    def exchange(self, request: HttpRequest) -> HttpResponse:
        """Send a request with its token, and once more with a new one if that is refused."""
        self.requests.append(request)
        answer = self._send(self.sign(request))
        scope, signer = self._scope_of(request), self.provider
        if scope is not None and isinstance(signer, SignsIn) and signer.rejects_token(answer):
            self.tokens.pop(scope, None)
            answer = self._send(self.sign(request))
        return answer

    def sign(self, request: HttpRequest) -> HttpRequest:
        """The request with its token; one that isn't fresh is fetched anew."""
        scope = self._scope_of(request)
        if scope is None:
            return request
        token = self.tokens.get(scope)
        if token is None or not token.is_fresh(self.now):
            token = self.tokens[scope] = self._sign_in(scope)
        bearer = (b"authorization", b"Bearer " + token.value.encode())
        return evolve(request, headers=(bearer, *request.headers))

    def _scope_of(self, request: HttpRequest) -> str | None:
        signer = self.provider
        return signer.scope_of(request) if isinstance(signer, SignsIn) else None

    def _sign_in(self, scope: str) -> AccessToken:
        assert isinstance(self.provider, SignsIn)
        conversation = self.provider.sign_in(scope, now=Moment.at(self.now))
        try:
            return drive(conversation, self._send)
        except (SignInFailed, ExchangeFailed) as failure:
            raise ExchangeFailed(failure.reason, may_have_arrived=False) from None

    def _send(self, request: HttpRequest) -> HttpResponse:
        answer = self.simulator.handle_request(request, now=self.now)
        if isinstance(answer, DroppedConnection):
            raise ExchangeFailed("The connection was closed.", may_have_arrived=True)
        return answer
