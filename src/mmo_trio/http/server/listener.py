"""The listener of the merchant API: accepts connections, holds a conversation on each, and drains.

It stays up when descriptors run out, keeps the caps on connections, and ends in one of two ways:
cancelled, all connections break off; told to drain, it answers what it has begun."""

from __future__ import annotations

import errno
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Final

import trio
from attrs import field, frozen

from mmo_sansio.values.problems import UNAVAILABLE
from mmo_trio.http.handler import Service
from mmo_trio.http.limits import ListenerLimits
from mmo_trio.http.request_metrics import Traffic
from mmo_trio.http.responses import answer_bytes
from mmo_trio.http.server.connection import Conversation, House
from mmo_trio.http.server.connection_table import Census
from mmo_trio.http.streams import LingeringStream

logger = logging.getLogger(__name__)

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of accept() that pass when something is closed; every other one is a fault of ours."""
PAUSE_S: Final = 0.1
"""How long accepting rests then; the waiting connections stay in the kernel's queue."""
FAREWELLS_MOST: Final = 64
"""Connections above the limit that are told so at one time; the rest of a flood is closed without a
word."""

FULL: Final = UNAVAILABLE.problem("Too many connections are open; send the request again soon.")


async def serve_http(
    service: Service,
    listeners: Sequence[trio.SocketListener],
    *,
    limits: ListenerLimits,
    error_docs_url: str,
    mint_request_id: Callable[[], str],
    drain: trio.Event,
    patience_s: Callable[[], float] = lambda: 0.0,
    tls: Callable[[], ssl.SSLContext] | None = None,
    traffic: Traffic | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `drain` is set and the requests in flight are answered, or
    `limits.drain_timeout_s` is over.

    Owns the listeners: they are closed when accepting ends, so that another process that holds the
    same sockets gets all new connections. `tls` is asked for its context at every connection, so a
    renewed certificate needs no restart; None serves in the clear. `mint_request_id` gives each
    request its id. `patience_s` is asked when it drains: so long an idle connection is left, for
    a client that sends just then would find it closed. Its next answer is its last in any case.
    `traffic` counts requests and tells refusals; None: only faults are told."""
    census = Census(limits)
    house = House(
        service,
        limits,
        census,
        error_docs_url,
        mint_request_id,
        drain,
        tls,
        traffic or Traffic(tells_refusals=False),
    )
    async with trio.open_nursery() as conversations:
        entrance = _Entrance(house, conversations)
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(entrance.accept_from, listener)
            task_status.started()
            await drain.wait()
            accepting.cancel_scope.cancel()
        now = trio.current_time()
        census.send_idle_away(now + patience_s())
        conversations.cancel_scope.deadline = now + limits.drain_timeout_s


@frozen
class _Entrance:
    """Where connections come in."""

    house: House
    conversations: trio.Nursery
    farewells: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(FAREWELLS_MOST))

    async def accept_from(self, listener: trio.SocketListener) -> None:
        """Accept until cancelled, then close the listener; survives a want of descriptors."""
        async with listener:
            while True:
                try:
                    self._let_in(await listener.accept())
                except OSError as error:
                    if error.errno not in OUT_OF_RESOURCES:
                        raise
                    logger.warning("accepting rests: %s", errno.errorcode[error.errno])
                    self.house.census.run_short()
                    await trio.sleep(PAUSE_S)

    def _let_in(self, accepted: trio.SocketStream) -> None:
        transport = LingeringStream(accepted.socket)
        client = transport.peer_address()
        census = self.house.census
        if client is None:
            transport.close()
        elif census.has_room_for(client):
            conversation = Conversation(self.house, transport, client)
            census.enter(conversation)
            self.conversations.start_soon(conversation.run)
        elif self.house.tls is None and self.farewells.available_tokens:
            self.farewells.acquire_on_behalf_of_nowait(transport)
            self.conversations.start_soon(self._say_farewell, transport, client)
        else:
            transport.close()

    async def _say_farewell(self, transport: LingeringStream, client: str) -> None:
        """Tell a client that there is no room; its request is not read, so nothing of it was stored
        (P5)."""
        context = self.house.context(client)
        self.house.traffic.refused(context, FULL)
        self.house.traffic.answered(context, FULL.status, 0.0)
        answer = answer_bytes(
            self.house.refusal(FULL, context), request_id=context.request_id, connection=b"close"
        )
        try:
            with trio.move_on_after(self.house.limits.linger_timeout_s):
                await transport.send_all(answer)
                await transport.aclose()
        except trio.BrokenResourceError:
            pass
        finally:
            transport.close()
            self.farewells.release_on_behalf_of(transport)
