"""What each adapter rests on: what its operator was seen to do, from `tests/captures`, and what was
observed besides, or is only documented, reported, assumed or unknown, from `statements.toml` beside
the adapter."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from tests.support.captures import read_captures

ROOT = Path(__file__).parents[2]
_INNER = "src/mmo_sansio/providers"


class Mark(Enum):
    """How a statement is known."""

    OBSERVED = "observed"
    DOCUMENTED = "documented"
    REPORTED = "reported"
    ASSUMED = "assumed"
    UNKNOWN = "unknown"


@frozen
class Statement:
    """Something that an adapter rests on, or a question that nobody has answered."""

    says: str
    mark: Mark = field(converter=Mark)
    source: str
    date: str
    """The year and month in which it was written or read; of what was observed, the day."""
    option: str | None = None
    """The option of an account with which this default can be changed."""
    attribute: str | None = None
    """The option's name in the account, where that is another one."""
    default: object = None
    """What the account has where nothing is set."""


@frozen
class Capture:
    """What an operator was seen to do."""

    name: str
    seen: str
    source: str
    date: str
    assumed: str


@frozen
class Operator:
    """An operator, and all that its adapter rests on."""

    kind: str
    title: str
    folder: str

    @property
    def statements(self) -> Sequence[Statement]:
        text = (ROOT / self.folder / "statements.toml").read_text(encoding="utf-8")
        return [Statement(**row) for row in tomllib.loads(text)["statement"]]

    @property
    def captures(self) -> Sequence[Capture]:
        return [
            _capture(capture.name, capture.document)
            for capture in read_captures()
            if capture.kind == self.kind
        ]


def _capture(name: str, document: Mapping[str, Any]) -> Capture:
    return Capture(
        name,
        seen=document["seen"],
        source=document["source"],
        date=document["date"],
        assumed=document.get("assumed", ""),
    )


OPERATORS: Final = (
    Operator("mpesa_daraja", "M-Pesa", f"{_INNER}/mpesa_daraja"),
    Operator("mtn_momo", "MTN MoMo", f"{_INNER}/mtn_momo"),
    Operator("airtel_money", "Airtel Money", f"{_INNER}/airtel_money"),
    Operator("pawapay", "pawaPay", "packages/mmo-provider-pawapay/src/mmo_provider_pawapay"),
    Operator("wave", "Wave", "packages/mmo-provider-wave/src/mmo_provider_wave"),
)
