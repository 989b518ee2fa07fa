"""Draw the life of a payment, for the documentation and for the reference that a gateway serves.

PYTHONPATH=src python docs/make_payment_life.py
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from attrs import frozen

HERE = Path(__file__).parent
PICTURES: Final = (
    HERE / "payment_life.svg",
    HERE.parent / "src" / "mmo_trio" / "pages" / "static" / "payment_life.svg",
)
"""The same picture twice: what a gateway serves has to be in its package."""

PARTIES: Final = ("shop", "gateway", "operator", "phone")


@frozen
class Step:
    """Describes one message."""

    sender: str
    receiver: str
    text: str
    """What the picture says."""
    sentence: str
    """What stands for it where nobody sees the picture."""


STEPS: Final = (
    Step("shop", "gateway", "Request, with your reference", "the shop requests it"),
    Step("gateway", "shop", "Answer: pending", "the gateway answers pending"),
    Step("gateway", "operator", "Order to collect", "and tells the operator to collect"),
    Step("operator", "phone", "Prompt", "who prompts the phone"),
    Step("phone", "operator", "PIN", "the payer types the PIN"),
    Step("operator", "gateway", "Result", "the operator reports the result"),
    Step(
        "gateway",
        "shop",
        "Callback: success or failed",
        "the gateway calls the shop back with success or failed",
    ),
    Step("shop", "gateway", "204: stored", "the shop has stored it and answers 204"),
)
ADVICE: Final = (
    "No answer to 1? Ask again,",
    "with the same reference.",
    "No callback? Look it up.",
)
"""What to do when something stays away, line by line, in red."""

WIDTH: Final = 288
"""What a phone of 320 pixels has for it: there, its letters have the size of the page's."""
COLUMN: Final = WIDTH // len(PARTIES)
HEAD, ROW, LINE = 44, 42, 18

STYLE: Final = """\
text { font: 12px system-ui, sans-serif; fill: #161b24; paint-order: stroke; stroke: #fff; \
stroke-width: 4px; stroke-linejoin: round; }
.box { fill: #eef0f4; } .box + text { font-weight: 600; stroke: none; text-anchor: middle; }
.life { stroke: #7f8794; stroke-dasharray: 3 4; } .arrow { stroke: #2f4fd0; stroke-width: 1.75; \
fill: none; }
.ground { fill: #fff; } .advice { fill: #fdebed; } .red { fill: #a9192c; font-weight: 600; \
stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e9ecf1; stroke: #171b22; } .box { fill: #20252e; } .life { stroke: #76808f; }
.arrow { stroke: #a3b5ff; } .ground { fill: #171b22; } .advice { fill: #3d1a20; }
.red { fill: #ffa0a8; } }"""
"""The colours of the design system, as a picture of its own cannot use those of the page."""


def alternative() -> str:
    """Return the text that stands for the picture."""
    steps = ", ".join(f"{number} {step.sentence}" for number, step in enumerate(STEPS, 1))
    return f"The life of a payment: {steps}. {' '.join(ADVICE)}"


def picture() -> str:
    """Return the picture as SVG."""
    bottom = HEAD + ROW * len(STEPS)
    height = bottom + LINE * len(ADVICE) + 28
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(alternative())}</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>',
        *_parties(bottom),
    ]
    for row, step in enumerate(STEPS):
        lines += _arrow(row, step)

    lines.append(
        f'<rect class="advice" x="4" y="{bottom + 8}" width="{WIDTH - 8}" '
        f'height="{LINE * len(ADVICE) + 14}" rx="6"/>'
    )
    for row, text in enumerate(ADVICE):
        y = bottom + 28 + LINE * row
        lines.append(f'<text class="red" x="14" y="{y}">{escape(text)}</text>')
    return "\n".join((*lines, "</svg>", ""))


def _parties(bottom: int) -> Iterator[str]:
    for name in PARTIES:
        x = _middle(name)
        yield f'<path class="life" d="M{x} 32V{bottom}"/>'
        yield f'<rect class="box" x="{x - 33}" y="6" width="66" height="26" rx="6"/>'
        yield f'<text x="{x}" y="23">{name}</text>'


def _arrow(row: int, step: Step) -> Iterator[str]:
    """Yield the arrow of a step with its text above, which begins where the arrow's left end is."""
    begin, end = _middle(step.sender), _middle(step.receiver)
    way = 1 if end > begin else -1
    y = HEAD + ROW * row + 30
    tip = end - 3 * way
    text = f"{row + 1} {step.text}"
    x = min(begin, end) + 5
    yield f'<text x="{x}" y="{y - 8}">{escape(text)}</text>'
    yield (
        f'<path class="arrow" d="M{begin + 3 * way} {y}H{tip}'
        f'M{tip - 6 * way} {y - 4}L{tip} {y}L{tip - 6 * way} {y + 4}"/>'
    )


def _middle(party: str) -> int:
    return PARTIES.index(party) * COLUMN + COLUMN // 2


if __name__ == "__main__":
    for file in PICTURES:
        file.write_text(picture(), encoding="utf-8")
    print(alternative())
