"""What developers read: a page behind every `type`, the OpenAPI document, and its documentation;
through sockets."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote, urlencode, urljoin, urlsplit

import pytest
from openapi_spec_validator import validate

from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.problems import PROBLEM_TYPES
from mmo_trio.pages.context import LISTENER_URL
from tests.support.merchant import Answer, ask
from tests.support.sandbox_gateway import Running, Serve

CODES = [each.segment for each in PROBLEM_TYPES] + [each.value for each in ErrorCode]


class Links(HTMLParser):
    """Where a page leads, the names it has, and what scripts it would run that are no files of its
    own."""

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
        is_own_file = tag == "script" and (given.get("src") or "").startswith("/static/")
        if (tag in {"script", "iframe"} and not is_own_file) or any(
            name.startswith("on") for name in given
        ):
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
        shown = answer.body.decode().replace("<wbr>", "")
        assert f"<h1><code>{refused.segment}</code></h1>" in shown


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
@pytest.mark.parametrize(
    "guess", ["nonsense", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "..%2F..%2Fetc%2Fpasswd", "%00"]
)
async def test_a_code_that_there_is_not_is_a_404_that_repeats_nothing(
    sandbox: Running, guess: str
) -> None:
    answer, _ = await page(sandbox, f"/errors/{guess}", 404)
    assert b"alert" not in answer.body
    assert b"passwd" not in answer.body


async def test_every_link_of_the_documentation_leads_somewhere(sandbox: Running) -> None:
    seen: set[str] = set()
    places: set[str] = set()
    wanted: set[str] = set()
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
        places |= {f"{path}#{name}" for name in links.names}
        for lead in links.leads - {"data:,"}:
            assert not urlsplit(lead).netloc, f"{path} leads to a third party: {lead}"
            where, _, name = lead.partition("#")
            if where.startswith("/?number="):
                continue  # A test number, for the form of the sandbox's front.
            if name:
                wanted.add(f"{urljoin(path, where or path)}#{name}")
            if where:
                waiting.append(urljoin(path, where))
    assert wanted <= places
    assert {
        "/docs",
        "/errors",
        "/openapi.json",
        "/docs.md",
        "/llms.txt",
        "/static/docs.css",
        "/static/docs.js",
    } <= seen
    assert "/docs/try/createWebPayin" in seen


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
        assert name in links.names or "Request" in name, (
            "bodies of requests are described with their endpoints"
        )
        for member in schema.get("properties", ()):
            assert f"<code>{member}</code>" in text
    for cause in PROBLEM_TYPES:
        if cause.segment != "business_logic_error":  # Nothing emits it (P2).
            assert f"/errors/{cause.segment}" in links.leads
    assert sandbox.ready.api in text
    assert re.search(r"<style|style=", text) is None


async def test_the_reference_is_small(sandbox: Running) -> None:
    """All bytes of the first view, nothing compressed."""
    answer, links = await page(sandbox, "/docs")
    files = [each for each in links.leads if each.startswith(("/static/", "/design.css"))]
    assert len(files) == 4
    sizes = [len((await ask(f"{sandbox.ready.pages}{each}")).body) for each in files]
    assert len(answer.body) + sum(sizes) < 150 * 1024


async def test_a_sandbox_fills_its_key_into_the_examples_and_lets_no_name_read_it(
    sandbox: Running,
) -> None:
    answer, _ = await page(sandbox, "/docs")
    assert answer.body.decode().count(sandbox.merchant.key) > 5 * 8
    assert answer.headers["cache-control"] == "no-store", "a key may change"
    # A site that has its own name lead to this machine would be same-origin with the page.
    rebound = await ask(f"{sandbox.ready.pages}/docs", headers={"Host": "attacker.example"})
    assert rebound.status == 200
    assert sandbox.merchant.key not in rebound.body.decode()
    assert (
        sandbox.merchant.key
        not in (await ask(f"{sandbox.ready.pages}/docs/try/createDirectPayin")).body.decode()
    )


async def test_programs_read_examples_that_the_sandbox_accepts_and_other_sites_do_not(
    sandbox: Running,
) -> None:
    for path in ("/docs.md", "/llms.txt"):
        answer = await ask(f"{sandbox.ready.pages}{path}")
        text = answer.body.decode()
        assert sandbox.merchant.key in text
        assert sandbox.ready.api in text
        assert LISTENER_URL in text
        assert "YOUR_API_KEY" not in text
        assert "https://shop.example/callbacks" not in text.partition("## Objects")[0]
        assert answer.headers["cache-control"] == "no-store", "a key may change"
        assert "access-control-allow-origin" not in answer.headers, (
            "a page of another site could read the key"
        )
        rebound = await ask(f"{sandbox.ready.pages}{path}", headers={"Host": "attacker.example"})
        assert sandbox.merchant.key not in rebound.body.decode()
        assert rebound.headers["access-control-allow-origin"] == "*"


async def test_programs_read_the_reference_as_markdown(sandbox: Running) -> None:
    document = (await ask(f"{sandbox.ready.pages}/openapi.json")).json
    markdown = await ask(f"{sandbox.ready.pages}/docs.md")
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    text = markdown.body.decode()
    for path, item in document["paths"].items():
        assert all(f"`{method.upper()} {path}`" in text for method in item)
    for schema in document["components"]["schemas"].values():
        assert all(f"- `{member}` (" in text for member in schema.get("properties", ()))
    assert all(f"- `{code}`" in text for code in CODES)
    assert "&" not in re.sub(r"\?from=\S+", "", text), "it is no HTML"
    overview = await ask(f"{sandbox.ready.pages}/llms.txt")
    assert overview.headers["content-type"] == "text/plain; charset=utf-8"
    lines = overview.body.decode().splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("> ")
    links = re.findall(r"\]\(([^)]+)\)", overview.body.decode())
    assert {"/docs.md", "/openapi.json", "/errors", "/docs#createQrPayin"} <= set(links)
    for each in links:
        assert (await ask(f"{sandbox.ready.pages}{each.partition('#')[0]}")).status == 200


@pytest.mark.parametrize(
    ("sought", "first"),
    [
        ("hosted page", "/docs#createWebPayin"),
        ("payer.msisdn", "/docs#createDirectPayin"),
        ("duplicate_req", "/errors/duplicate_request"),
        ("duplicate", "/errors/merchant_transactionid_duplicate"),
        ("duplicate_request", "/errors/duplicate_request"),
        ("merchant_transactionid", "/errors/merchant_transactionid_duplicate"),
        ("113", "/docs#numbers"),
    ],
)
async def test_the_search_finds(sandbox: Running, sought: str, first: str) -> None:
    _, links = await page(sandbox, f"/docs/search?q={quote(sought)}")
    assert first in links.leads
    part = await ask(f"{sandbox.ready.pages}/docs/search?part=1&q={quote(sought)}")
    assert re.findall(r'href="([^"]+)"', part.body.decode())[0] == first


async def test_what_is_sought_is_repeated_as_text_only(sandbox: Running) -> None:
    answer, _ = await page(sandbox, "/docs/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert b"&lt;script&gt;alert(1)" in answer.body


async def submit_form(sandbox: Running, path: str, **fields: str) -> Answer:
    """Send a form as a browser does."""
    return await ask(
        f"{sandbox.ready.pages}{path}",
        method="POST",
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        },
        body=urlencode(fields).encode(),
    )


def suggested_body(form: Answer) -> str:
    """Return the body that the form has at first."""
    (text,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", form.body.decode(), re.DOTALL)
    return unescape(text)


async def test_a_site_that_leads_its_own_name_here_cannot_use_the_key(sandbox: Running) -> None:
    body = suggested_body((await page(sandbox, "/docs/try/createDirectPayout"))[0])
    tried = await ask(
        f"{sandbox.ready.pages}/docs/try/createDirectPayout",
        method="POST",
        headers={
            "Host": "attacker.example",
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
        },
        body=urlencode({"method": "mpesa_ke", "body": body}).encode(),
    )
    assert "<b>Answer 401</b>" in tried.body.decode()
    assert "Sent without a key, as this page was opened by a name" in tried.body.decode()
    reference = json.loads(body)["merchantReference"]
    assert (await sandbox.merchant.get(f"status/mref/{reference}")).status == 404


async def test_a_request_is_tried_from_the_page(sandbox: Running) -> None:
    form, _ = await page(sandbox, "/docs/try/createDirectPayin")
    body = suggested_body(form)
    reference = json.loads(body)["merchantReference"]
    tried = await submit_form(sandbox, "/docs/try/createDirectPayin", method="mpesa_ke", body=body)
    assert "<b>Answer 200</b>" in tried.body.decode()
    found = await sandbox.merchant.get(f"status/mref/{reference}")
    assert found.status == 200
    again = await submit_form(sandbox, "/docs/try/createDirectPayin", method="mpesa_ke", body=body)
    assert "<b>Answer 422</b>" in again.body.decode()
    assert '<a href="/errors/merchant_transactionid_duplicate">' in again.body.decode()
    looked_up = await submit_form(
        sandbox, "/docs/try/lookUpByMerchantReference", merchantReference=reference
    )
    assert "<b>Answer 200</b>" in looked_up.body.decode()
    listed = await submit_form(
        sandbox, "/docs/try/listRecords", **{"from": "2026-11-01", "to": "2100-01-01"}
    )
    assert reference in listed.body.decode()
    unreadable = await submit_form(
        sandbox, "/docs/try/createDirectPayin", method="mpesa_ke", body="{"
    )
    assert '<a href="/errors/bad_request">' in unreadable.body.decode()


async def test_a_scenario_is_tried_and_what_is_written_in_a_path_stays_in_its_place(
    sandbox: Running,
) -> None:
    form, _ = await page(sandbox, "/docs/try/createDirectPayin")
    body = suggested_body(form)
    fields = {"method": "mpesa_ke", "X-Sandbox-Scenario": "user_busy", "body": body}
    await submit_form(sandbox, "/docs/try/createDirectPayin", **fields)
    await sandbox.advance("1m")
    ended = await sandbox.merchant.get(f"status/mref/{json.loads(body)['merchantReference']}")
    assert ended.json["errorCode"] == "user_busy"
    aside = await submit_form(
        sandbox, "/docs/try/lookUp", gatewayReference="../records?from=2026-11-01&to=2027-01-01"
    )
    assert "<b>Answer 404</b>" in aside.body.decode()


async def test_another_site_can_not_try_requests(sandbox: Running) -> None:
    answer = await ask(
        f"{sandbox.ready.pages}/docs/try/isAlive",
        method="POST",
        headers={"Sec-Fetch-Site": "cross-site"},
        body=b"",
    )
    assert answer.status == 403
    assert (await ask(f"{sandbox.ready.pages}/docs/try/nothing")).status == 404


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


async def test_who_looks_for_a_refund_is_told_how_money_goes_back(sandbox: Running) -> None:
    for path in ("/docs", "/docs.md"):
        text = (await ask(f"{sandbox.ready.pages}{path}")).body.decode()
        assert "This API has no refund." in text
        assert "brings no callback" in text
        assert "GET /extensions/v1/reversals" in text
