"""Names what is wrong in a table by its lines, with a remedy."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

# As many lines as a person looks at; the rest has the same fault.
LINES_NAMED_MAX = 5


@frozen
class Fault:
    """Says what is wrong in a line, or in a field of it, and how to mend it; it repeats no personal
    data."""

    line: int
    """From 1; of a row of several lines, the first."""
    field: str
    """Empty where the fault is about the whole line."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}{self.field and f', {self.field}'}: {self.problem}. {self.remedy}"


class CellFault(ValueError):
    """A cell can't be read in one way."""

    def __init__(self, problem: str, remedy: str, field: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.field = field

    def of(self, field: str) -> CellFault:
        """Return it as that of a field."""
        self.field = field
        return self

    def at(self, line: int) -> Fault:
        """Return it as that of a line."""
        return Fault(line, self.field, self.problem, self.remedy)


def describe_faults(faults: Iterable[Fault]) -> list[str]:
    """Return a sentence for each kind of fault, with its first lines and how many there are."""
    # A file of a million lines with one wrong column has one sentence, not a million.
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for fault in faults:
        kinds.setdefault((fault.field, fault.problem, fault.remedy), []).append(fault.line)

    sentences = []
    for kind, lines in kinds.items():
        if len(lines) == 1:
            sentences.append(str(Fault(lines[0], *kind)))
        else:
            sentences.append(_describe_many(lines, *kind))

    return sentences


def _describe_many(lines: list[int], field: str, problem: str, remedy: str) -> str:
    place = f"{name_lines(lines)}{field and f', {field}'}"
    return f"{place} ({len(lines)} times): {problem}. {remedy}"


def name_lines(lines: list[int]) -> str:
    """Return `line 7`, `lines 7, 8`, or the first ones and how many more there are."""
    named = ", ".join(map(str, lines[:LINES_NAMED_MAX]))
    more = len(lines) - LINES_NAMED_MAX
    if len(lines) == 1:
        return f"line {named}"
    if more > 0:
        return f"lines {named} and {more} more"
    return f"lines {named}"
