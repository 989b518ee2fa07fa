"""What the store uses of psycopg beyond its documentation. No other module may: each minor release
of psycopg may change it, so only known ones are used.

- `AsyncConnection.wait` runs a generator that yields what it waits for and is sent what is ready.
  psycopg calls it wherever an open connection waits for its server.
- `error_from_result` makes an exception of a result, and `Transformer` reads the rows of one.
- psycopg has no SQLSTATE of a connection that was never made, only the server's sentence in the
  server's language. libpq gives the SQLSTATE in its place when it is asked to, by a function that
  psycopg leaves to ctypes (see its `pgconn_ptr`)."""

from __future__ import annotations

from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.system.known_releases import PSYCOPG

# Before anything is imported from it.
if (fault := PSYCOPG.fault()) is not None:
    raise StoreUnusable(fault)

import ctypes
import select
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

import trio
from psycopg import AsyncConnection, Error, OperationalError, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.waiting import Ready, Wait

__all__ = ["Ready", "Wait", "WaitingConnection", "error_of", "give_sqlstate_only", "read_rows"]

T = TypeVar("T")
SetVerbosity: TypeAlias = Callable[[int, int], int]

# PQERRORS_SQLSTATE of libpq-fe.h.
_VERBOSITY_SQLSTATE: Final = 3


class WaitingConnection(AsyncConnection[tuple[Any, ...]]):
    """A connection each of whose waits for the server is Trio's, once it is open."""

    async def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        """Run one of psycopg's generators to its end. Its `interval` and `timeout` count for
        nothing here: they are for psycopg's own loop, and for notifications."""
        # As psycopg itself does in asyncio: the generator says what it waits for, and is told what
        # is ready.
        handle = self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                if wanted == Wait.R:
                    await trio.lowlevel.wait_readable(handle)
                    wanted = gen.send(Ready.R)
                elif wanted == Wait.W:
                    await trio.lowlevel.wait_writable(handle)
                    wanted = gen.send(Ready.W)
                else:
                    wanted = gen.send(await _wait_for_either(handle))
        except StopIteration as end:
            result: T = end.value
            return result
        except OSError as error:
            raise OperationalError("the connection's socket is closed") from error


async def _wait_for_either(handle: int) -> Ready:
    """Wait until the socket can be read from or written to, which is at once unless its buffer is
    full."""
    # 1. The usual case, without two tasks: there is room to write.
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLOUT)
    polled = poll.poll(0)
    if polled:
        _, events = polled[0]
        at_once = Ready.NONE
        if events & select.POLLOUT:
            at_once = Ready(at_once | Ready.W)

        # An error or a hang-up is read, too.
        if events & ~select.POLLOUT:
            at_once = Ready(at_once | Ready.R)

        return at_once

    # 2. Whichever comes first; both may come at once.
    ready = Ready.NONE

    async def wait_readable() -> None:
        nonlocal ready
        await trio.lowlevel.wait_readable(handle)
        ready = Ready(ready | Ready.R)
        nursery.cancel_scope.cancel()

    async def wait_writable() -> None:
        nonlocal ready
        await trio.lowlevel.wait_writable(handle)
        ready = Ready(ready | Ready.W)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_readable)
        nursery.start_soon(wait_writable)

    return ready


def error_of(result: pq.abc.PGresult) -> Error:
    """Return the exception that a failed result stands for."""
    return error_from_result(result, encoding="utf-8")


def read_rows(
    connection: WaitingConnection, results: Sequence[pq.abc.PGresult]
) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each result."""
    transformer = Transformer(connection)
    found: list[list[tuple[Any, ...]]] = []
    for result in results:
        if result.ntuples:
            transformer.set_pgresult(result)
            found.append(transformer.load_rows(0, result.ntuples, tuple))
        else:
            found.append([])

    return found


def give_sqlstate_only(pgconn: pq.abc.PGconn) -> bool:
    """Have a connection give SQLSTATEs in place of sentences; return False where that can't be
    had."""
    set_verbosity = _find_verbosity_function()
    pointer = getattr(pgconn, "pgconn_ptr", None)
    if set_verbosity is None or pointer is None:
        return False
    set_verbosity(pointer, _VERBOSITY_SQLSTATE)
    return True


@cache
def _find_verbosity_function() -> SetVerbosity | None:
    """Return libpq's PQsetErrorVerbosity, of the libpq that psycopg has loaded; None where it isn't
    to be had."""
    try:
        function = ctypes.CDLL(sys.modules[pq.PGconn.__module__].__file__).PQsetErrorVerbosity
    except (OSError, AttributeError):
        return None

    # Without these, ctypes cuts the pointer to 32 bits.
    function.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return function
