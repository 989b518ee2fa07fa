"""Reports situations and verdicts: as members of JSON, and as JUnit XML, which CI systems show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from mmo_merchant.endpoint_check.situations.situation import Situation
from mmo_merchant.endpoint_check.situations.verdict import Verdict, VerdictKind

# Characters that XML 1.0 does not have (section 2.2).
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def situation_members(situation: Situation) -> dict[str, object]:
    """Return what JSON says of a situation."""
    return {
        "name": situation.name,
        "level": "required" if situation.is_required else "advised",
        "title": situation.title,
        "duty": situation.duty,
        "clauses": situation.clauses,
    }


def verdict_members(verdict: Verdict) -> dict[str, object]:
    """Return what JSON says of a verdict, with its situation."""
    name = verdict.situation.name
    judged = {
        "name": name,
        "verdict": verdict.kind.value,
        "reasons": verdict.reasons,
        "question": verdict.question,
    }
    return judged | situation_members(verdict.situation)


def write_junit(file: Path, verdicts: Sequence[Verdict], *, suite: str) -> None:
    """Write one test case for each verdict; what is only advised counts as passed. Raises
    OSError."""
    # CI systems read the counts from the attributes of the suite.
    count = {kind: sum(verdict.kind is kind for verdict in verdicts) for kind in VerdictKind}
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(verdicts)),
        failures=str(count[VerdictKind.FAILED]),
        errors="0",
        skipped=str(count[VerdictKind.NOT_PLAYED]),
    )
    for verdict in verdicts:
        situation = verdict.situation
        reasons = _NOT_IN_XML.sub("?", " ".join(verdict.reasons))
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=situation.name)
        advice = f"{situation.title} {situation.duty} ({', '.join(situation.clauses)})"
        # Advice must not turn a build red: it stands in the output of a case that passed.
        match verdict.kind:
            case VerdictKind.FAILED:
                ElementTree.SubElement(case, "failure", message=reasons).text = advice
            case VerdictKind.NOT_PLAYED:
                ElementTree.SubElement(case, "skipped", message=reasons)
            case VerdictKind.ADVICE:
                ElementTree.SubElement(case, "system-out").text = f"Advice: {reasons} {advice}"
            case VerdictKind.PASSED if verdict.question is not None:
                ElementTree.SubElement(
                    case, "system-out"
                ).text = f"Ask yourself: {verdict.question}"
            case VerdictKind.PASSED:
                pass

    ElementTree.indent(root)
    file.write_bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")
