"""Keeps a process that is ending from being killed by a second request to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import trio

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ignore_repeated_stops(stop_requested: trio.Event) -> Iterator[None]:
    """Ignore SIGTERM and SIGINT once the stop was requested, and from then on until the process ends.

    A receiver of signals (`trio.open_signal_receiver`) within the block takes precedence while it is open. Before the
    request the signals have the effect that they had outside. Must be used in the main thread."""
    outside = {number: signal.getsignal(number) or signal.SIG_DFL for number in STOP_SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop_requested.is_set():
            signal.signal(number, outside[signal.Signals(number)])
            signal.raise_signal(number)

    for number in STOP_SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in outside.items():
            signal.signal(number, signal.SIG_IGN if stop_requested.is_set() else handler)
