"""The settings as people read them: the page of the documentation, and what is in force."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import fields, frozen

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings.load import env_variable, section_keys, value_kind
from mmo_trio.settings.sections import COMMON_OPTIONS, SECTIONS, Settings

MASKED = "***"


@frozen
class SettingRow:
    """One key, as it is documented."""

    key: str
    """`section.key`."""
    variable: str
    """Its environment variable."""
    kind: str
    """What its values look like."""
    default: str
    meaning: str


@frozen
class EffectiveRow:
    """One key and the value in force."""

    key: str
    value: str
    is_default: bool


def describe_settings() -> tuple[SettingRow, ...]:
    """Every key there is, in the order of the file."""
    return tuple(_setting_rows())


def effective_settings(settings: Settings) -> tuple[EffectiveRow, ...]:
    """What is in force, without secrets: passwords and providers' options are masked."""
    return tuple(_effective_rows(settings))


def settings_page() -> str:
    """`docs/settings.md`, made from the settings themselves."""
    lines = [
        "# Settings",
        "",
        "Made from `mmo_trio.settings` by `python -m mmo_trio.settings > docs/settings.md`.",
        "",
        "Every key stands in `mmo.toml` under its section and has a default; the environment variable beside it goes",
        "over the file, the command line over both. `mmo check-config` shows what is in force. A wrong key or value",
        "stops the start with a message that names it. Variables that begin with `MMO_TEST_` are left alone.",
        "",
        'Durations are written with their unit (`"3d"`, `"15m"`, `"1h30m"`, `"500ms"`), sizes as `"64KiB"` or',
        '`"1MiB"`. In the environment, a list is written with commas.',
    ]
    rows = describe_settings()
    for section, made in SECTIONS.items():
        lines += ["", f"## [{section}]", "", _first_sentence(made.__doc__), ""]
        lines += ["| Key | Variable | Kind | Default | Meaning |", "|---|---|---|---|---|"]
        for row in rows:
            if row.key.startswith(f"{section}."):
                key = row.key.partition(".")[2]
                lines.append(
                    f"| `{key}` | `{row.variable}` | {row.kind} | {row.default} | {row.meaning} |"
                )
    kinds = ", ".join(f"`{kind}`" for kind in PROVIDER_KINDS)
    lines += [
        "",
        "## [provider.NAME]",
        "",
        f"A provider that methods of `brands.toml` name. `kind` is one of {kinds}; the other keys are those of its",
        "kind, see `docs/providers`. A key's variable is `MMO_PROVIDER__NAME__KEY`, with `_` for a `-` in the name.",
        "An unknown key stops the start. `KEY_file` names a file that holds the value of `KEY`, for secrets.",
        "",
        "Every kind but `sandbox` has these keys, too:",
        "",
        "| Key | Kind | Default | Meaning |",
        "|---|---|---|---|",
        "| `title` | text | by kind | The display name, as merchants see it. |",
        "| `hooks_name` | text | NAME | What stands for it in its notifications' address, `/hooks/NAME/TOKEN`. |",
        "| `hooks_from` | list of networks | from anywhere | From where its notifications may come. |",
        "| `requests_per_minute` | number | no limit | How fast requests to it may follow each other. |",
    ]
    lines += [
        f"| `{each.key}` | {each.kind} | {each.default} | {each.meaning} |"
        for each in COMMON_OPTIONS
    ]
    lines.append("")
    return "\n".join(lines)


def _setting_rows() -> Iterator[SettingRow]:
    for section, section_type in SECTIONS.items():
        for each in fields(section_type):
            kind = value_kind(section, each.name)
            default = each.metadata["otherwise"] or f"`{kind.format(each.default)}`"
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
            usual = getattr(getattr(defaults, section), key)
            written = _format_effective(section, key, value)
            if (section, key) == ("database", "url"):
                written = _with_origin(written, settings.store_kind.origin)
            yield EffectiveRow(f"{section}.{key}", written, value == usual)
    for name, provider in settings.providers.items():
        origin = settings.provider_kinds[provider.kind].origin
        yield EffectiveRow(f"provider.{name}.kind", _with_origin(provider.kind, origin), False)
        for key in provider.options:
            yield EffectiveRow(f"provider.{name}.{key}", MASKED, False)


def _with_origin(text: str, origin: str) -> str:
    """Add the distribution that brings a kind of provider or store, if it isn't built in."""
    return f"{text} (from {origin})" if origin else text


def _format_effective(section: str, key: str, value: object) -> str:
    otherwise: str = getattr(fields(SECTIONS[section]), key).metadata["otherwise"]
    if value is None and otherwise:
        return f"({otherwise})"
    return value_kind(section, key).format(value)


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split())
