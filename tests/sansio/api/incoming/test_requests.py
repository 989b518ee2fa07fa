"""Paths, methods and heads that the API may be sent, row by row: the pure side (A1, A2, G1, L1 to
L3)."""

from __future__ import annotations

import pytest
from attrs import evolve

from mmo_sansio.api.incoming import requests
from mmo_sansio.api.incoming.query_string import RecordsRequest
from mmo_sansio.api.incoming.requests import (
    ApiRoute,
    CreateRoute,
    HealthRoute,
    ListRecordsRoute,
    LookUpByMerchantReferenceRoute,
    LookUpRoute,
    ReadinessRoute,
    Route,
    WebhookRoute,
    find_route,
    look_up,
    look_up_by_merchant_reference,
)
from mmo_sansio.http.messages import RequestHead
from mmo_sansio.messages.queries import LookUp, LookUpByMerchantReference
from mmo_sansio.values.model import Operation
from mmo_sansio.values.problems import Problem, ProblemError
from tests.support.api_requests import BRAND, SETTINGS, ULID, request

V2 = b"/gateway/mmo/v2"


def refusal(head: RequestHead) -> Problem:
    with pytest.raises(ProblemError) as caught:
        find_route(head)
    return caught.value.problem


@pytest.mark.spec("G1", "C1", "C2", "C3", "C4", "C5", "L1", "L2", "R1")
@pytest.mark.parametrize(
    ("method", "target", "found"),
    [
        *(
            ("POST", b"%s/%s/mpesa_ke" % (V2, each.value.encode()), CreateRoute(each, "mpesa_ke"))
            for each in Operation
        ),
        ("POST", V2 + b"/web/payin/m%2F%C3%A9?x=1", CreateRoute(Operation.WEB_PAYIN, "m/é")),
        ("GET", V2 + b"/status/" + ULID.encode(), LookUpRoute(ULID)),
        ("GET", V2 + b"/status/x?y", LookUpRoute("x")),
        ("GET", V2 + b"/status/mref/order-1", LookUpByMerchantReferenceRoute("order-1")),
        ("GET", V2 + b"/records", ListRecordsRoute(b"")),
        ("GET", V2 + b"/records?from=a%20b&to=?", ListRecordsRoute(b"from=a%20b&to=?")),
        ("GET", b"/healthz", HealthRoute()),
        ("GET", b"/readyz?x", ReadinessRoute()),
        ("POST", b"/hooks/mpesa/t%2Ft", WebhookRoute("mpesa", "t/t")),
        ("PUT", b"/hooks/momo/token", WebhookRoute("momo", "token")),
        ("POST", b"/hooks/momo/token/and/more?x", WebhookRoute("momo", "token")),
    ],
)
def test_a_path_names_a_resource(method: str, target: bytes, found: Route) -> None:
    assert find_route(RequestHead(method, target)) == found


@pytest.mark.spec("G1", "C5", "L3")
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(target, id=f"row {row}: {target!r}")
        for row, targets in {
            10: [b"/", b"*", b"", b"/gateway/mmo/v1/records", b"/gateway/mmo/v2", b"/other"]
            + [b"/GATEWAY/mmo/v2/records"]
            + [V2 + path for path in (b"/", b"/direct", b"/direct/payin", b"/direct/payin/a/b")]
            + [V2 + b"/Records"]
            + [V2 + path for path in (b"/web/payout/m", b"/qr/taxpayout/m", b"/push/payin/m")]
            + [V2 + b"/%64irect/payin/m"]
            + [b"/hooks", b"/hooks/a", b"/hooks/a/", b"/hooks//b", b"/hooks//b/c", b"/healthz/"],
            14: [b"/" + V2 + b"/records", b"//gateway//mmo/v2/records", V2 + b"/records/"]
            + [V2 + b"//records"]
            + [V2 + path for path in (b"/direct/payin/m/", b"/direct//m", b"/status/x/")]
            + [V2 + b"/./records"]
            + [V2 + b"/../v2/records"],
            103: [
                *(V2 + b"/status/mref/", V2 + b"/status/", V2 + b"/status//x"),
                V2 + b"/direct/payin/",
            ],
            102: [
                V2 + path + bad
                for path in (b"/status/mref/", b"/status/", b"/direct/payin/")
                for bad in (
                    *(b"%", b"a%2", b"%zz", b"%C3", b"%ED%A0%80"),
                    *(b"%C0%AF", b"a%00", b"%u0041", b"%+1"),
                )
            ],
        }.items()
        for target in targets
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_any_other_path_is_not_found(method: str, target: bytes) -> None:
    problem = refusal(RequestHead(method, target))
    assert (problem.status, problem.segment) == (404, "not_found")


@pytest.mark.spec("P4", "G3")
@pytest.mark.parametrize(
    ("target", "methods", "allow"),
    [
        (V2 + b"/direct/payin/m", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "post"], "POST"),
        (V2 + b"/status/x", ["POST", "OPTIONS", "PUT", "get", "TRACE"], "GET, HEAD"),
        (V2 + b"/status/mref/x", ["POST", "OPTIONS", "PATCH"], "GET, HEAD"),
        (V2 + b"/records", ["POST", "OPTIONS", "QUERY"], "GET, HEAD"),
        (b"/healthz", ["POST"], "GET, HEAD"),
        (b"/readyz", ["POST"], "GET, HEAD"),
        (b"/hooks/a/b", ["GET", "HEAD", "OPTIONS"], "POST, PUT"),
    ],
)
def test_rows_11_and_13_the_answer_to_another_method_names_the_known_ones(
    target: bytes, methods: list[str], allow: str
) -> None:
    for method in methods:
        problem = refusal(RequestHead(method, target))
        assert (problem.status, problem.segment) == (405, "method_not_allowed")
        assert problem.allow == allow


@pytest.mark.spec("G1")
@pytest.mark.parametrize("path", [V2 + b"/status/x", V2 + b"/records", b"/healthz"])
def test_row_12_head_is_routed_as_get(path: bytes) -> None:
    assert find_route(RequestHead("HEAD", path)) == find_route(RequestHead("GET", path))


@pytest.mark.spec("L2", "L3")
@pytest.mark.parametrize(
    ("segment", "reference"),
    [
        pytest.param(*rest, id=f"row {row}: {rest[0][:30]!r}")
        for row, *rest in (
            (97, b"a%2Fb", "a/b"),
            (97, b"a%2fb", "a/b"),
            (98, b"a%252Fb", "a%2Fb"),
            (100, b"a+b", "a+b"),
            (100, b"a%20b", "a b"),
            (79, b"a%3Fb%23;x=1", "a?b#;x=1"),
            (79, b"%F0%9F%98%80%E2%80%AE", "\U0001f600\u202e"),
            (80, b"%20a%20", " a "),
            (79, b"mref", "mref"),
            (102, b"%F0%9F%98%80" * 255, "\U0001f600" * 255),
        )
    ],
)
def test_a_merchant_reference_is_decoded_once(segment: bytes, reference: str) -> None:
    found = find_route(RequestHead("GET", V2 + b"/status/mref/" + segment))
    assert found == LookUpByMerchantReferenceRoute(reference)
    assert look_up_by_merchant_reference("acme", reference) == LookUpByMerchantReference(
        "acme", reference
    )


@pytest.mark.spec("L2", "L3")
@pytest.mark.parametrize("length", [256, 8_000, 20_000])
def test_row_102_a_reference_too_long_to_exist_asks_no_store(length: int) -> None:
    with pytest.raises(ProblemError) as caught:
        look_up_by_merchant_reference("acme", "x" * length)
    assert caught.value.problem.status == 404


@pytest.mark.spec("L1")
@pytest.mark.parametrize(
    "given", [ULID, ULID.lower(), ULID[:13].lower() + ULID[13:], "0" * 26, "7" + "Z" * 25]
)
def test_a_ulid_may_have_letters_of_either_case(given: str) -> None:
    assert look_up("acme", given) == LookUp("acme", given.upper())


@pytest.mark.spec("L1")
@pytest.mark.parametrize(
    "given",
    [
        *(
            pytest.param(given, id=f"row 94: {given!r}")
            for given in ("", "x", "mref", ULID[:25], ULID + "0")
        ),
        *(
            pytest.param(given, id=f"row 94: {given!r}")
            for given in ("8" + ULID[1:], "9" * 26, "Z" * 26)
        ),
        *(
            pytest.param(ULID[:-1] + letter, id=f"row 94: {letter!r}")
            for letter in "ILOUilou-_ \n٣\u017f\u212a"
        ),
        pytest.param("ß" + ULID[2:], id="row 94: one letter that becomes two"),
    ],
)
def test_what_is_no_ulid_asks_no_store(given: str) -> None:
    with pytest.raises(ProblemError) as caught:
        look_up("acme", given)
    assert (caught.value.problem.status, caught.value.problem.segment) == (404, "not_found")


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(fields, id=f"row {row}: {fields!r:.40}")
        for row, fields in (
            (1, ()),
            (2, ((b"x-api-key", b""),)),
            (2, ((b"x-api-key", b"   "),)),
            (5, ((b"x-api-key", "schlüssel".encode()),)),
            (5, ((b"x-api-key", b"\xff"),)),
            (5, ((b"x-api-key", b"k" * 10_240),)),
            (5, ((b"x-api-key", b"two words"),)),
            (5, ((b"x-api-key", b"a-key"), (b"x-api-key", b"a-key"))),
        )
    ],
)
def test_a_key_that_can_be_none_is_unauthorized(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    head = RequestHead("GET", V2 + b"/records?X-Api-Key=a-key&x-api-key=a-key", fields)
    with pytest.raises(ProblemError) as caught:
        requests.read_api_key(head)
    assert (caught.value.problem.status, caught.value.problem.segment) == (401, "unauthorized")


@pytest.mark.spec("A1")
def test_a_key_is_taken_from_its_header() -> None:
    assert requests.read_api_key(request(headers=((b"x-api-key", b" a-key\t"),))) == b"a-key"


@pytest.mark.spec("A2")
def test_row_8_a_disabled_brand_is_rejected_as_such() -> None:
    query = requests.check_head(request(), LookUpRoute(ULID), BRAND, SETTINGS)
    assert query == LookUp(BRAND.id, ULID)
    with pytest.raises(ProblemError) as caught:
        requests.check_head(request(), LookUpRoute(ULID), evolve(BRAND, enabled=False), SETTINGS)
    problem = caught.value.problem
    assert (problem.status, problem.error_code) == (400, "validation_failed")
    assert problem.segment == "merchant_disabled"


CREATION = CreateRoute(Operation.DIRECT_PAYIN, "mpesa_ke")


@pytest.mark.spec("A1", "A2", "C9", "G2", "L1", "L2", "R1")
@pytest.mark.parametrize(
    ("route", "last"),
    [
        (CREATION, "bad_request"),
        (LookUpRoute("x"), "not_found"),
        (LookUpByMerchantReferenceRoute("x" * 256), "not_found"),
        (ListRecordsRoute(b""), "validation_failed"),
    ],
)
def test_the_head_is_checked_in_the_order_of_c9(route: ApiRoute, last: str) -> None:
    """The key's brand, whether it is enabled, and only then what the route itself needs."""
    disabled = evolve(BRAND, enabled=False)
    for brand, segment in ((None, "unauthorized"), (disabled, "merchant_disabled"), (BRAND, last)):
        with pytest.raises(ProblemError) as caught:
            requests.check_head(request(headers=()), route, brand, SETTINGS)
        assert caught.value.problem.segment == segment


@pytest.mark.spec("C1", "L1", "L2", "R1")
def test_a_good_head_becomes_a_query_or_waits_for_its_body() -> None:
    head = request()
    assert requests.check_head(head, CREATION, BRAND, SETTINGS) == requests.CreationHead(
        head, CREATION, BRAND
    )
    by_merchant = LookUpByMerchantReferenceRoute("order-1")
    assert requests.check_head(head, by_merchant, BRAND, SETTINGS) == LookUpByMerchantReference(
        BRAND.id, "order-1"
    )
    records = requests.check_head(
        head, ListRecordsRoute(b"from=2026-11-01&to=2026-12-01"), BRAND, SETTINGS
    )
    assert isinstance(records, RecordsRequest)
    assert records.query.brand == BRAND.id


@pytest.mark.spec("G2")
@pytest.mark.parametrize(("length", "accepted"), [(256, True), (257, False), (30_000, False)])
def test_a_content_type_is_read_up_to_256_bytes(length: int, accepted: bool) -> None:
    value = b"application/json".ljust(length, b";")
    head = request(headers=((b"x-api-key", b"a-key"), (b"content-type", value)))
    route = find_route(head)
    assert isinstance(route, CreateRoute)
    if accepted:
        requests.check_head(head, route, BRAND, SETTINGS)
    else:
        with pytest.raises(ProblemError, match="Content-Type must be application/json"):
            requests.check_head(head, route, BRAND, SETTINGS)
