"""Templates that were compiled once for all gateways that a process of tests runs."""

from __future__ import annotations

from types import CodeType

from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """Keeps what Jinja made of a template, which took half of the time of a gateway that shows a
    few pages. It is kept for each app by itself, as an app's filters are part of it."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._compiled.get(_key(bucket))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._compiled[_key(bucket)] = bucket.code


def _key(bucket: Bucket) -> tuple[str, str, str]:
    return bucket.environment.loader.app.import_name, bucket.key, bucket.checksum  # type: ignore[union-attr]
