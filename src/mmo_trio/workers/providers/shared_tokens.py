"""Lets the processes that serve one store use one token of an account.

Each new token may end the one before (Daraja's FAQ on authorization), so processes that sign in by
themselves would have each other's requests refused."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode

import structlog
from attrs import frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import (
    AccessToken,
    Finished,
    Provider,
    SignInFailed,
    SignsIn,
    resume,
)
from mmo_sansio.values.clock import Instant, Moment
from mmo_trio.brands.keyring import KeyRing, SealError
from mmo_trio.storage.interface.admin_types import NoteTopic, ProviderNote
from mmo_trio.storage.interface.store import log_store_failure
from mmo_trio.storage.sql.admin_store import AdminStore

logger = structlog.get_logger(__name__)


@frozen
class SharedTokens:
    """Keeps the answer to an account's last sign-in in the store, sealed for the request that it
    answers: with other credentials it can't be read."""

    store: AdminStore
    keyring: KeyRing
    provider: Provider

    async def read(self, scope: str) -> AccessToken | None:
        """Return the token that a process got last; None: there is none for these credentials, or
        the store fails."""
        signer = self.provider
        if not isinstance(signer, SignsIn):
            return None

        try:
            for note in await self.store.provider_notes(NoteTopic.SIGN_IN):
                if (note.provider, note.subject) == (self.provider.name, scope):
                    # The sign-in is played with the stored answer, as of then: nothing is sent. Its
                    # request names who may read the answer.
                    sign_in = signer.sign_in(scope, now=Moment.at(note.at))
                    answer = self.keyring.unseal_secret(
                        _owner(next(sign_in)), b64decode(note.content)
                    )
                    step = resume(sign_in, HttpResponse(200, (), answer))
                    if isinstance(step, Finished):
                        return step.result
                    return None
        except (SealError, SignInFailed):
            # Of other credentials, or of another master key: this process signs in by itself.
            pass
        except Exception as error:
            log_store_failure(logger, "token_unread", error)

        return None

    async def keep(
        self, scope: str, request: HttpRequest, answer: HttpResponse, *, now: Instant
    ) -> None:
        """Let every process use the token of this answer, unless the store fails."""
        sealed = b64encode(self.keyring.seal_secret(_owner(request), answer.body)).decode()
        try:
            await self.store.note_provider(
                ProviderNote(self.provider.name, NoteTopic.SIGN_IN, scope, now, sealed)
            )
        except Exception as error:
            log_store_failure(logger, "token_unshared", error)


def _owner(request: HttpRequest) -> str:
    """Return what an answer is sealed for: a digest, as the request holds the credentials."""
    return f"answer to {hashlib.sha256(repr(request).encode()).hexdigest()}"
