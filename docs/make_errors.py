"""Write `docs/errors.md` from the catalogues, so that it always agrees with the gateway's own
pages.

PYTHONPATH=src python docs/make_errors.py
"""

from __future__ import annotations

from pathlib import Path

from mmo_sansio.api.docs.error_pages import ErrorPage, error_pages
from mmo_sansio.values.error_codes import EXPLANATIONS, PayerStep
from mmo_trio.pages.payment.languages.english import ENGLISH

PAGE = Path(__file__).with_name("errors.md")

ACTS = {
    "merchant": "you",
    "payer": "the payer",
    "staff": "the staff who run the gateway",
    "nobody": "nobody; it passes",
}

HEAD = """\
# Error codes

This page is generated from the catalogues by `docs/make_errors.py`; a test compares the two. A
gateway serves the same texts as pages: `{error_docs_url}/CODE` for each code, `/errors` for all,
each with an example.

A rejected request is answered with a problem document (RFC 7807):

```json
EXAMPLE
```

| Member | Meaning |
|---|---|
| `type` | the page of the specific cause, which is its last segment |
| `title`, `status` | the category, for people, and the HTTP status |
| `detail` | what happened this time |
| `errorCode` | the category for programs; for a 422 with a cause of its own the same as the cause |
| `instance` | names this request: it ends in the request id, as in `X-Request-Id` and in the log |
| `errors` | each invalid field with its valid form, in the order of the specification |

Programs decide by `errorCode` and the last segment of `type`, never by `detail`, whose text may
change. Quote the request id when you ask the staff who run the gateway."""


def page() -> str:
    """Return the page as Markdown."""
    pages = error_pages("https://docs.example/errors").values()
    rejections = [each for each in pages if each.status is not None]
    failures = [each for each in pages if each.status is None]
    example = next(each for each in rejections if each.code == "validation_failed").example_text
    return (
        "\n\n".join(
            (
                HEAD.replace("EXAMPLE", example),
                "## Rejected requests\n\nNothing was stored, except where the advice says that it "
                "is unknown.",
                *(_section(each, f"{each.status}. ") for each in rejections),
                "## Failed payments\n\nThe payment was accepted and has failed: its transaction"
                " object carries the code"
                " in `errorCode`, and the sentence below in `errorMessage`.",
                "On the [payment page](payment_page.md) the code decides how the page ends, and "
                "what it tells the payer"
                " to do:",
                _endings(),
                *(_section(each, "") for each in failures),
            )
        )
        + "\n"
    )


def _endings() -> str:
    """Return the table of what the payer's page says about each code."""
    lines = ["| Code | The page says | What to do |", "|---|---|---|"]
    for step in PayerStep:
        codes = ", ".join(
            f"`{code}`" for code, each in EXPLANATIONS.items() if each.payer_step is step
        )
        known = f"{ENGLISH.not_paid}. {ENGLISH.not_taken}"
        says = f"{ENGLISH.unclear}." if step is PayerStep.WAIT else known
        lines.append(f"| {codes} | {says} | {ENGLISH.next_steps[step]} |")
    return "\n".join(lines)


def _section(each: ErrorPage, kind: str) -> str:
    return (
        f"### {each.code}\n\n{kind}{each.meaning} *Who acts: {ACTS[each.who_acts]}.* {each.advice}"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
