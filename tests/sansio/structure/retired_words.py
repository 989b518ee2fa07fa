"""Words that the project has retired, and a check that prints every place where one is left.

    python -m tests.sansio.structure.retired_words

A word is found in prose and as a part of an identifier. The exit code is 1 if any is left.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[3]

FILES = (
    "src/**/*.py",
    "src/**/*.html",
    "src/**/*.js",
    "docs/**/*.md",
    "docs/*.py",
    "README.md",
    "CHANGES.md",
    "deploy/*.*",
    "deploy/Containerfile",
    "deploy/citus/*",
    "noxfile.py",
)
"""The files to check, as patterns."""

WORDS: Mapping[str, str] = {
    "actualise": "update",
    "agenda": "schedule",
    "anew": "again",
    "armour": "PEM headers",
    "armoured": "PEM",
    "believe": "trust, accept",
    "believed": "trusted, accepted",
    "believes": "trusts, accepts",
    "beside": "next to, in addition to, except",
    "buried": "expired",
    "bury": "expire",
    "census": "connection table",
    "crew": "processes",
    "deed": "audit event, action",
    "deeds": "audit events, actions",
    "desk": "context",
    "discreet": "redacting",
    "disown": "release",
    "door": "listener",
    "doors": "listeners",
    "entrance": "acceptor",
    "farewell": "busy response",
    "foul": "invalid",
    "gathering": "coalescing",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "heed": "obey",
    "heeds": "obeys",
    "house": "gateway, context",
    "insist": "require, retry",
    "insists": "requires, retries",
    "keeper": "owner",
    "kick": "wake up",
    "kicked": "woken",
    "lifeline": "parent pipe",
    "mend": "repair",
    "mends": "repairs",
    "office": "admin store",
    "orphan": "abandoned",
    "orphans": "abandoned",
    "papers": "API documentation",
    "patience": "timeout, deadline",
    "resident": "tracked connection",
    "setback": "failure, backoff",
    "setbacks": "failures, backoffs",
    "stranger": "unknown sender, other",
    "strangers": "unknown senders, others",
    "surplus": "excess",
    "surroundings": "adapter context",
    "tale": "response",
    "tales": "responses",
    "tally": "count",
    "teller": "schedule",
    "theatre": "simulator",
    "tidy": "purge",
    "told": "reported, informed",
    "unasked": "without a request",
    "untold": "suppressed, unreported",
    "unwelcome": "rejected",
    "visitor": "user",
    "visitors": "users",
    "vocabulary": "set of messages",
    "weighty": "important",
    "whoever": "name the person or the part",
    "whom": "name the person or the part",
}
"""Each retired word and what to write instead."""

PHRASES: Mapping[str, str] = {
    r"became of": "outcome of, state of",
    r"become of": "outcome of, state of",
    r"hold(?:s|ing)? (?:a|the) conversation": "run a conversation",
    r"in hand": "claimed, active",
    r"kept intents?": "durable intent",
    r"let go": "release",
    r"make-believe": "simulated",
    r"out of the house": "outgoing",
    r"stor(?:y|ies) of": "timeline of",
    r"take(?:s|n)? on": "claim, take over",
    r"the law": "the payment rules",
    r"took on": "claimed",
    r"turn(?:s|ed)? away": "reject",
    r"under way": "active, in progress",
    r"whole stor(?:y|ies)": "timeline",
}
"""Each retired phrase, as a regular expression, and what to write instead."""

ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("src/mmo_sansio/payments/suspense.py", '"told": ', "a member of stored JSON"),
    ("src/mmo_trio/storage/*", r"provider, told, gateway_reference", "a column of the database"),
    ("src/mmo_trio/storage/sql/payment_history.py", 'CONTENT_COLUMN = "told"', "a column of the database"),
    ("src/mmo_trio/cli/commands/suspense.py", '"told": ', "a member of the command's JSON"),
    ("src/mmo_trio/pages/sandbox/controls.py", '"told": ', "a member of the sandbox's JSON"),
    ("src/mmo_trio/simulators/base.py", '"told": ', "a member of the simulators' JSON"),
    ("docs/operating.md", "--kill-whom=main", "an option of systemctl"),
    ("src/mmo_trio/*", "mmo db mend-clock", "a command"),
    ("src/mmo_trio/cli/commands/db.py", '"mend-clock"', "a command"),
    ("docs/*.md", "mmo db mend-clock", "a command"),
    ("CHANGES.md", "mmo db mend-clock", "a command"),
)
"""(path, pattern of the lines, reason): uses that must stay, such as names of stored columns."""

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def retired_in(line: str) -> Iterator[str]:
    """Yield the retired words and phrases in one line, each with its replacement."""
    for part in _PART.findall(line):
        word = part.lower()
        if word in WORDS:
            yield f"{word}: {WORDS[word]}"
    for phrase, instead in PHRASES.items():
        if re.search(rf"\b{phrase}\b", line, re.IGNORECASE):
            yield f"{phrase}: {instead}"


def files() -> Iterator[Path]:
    """Yield every file that must be free of retired words."""
    for pattern in FILES:
        yield from sorted(ROOT.glob(pattern))


def findings() -> Iterator[str]:
    """Yield `path:line: word: replacement` for every retired word that is left."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        allowed = [line for where, line, _ in ALLOWED if fnmatchcase(name, where)]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if any(re.search(each, line) for each in allowed):
                continue
            for each in retired_in(line):
                yield f"{name}:{number}: {each}"


def unused_allowances() -> list[str]:
    """List the entries of ALLOWED that no longer excuse any line."""
    lines = [
        (path.relative_to(ROOT).as_posix(), line)
        for path in files()
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(retired_in(line))
    ]
    return [
        f"{where}: {pattern}"
        for where, pattern, _ in ALLOWED
        if not any(fnmatchcase(name, where) and re.search(pattern, line) for name, line in lines)
    ]


def main() -> int:
    """Print the findings; return 1 if there are any."""
    left = [*findings(), *(f"not needed in ALLOWED: {each}" for each in unused_allowances())]
    print(*left, sep="\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
