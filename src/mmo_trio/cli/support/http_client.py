"""A plain HTTP client for talking to a gateway on this machine; it blocks, and looks at no proxy."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

REQUEST_TIMEOUT_S = 30.0


@frozen
class CliResponse:
    """What came back."""

    status: int
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """The body's JSON object, decimals as the text that they are; raises ValueError when it is none."""
        found = json.loads(self.body, parse_float=str)
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        return found


def send_request(
    url: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    ca_file: Path | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> CliResponse:
    """GET, or POST when there is a body (sent as JSON). `trusting` is an authority's certificate (PEM).

    Raises OSError when nobody answers, and ValueError for an address or an answer that is none.
    """
    parts = urlsplit(url)
    if parts.hostname is None:
        raise ValueError(f"{url} is no address")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca_file)
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    sent = None if body is None else json.dumps(body)
    kind = {} if sent is None else {"Content-Type": "application/json"}
    try:
        method = "GET" if sent is None else "POST"
        connection.request(method, parts.path or "/", sent, {**kind, **(headers or {})})
        answer = connection.getresponse()
        return CliResponse(answer.status, answer.read())
    except http.client.HTTPException as error:
        raise ValueError(f"{url} didn't answer in HTTP: {error!r}") from None
    finally:
        connection.close()
