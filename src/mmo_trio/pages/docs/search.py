"""Searches the documentation: endpoints, objects, their fields, error codes and test numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from mmo_sansio.api.docs.error_pages import ErrorPage
from mmo_sansio.providers.sandbox.scenarios import Scenario
from mmo_trio.pages.docs.openapi_view import ApiReference, FieldRow

# The most results of a search: who has more looks for another word.
FOUND_MAX: Final = 20

# A word of a title: `merchant_transactionid_duplicate` has three.
_WORD: Final = re.compile(r"[^\W_]+")


@frozen
class SearchResult:
    """Is a place in the documentation, and the result of a search that has found it."""

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
            rank = (title != " ".join(words), not begins, not in_title, number)
            ranked.append((rank, place))

    # No two have the same rank, so that places are never compared.
    return [place for _, place in sorted(ranked)[:FOUND_MAX]]


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
