"""Common libraries do with a gateway's amounts, numbers, references and QR codes what the page for
merchants' programs says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.outside.libraries.libraries import LIBRARIES, TOPICS, Library
from tests.packages.environments import an_environment, own_modules_only
from tests.support.time_limits import HANGS_AFTER_S

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
SEEN = HERE / "seen.json"
"""What the page's tables are made of. MMO_WRITE_SEEN=1 writes it anew."""


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm")
    packages = {each.requirement for each in LIBRARIES if each.is_npm and each.version}
    npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
    subprocess.run([*npm, *sorted(packages)], check=True, timeout=HANGS_AFTER_S)
    return folder / "node_modules"


def ask(library: Library, node_modules: Path, folder: Path) -> Sequence[str]:
    """Return the library's answer for each column of its table."""
    questions = json.dumps(list(TOPICS[library.topic].columns.values()))
    environment = {**own_modules_only(), "NODE_PATH": str(node_modules)}
    program = ["node", str(PROGRAMS / "ask.cjs")]
    if not library.is_npm:
        program = [an_environment(folder, library.requirement).python, str(PROGRAMS / "ask.py")]

    done = subprocess.run(
        [*program, library.package, questions],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_AFTER_S,
        env=environment,
    )
    answers: Sequence[str] = json.loads(done.stdout)
    return answers


def test_libraries_answer_as_the_page_for_merchants_programs_says(
    node_modules: Path, tmp_path: Path
) -> None:
    seen: Mapping[str, Sequence[str]] = {
        f"{library.topic}: {library.key}": ask(library, node_modules, tmp_path / str(number))
        for number, library in enumerate(LIBRARIES)
    }
    if os.environ.get("MMO_WRITE_SEEN"):
        SEEN.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert seen == json.loads(SEEN.read_text(encoding="utf-8"))
