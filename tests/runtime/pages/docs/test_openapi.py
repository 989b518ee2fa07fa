"""The OpenAPI document is sound, and says of limits, enums, codes and members what the code
says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate

from mmo_sansio.api.docs.openapi import openapi_document
from mmo_sansio.api.docs.schemas import document_text, request_example, request_name
from mmo_sansio.api.incoming import creation_body
from mmo_sansio.api.outgoing import qr_code_request, transaction_object
from mmo_sansio.http.egress_rules import URL_LENGTH_MAX
from mmo_sansio.providers.sandbox.scenarios import SCENARIO_TEXTS, SCENARIOS
from mmo_sansio.testing.builders import a_transaction
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Flow,
    Operation,
    QrCode,
    Source,
    Stage,
    Status,
    Transaction,
    Type,
)
from mmo_sansio.values.problems import PROBLEM_TYPES
from mmo_trio.pages.docs.code_samples import LANGUAGES
from mmo_trio.pages.docs.openapi_view import build_reference
from tests.support import openapi_conformance

DOCS = "https://docs.example/errors"
DOCUMENT = openapi_document(
    base_url="https://pay.example", error_docs_url=DOCS, sandbox_scenarios=SCENARIO_TEXTS
)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
ROOT = "/gateway/mmo/v2"


def check(schema: dict[str, Any], value: Any) -> None:
    """The value is what the schema says; raises ValidationError."""
    within = {"components": DOCUMENT["components"]} | schema
    Draft202012Validator(within).validate(value)


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """(path, method, operation) of every endpoint."""
    return [
        (path, method, operation)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    ]


@pytest.mark.parametrize("scenarios", [None, SCENARIO_TEXTS])
def test_the_document_is_sound(scenarios: Mapping[str, str] | None) -> None:
    document = openapi_document(
        base_url="https://pay.example", error_docs_url=DOCS, sandbox_scenarios=scenarios
    )
    validate(document)
    text = document_text(document, indent=1)
    assert json.loads(text, parse_float=Decimal) == document
    has_header = "X-Sandbox-Scenario" in text
    assert has_header == (scenarios is not None), "production has no scenarios"


def test_every_endpoint_is_there_and_says_what_may_come_back() -> None:
    creations = {(f"{ROOT}/{each.value}/{{method}}", "post") for each in Operation}
    others = {
        (f"{ROOT}/status/{{gatewayReference}}", "get"),
        (f"{ROOT}/status/mref/{{merchantReference}}", "get"),
        (f"{ROOT}/records", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
    }
    assert {(path, method) for path, method, _ in operations()} == creations | others
    for path, method, operation in operations():
        assert operation["summary"], path
        assert {"200", "400", "405", "500", "503"} <= set(operation["responses"]), path
        assert ("422" in operation["responses"]) == (method == "post"), path
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)


@pytest.mark.spec("T2", "T3")
def test_the_transaction_object_has_the_members_of_the_serializer() -> None:
    written = json.loads(transaction_object(a_transaction()))
    schema = SCHEMAS["Transaction"]
    assert list(schema["properties"]) == list(written) == schema["required"]
    schemas = openapi_conformance.DOCUMENT["components"]["schemas"]
    assert schemas["Transaction"]["additionalProperties"] is False
    check(schema, written)
    party, money = SCHEMAS["Party"], SCHEMAS["Money"]
    assert list(party["properties"]) == list(written["party"])
    assert list(money["properties"]) == list(written["requestedAmount"])


@pytest.mark.spec("Q1")
def test_a_qr_code_is_what_is_really_sent() -> None:
    made = a_transaction(Stage.AWAITING_RESULT)
    order = evolve(made.order, display_qr_url="https://shop.example/qr")
    for payload in ("00020101021226", None):
        progress = evolve(made.progress, qr=QrCode(payload, None))
        sent = json.loads(
            qr_code_request(Transaction(order, progress), b"key", image="iVBORw0KGgo=").body
        )
        check(SCHEMAS["QrCode"], sent)
        assert list(SCHEMAS["QrCode"]["properties"]) == list(sent)


@pytest.mark.spec("E1", "T1", "S2")
def test_enums_are_the_codes_own() -> None:
    members = SCHEMAS["Transaction"]["properties"]
    assert members["status"]["enum"] == [each.value for each in Status]
    assert members["type"]["enum"] == [each.value for each in Type]
    assert members["flow"]["enum"] == [each.value for each in Flow]
    assert members["errorCode"]["examples"] == [each.value for each in ErrorCode]
    assert members["completionSource"]["examples"] == [each.value for each in Source]
    assert "enum" not in members["completionSource"], "unknown values are information only"


@pytest.mark.spec("P1", "P2", "P4")
def test_problems_are_those_of_the_catalogue() -> None:
    members = SCHEMAS["Problem"]["properties"]
    assert members["type"]["examples"] == [f"{DOCS}/{each.segment}" for each in PROBLEM_TYPES]
    assert set(members["errorCode"]["examples"]) == {each.error_code for each in PROBLEM_TYPES}
    examples: dict[str, Any] = {}
    for response in DOCUMENT["components"]["responses"].values():
        content = response["content"]["application/problem+json"]
        assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
        examples |= {name: each["value"] for name, each in content["examples"].items()}
    for cause in PROBLEM_TYPES:
        if cause.segment == "business_logic_error":  # Nothing emits it (P2).
            assert cause.segment not in examples
            continue
        example = examples[cause.segment]
        check(SCHEMAS["Problem"], example)
        assert (example["status"], example["title"]) == (cause.status, cause.title)


def test_every_component_is_used() -> None:
    text = json.dumps(DOCUMENT, default=str)
    for kind in ("schemas", "responses", "headers"):
        for name in DOCUMENT["components"][kind]:
            assert f'"#/components/{kind}/{name}"' in text, name


def test_tools_learn_what_is_exact_what_is_a_time_and_what_a_request_looks_like() -> None:
    assert "jsonSchemaDialect" not in DOCUMENT, "Prism checks no body where it is named"
    assert [
        SCHEMAS[each]["properties"]["value"]["format"] for each in ("Money", "RequestedMoney")
    ] == ["decimal"] * 2
    times = [SCHEMAS["Transaction"]["properties"][each] for each in ("createdAt", "completedAt")]
    assert [each["format"] for each in times] == ["date-time"] * 2
    for path, method, operation in operations():
        assert operation["description"], path
        if method == "post":
            content = operation["requestBody"]["content"]["application/json"]
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert content["example"] == SCHEMAS[name]["examples"][0], path
            for called in operation["callbacks"].values():
                (each,) = called.values()
                assert {"2XX", "4XX"} <= set(each["post"]["responses"])


@pytest.mark.spec("V1", "M1", "M3", "M4", "C8", "C10", "C13", "C14")
def test_limits_are_the_specifications() -> None:
    request = SCHEMAS["WebPayinRequest"]["properties"]
    party = SCHEMAS["RequestedParty"]["properties"]
    for schema, longest in (
        (request["country"], 10),
        (request["resultUrl"], URL_LENGTH_MAX),
        (request["successRedirectUrl"], URL_LENGTH_MAX),
        (request["errorRedirectUrl"], URL_LENGTH_MAX),
        (request["merchantReference"], creation_body.TEXT_MAX),
        (request["reconciliationReference"], creation_body.TEXT_MAX),
        (SCHEMAS["QrPayinRequest"]["properties"]["displayQrUrl"], URL_LENGTH_MAX),
        (party["id"], creation_body.TEXT_MAX),
        (party["firstName"], creation_body.TEXT_MAX),
        (party["lastName"], creation_body.TEXT_MAX),
        (party["email"], creation_body.EMAIL_MAX),
        (party["msisdn"], creation_body.MSISDN_MAX),
    ):
        assert schema["maxLength"] == longest
    assert party["msisdn"]["minLength"] == creation_body.MSISDN_MIN
    assert SCHEMAS["RequestedLabels"]["maxProperties"] == creation_body.LABELS_MAX
    assert SCHEMAS["RequestedMoney"]["properties"]["value"]["exclusiveMinimum"] == 0
    path = DOCUMENT["paths"][f"{ROOT}/direct/payin/{{method}}"]["post"]["parameters"][0]
    assert path["schema"]["maxLength"] == creation_body.METHOD_MAX


def test_the_currency_of_a_request_is_in_capitals() -> None:
    """Small letters are the code of no currency, so what says that they fit would send somebody
    into a refusal."""
    currency = {"$ref": "#/components/schemas/RequestedMoney/properties/currency"}
    check(currency, "KES")
    with pytest.raises(ValidationError):
        check(currency, "kes")


@pytest.mark.parametrize("operation", Operation)
def test_every_example_is_right(operation: Operation) -> None:
    check(SCHEMAS[request_name(operation)], request_example(operation))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_shape_agrees_with_its_example(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    for example in SCHEMAS[name].get("examples", ()):
        check(SCHEMAS[name], example)


@pytest.mark.spec("K1", "K2", "Q1", "S4")
def test_callbacks_and_the_push_are_told_of() -> None:
    callbacks = DOCUMENT["paths"][f"{ROOT}/qr/payin/{{method}}"]["post"]["callbacks"]
    for name, member, shape in (
        ("result", "resultUrl", "Transaction"),
        ("qrCode", "displayQrUrl", "QrCode"),
    ):
        called = callbacks[name][f"{{$request.body#/{member}}}"]["post"]
        sent = called["requestBody"]["content"]["application/json"]["schema"]
        assert sent == {"$ref": f"#/components/schemas/{shape}"}
        (key,) = called["parameters"]
        assert (key["name"], key["in"], key["required"]) == ("X-API-KEY", "header", True)
        assert "15 seconds" in called["responses"]["2XX"]["description"]
    assert list(DOCUMENT["webhooks"]) == ["deposit"]


@pytest.mark.spec("E1", "G4")
def test_a_client_made_from_the_document_outlives_a_new_member_and_a_new_code() -> None:
    """The pages ask merchants to ignore members that they do not know, and the catalogue may
    grow."""
    written = json.loads(
        transaction_object(a_transaction(Stage.FAILED, error_code=ErrorCode.USER_BUSY))
    )
    check(SCHEMAS["Transaction"], written | {"errorCode": "user_asleep", "refundedAmount": None})
    problem = dict(SCHEMAS["Problem"]["examples"][0])
    check(
        SCHEMAS["Problem"], problem | {"type": f"{DOCS}/config_unsupported_colour", "traceId": "x"}
    )
    check(SCHEMAS["QrCode"], SCHEMAS["QrCode"]["examples"][0] | {"deepLink": "mpesa://"})


@pytest.mark.spec("M3", "M4", "V1")
def test_the_page_shows_patterns_and_the_limits_of_labels() -> None:
    endpoints = {each.body_schema: each for each in build_reference(DOCUMENT).endpoints}
    members = {each.name: each for each in endpoints["WebPayinRequest"].body}
    party = {each.name: each for each in members["payer"].members}
    assert party["msisdn"].constraints == "3 to 20 characters; matches `^\\+?[1-9][0-9]*$`"
    assert "without spaces or hyphens" in party["msisdn"].description
    assert "at most 320 characters; matches `^" in party["email"].constraints
    labels = members["labels"]
    assert "at most 10 entries" in labels.constraints
    assert "1 to 255 characters" in labels.description
    assert "control characters" in labels.description
    assert "at most 1000 characters; no control characters" in labels.members[0].constraints
    assert "that is not the gateway's own" in members["resultUrl"].description
    assert "gateway's staff have added" in members["successRedirectUrl"].description


@pytest.mark.spec("M1", "G6")
def test_the_examples_write_amounts_with_their_currencys_decimals() -> None:
    reference = build_reference(DOCUMENT)
    texts = [document_text(DOCUMENT, indent=1), *(each.example or "" for each in reference.schemas)]
    texts += [
        language.write(each.example)
        for each in reference.endpoints
        for language in LANGUAGES.values()
    ]
    texts += [each.response_example for each in reference.endpoints]
    amounts = re.findall(
        r'"?value"?(?:: | => )([0-9.]+),\s*"?currency"?(?:: | => )"KES"', "".join(texts)
    )
    assert len(amounts) > 5 * len(LANGUAGES)
    assert [each for each in amounts if not re.fullmatch(r"[0-9]+\.[0-9]{2}", each)] == []


def test_the_scenario_header_says_what_each_value_means_and_which_number_selects_it() -> None:
    parameters = DOCUMENT["paths"][f"{ROOT}/direct/payin/{{method}}"]["post"]["parameters"]
    [header] = [each for each in parameters if each["name"] == "X-Sandbox-Scenario"]
    for each in SCENARIOS:
        assert f"- `{each.name}`: {each.description}" in header["description"]
        assert each.digits is None or f"ends in {each.digits}" in header["description"]
