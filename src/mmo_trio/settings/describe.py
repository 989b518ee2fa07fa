"""Describes the settings for people: the page of the documentation, and the values in force."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import fields, frozen

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings.load import env_variable, section_keys, value_kind
from mmo_trio.settings.providers import COMMON_OPTIONS
from mmo_trio.settings.sections import SECTIONS, Settings

MASKED = "***"

_PAGE_HEAD = """\
# Settings

Generated from `mmo_trio.settings` by `python -m mmo_trio.settings > docs/settings.md`.

Every key has a default and belongs into its section of `mmo.toml`. Its environment variable
overrides the file, and the command line overrides both. `mmo check-config` shows the values in
force. A wrong key or value stops the start with a message that names it. Variables that begin with
`MMO_TEST_` are ignored.

Durations are written with their unit (`"3d"`, `"15m"`, `"1h30m"`, `"500ms"`), sizes as `"64KiB"` or
`"1MiB"`. In the environment, a list is written with commas.
"""

_PROVIDER_HEAD = """
## [provider.NAME]

Configures a provider that methods of `brands.toml` name. `kind` is one of {}; the
other keys are those of its kind, see `docs/providers`. A key's variable is
`MMO_PROVIDER__NAME__KEY`, with `_` for a `-` in the name. An unknown key stops the start.
`KEY_file` names a file with the value of `KEY`, for secrets.

Every kind but `sandbox` also has these keys:

| Key | Kind | Default | Meaning |
|---|---|---|---|
| `title` | text | by kind | The display name, as merchants see it. |
| `hooks_name` | text | NAME | Its name in the addresses of notifications, `/hooks/NAME/TOKEN`. |
| `hooks_from` | list of networks | from anywhere | The networks that may send its notifications. |
| `requests_per_minute` | number | no limit | The rate limit of requests to it. |
"""


@frozen
class SettingRow:
    """Documents one key."""

    key: str
    """`section.key`."""
    variable: str
    """Its environment variable."""
    kind: str
    """The form of its values."""
    default: str
    meaning: str


@frozen
class EffectiveRow:
    """Shows one key with the value in force."""

    key: str
    value: str
    is_default: bool


def describe_settings() -> tuple[SettingRow, ...]:
    """Return all keys, in the order of the file."""
    return tuple(_setting_rows())


def effective_settings(settings: Settings) -> tuple[EffectiveRow, ...]:
    """Return the values in force; passwords and providers' options are masked."""
    return tuple(_effective_rows(settings))


def settings_page() -> str:
    """Return `docs/settings.md`, generated from the settings."""
    rows = describe_settings()
    parts = [_PAGE_HEAD]
    for section, section_type in SECTIONS.items():
        parts.append(f"\n## [{section}]\n\n{' '.join((section_type.__doc__ or '').split())}\n\n")
        parts.append("| Key | Variable | Kind | Default | Meaning |\n|---|---|---|---|---|\n")
        parts += [
            f"| `{row.key.partition('.')[2]}` | `{row.variable}` | {row.kind} | {row.default}"
            f" | {row.meaning} |\n"
            for row in rows
            if row.key.startswith(f"{section}.")
        ]
    parts.append(_PROVIDER_HEAD.format(", ".join(f"`{kind}`" for kind in PROVIDER_KINDS)))
    parts += [
        f"| `{each.key}` | {each.kind} | {each.default} | {each.meaning} |\n"
        for each in COMMON_OPTIONS
    ]
    return "".join(parts)


def _setting_rows() -> Iterator[SettingRow]:
    for section, section_type in SECTIONS.items():
        for each in fields(section_type):
            kind = value_kind(section, each.name)
            default = each.metadata["default_text"] or f"`{kind.format(each.default)}`"
            yield SettingRow(
                f"{section}.{each.name}",
                env_variable(section, each.name),
                kind.name,
                default,
                each.metadata["meaning"],
            )


def _effective_rows(settings: Settings) -> Iterator[EffectiveRow]:
    defaults = Settings()
    for section in SECTIONS:
        for key in section_keys(section):
            value = getattr(getattr(settings, section), key)
            default = getattr(getattr(defaults, section), key)
            written = _format_effective(section, key, value)
            if (section, key) == ("database", "url"):
                written = _with_origin(written, settings.store_kind.origin)
            yield EffectiveRow(f"{section}.{key}", written, value == default)
    for name, provider in settings.providers.items():
        origin = settings.provider_kinds[provider.kind].origin
        yield EffectiveRow(f"provider.{name}.kind", _with_origin(provider.kind, origin), False)
        for key in provider.options:
            yield EffectiveRow(f"provider.{name}.{key}", MASKED, False)


def _with_origin(text: str, origin: str) -> str:
    """Add the distribution that brings a kind of provider or store, if it isn't built in."""
    return f"{text} (from {origin})" if origin else text


def _format_effective(section: str, key: str, value: object) -> str:
    default_text: str = getattr(fields(SECTIONS[section]), key).metadata["default_text"]
    if value is None and default_text:
        return f"({default_text})"
    return value_kind(section, key).format(value)
