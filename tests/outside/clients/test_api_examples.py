"""The examples of the API reference are programs that run as they are served: every one in every
language is copied from a sandbox's page, run, and answered as the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path

import pytest
import trio
from attrs import frozen

from mmo_trio.pages.docs.code_samples import LANGUAGES
from tests.support.merchant import TIMEOUT_S, ask
from tests.support.mmo_process import FREE_PORTS, environment_without_settings, serving_process

EXAMPLE_REFERENCE = "01KAJWT5RV3FX1QYP2Z4M0C9TB"
"""The payment of the example of a look-up; each test has another one."""
CREATIONS = {
    "createDirectPayin": "order-1",
    "createDirectPayout": "salary-42",
    "createQrPayin": "order-2",
    "createWebPayin": "order-3",
    "createDirectTaxpayout": "tax-7",
}
"""The merchantReference of each example that makes a payment."""
OTHERS = ("lookUp", "lookUpByMerchantReference", "listRecords", "isAlive", "isReady")


@frozen
class Interpreter:
    """Runs a language's program."""

    command: tuple[str, ...]
    suffix: str
    debian_package: str
    says_status: bool = True
    """Whether its examples print the status before the body."""


INTERPRETERS: Mapping[str, Interpreter] = {
    "bash": Interpreter(("sh",), ".sh", "curl", says_status=False),
    "python": Interpreter((sys.executable,), ".py", ""),
    "javascript": Interpreter(("node",), ".mjs", "nodejs"),
    "php": Interpreter(("php",), ".php", "php-cli php-curl"),
    "java": Interpreter(("java",), ".java", "default-jdk-headless"),
}


def test_every_language_is_run() -> None:
    assert list(INTERPRETERS) == list(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_example_runs_as_it_is_served(language: str, tmp_path: Path) -> None:
    interpreter = INTERPRETERS[language]
    for needed in (
        interpreter.command[0],
        "curl" if language == "bash" else interpreter.command[0],
    ):
        if shutil.which(needed) is None:
            pytest.fail(f"{needed} is missing. Debian: apt install {interpreter.debian_package}")
    (tmp_path / "data").mkdir()
    log = tmp_path / "log"
    async with serving_process(
        "sandbox", "--data", tmp_path / "data", *FREE_PORTS, log=log
    ) as process:
        page = (await ask(f"{process.ready['pages']}/docs")).body.decode()
        run = runner(interpreter, page, language, tmp_path)
        references = {}
        for name, reference in CREATIONS.items():
            status, body = await trio.to_thread.run_sync(run, name, "")
            answer = json.loads(body)
            assert (status, answer["status"], answer["merchantReference"]) == (
                "200",
                "pending",
                reference,
            ), name
            references[name] = answer["gatewayReference"]
        for name in OTHERS:
            status, body = await trio.to_thread.run_sync(run, name, references["createDirectPayin"])
            assert status == "200", (name, body)
            assert json.loads(body), name
        headers = {"X-Api-Key": process.ready["api_key"]}
        for reference in references.values():
            url = f"{process.ready['api']}/gateway/mmo/v2/status/{reference}"
            found = (await ask(url, headers=headers)).json
            assert str(found["requestedAmount"]["value"]) == "150.00"


def runner(
    interpreter: Interpreter, page: str, language: str, folder: Path
) -> Callable[[str, str], tuple[str, str]]:
    """Return what runs the example of an endpoint, with another reference to look up; it returns
    status and body."""

    def run(name: str, reference: str) -> tuple[str, str]:
        code = example(page, name, language).replace(EXAMPLE_REFERENCE, reference)
        file = folder / f"{name}{interpreter.suffix}"
        file.write_text(code, encoding="utf-8")
        done = subprocess.run(
            [*interpreter.command, str(file)],
            env=environment_without_settings(),
            capture_output=True,
            text=True,
            timeout=4 * TIMEOUT_S,
            check=True,
        )
        said = done.stdout.strip()
        assert said, (code, done.stderr)
        if not interpreter.says_status:
            return "200", said  # A problem document has a `type`, and no `merchantReference`.
        status, _, body = said.partition(" ")
        return status, body

    return run


def example(page: str, name: str, language: str) -> str:
    """Return the text of an example as a browser copies it."""
    after_label = page.partition(f'<label for="{name}-{language}">')[2]
    coloured = re.search(r"<code>(.*?)</code>", after_label, re.DOTALL)
    assert coloured is not None, (name, language)
    return unescape(re.sub(r"<[^>]+>", "", coloured[1]))
