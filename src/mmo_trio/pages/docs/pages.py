"""Serves the documentation of error codes and of the API, for people, who can search it, and for
programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from attrs import frozen
from quart import Blueprint, Response, render_template, request

from mmo_sansio.api.docs.error_pages import ErrorPage, error_pages
from mmo_sansio.api.docs.openapi import openapi_document
from mmo_sansio.api.docs.schemas import document_text
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS, Scenario
from mmo_trio.pages.context import LISTENER_URL, find_shown_key, pages_context
from mmo_trio.pages.docs.code_samples import LANGUAGES
from mmo_trio.pages.docs.markup import breakable, highlighted, with_code
from mmo_trio.pages.docs.openapi_view import ApiReference, Caller, build_reference
from mmo_trio.pages.docs.search import search_places

# Short, as a newer version has other texts at the same addresses.
DOCS_CACHE_CONTROL: Final = "public, max-age=300"

# What is left of a longer text that somebody looks for.
SOUGHT_CHARACTERS_MAX: Final = 100


@frozen
class ApiDocs:
    """Holds the content of the documentation."""

    error_pages: Mapping[str, ErrorPage]
    """The pages by code, those of problems first."""
    openapi: Mapping[str, Any]
    """The OpenAPI document."""
    scenarios: tuple[Scenario, ...]
    """What the sandbox can play; none in production."""


def build_docs(
    *, base_url: str, error_docs_url: str, sandbox_scenarios: Mapping[str, str] | None
) -> ApiDocs:
    """Build the documentation of a gateway at these URLs, which have no slash at their end."""
    document = openapi_document(
        base_url=base_url, error_docs_url=error_docs_url, sandbox_scenarios=sandbox_scenarios
    )
    return ApiDocs(
        error_pages(error_docs_url), document, () if sandbox_scenarios is None else SCENARIOS
    )


def create_docs_blueprint(api_docs: ApiDocs) -> Blueprint:
    """Create the pages `/errors`, `/errors/CODE`, `/docs` and what programs read: `/openapi.json`,
    `/docs.md` and `/llms.txt`."""
    pages = Blueprint("docs", __name__)
    pages.add_app_template_filter(with_code, "with_code")
    pages.add_app_template_filter(breakable, "breakable")
    pages.add_app_template_global(highlighted, "highlighted")
    refusals = [
        error_page for error_page in api_docs.error_pages.values() if error_page.status is not None
    ]
    failures = [
        error_page for error_page in api_docs.error_pages.values() if error_page.status is None
    ]
    # By template: the API key on the page, and its text.
    rendered: dict[str, tuple[str | None, str]] = {}

    # Both are made when somebody asks first: most processes are never asked.
    @cache
    def public_reference() -> ApiReference:
        return build_reference(api_docs.openapi)

    @cache
    def openapi_json() -> str:
        return document_text(api_docs.openapi, indent=1)

    async def render_reference(template: str, api_key: str | None) -> str:
        """Return a page of the whole reference. It is long, and so kept until the API key is
        another one."""
        known_key, text = rendered.get(template, (None, ""))
        if not text or known_key != api_key:
            if api_key is None:
                reference = public_reference()
            else:
                reference = sandbox_reference(api_docs, api_key)

            text = await render_template(
                template,
                reference=reference,
                languages=LANGUAGES,
                refusals=refusals,
                failures=failures,
                api_key=api_key,
                result_url=LISTENER_URL,
                can_try=pages_context().sandbox is not None,
            )
            rendered[template] = (api_key, text)

        return text

    @pages.context_processor
    def template_variables() -> dict[str, object]:
        return {"scenarios": api_docs.scenarios}

    @pages.get("/errors")
    async def errors() -> Response:
        return _cached_response(
            await render_template("docs/errors.html", refusals=refusals, failures=failures)
        )

    @pages.get("/errors/<path:code>")
    async def error(code: str) -> Response:
        found = api_docs.error_pages.get(code)
        if found is None:
            return Response(await render_template("docs/unknown.html"), 404)
        played = [
            scenario for scenario in api_docs.scenarios if f"`{code}`" in scenario.description
        ]
        return _cached_response(await render_template("docs/error.html", page=found, played=played))

    @pages.get("/docs")
    async def docs() -> Response:
        api_key = await find_shown_key()
        text = await render_reference("docs/docs.html", api_key)
        # A page with a key is kept by nobody on the way.
        if api_key is None:
            return _cached_response(text)
        return Response(text)

    @pages.get("/docs/search")
    async def search() -> Response:
        sought = request.args.get("q", "")[:SOUGHT_CHARACTERS_MAX]
        found = search_places(sought, public_reference(), api_docs.error_pages, api_docs.scenarios)
        # The script of the page asks for the results alone.
        if "part" in request.args:
            template = "docs/found.html"
        else:
            template = "docs/search.html"

        return _cached_response(await render_template(template, sought=sought, found=found))

    async def reference_text(template: str, content_type: str) -> Response:
        api_key = await find_shown_key()
        text = await render_reference(template, api_key)
        if api_key is None:
            return _text_response(text, content_type)
        return Response(text, content_type=content_type)

    @pages.get("/docs.md")
    async def markdown() -> Response:
        return await reference_text("docs/docs.md", "text/markdown; charset=utf-8")

    @pages.get("/llms.txt")
    async def overview() -> Response:
        return await reference_text("docs/llms.txt", "text/plain; charset=utf-8")

    @pages.get("/openapi.json")
    async def openapi() -> Response:
        return _text_response(openapi_json(), "application/json")

    return pages


def sandbox_reference(api_docs: ApiDocs, api_key: str) -> ApiReference:
    """Return the reference with examples that a sandbox accepts as they are."""
    return build_reference(api_docs.openapi, Caller(api_key, LISTENER_URL))


def _cached_response(text: str, content_type: str | None = None) -> Response:
    answer = Response(text, content_type=content_type)
    answer.headers["Cache-Control"] = DOCS_CACHE_CONTROL
    return answer


def _text_response(text: str, content_type: str) -> Response:
    """Answer with a text that any web page may read, as it is the same for everybody."""
    answer = _cached_response(text, content_type)
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer
