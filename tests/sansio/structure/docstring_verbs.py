"""A check that every public docstring in the source has a verb.

    python -m tests.sansio.structure.docstring_verbs

The check knows the verbs of this code base from lists, and reads the first paragraph of each
docstring. A docstring that begins with a question word has no main clause and fails, too. A
property is described like an attribute, for which a noun is enough. If the
check does not know a verb, add it to VERBS, or to NOUN_VERBS if its forms are also nouns.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping

from tests.sansio.structure.sources import MODULES, TREES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AUXILIARIES = _words(
    "are be been can cannot could did do does had has have is may might must shall should was were will would"
)

VERBS = _words(
    "accept acquire add adjust admit agree allow appear append apply approve arrive ask assign "
    "authenticate avoid become begin belong bind bound bring broadcast build carry choose clean "
    "clear close collect combine come compare compress compute conclude configure confirm connect "
    "consist consume contain continue contradict convert cope copy correspond cover create cut "
    "deactivate decide decline decode decrypt define delete deliver deny depend derive describe "
    "detect determine die differ disable disappear discard dispatch distribute divide draw emit "
    "enable encode encrypt enforce enqueue ensure enter escape estimate evaluate examine exceed "
    "exclude execute exist exit expire explain expose extend extract fail fetch fill find finish "
    "fix flush follow forbid forget forward free generate get give go group grow handle hang "
    "happen have hide hold identify ignore implement import include increase indicate inform "
    "insert install invoke join judge keep kill know lack learn leave let lie listen look lose "
    "make mean measure meet mention migrate multiply need normalise notify observe obtain occur "
    "offer omit open overflow parse pause perform permit post prefer prepare prevent print proceed "
    "produce prove provide prune put quote raise reach read receive recognise recognize redact "
    "redirect reduce refer refuse register reject rely remain remember remove render renew repeat "
    "replace reply represent require reserve resolve respond restart restore restrict resubmit "
    "retain retire retry return reuse roll run save say scan schedule search see seem select send "
    "serialise serialize serve shorten show shut simulate sit skip sleep split start stay stop "
    "stream submit succeed sum supervise supply suppress take tell terminate throw touch translate "
    "treat trigger trust try turn understand undo unescape update validate verify wait wake want "
    "warn withdraw wrap write yield export"
)
"""Verbs whose forms count anywhere in a sentence."""

NOUN_VERBS = _words(
    "act answer attempt audit batch block call cancel cause change check claim command commit "
    "complete count cross delay demand document double drain drive drop encounter end enquire "
    "exchange fence filter format guard hash interpret issue leave limit link list load lock log "
    "look map mark mask match mirror move name note number order own pace pad page pass pay place "
    "plan play point poll press probe process prompt query queue range record release report "
    "request rest result review round route sample scope seal set sign size sort store support "
    "switch test time track transfer use view watch work share"
)
"""Verbs whose forms are also nouns: they count only where their place makes them verbs."""

QUESTION_WORDS = _words("how that what whatever whether which who whoever whom whose why")

_DETERMINERS = _words("a all an any each every its no one the their which whose")
_AFTER_NOUN = _words("and as at between by for from in of on or per to which with")
_BEFORE_VERB = _words("also always it never not only that then they to which who")


def _third_person(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else f"{verb}s"


_ANYWHERE = AUXILIARIES | VERBS | {_third_person(verb) for verb in VERBS}
_BY_PLACE = NOUN_VERBS | {_third_person(verb) for verb in NOUN_VERBS}


def has_verb(docstring: str) -> bool:
    """Return whether the first paragraph of a docstring has a main clause with a known verb."""
    paragraph = docstring.strip().partition("\n\n")[0]
    text = re.sub(r"`[^`]*`|:\w+:", " X ", paragraph)
    words = [word.lower() for word in re.findall(r"[A-Za-z]+(?:-[a-z]+)*", text)]
    if not words or words[0] in QUESTION_WORDS:
        return False
    if any(word in _ANYWHERE for word in words):
        return True
    return any(
        word in _BY_PLACE and _is_verb_here(word, before, after)
        for before, word, after in zip(["", *words], words, [*words[1:], "of"], strict=False)
    )


def _is_verb_here(word: str, before: str, after: str) -> bool:
    if not before:
        return after not in _AFTER_NOUN
    return before in _BEFORE_VERB or (after in _DETERMINERS and before not in _DETERMINERS)


def _is_property(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    return bool(names & {"property", "cached_property"})


def public_docstrings(name: str, tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield `(dotted name, line, docstring)` of a module and its public classes and functions."""
    pending: list[tuple[str, ast.AST]] = [(name, tree)]
    while pending:
        path, node = pending.pop()
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if text is not None:
            yield path, getattr(node, "lineno", 1), text
        if isinstance(node, ast.Module | ast.ClassDef):
            pending += [
                (f"{path}.{each.name}", each)
                for each in node.body
                if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not each.name.startswith("_")
                and not _is_property(each)
            ]


def without_verb(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield `path:line: name: first line` of every public docstring without a verb."""
    for name, tree in trees.items():
        for path, line, text in public_docstrings(name, tree):
            if not has_verb(text):
                where = MODULES[name].name if name in MODULES else name
                yield f"{where}:{line}: {path}: {text.strip().splitlines()[0]}"


def main() -> int:
    """Print the findings; return 1 if there are any."""
    left = list(without_verb(TREES))
    print(*left, f"{len(left)} docstrings without a verb", sep="\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
