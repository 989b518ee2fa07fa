"""The command `mmo`: runs a gateway, administers its store, and helps to build a shop."""

from __future__ import annotations


def installation_advice(command: str, missing: str | None, extra: str) -> str:
    """Return what to tell whoever runs a command without the packages of its extra; one of the
    missing is named."""
    return (
        f"`{command}` needs packages that are not installed, such as {missing}. Run: pip install "
        f"'mmo-gateway[{extra}]'"
    )
