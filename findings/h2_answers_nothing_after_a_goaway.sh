#!/usr/bin/env bash
# Package: PyPI h2 4.4.1
# Expected: A client that says GOAWAY without an error gets the answers to what it has asked for
#   already: "activity on streams numbered lower or equal to the last stream identifier might still
#   complete successfully" (RFC 9113 section 6.8).
# Seen: `H2Connection` is closed by `ConnectionTerminated`: `send_headers` of the answer raises
#   ProtocolError, "Invalid input ConnectionInputs.SEND_HEADERS in state ConnectionState.CLOSED".
#   As a client, h2 reads no answer either once the server has said GOAWAY.
# Matters: A payment was taken, and its client never hears of it. Keep GOAWAY frames from h2, count
#   the streams that are left, and say GOAWAY yourself only after the last answer.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >ask.py <<'END'
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError

GOAWAY = b"\0\0\x08\7\0" + bytes(12)
REQUEST = [(":method", "GET"), (":scheme", "https"), (":authority", "h"), (":path", "/")]


def ends() -> tuple[H2Connection, H2Connection]:
    client, server = H2Connection(), H2Connection(H2Configuration(client_side=False))
    for end in (client, server):
        end.initiate_connection()
    client.send_headers(1, REQUEST, end_stream=True)
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    return client, server


def answer(client: H2Connection, server: H2Connection) -> str:
    try:
        server.send_headers(1, [(":status", "200")], end_stream=True)
    except ProtocolError:
        return "not sent"
    return f"sent, {read(client, server.data_to_send())}"


def read(client: H2Connection, data: bytes) -> str:
    try:
        client.receive_data(data)
    except ProtocolError:
        return "not read"
    return "read"


client, server = ends()
print("without GOAWAY:", answer(client, server))
client, server = ends()
server.receive_data(GOAWAY)
print("after the client's GOAWAY:", answer(client, server))
client, server = ends()
client.receive_data(GOAWAY[:9] + b"\0\0\0\1" + bytes(4))
print("after the server's GOAWAY:", answer(client, server))
END

python3 -m venv venv
venv/bin/pip install --quiet h2==4.4.1 hpack==4.2.0 hyperframe==6.1.0
venv/bin/python ask.py | tee seen
diff - seen <<'END'
without GOAWAY: sent, read
after the client's GOAWAY: not sent
after the server's GOAWAY: sent, not read
END
