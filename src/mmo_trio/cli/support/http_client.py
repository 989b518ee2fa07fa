"""A blocking HTTP client for requests to a gateway on this machine; it uses no proxy."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from mmo_sansio.values.model import Method

# The prefix of the merchant API (G1), without the slash at its end.
API_PATH = "/gateway/mmo/v2"

# Seconds for each of connecting, sending and waiting; the gateway answers or gives up within 10.
REQUEST_TIMEOUT_S = 30.0


@frozen
class CliResponse:
    """Holds the status and the body of a response."""

    status: int
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """Return the JSON object in the body, decimals as text. Raises ValueError."""
        # A float would change an amount that is only to be shown.
        value = json.loads(self.body, parse_float=str)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def send_request(
    url: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    ca_file: Path | None = None,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> CliResponse:
    """Send a GET request, or a POST request when there is a body, which is sent as JSON.

    `ca_file` is a PEM file with the trusted authority. Raises OSError when there is no answer, and
    ValueError for an invalid address or answer."""
    parts = urlsplit(url)
    if parts.hostname is None:
        raise ValueError(f"{url} is no address")

    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca_file)
        context.hostname_checks_common_name = False  # RFC 9110 section 4.3.4
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)

    method = "GET"
    content = None
    content_type = {}
    if body is not None:
        method = "POST"
        content = json.dumps(body)
        content_type = {"Content-Type": "application/json"}

    try:
        # The request names only path and query: what is behind `#` is the caller's own.
        target = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
        connection.request(method, target, content, {**content_type, **(headers or {})})
        answer = connection.getresponse()
        return CliResponse(answer.status, answer.read())
    except http.client.HTTPException as error:
        raise ValueError(f"{url} didn't answer in HTTP: {error!r}") from None
    finally:
        connection.close()


def least_amount(method: Method) -> dict[str, Any]:
    """Return the least amount that the method allows, for a request; it is small enough for a
    float."""
    currency, limits = next(iter(method.limits.items()))

    # `100` for a currency without decimals, as a person would write it.
    text = limits.minimum.text
    if text.isdecimal():
        value: float = int(text)
    else:
        value = float(text)

    return {"value": value, "currency": currency}
