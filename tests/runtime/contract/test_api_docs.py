"""What developers read: a page behind every `type`, the OpenAPI document, and its documentation;
through sockets."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from openapi_spec_validator import validate

from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.problems import PROBLEM_TYPES
from tests.support.merchant import Answer, ask
from tests.support.sandbox_gateway import Running, Serve

CODES = [each.segment for each in PROBLEM_TYPES] + [each.value for each in ErrorCode]


class Links(HTMLParser):
    """Where a page leads, the names it has, and what scripts it would run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads: set[str] = set()
        self.names: set[str] = set()
        self.scripts: list[str] = []
        self.headings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.leads |= {value for value in (given.get("href"), given.get("src")) if value}
        if given.get("id"):
            assert given["id"] not in self.names, f"{given['id']} is there twice"
            self.names.add(given["id"] or "")
        self.headings += tag == "h1"
        if tag in {"script", "iframe"} or any(name.startswith("on") for name in given):
            self.scripts.append(tag)


async def page(sandbox: Running, path: str, status: int = 200) -> tuple[Answer, Links]:
    """A page of the documentation, with what all of them have."""
    answer = await ask(f"{sandbox.ready.pages}{path}")
    assert answer.status == status, (path, answer.body)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    links = Links(answer.body.decode())
    assert not links.scripts
    assert links.headings == 1
    assert b'lang="en"' in answer.body
    return answer, links


@pytest.mark.spec("P1")
async def test_the_type_of_a_problem_leads_to_its_page(sandbox: Running) -> None:
    merchant = sandbox.merchant
    for refused in (
        await merchant.create(country="ZZ"),
        await merchant.create(country=""),
        await merchant.get("status/x"),
        await merchant.get("status/x", **{"X-Api-Key": "wrong"}),
    ):
        where = urlsplit(refused.json["type"])
        assert refused.json["type"].startswith(sandbox.ready.pages)
        answer, _ = await page(sandbox, where.path)
        assert f"<h1><code>{refused.segment}</code></h1>" in answer.body.decode()


@pytest.mark.spec("P1", "E1")
async def test_every_code_has_its_page_and_the_index_leads_to_all(sandbox: Running) -> None:
    _, index = await page(sandbox, "/errors")
    for code in CODES:
        assert f"/errors/{code}" in index.leads
        answer, _ = await page(sandbox, f"/errors/{code}")
        text = answer.body.decode()
        assert all(heading in text for heading in ("Who acts", "What to do", "Example")), code
        assert "public" in answer.headers["cache-control"]


@pytest.mark.spec("P1")
@pytest.mark.parametrize("guess", ["nonsense", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "..%2F..%2Fetc%2Fpasswd", "%00"])
async def test_a_code_that_there_is_not_is_a_404_that_repeats_nothing(sandbox: Running, guess: str) -> None:
    answer, _ = await page(sandbox, f"/errors/{guess}", 404)
    assert b"alert" not in answer.body
    assert b"passwd" not in answer.body


async def test_every_link_of_the_documentation_leads_somewhere(sandbox: Running) -> None:
    seen: set[str] = set()
    waiting = ["/docs", "/errors"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = await ask(f"{sandbox.ready.pages}{path}")
        assert answer.status == 200, path
        if "html" not in answer.headers["content-type"]:
            continue
        links = Links(answer.body.decode())
        for lead in links.leads:
            assert not urlsplit(lead).netloc, f"{path} leads to a third party: {lead}"
            where, _, name = lead.partition("#")
            assert not name or name in links.names, (path, lead)
            if where:
                waiting.append(urljoin(path, where))
    assert {"/docs", "/errors", "/openapi.json", "/static/docs.css"} <= seen


async def test_the_served_document_is_sound_and_says_where_it_is(sandbox: Running) -> None:
    answer = await ask(f"{sandbox.ready.pages}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    document = json.loads(answer.body)
    validate(document)
    assert document["openapi"].startswith("3.1")
    assert document["servers"] == [{"url": sandbox.ready.api}]
    types = document["components"]["schemas"]["Problem"]["properties"]["type"]["examples"]
    assert all(each.startswith(f"{sandbox.ready.pages}/errors/") for each in types)


async def test_the_documentation_names_every_endpoint_member_and_code(sandbox: Running) -> None:
    document = (await ask(f"{sandbox.ready.pages}/openapi.json")).json
    answer, links = await page(sandbox, "/docs")
    text = answer.body.decode()
    for path, item in document["paths"].items():
        assert path in text
        for operation in item.values():
            assert operation["operationId"] in links.names
            for parameter in operation.get("parameters", ()):
                assert f"<code>{parameter['name']}</code>" in text
    for name, schema in document["components"]["schemas"].items():
        assert name in links.names
        for member in schema.get("properties", ()):
            assert f"<code>{member}</code>" in text
    for cause in PROBLEM_TYPES:
        if cause.segment != "business_logic_error":  # Nothing emits it (P2).
            assert f"/errors/{cause.segment}" in links.leads
    assert sandbox.ready.api in text
    assert sandbox.merchant.key not in text
    assert re.search(r"<style|style=", text) is None


async def test_the_documentation_follows_the_settings(serve: Serve) -> None:
    environment = {
        "MMO_GATEWAY_BASE_URL": "https://pay.example",
        "MMO_GATEWAY_ERROR_DOCS_URL": "https://docs.example/codes",
    }
    async with serve(environment=environment) as sandbox:
        document = (await ask(f"{sandbox.ready.pages}/openapi.json")).json
        assert document["servers"] == [{"url": "https://pay.example"}]
        told = await page(sandbox, "/errors/bad_request")
        assert b"https://docs.example/codes/bad_request" in told[0].body
