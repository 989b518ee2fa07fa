"""Searches the API reference: endpoints, fields, callbacks, objects, error codes and test numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.api.docs.error_pages import ErrorPage
from mmo_sansio.providers.sandbox.scenarios import Scenario
from mmo_trio.pages.docs.openapi_view import ApiReference, FieldRow

FOUND_MAX: Final = 20


@frozen
class SearchResult:
    """Describes a place of the documentation."""

    title: str
    kind: str
    """`endpoint`, `field`, `callback`, `object`, `error` or `test number`."""
    link: str
    text: str


def find(
    sought: str, reference: ApiReference, pages: Mapping[str, ErrorPage], scenarios: Sequence[Scenario]
) -> list[SearchResult]:
    """Return the places that have all words of the text, those that have them in their title first."""
    words = sought.casefold().split()
    if not words:
        return []
    ranked = []
    for number, each in enumerate(_places(reference, pages, scenarios)):
        title = each.title.casefold()
        everything = f"{title} {each.kind} {each.text.casefold()}"
        if all(word in everything for word in words):
            in_title = all(word in title for word in words)
            ranked.append((not title.startswith(words[0]), not in_title, number, each))
    return [each[-1] for each in sorted(ranked, key=lambda each: each[:3])[:FOUND_MAX]]


def _places(
    reference: ApiReference, pages: Mapping[str, ErrorPage], scenarios: Sequence[Scenario]
) -> Iterator[SearchResult]:
    for endpoint in reference.endpoints:
        text = f"{endpoint.method} {endpoint.path} {endpoint.description}"
        yield SearchResult(endpoint.summary, "endpoint", f"/docs#{endpoint.name}", text)
    for callback in reference.callbacks:
        yield SearchResult(callback.summary, "callback", f"/docs#{callback.anchor}", callback.description)
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
    for each in scenarios:
        text = f"{each.digits or ''} {each.description}".replace("`", "")
        yield SearchResult(each.name, "test number", "/docs#numbers", text)


def _fields(row: FieldRow, path: str, where: str, anchor: str) -> Iterator[SearchResult]:
    name = f"{path}{row.name}"
    yield SearchResult(name, "field", f"/docs#{anchor}", f"{where}: {row.description}".replace("`", ""))
    for each in row.members:
        yield from _fields(each, f"{name}.", where, anchor)
