#!/usr/bin/env bash
# Package: PyPI quart-trio 0.12.0, beside quart 0.22.0, with hypercorn 0.18.0 and trio 0.35.0
# Expected: A task of `add_background_task` has five seconds to end when the server stops: that is
#   `BACKGROUND_TASK_SHUTDOWN_TIMEOUT`, which both know, and Hypercorn's `graceful_timeout` has three.
# Seen: Quart on asyncio waits for the task. Quart-Trio sets the deadline, says that it has shut down,
#   and Hypercorn then cancels the app's nursery: a task that needs half a second is cancelled.
# Matters: An order that was answered with 202 and stored behind the answer is lost at each restart.
#   Store first, then answer; or wait for such tasks in a function of `after_serving`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet quart-trio==0.12.0 quart==0.22.0 hypercorn==0.18.0 trio==0.35.0

cat >by_asyncio.py <<'END'
import asyncio

from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart

app = Quart(__name__)


@app.post("/orders")
async def order():
    app.add_background_task(store)
    return "accepted", 202


async def store():
    try:
        await asyncio.sleep(0.5)
        print("quart: stored")
    except asyncio.CancelledError:
        print("quart: cancelled")
        raise


async def main():
    config = Config.from_mapping(bind=["unix:shop"], graceful_timeout=3, loglevel="ERROR")
    stop, is_up = asyncio.Event(), asyncio.Event()
    app.before_serving(lambda: is_up.set())
    server = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
    await is_up.wait()
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection("shop")
            break
        except OSError:
            await asyncio.sleep(0.01)
    writer.write(b"POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n")
    print("quart:", (await reader.read(12)).decode())
    writer.close()
    stop.set()
    await server


asyncio.run(main())
END
cat >by_trio.py <<'END'
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart_trio import QuartTrio

app = QuartTrio(__name__)


@app.post("/orders")
async def order():
    app.add_background_task(store)
    return "accepted", 202


async def store():
    try:
        await trio.sleep(0.5)
        print("quart-trio: stored")
    except trio.Cancelled:
        print("quart-trio: cancelled")
        raise


async def main():
    config = Config.from_mapping(bind=["127.0.0.1:0"], graceful_timeout=3, loglevel="ERROR")
    stop = trio.Event()

    async def run(task_status):
        await serve(app, config, shutdown_trigger=stop.wait, task_status=task_status)

    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(run)
        port = int(address.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 0\r\n\r\n")
            print("quart-trio:", (await stream.receive_some(12)).decode())
        print("quart-trio: timeout", app.config["BACKGROUND_TASK_SHUTDOWN_TIMEOUT"])
        stop.set()


trio.run(main)
END

env/bin/python by_asyncio.py | tee seen
env/bin/python by_trio.py | tee -a seen
diff - seen <<'END'
quart: HTTP/1.1 202
quart: stored
quart-trio: HTTP/1.1 202
quart-trio: timeout 5
quart-trio: cancelled
END
