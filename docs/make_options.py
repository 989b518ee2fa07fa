"""Write the tables of options into `docs/providers/KIND.md` from what the kinds of providers
declare, so that none is undocumented.

PYTHONPATH=src python docs/make_options.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mmo_provider_pawapay import PAWAPAY
from mmo_provider_wave import WAVE

from mmo_sansio.providers.registry import PROVIDER_KINDS, ProviderKind

FOLDER = Path(__file__).with_name("providers")

HEAD = "| Option | Default | Meaning |\n|---|---|---|\n"
TABLE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)+")

# The kinds by the names of their pages; the sandbox's options are those of QR codes.
KINDS: Mapping[str, ProviderKind] = {
    **{name: kind for name, kind in PROVIDER_KINDS.items() if name != "sandbox"},
    "pawapay": PAWAPAY,
    "wave": WAVE,
}


def page(name: str) -> str:
    """Return the page of this kind with its table as it is declared."""
    rows = "".join(
        f"| `{option.name}` | {option.default_words} | {option.meaning} |\n"
        for option in KINDS[name].options
    )
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    return TABLE.sub(lambda _: f"{HEAD}{rows}", text)


if __name__ == "__main__":
    for name in KINDS:
        (FOLDER / f"{name}.md").write_text(page(name), encoding="utf-8")
