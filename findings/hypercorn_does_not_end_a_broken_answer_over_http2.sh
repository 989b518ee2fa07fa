#!/usr/bin/env bash
# Package: PyPI hypercorn 0.18.0, with h2 4.4.1 and trio 0.35.0
# Expected: An application that fails in the middle of an answer, as a list of payments whose
#   database goes away, has its answer ended so that the client sees that it is not whole: by a close
#   of the connection over HTTP/1.1, and by RST_STREAM over HTTP/2 (RFC 9113 section 8.1).
# Seen: Over HTTP/1.1 the connection is closed without the last chunk. Over HTTP/2 nothing is sent for
#   the stream any more, while others on its connection are answered.
# Matters: A client waits for the rest until its own patience ends. Read what an answer needs before
#   its head is sent, or give the client a limit between two pieces and not for the whole alone.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet hypercorn==0.18.0 h2==4.4.1 trio==0.35.0

cat >"$folder/ask.py" <<'END'
from functools import partial

import h2.config
import h2.connection
import h2.events
import hypercorn.config
import hypercorn.trio
import trio

OTHERS = 8
LAST_CHUNK = b"0\r\n\r\n"


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        return await send({"type": "lifespan.shutdown.complete"})

    is_whole = scope["path"] == "/whole"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"row 1\n", "more_body": not is_whole})
    if not is_whole:
        raise RuntimeError("the database has gone")


async def over_http1(port):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(b"GET /broken HTTP/1.1\r\nHost: h\r\n\r\n")
    received = b""
    with trio.move_on_after(10) as patience:
        while data := await stream.receive_some():
            received += data
    end = "still open" if patience.cancelled_caught else "closed"
    last_chunk = "sent" if received.endswith(LAST_CHUNK) else "not sent"
    return f"{end}, last chunk {last_chunk}"


async def over_http2(port):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    ended = []

    async def ask(path):
        head = {":method": "GET", ":scheme": "http", ":authority": "h", ":path": path}
        number = connection.get_next_available_stream_id()
        connection.send_headers(number, list(head.items()), end_stream=True)
        await stream.send_all(connection.data_to_send())

    await ask("/broken")
    for _ in range(OTHERS):
        await ask("/whole")
        with trio.move_on_after(1):
            while True:
                for event in connection.receive_data(await stream.receive_some()):
                    if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                        ended.append(event.stream_id)
                await stream.send_all(connection.data_to_send())
    broken = "ended" if 1 in ended else "never ended"
    return f"{broken}, {len(ended)} of {OTHERS} others answered"


async def main():
    config = hypercorn.config.Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    stopped = trio.Event()
    serve = partial(hypercorn.trio.serve, app, config, shutdown_trigger=stopped.wait)
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(serve)
        port = int(address.rpartition(":")[2])
        print("HTTP/1.1:", await over_http1(port))
        print("HTTP/2:", await over_http2(port))
        stopped.set()


trio.run(main)
END

"$folder/env/bin/python" "$folder/ask.py" | tee "$folder/seen"
diff - "$folder/seen" <<'END'
HTTP/1.1: closed, last chunk not sent
HTTP/2: never ended, 8 of 8 others answered
END
