"""The commands of the README and the payment that shops begin with are valid."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.time_limits import HANGS_AFTER_S

TESTS = re.compile(r"<!-- the tests -->\n```sh\n(.*?)```\n<!-- /the tests -->", re.DOTALL)


@pytest.fixture
def readme(root: Path) -> str:
    """Return the README."""
    return (root / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def first_steps(root: Path) -> str:
    """Return the page that shops begin with."""
    return (root / "docs/get_started.md").read_text(encoding="utf-8")


def test_the_tests_are_one_line_between_their_marks(readme: str) -> None:
    [block] = TESTS.findall(readme)
    assert block == (
        'python3 -m venv .venv && .venv/bin/pip install "nox[uv]>=2025.10.14,<2027" && '
        ".venv/bin/nox\n"
    )
    assert readme.count("the tests -->") == 2


def test_the_demo_is_one_line(readme: str) -> None:
    demo = 'python3 -m venv .venv && .venv/bin/pip install ".[server]" && .venv/bin/mmo demo --once'
    assert f"```sh\n{demo}\n```" in readme


@pytest.mark.spec("C1", "C13")
def test_the_first_payment_has_what_a_payment_needs(first_steps: str) -> None:
    pay_in, pay_out = re.findall(r"-d '(\{.*?\})'\n```", first_steps, re.DOTALL)
    for body, party in ((pay_in, "payer"), (pay_out, "payee")):
        assert json.loads(body).keys() == {
            "amount", party, "country", "resultUrl", "merchantReference",
        }  # fmt: skip


@pytest.mark.spec("C6")
def test_its_answer_has_the_members_of_the_specification(first_steps: str) -> None:
    [answer] = re.findall(r"^```json\n(.*?)^```$", first_steps, re.DOTALL | re.MULTILINE)
    assert json.loads(answer).keys() == {
        "status", "gatewayReference", "merchantReference", "reconciliationReference", "createdAt",
    }  # fmt: skip


def test_shell_blocks_are_shell(root: Path) -> None:
    for page in (root / "README.md", *(root / "docs").rglob("*.md")):
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
            done = subprocess.run(
                ["bash", "-n"],
                input=block,
                text=True,
                capture_output=True,
                timeout=HANGS_AFTER_S,
                check=False,
            )
            assert done.returncode == 0, f"{page.name}: {done.stderr}"
