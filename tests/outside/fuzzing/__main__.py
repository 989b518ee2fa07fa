"""Start a sandbox, take its OpenAPI document, and let Schemathesis look for answers that the
document doesn't allow.

    python -m tests.outside.fuzzing [further options of `schemathesis run`]

Any answer must have a documented status, type, headers and shape; what the document calls right
must be taken, and what it calls wrong refused. Exits with what Schemathesis exits with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.support.mmo_process import environment_without_settings

PATIENCE_S = 60
EXAMPLES = 50
"""For each operation and phase; `--max-examples` says otherwise."""
ENOUGH_S = 600
SEED = 20_261_121
"""The same requests each time; `--seed` says otherwise."""

METHOD, COUNTRY, CURRENCY = "mpesa_ke", "KE", "KES"
RESULT_URL = "https://localhost:9/callback"
"""Nobody listens there: callbacks fail at once, which is no matter of the answers here."""
SETTINGS = """\
[checks]
# A generator that draws a reference twice is told so: that is no fault.
positive_data_acceptance.expected-statuses = ["2xx", "404", "422"]
"""


@contextmanager
def sandbox(directory: Path) -> Iterator[dict[str, str]]:
    """What the READY line says of a sandbox that serves while the block lasts."""
    places = [word for door in ("api", "pages", "console") for word in (f"--{door}", "127.0.0.1:0")]
    command = [sys.executable, "-m", "mmo_trio.cli", "sandbox", "--data", str(directory), *places]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment_without_settings(),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line.startswith("READY "):
                raise SystemExit((directory / "log").read_text(encoding="utf-8"))
            words = (word.partition("=") for word in line.split()[1:])
            yield {name: value for name, _, value in words}
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The document for one method of the demo brand: what a schema can't say of everybody's
    configuration, it can say of one, so that what is right by the schema is right."""
    schemas = document["components"]["schemas"]
    amount = {"type": "number", "minimum": 10, "maximum": 150_000, "multipleOf": 0.5}
    schemas["RequestedMoney"]["properties"] = {"value": amount, "currency": {"const": CURRENCY}}
    for name, schema in schemas.items():
        if name.endswith("Request"):
            schema["properties"]["country"] = {"const": COUNTRY}
            for member in schema["properties"]:
                if member.endswith("Url"):
                    right = [RESULT_URL] if member in schema["required"] else [RESULT_URL, None]
                    schema["properties"][member] = {"enum": right}
            schema["examples"][0] |= {
                m: RESULT_URL for m in schema["properties"] if m.endswith("Url")
            }
    for item in document["paths"].values():
        for operation in item.values():
            operation.pop("callbacks", None)
            parameters = operation.get("parameters", [])
            # A cursor can't be made up; following one is what stateful tests of our own do.
            parameters[:] = [each for each in parameters if each["name"] != "page"]
            for each in parameters:
                match each["name"]:
                    case "method" if each["in"] == "path":
                        each["schema"] = {"const": METHOD}
                    case "from" | "to":
                        each |= {"required": True, "schema": {"const": each["example"]}}
    del document["webhooks"]
    return document


def main(options: Sequence[str]) -> int:
    """Run it all; the exit code."""
    with tempfile.TemporaryDirectory(prefix="mmo-fuzzing-") as folder:
        directory = Path(folder)
        with sandbox(directory) as ready:
            with urlopen(f"{ready['pages']}/openapi.json", timeout=PATIENCE_S) as answer:
                document = json.load(answer)
            (directory / "openapi.json").write_text(
                json.dumps(narrowed(document)), encoding="utf-8"
            )
            (directory / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
            command = [sys.executable, "-m", "schemathesis.cli", "run", "openapi.json"]
            command += ["--url", ready["api"], "--header", f"X-Api-Key: {ready['api_key']}"]
            command += ["--checks", "all", "--warnings", "off", "--max-examples", str(EXAMPLES)]
            command += ["--seed", str(SEED), *options]
            done = subprocess.run(command, cwd=directory, timeout=ENOUGH_S, check=False)
        faults = [
            line
            for line in (directory / "log").read_text(encoding="utf-8").splitlines()
            if "[error" in line
        ]
    print("\n".join(faults), file=sys.stderr)
    return done.returncode or bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
