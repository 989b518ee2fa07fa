"""Nothing that a user can set, send, see or watch is documented nowhere: each kind is compared with
the code's own table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_sansio.providers.sandbox.scenarios import SCENARIOS
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.problems import PROBLEM_TYPES
from mmo_trio.brands.file import (
    BRAND_FIELDS,
    BRAND_LIMIT_FIELDS,
    METHOD_FIELDS,
    METHOD_LIMIT_FIELDS,
    PAGE_FIELDS,
)
from mmo_trio.cli.group import main
from mmo_trio.settings.providers import SHARED_FIELDS
from mmo_trio.settings.sections import SETTINGS
from tests.support.command_tree import commands_of

METRIC = re.compile(r'"(mmo_[a-z_]+)"')


@pytest.fixture(scope="module")
def pages(root: Path) -> dict[str, str]:
    """Return every page by its path below docs/."""
    folder = root / "docs"
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.md")
    }


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its words."""
    for name, command in commands_of(group).items():
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        elif not command.hidden:
            yield " ".join(("mmo", *above, name)), command


def test_every_setting_is_documented(pages: dict[str, str]) -> None:
    page = pages["settings.md"]
    assert [each.key for each in SETTINGS.values() if f"`{each.variable}`" not in page] == []
    assert [each.name for each in SHARED_FIELDS if f"| `{each.name}` |" not in page] == []


@pytest.mark.parametrize("kind", PROVIDER_KINDS)
def test_every_option_of_a_provider_is_documented(pages: dict[str, str], kind: str) -> None:
    text = "".join(
        page
        for name, page in pages.items()
        if name.startswith("providers/") or name == "qr_codes.md"
    )
    options = [option.name for option in PROVIDER_KINDS[kind].options]
    assert [each for each in options if not re.search(rf"\b{each}\b", text)] == []


@pytest.mark.parametrize("kind", PROVIDER_KINDS)
def test_every_kind_of_provider_has_its_page(pages: dict[str, str], kind: str) -> None:
    page = "sandbox.md" if kind == "sandbox" else f"providers/{kind}.md"
    assert page in pages
    assert f"`{kind}`" in pages["settings.md"]
    assert "only provider" not in pages["run_a_gateway.md"]


def test_every_key_of_a_brand_is_documented(pages: dict[str, str]) -> None:
    keys = (*BRAND_FIELDS, *BRAND_LIMIT_FIELDS, *METHOD_FIELDS, *METHOD_LIMIT_FIELDS, *PAGE_FIELDS)
    assert [
        each.name
        for each in keys
        if f"| `{each.name}` | {each.kind.name} |" not in pages["brands.md"]
    ] == []


def test_every_scenario_of_the_sandbox_is_documented(pages: dict[str, str]) -> None:
    rows = [
        f"| {each.digits or 'others'} | `{each.name}` | {each.description} |" for each in SCENARIOS
    ]
    assert [each for each in rows if each not in pages["sandbox.md"]] == []


def test_every_error_code_is_documented(pages: dict[str, str]) -> None:
    codes = {*(each.value for each in ErrorCode), *(each.segment for each in PROBLEM_TYPES)}
    assert [each for each in sorted(codes) if f"### {each}\n" not in pages["errors.md"]] == []


def test_every_command_and_option_is_documented(pages: dict[str, str], root: Path) -> None:
    """A command is named by a page, and `--help` explains each of its options."""
    text = "".join(pages.values()) + (root / "README.md").read_text(encoding="utf-8")
    words = " ".join(text.split())
    assert [name for name, _ in commands(main) if name not in words] == []
    unexplained = [
        f"{name} {option.opts[0]}"
        for name, command in commands(main)
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert unexplained == []
    assert [name for name, command in commands(main) if not command.help] == []


def test_every_metric_is_documented(pages: dict[str, str], root: Path) -> None:
    source = "".join(
        path.read_text(encoding="utf-8") for path in (root / "src/mmo_trio/metrics").glob("*.py")
    )
    names = set(METRIC.findall(source))
    assert len(names) > 20
    documented = set(re.findall(r"`(mmo_[a-z_]+?)(?:_total)?`", pages["monitoring.md"]))
    assert [each for each in sorted(names) if each not in documented] == []
