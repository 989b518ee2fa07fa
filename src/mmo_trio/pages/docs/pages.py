"""Serves the documentation of error codes and of the API, for people, who can search it, and for
programs."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, Final

from attrs import frozen
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers.data import JsonLexer
from pygments.lexers.javascript import JavascriptLexer
from pygments.lexers.jvm import JavaLexer
from pygments.lexers.php import PhpLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.shell import BashLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, String
from quart import Blueprint, Response, render_template, request

from mmo_sansio.api.docs.error_pages import ErrorPage, error_pages
from mmo_sansio.api.docs.openapi import openapi_document
from mmo_sansio.api.docs.schemas import document_text
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS, Scenario
from mmo_trio.pages.context import LISTENER_URL, find_shown_key, pages_context
from mmo_trio.pages.docs.code_samples import LANGUAGES
from mmo_trio.pages.docs.openapi_view import ApiReference, Caller, FieldRow, build_reference

# Short, as a newer version has other texts at the same addresses.
DOCS_CACHE_CONTROL = "public, max-age=300"

# The most results of a search: who has more looks for another word.
FOUND_MAX: Final = 20

# A word of a title: `merchant_transactionid_duplicate` has three.
_WORD: Final = re.compile(r"[^\W_]+")

LEXERS: Final[dict[str, type[Lexer]]] = {
    "bash": BashLexer,
    "java": JavaLexer,
    "javascript": JavascriptLexer,
    "json": JsonLexer,
    "php": PhpLexer,
    "python": PythonLexer,
    "text": TextLexer,
}

# The class in HTML of each coloured kind of token, with the kinds within it; other text has none.
CLASSES: Final = (
    (Comment, "c"),
    (String, "s"),
    (Number, "n"),
    (Keyword, "k"),
    (Name.Tag, "t"),
    (Name.Function, "f"),
)

# What stands before the JSON of a command of curl, which ends in a quotation mark.
SHELL_BODY: Final = "-d '"


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
    rendered: dict[str, tuple[str | None, str]] = {}

    # Both are made when somebody asks first: most processes are never asked.
    @cache
    def public_reference() -> ApiReference:
        return build_reference(api_docs.openapi)

    @cache
    def openapi_json() -> str:
        return document_text(api_docs.openapi, indent=1)

    async def render_reference(template: str, api_key: str | None) -> str:
        """Render a page of the whole reference, which is kept until the API key is another one."""
        # The whole reference is long, and the same until a key is replaced.
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
        sought = request.args.get("q", "")[:100]
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


def with_code(text: str) -> Markup:
    """Return HTML of a text with `code` and line breaks."""
    # Every second part stood between two grave accents.
    pieces = str(escape(text)).split("`")
    pieces[1::2] = [f"<code>{piece}</code>" for piece in pieces[1::2]]
    return Markup("".join(pieces).replace("\n", "<br>"))


def breakable(name: str) -> Markup:
    """Return HTML of a name such as `user_busy`, which may break after an underscore, and so not
    within a word."""
    return Markup("_<wbr>").join(str(name).split("_"))


@lru_cache(maxsize=256)
def highlighted(code: str, language: str) -> Markup:
    """Return HTML of code in one of the languages of LEXERS, for a `pre`."""
    # The body of a command is JSON, and is coloured as such.
    if language == "bash" and SHELL_BODY in code:
        command, _, body = code.partition(SHELL_BODY)
        tokens = [*_tokens(command + SHELL_BODY.removesuffix("'"), "bash"), ("s", "'")]
        tokens += [*_tokens(body.removesuffix("'"), "json"), ("s", "'")]
    else:
        tokens = list(_tokens(code, language))

    pieces = []
    for name, group in groupby(tokens, key=lambda each: each[0]):
        # A letter for each class and no quotation marks: the page has thousands of tokens.
        text = html.escape("".join([part[1] for part in group]), quote=False)
        if name:
            text = f"<i class={name}>{text}</i>"

        pieces.append(text)

    return Markup("".join(pieces))


def _tokens(code: str, language: str) -> Iterator[tuple[str, str]]:
    """Yield the class and the text of each token."""
    for kind, text in LEXERS[language](ensurenl=False, stripnl=False).get_tokens(code):
        yield next((name for root, name in CLASSES if kind[: len(root)] == root), ""), text


def _cached_response(text: str, content_type: str | None = None) -> Response:
    answer = Response(text, content_type=content_type)
    answer.headers["Cache-Control"] = DOCS_CACHE_CONTROL
    return answer


def _text_response(text: str, content_type: str) -> Response:
    """Answer with a text that any web page may read, as it is the same for everybody."""
    answer = _cached_response(text, content_type)
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


@frozen
class SearchResult:
    title: str
    kind: str
    """`endpoint`, `field`, `callback`, `object`, `error` or `test number`."""
    link: str
    text: str


def search_places(
    sought: str,
    reference: ApiReference,
    pages: Mapping[str, ErrorPage],
    scenarios: Sequence[Scenario],
) -> list[SearchResult]:
    """Return the places that have all words of the text: first those with the text as their title,
    then those with a word in it that begins so, and those that have all words in it."""
    words = sought.casefold().split()
    if not words:
        return []

    ranked = []
    # The number keeps the order of the documentation among equals.
    for number, place in enumerate(_places(reference, pages, scenarios)):
        title = place.title.casefold()
        everything = f"{title} {place.kind} {place.text.casefold()}"
        if all(word in everything for word in words):
            in_title = all(word in title for word in words)
            begins = any(part.startswith(words[0]) for part in _WORD.findall(title))
            ranked.append((title != " ".join(words), not begins, not in_title, number, place))

    return [place[-1] for place in sorted(ranked, key=lambda each: each[:4])[:FOUND_MAX]]


def _places(
    reference: ApiReference, pages: Mapping[str, ErrorPage], scenarios: Sequence[Scenario]
) -> Iterator[SearchResult]:
    # In the order in which a reader meets them: endpoints, objects, their fields, then codes.
    for endpoint in reference.endpoints:
        text = f"{endpoint.method} {endpoint.path} {endpoint.description}"
        yield SearchResult(endpoint.summary, "endpoint", f"/docs#{endpoint.name}", text)

    for callback in reference.callbacks:
        yield SearchResult(
            callback.summary, "callback", f"/docs#{callback.anchor}", callback.description
        )

    for shape in reference.schemas:
        yield SearchResult(shape.name, "object", f"/docs#{shape.name}", shape.description)

    for endpoint in reference.endpoints:
        for row in (*endpoint.parameters, *endpoint.body):
            yield from _fields(row, "", endpoint.summary, endpoint.name)

    for shape in reference.schemas:
        for row in shape.fields:
            yield from _fields(row, "", shape.name, shape.name)

    for page in pages.values():
        yield SearchResult(page.code, "error", f"/errors/{page.code}", page.meaning)

    for scenario in scenarios:
        text = f"{scenario.digits or ''} {scenario.description}".replace("`", "")
        yield SearchResult(scenario.name, "test number", "/docs#numbers", text)


def _fields(row: FieldRow, path: str, where: str, anchor: str) -> Iterator[SearchResult]:
    name = f"{path}{row.name}"
    yield SearchResult(
        name, "field", f"/docs#{anchor}", f"{where}: {row.description}".replace("`", "")
    )
    for member in row.members:
        yield from _fields(member, f"{name}.", where, anchor)
