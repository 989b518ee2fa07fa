"""Sends a request of the API reference from a page of the sandbox, as a merchant's program would
send it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final
from urllib.parse import quote, urlencode

from attrs import frozen
from quart import Blueprint, Response, render_template, request

from mmo_sansio.api.incoming.requests import SCENARIO_HEADER
from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import NoResponseReceived
from mmo_sansio.http.messages import HttpRequest
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS
from mmo_trio.http.client.client import HttpClient
from mmo_trio.pages.context import find_shown_key, reject_cross_site_post, sandbox_context
from mmo_trio.pages.docs.code_samples import KEY_HEADER, json_text
from mmo_trio.pages.docs.openapi_view import EndpointView
from mmo_trio.pages.docs.pages import ApiDocs, sandbox_reference

# The fields of an answer that tell a merchant's programmer something.
SHOWN_HEADERS: Final = (b"content-type", b"x-request-id", b"retry-after", b"allow")
# The member that has to be another one in each request (C12).
EXAMPLE_REFERENCE: Final = "merchantReference"


@frozen
class TrialAnswer:
    """Holds the gateway's answer to a request."""

    status: int | None
    """None: there was no answer."""
    headers: tuple[tuple[str, str], ...]
    text: str
    duration_ms: int
    members: Mapping[str, object]
    """The members of its object; none of another body."""


def create_trial_blueprint(api_docs: ApiDocs) -> Blueprint:
    """Create the pages `/docs/try/NAME`, one for each endpoint; they exist in a sandbox only."""
    pages = Blueprint("trial", __name__)
    pages.before_request(reject_cross_site_post)

    @pages.get("/docs/try/<name>")
    @pages.post("/docs/try/<name>")
    async def trial(name: str) -> Response:
        # Whom the key is not shown may not use it either: by its pay-outs money may move, where the
        # account with the operator is a real one.
        api_key = await find_shown_key() or ""
        reference = sandbox_reference(api_docs, api_key)
        endpoint = next(
            (endpoint for endpoint in reference.endpoints if endpoint.name == name), None
        )
        if endpoint is None:
            return Response(await render_template("docs/unknown.html"), 404)

        # A link may bring values along, such as the reference of a payment just made.
        if request.method == "GET":
            form = request.args
        else:
            form = await request.form

        given = {
            parameter.name: form.get(parameter.name, _suggestion(endpoint, parameter.name))
            for parameter in endpoint.parameters
        }
        # A form sends its lines with CR LF (HTML, "multiline text").
        body = form.get("body", _example_body(endpoint)).replace("\r\n", "\n")
        answer = None
        if request.method == "POST":
            answer = await _send(_http_request(endpoint, given, body, api_key))

        page = await render_template(
            "docs/try.html",
            endpoint=endpoint,
            given=given,
            body=body,
            answer=answer,
            scenarios=SCENARIOS,
        )
        return Response(page)

    return pages


def _suggestion(endpoint: EndpointView, parameter: str) -> str:
    """Return the example of a parameter, empty where it has none."""
    # The example's URL ends as the path of the endpoint does, with values in place of the names.
    names = endpoint.path.split("/")
    values = endpoint.example.url.split("/")[-len(names) + 1 :]
    in_path = dict(zip(names[1:], values, strict=True))
    return in_path.get(f"{{{parameter}}}") or endpoint.example.query.get(parameter, "")


def _example_body(endpoint: EndpointView) -> str:
    """Return the example's body with a merchantReference that was not used."""
    if endpoint.example.body is None:
        return ""
    fresh = f"try-{sandbox_context().new_reference()[-8:].lower()}"
    return json_text({**endpoint.example.body, EXAMPLE_REFERENCE: fresh})


def _http_request(
    endpoint: EndpointView, given: Mapping[str, str], body: str, api_key: str
) -> HttpRequest:
    path = endpoint.path
    query = {}
    headers: list[tuple[bytes, bytes]] = []
    for name, value in given.items():
        # In the path, in a field of the head, or in the query; what was left empty is left out.
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        elif value and name == SCENARIO_HEADER:
            headers.append((name.encode(), value.encode()))
        elif value:
            query[name] = value

    if endpoint.example.api_key:
        headers.append((KEY_HEADER.encode(), api_key.encode()))

    if endpoint.example.body is not None:
        headers.append((b"Content-Type", b"application/json"))

    url = f"{sandbox_context().addresses.api}{path}"
    if query:
        url += f"?{urlencode(query)}"

    content = b""
    if endpoint.example.body is not None:
        content = body.encode()

    return HttpRequest(endpoint.method, url.encode(), tuple(headers), content)


async def _send(sent: HttpRequest) -> TrialAnswer:
    # The sandbox's own API has a private address, and nobody but the settings names it. A client
    # is made here alone, as it costs milliseconds that most processes would spend for nothing.
    result = await HttpClient(rules=EgressRules()).exchange(sent, skip_egress_rules=True)
    if isinstance(result, NoResponseReceived):
        return TrialAnswer(None, (), result.detail, result.duration_ms, {})

    # Amounts keep their digits, as the page shows what a program would get (G6).
    text = result.body.decode(errors="replace")
    try:
        content = json.loads(text, parse_float=Decimal)
    except ValueError:
        content = None

    if isinstance(content, dict):
        members = content
    else:
        members = {}

    if members:
        shown = json_text(content)
    else:
        shown = text

    headers = tuple(
        (name.decode(), value.decode("latin-1"))
        for name, value in result.headers
        if name in SHOWN_HEADERS
    )
    return TrialAnswer(result.status, headers, shown, result.duration_ms, members)
