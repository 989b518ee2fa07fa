"""Finds the process that owns a connection of this machine, from Linux's `/proc`; unknown
elsewhere."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

import trio

PROC = Path("/proc")
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST = 1
ANY = 0xFFFF_FFFF
INODE_AT = 16 + 4 + 48 + 16
"""The offset in an answer: after its head, the state, the addresses, and four numbers."""

PORTS: ContextVar[tuple[int, int] | None] = ContextVar("PORTS", default=None)
"""The source and destination port of the connection that a task serves."""


class RecordingListener:
    """Accepts connections and records their ports for the tasks that serve them."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener = listener

    async def accept(self) -> trio.SocketStream:
        """Accept a connection; its task inherits the ports that are set here."""
        stream = await self._listener.accept()
        with suppress(OSError):
            PORTS.set((stream.socket.getpeername()[1], stream.socket.getsockname()[1]))
        return stream

    async def __aenter__(self) -> None:
        await self._listener.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        await self._listener.aclose()


def can_find_owner() -> bool:
    """Tell whether this machine can find owners."""
    return sys.platform == "linux"


def children_of(pids: Iterable[int]) -> list[int]:
    """Return the child processes of these processes."""
    lists = [PROC / f"{pid}/task/{pid}/children" for pid in pids if can_find_owner()]
    return [int(child) for each in lists for child in each.read_text().split()]


def owner_of(ports: tuple[int, int], pids: Iterable[int]) -> int | None:
    """Return which of these processes owns the loopback connection between these ports; None when
    it has ended."""
    inode = _inode_of(ports) if can_find_owner() else 0
    for pid in pids if inode else ():
        with suppress(OSError):
            for each in os.scandir(PROC / f"{pid}/fd"):
                with suppress(OSError):
                    if os.readlink(each.path) == f"socket:[{inode}]":
                        return pid
    return None


def _inode_of(ports: tuple[int, int]) -> int:
    """Asked of the kernel for this one connection (sock_diag(7)), as the table of all may be long;
    0 for none."""
    loopback = socket.inet_aton("127.0.0.1") + bytes(12)
    which = struct.pack("!HH16s16sIII", *ports, loopback, loopback, 0, ANY, ANY)
    asked = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ANY) + which
    head = struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(head + asked)
        answer = kernel.recv(4_096)
    (kind,) = struct.unpack_from("=H", answer, 4)
    (inode,) = struct.unpack_from("=I", answer, INODE_AT) if kind == SOCK_DIAG_BY_FAMILY else (0,)
    return int(inode)
