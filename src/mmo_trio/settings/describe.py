"""Describes the settings for people: the page of the documentation, and the values in force."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings.providers import SHARED_FIELDS
from mmo_trio.settings.sections import SECTIONS, SETTINGS, Settings
from mmo_trio.settings.values import MASK

_PAGE_HEAD = """\
# Settings

Generated from `mmo_trio.settings` by `python -m mmo_trio.settings > docs/settings.md`.

Every key has a default and belongs into its section of `mmo.toml`. Its environment variable
overrides the file, and the command line overrides both. `mmo check-config` shows the values in
force. A wrong key or value stops the start with a message that names it. Variables that begin with
`MMO_TEST_` are ignored. Numbers in parentheses, such as K5, are [clauses](clauses.md).

Durations are written with their unit (`"3d"`, `"15m"`, `"1h30m"`, `"500ms"`), sizes as `"64KiB"` or
`"1MiB"`. In the environment, a list is written with commas.
"""

_PROVIDER_HEAD = """
## [provider.NAME]

Configures a provider that methods of `brands.toml` name. `kind` is one of {}, or one
of another package, such as `pawapay`; the other keys are those of its kind, see `docs/providers`.
A key's variable is `MMO_PROVIDER__NAME__KEY`, with `_` for a `-` in the name. An unknown key stops
the start. `KEY_file` names a file with the value of `KEY`.

Every kind also has these keys; `sandbox` has `title`, `logo`, `colour` and `approvals_code` only:

| Key | Kind | Default | Meaning |
|---|---|---|---|
"""


@frozen
class EffectiveRow:
    """Shows one key with the value in force."""

    key: str
    value: str
    is_default: bool


def settings_page() -> str:
    """Return `docs/settings.md`, generated from the settings."""
    parts = [_PAGE_HEAD]
    for section, section_type in SECTIONS.items():
        parts.append(f"\n## [{section}]\n\n{' '.join((section_type.__doc__ or '').split())}\n\n")
        parts.append("| Key | Variable | Kind | Default | Meaning |\n|---|---|---|---|---|\n")
        for setting in SETTINGS.values():
            if setting.section == section:
                parts.append(
                    f"| `{setting.name}` | `{setting.variable}` | {setting.kind.name} | "
                    f"{setting.default_words} | {setting.meaning} |\n"
                )

    parts.append(_PROVIDER_HEAD.format(", ".join(f"`{kind}`" for kind in PROVIDER_KINDS)))
    parts += [
        f"| `{field.name}` | {field.kind.name} | {field.default_words} | {field.meaning} |\n"
        for field in SHARED_FIELDS
    ]
    return "".join(parts)


def effective_settings(settings: Settings) -> Iterator[EffectiveRow]:
    """Return the values in force; passwords and the secrets of providers are masked."""
    for key, setting in SETTINGS.items():
        value = getattr(getattr(settings, setting.section), setting.name)
        # None means something else for each key.
        is_described = value is None and setting.default_text
        if is_described:
            written = f"({setting.default_text})"
        else:
            written = setting.kind.format(value)

        yield EffectiveRow(key, written, value == setting.default)

    for name, provider in settings.providers.items():
        kind = settings.provider_kinds[provider.kind]
        if kind.origin:
            written = f"{provider.kind} (from {kind.origin})"
        else:
            written = provider.kind

        yield EffectiveRow(f"provider.{name}.kind", written, False)
        for key, option in provider.options.items():
            yield EffectiveRow(
                f"provider.{name}.{key}", MASK if key in kind.secrets else str(option), False
            )
