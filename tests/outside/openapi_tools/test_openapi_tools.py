"""Tools that read OpenAPI take a sandbox's own document: checkers find nothing, a mock server
refuses what the gateway would refuse, and what generators write pays."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_gateway import Sandbox, fetch, serving_sandbox
from tests.support.time_limits import HANGS_AFTER_S

PROGRAMS = Path(__file__).parent / "programs"
CREATION = "/gateway/mmo/v2/direct/payin/mpesa_ke"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with serving_sandbox(tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture(scope="module")
def document(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of what the sandbox says of itself; tools write beside it."""
    file = tmp_path_factory.mktemp("document") / "openapi.json"
    file.write_bytes(fetch(f"{sandbox.pages}/openapi.json").body)
    return file


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    """Run a tool, which must succeed; what it printed."""
    program = shutil.which(str(words[0]))
    assert program is not None, f"{words[0]} is missing: run `nox -s outside`, which installs it."
    done = subprocess.run(
        [program, *map(str, words[1:])],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def request_example(document: Path) -> dict[str, Any]:
    described = json.loads(document.read_bytes())["paths"][
        CREATION.replace("mpesa_ke", "{method}")
    ]["post"]
    example: dict[str, Any] = described["requestBody"]["content"]["application/json"]["example"]
    return example


def test_redocly_finds_nothing(document: Path) -> None:
    said = run(
        "redocly", "lint", "--format=json", document, cwd=document.parent, REDOCLY_TELEMETRY="off"
    )
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert found["problems"] == []


def test_spectral_finds_nothing(document: Path) -> None:
    rules = document.with_name("rules.json")
    rules.write_text('{"extends": ["spectral:oas"]}', "utf-8")
    run(
        "spectral",
        "lint",
        "--ruleset",
        rules,
        "--fail-severity=hint",
        document,
        cwd=document.parent,
    )


@contextmanager
def mock_server(document: Path) -> Iterator[str]:
    """Prism in the place of the gateway; where it listens."""
    command = ["prism", "mock", "--port", "0", str(document)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"listening on (http://\S+?:[1-9]\d*)", line):
                    yield found[1]
                    break
            else:
                pytest.fail("Prism does not listen")
        finally:
            process.terminate()


def test_prism_refuses_what_lacks_members_and_takes_the_example(document: Path) -> None:
    headers = {"Content-Type": "application/json", "X-Api-Key": "any"}
    with mock_server(document) as origin:
        refused = fetch(origin + CREATION, method="POST", headers=headers, body=b"{}")
        body = json.dumps(request_example(document)).encode()
        taken = fetch(origin + CREATION, method="POST", headers=headers, body=body)
    assert 400 <= refused.status < 500
    assert (taken.status, json.loads(taken.body)["status"]) == (200, "pending")


def test_types_of_typescript_are_strict_and_their_program_pays(
    sandbox: Sandbox, document: Path
) -> None:
    folder = document.with_name("typescript")
    folder.mkdir()
    run("openapi-typescript", document, "-o", folder / "api.d.ts", cwd=folder)
    shutil.copy(PROGRAMS / "pay.mts", folder)
    run(
        "tsc",
        "--strict",
        "--module",
        "nodenext",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        "pay.mts",
        cwd=folder,
    )
    paid = json.loads(run("node", "pay.mjs", sandbox.api, sandbox.api_key, cwd=folder))
    assert paid == {"status": "success", "value": 150}


def test_a_client_of_openapi_python_client_pays(sandbox: Sandbox, document: Path) -> None:
    folder = document.with_name("python")
    folder.mkdir()
    options = ("--path", document, "--meta", "none", "--output-path", folder / "generated")
    run("openapi-python-client", "generate", *options, cwd=folder)
    paid = python_program("pay_with_client.py", sandbox, folder)
    assert paid == {"status": "success", "value": 150}


def test_models_of_datamodel_code_generator_have_exact_amounts(
    sandbox: Sandbox, document: Path
) -> None:
    folder = document.with_name("models")
    folder.mkdir()
    options = (
        "--input-file-type",
        "openapi",
        "--output-model-type",
        "pydantic_v2.BaseModel",
        "--disable-warnings",
    )
    run(
        "datamodel-codegen",
        "--input",
        document,
        "--output",
        folder / "generated.py",
        *options,
        cwd=folder,
    )
    paid = python_program("pay_with_models.py", sandbox, folder)
    assert paid == {"status": "success", "fee": "14.99", "kind": "Decimal"}


def python_program(name: str, sandbox: Sandbox, folder: Path) -> Mapping[str, Any]:
    """What a program that imports generated code prints."""
    shutil.copy(PROGRAMS / name, folder)
    printed = run(sys.executable, name, sandbox.api, sandbox.api_key, cwd=folder)
    read: dict[str, Any] = json.loads(printed)
    return read


def test_the_first_request_of_a_postman_collection_is_taken(
    sandbox: Sandbox, document: Path
) -> None:
    file = document.with_name("collection.json")
    options = "parametersResolution=Example,enableOptionalParameters=false"
    run("openapi2postmanv2", "-s", document, "-o", file, "-p", "-O", options, cwd=document.parent)
    collection = json.loads(file.read_bytes())
    first = collection
    while "item" in first:
        first = first["item"][0]
    request = first["request"]
    path = "/".join(request["url"]["path"]).replace(
        ":method", request["url"]["variable"][0]["value"]
    )
    switched_on = {
        each["key"]: each["value"] for each in request["header"] if not each.get("disabled")
    }
    assert "X-Sandbox-Scenario" not in switched_on
    answer = fetch(
        f"{sandbox.api}/{path}",
        method=request["method"],
        headers=switched_on | {"X-Api-Key": sandbox.api_key},
        body=request["body"]["raw"].encode(),
    )
    assert (answer.status, json.loads(answer.body)["status"]) == (200, "pending")
