"""Connects to the first of several addresses that answers (Happy Eyeballs, RFC 8305), by the network that it is
given."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv6Address
from itertools import chain, zip_longest
from typing import TypeAlias

import trio

from mmo_sansio.http.ip_rules import Address
from mmo_trio.http.streams import PlainStream, TransportStream

ATTEMPT_DELAY_S = 0.25
"""Seconds from one attempt to the next address, while the first goes on (RFC 8305 section 5)."""

ConnectOne: TypeAlias = Callable[[Address, int], Awaitable[TransportStream]]
"""Returns a connection to this address and port; raises OSError."""


async def connect_system(address: Address, port: int) -> TransportStream:
    """Return a connection over the system's network. Raises OSError when it is refused."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    stream = PlainStream(connecting := socket.socket(family, socket.SOCK_STREAM))
    try:
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = connecting.connect_ex(_socket_address(address, port))
        if code == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(connecting)
            code = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        return stream
    except BaseException:
        stream.close()
        raise


async def connect(
    addresses: Sequence[Address], port: int, *, connect_one: ConnectOne = connect_system
) -> TransportStream:
    """Return a connection to one of these addresses, tried in turn with alternating families.

    Raises OSError when none answers, with the reason of the first. Never ends by itself when an address stays silent:
    the caller has the deadline."""
    if len(addresses) == 1:
        return await connect_one(addresses[0], port)
    connected: list[TransportStream] = []
    errors: list[OSError] = []

    async def attempt(address: Address, ended: trio.Event) -> None:
        try:
            stream = await connect_one(address, port)
        except OSError as error:
            errors.append(error)
            ended.set()
        else:
            connected.append(stream)
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            for address in interleave_families(addresses):
                ended = trio.Event()
                nursery.start_soon(attempt, address, ended)
                with trio.move_on_after(ATTEMPT_DELAY_S):
                    await ended.wait()
    except BaseException:
        for stream in connected:
            stream.close()
        raise
    for stream in connected[1:]:
        stream.close()
    if not connected:
        raise errors[0]
    return connected[0]


def _socket_address(address: Address, port: int) -> tuple[object, ...]:
    """Return the system's form of an address; only the resolver reads a zone (RFC 4007)."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        (resolved, *_) = socket.getaddrinfo(str(address), port, flags=socket.AI_NUMERICHOST)
        return resolved[4]
    return str(address), port


def interleave_families(addresses: Sequence[Address]) -> list[Address]:
    """Return the addresses in their order, but with alternating families, so that a broken family costs one delay."""
    first = [each for each in addresses if each.version == addresses[0].version]
    second = [each for each in addresses if each.version != addresses[0].version]
    return [each for each in chain(*zip_longest(first, second)) if each is not None]
