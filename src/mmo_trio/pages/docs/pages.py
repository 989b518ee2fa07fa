"""Serves the documentation of error codes and of the API, which is the same for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from markupsafe import Markup, escape
from quart import Blueprint, Response, render_template

from mmo_sansio.api.docs.error_pages import ErrorPage, error_pages
from mmo_sansio.api.docs.openapi import openapi_document
from mmo_sansio.api.docs.openapi.schemas import document_text
from mmo_trio.pages.docs.openapi_view import build_reference

DOCS_CACHE_CONTROL = "public, max-age=300"


@frozen
class ApiDocs:
    """Holds the content of the documentation."""

    error_pages: Mapping[str, ErrorPage]
    """The pages by code, those of problems first."""
    openapi: Mapping[str, Any]
    """The OpenAPI document."""


def build_docs(*, base_url: str, error_docs_url: str, sandbox_scenarios: Mapping[str, str] | None) -> ApiDocs:
    """Build the documentation of a gateway at these URLs, which have no slash at their end."""
    document = openapi_document(base_url=base_url, error_docs_url=error_docs_url, sandbox_scenarios=sandbox_scenarios)
    return ApiDocs(error_pages(error_docs_url), document)


def create_docs_blueprint(api_docs: ApiDocs) -> Blueprint:
    """Create the pages `/errors`, `/errors/CODE`, `/docs` and `/openapi.json`."""
    pages = Blueprint("docs", __name__)
    pages.add_app_template_filter(with_code, "with_code")
    openapi_json = document_text(api_docs.openapi, indent=1)
    reference = build_reference(api_docs.openapi)
    rendered: dict[str, str] = {}

    @pages.get("/errors")
    async def errors() -> Response:
        refusals = [each for each in api_docs.error_pages.values() if each.status is not None]
        failures = [each for each in api_docs.error_pages.values() if each.status is None]
        return _cached_response(await render_template("docs/errors.html", refusals=refusals, failures=failures))

    @pages.get("/errors/<path:code>")
    async def error(code: str) -> Response:
        found = api_docs.error_pages.get(code)
        if found is None:
            return Response(await render_template("docs/unknown.html"), 404)
        return _cached_response(await render_template("docs/error.html", page=found))

    @pages.get("/docs")
    async def docs() -> Response:
        if not rendered:
            rendered["docs"] = await render_template("docs/docs.html", reference=reference)
        return _cached_response(rendered["docs"])

    @pages.get("/openapi.json")
    async def openapi() -> Response:
        answer = Response(openapi_json, content_type="application/json")
        answer.headers["Cache-Control"] = DOCS_CACHE_CONTROL
        # Any web page may read it: it is the same for everybody.
        answer.headers["Access-Control-Allow-Origin"] = "*"
        return answer

    return pages


def with_code(text: str) -> Markup:
    """Return HTML of a text with `code` and line breaks."""
    parts = str(escape(text)).split("`")
    pieces = (f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
    return Markup("".join(pieces).replace("\n", "<br>"))


def _cached_response(text: str) -> Response:
    answer = Response(text)
    answer.headers["Cache-Control"] = DOCS_CACHE_CONTROL
    return answer
