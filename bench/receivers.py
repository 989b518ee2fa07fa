"""Runs merchants' receivers: one that answers, and one that accepts connections and hangs.

    python -m bench.receivers DIRECTORY COUNTER KEY …

It prints `WELL url HANGS url`, counts callbacks in the file COUNTER, and at the end of its standard
input prints one line `RECEIVED …` as JSON: by the first letter of the merchantReference, the number
of callbacks and their delays after the result."""

from __future__ import annotations

import json
import mmap
import struct
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import trio
from attrs import Factory, define

from bench.generator import percentile
from mmo_trio.sandbox.callback_receiver import ReceivedRequest, receive_callbacks
from mmo_trio.sandbox.local_ca import ensure_authority

COUNT = struct.Struct("<Q")
BACKLOG = 1024


@define(eq=False)
class CallbackLog:
    """Records received callbacks."""

    shared: mmap.mmap
    times_ms: dict[str, list[float]] = Factory(dict)
    """Seconds from the result to the callback, by mark."""
    total: int = 0

    def enter(self, received: ReceivedRequest) -> None:
        """Record a callback; a wrong key and a repeat do not count."""
        results = received.content
        if not results or received.is_repeat:
            return
        late_s = time.time() - datetime.fromisoformat(results["completedAt"]).timestamp()
        mark = results["merchantReference"][0]
        self.times_ms.setdefault(mark, []).append(late_s * 1000)
        self.total += 1
        COUNT.pack_into(self.shared, 0, self.total)

    def line(self) -> str:
        """Return everything as JSON."""
        results = {
            mark: {
                "count": len(times),
                "p50_ms": percentile(times, 50),
                "p99_ms": percentile(times, 99),
            }
            for mark, times in self.times_ms.items()
        }
        return f"RECEIVED {json.dumps(results)}"


async def main(directory: Path, counter: Path, keys: Sequence[bytes]) -> None:
    """Receive until standard input ends."""
    tls = ensure_authority(directory).issue("localhost", "127.0.0.1")
    book = CallbackLog(_shared(counter))
    well, hangs = [
        await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG) for _ in range(2)
    ]
    async with trio.open_nursery() as nursery:
        serving = partial(
            receive_callbacks, well, tls=lambda: tls, expected_keys=keys, on_request=book.enter
        )
        await nursery.start(serving)
        await nursery.start(trio.serve_listeners, _hang, hangs)
        urls = [f"https://127.0.0.1:{each[0].socket.getsockname()[1]}/" for each in (well, hangs)]
        print(f"WELL {urls[0]} HANGS {urls[1]}", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()
    print(book.line(), flush=True)


def _shared(counter: Path) -> mmap.mmap:
    counter.write_bytes(COUNT.pack(0))
    with counter.open("r+b") as file:
        return mmap.mmap(file.fileno(), COUNT.size)


async def _hang(stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), [key.encode() for key in sys.argv[3:]])
