"""Creates payments and sends them at once: the commit that creates a payment also records its submission.

A payment that waits for nothing would otherwise be recorded twice before its request leaves. A conversation with the
provider is reserved before the commit, so that a payment on record as submitted never waits for one. When the process
dies after the commit, the provider is polled, as after any submission of which nothing is known (S6); when the outcome
of the commit is unknown, nothing was sent, and that is recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import evolve, frozen

from mmo_sansio.messages.inputs import CreatePayment
from mmo_sansio.messages.replies import Accepted, Reply
from mmo_sansio.values.clock import MonotonicInstant
from mmo_sansio.values.model import Operation
from mmo_trio.storage.interface.store import StoreUnavailable
from mmo_trio.workers.providers.worker import ProviderWorker


@frozen
class PaymentCreator:
    """Passes creations to the engine, for a store that this process has to itself."""

    submit: Callable[[CreatePayment, MonotonicInstant], Awaitable[Reply]]
    worker: ProviderWorker

    def create(self, input_: CreatePayment, received_at: MonotonicInstant) -> Awaitable[Reply]:
        """Return the reply to a creation whose request was read at that time since the machine started, once it is
        durable, and begin its submission where a conversation is free. Raises what `Engine.submit` does."""
        provider = _provider_of(input_)
        if provider is None:
            return self.submit(input_, received_at)
        return self._create_and_send(input_, provider, received_at)

    async def _create_and_send(self, input_: CreatePayment, provider: str, received_at: MonotonicInstant) -> Reply:
        reference, operation = input_.gateway_reference, input_.draft.operation
        if not self.worker.try_reserve(reference, provider, (operation.type, operation.flow)):
            return await self.submit(input_, received_at)
        try:
            reply = await self.submit(evolve(input_, reserved_provider=provider), received_at)
        except StoreUnavailable:
            raise
        except BaseException:  # It may be durable.
            self.worker.report_unsent(reference, provider)
            raise
        else:
            if isinstance(reply, Accepted) and reply.submitted is not None:
                self.worker.send_reserved(reply.submitted)
            return reply
        finally:
            self.worker.release(reference, provider)


def _provider_of(input_: CreatePayment) -> str | None:
    """Return the provider that the payment is sent to at once; None when its payer is to act first, or the brand does
    not have its method."""
    draft = input_.draft
    if draft.operation is Operation.WEB_PAYIN:
        return None
    for each in input_.brand.methods:
        if each.key == draft.method and each.country == draft.country and draft.operation in each.operations:
            return each.provider
    return None
