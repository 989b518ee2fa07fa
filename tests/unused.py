"""Find definitions in the source that no other code uses.

    python tests/unused.py

vulture reads the source, the generators of pages, the examples, the benchmarks, and the simulations, for
which `mmo_trio.testing` is made. Other tests do not count as a use. Attributes that only templates read
count as used, and so do the names in ALLOWED, each with its reason. The exit code is 1 if a definition is
unused, or an entry is not needed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READ = ("src", "docs", "examples", "bench", "noxfile.py", "tests/simulation", "tests/runtime/testing")
FOUND = re.compile(r"^(src/\S+):(\d+): unused (\w+) '(\w+)'")
USED_BY_DECORATOR = (
    "@*.after_request",
    "@*.before_request",
    "@*.command",
    "@*.app_context_processor",
    "@*.context_processor",
    "@*.errorhandler",
    "@*.get",
    "@*.group",
    "@*.post",
    "@nox.session",
)

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "Hypercorn reads these settings of its configuration": (
        "accesslog",
        "errorlog",
        "h11_max_incomplete_size",
        "h2_max_concurrent_streams",
        "h2_max_header_list_size",
        "include_server_header",
        "keep_alive_timeout",
        "read_timeout",
        "ssl_handshake_timeout",
    ),
    "Trio, Quart, click, logging, structlog, signal and Python call or read these names": (
        "__call__",
        "__getattr__",
        "critical",
        "deadline_to_sleep_time",
        "format_commands",
        "frame",
        "handlers",
        "log_exception",
        "start_clock",
    ),
    "statistics and declarations that tests and people read": ("dropped_polls", "is_idempotent", "outcome_counts"),
    "public helpers for tests of code that uses the core": ("crash", "with_history"),
    "for merchants' programs": ("close_due", "create_tables", "look_up_by_reference"),
}
"""Names without a use in our own code, by the reason why they stay."""


def unused() -> dict[str, str]:
    """Return where each unused name is defined, except for what templates use."""
    command = [sys.executable, "-m", "vulture", *READ, "--ignore-decorators"]
    done = subprocess.run(
        [*command, ",".join(USED_BY_DECORATOR)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr or done.stdout)
    in_templates = set[str]()
    for path in (ROOT / "src").rglob("*.html"):
        in_templates.update(re.findall(r"\.(\w+)", path.read_text(encoding="utf-8")))
    found = filter(None, map(FOUND.match, done.stdout.splitlines()))
    return {
        each[4]: f"{each[1]}:{each[2]}: unused {each[3]} {each[4]}" for each in found if each[4] not in in_templates
    }


def main() -> int:
    """Print the unused definitions; return 1 if there are any."""
    left = unused()
    allowed = {name for names in ALLOWED.values() for name in names}
    report = [where for name, where in sorted(left.items()) if name not in allowed]
    report += [f"not needed in ALLOWED: {name}" for name in sorted(allowed - left.keys())]
    print(*report, sep="\n", end="\n" if report else "")
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
