"""Write `docs/amounts_and_numbers.md` from what libraries answered to `tests/outside/libraries`.

PYTHONPATH=src:. python docs/make_amounts_and_numbers.py
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.outside.libraries.libraries import LIBRARIES, TOPICS, Library

HERE = Path(__file__).parent
PAGE = HERE / "amounts_and_numbers.md"
SEEN = HERE.parent / "tests/outside/libraries/seen.json"
FINDINGS = HERE.parent / "findings"
FOR_MERCHANTS = (
    "aiompesa_knows_no_number_in_011",
    "camt053_drops_the_amounts_within_a_batch",
    "daraja_clients_stamp_the_machines_time",
    "daraja_sdk_sends_a_payout_again_when_no_answer_comes",
    "daraja_v3_gives_two_orders_one_reference",
    "emv_qrcps_shortens_checksums",
    "momo_openapi_writes_an_exponent",
    "mt_940_counts_a_taken_back_credit_as_money_in",
    "mtn_momo_alone_knows_the_id_of_a_lost_request",
    "mtn_momo_calls_every_payer_active",
    "mtn_momo_client_reports_a_failed_payment_as_an_error",
    "mtnmomo_sends_every_number_to_uganda",
    "ofx_readers_disagree_about_nepals_time",
    "operators_clients_cut_decimals_off",
    "pain_001_writers_divide_francs_by_a_hundred",
    "phone_knows_benins_numbers_of_before_only",
    "pylightxl_sees_no_row_of_a_streamed_sheet",
    "signatures_of_a_bare_host_differ",
    "stockholm_has_two_ugandan_shillings",
)
"""The findings about clients of operators, statements and signatures."""

HEAD = """\
# Amounts, numbers and references in your programs

What common libraries make of a gateway's amounts, telephone numbers, references and QR codes, and what to do where they
differ. The tables hold for the versions that they name; a test asks these, and `docs/make_amounts_and_numbers.py` writes
this page from the answers.
"""
TEXTS = {
    "amounts": """\
An amount has the decimals of ISO 4217, which are also what the API takes and tells. Libraries that *show* money often
follow CLDR, where ariary (MGA) and Somali shillings (SOS) have none: a receipt then has another amount than was paid.
Parse amounts as decimals, compare them as such, and show them with the decimals that the gateway told.
""",
    "numbers": """\
Send a number with its country's code, and keep the zero that belongs to it: since 2021 in Côte d'Ivoire and since 2024
in Benin all numbers have ten digits, and Congo's begin with 0. A form that drops the first zero everywhere pays nobody
there.
""",
    "references": """\
A `gatewayReference` is a [ULID](https://github.com/ulid/spec) in upper case. The gateway finds it in either case, and
tells it as it made it. Keep it as text; no program needs to take it apart.
""",
    "codes": """\
[Codes of the gateway](qr_codes.md), read by packages that shops check them with.
""",
}
REST = """\
## Clients, statements and signatures

Of packages that shops use beside a gateway. The [findings](../findings/README.md) have a program for each.

| Package | What to know |
|---|---|
"""


def page() -> str:
    """Return the page."""
    sections = [HEAD]
    for name, topic in TOPICS.items():
        sections.append("\n".join([f"## {topic.title}", "", TEXTS[name], *table(name), ""]))
    return "\n".join([*sections, REST + "\n".join(findings()), ""])


def table(name: str) -> Iterator[str]:
    """Yield the lines of a topic's table."""
    seen, topic = json.loads(SEEN.read_text(encoding="utf-8")), TOPICS[name]
    columns = ["Package", *topic.columns, "What to do"]
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    for library in LIBRARIES:
        if library.topic == name:
            answers: Sequence[str] = seen[f"{name}: {library.key}"]
            yield _row([_title(library), *_cells(name, answers), library.remedy])


def findings() -> Iterator[str]:
    """Yield a line for each finding about a package that shops use."""
    read_head = runpy.run_path(str(FINDINGS / "make_table.py"))["read_head"]
    for name in FOR_MERCHANTS:
        head = read_head(FINDINGS / f"{name}.sh")
        yield _row([head["Package"], f"{head['Seen']} {head['Matters']}"])


def _title(library: Library) -> str:
    registry = "npm" if library.is_npm else "PyPI"
    return f"{registry} {library.key}" if library.version else f"`{library.package}` of Node 20"


def _cells(name: str, answers: Sequence[str]) -> Iterable[str]:
    if name != "references":
        return answers
    questions = [text for (text,) in TOPICS[name].columns.values()]
    words = dict.fromkeys(questions, "taken as it is") | {"refused": "refused"}
    return [
        words[answer] if answer in (question, "refused") else "read as the first one"
        for question, answer in zip(questions, answers, strict=True)
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
