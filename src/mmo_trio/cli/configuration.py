"""`mmo check-config`: what is in force, and where it differs from the defaults."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mmo_trio.cli.output import print_json, print_table
from mmo_trio.cli.places import json_option
from mmo_trio.settings import effective, load_settings


@click.command("check-config")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="mmo.toml.")
@json_option
def check_config(config: Path | None, as_json: bool) -> None:
    """Check the settings and show them.

    What file and environment come to; secrets are masked.
    """
    rows = effective(load_settings(file=config, environment=os.environ))
    if as_json:
        print_json({row.key: {"value": row.value, "default": row.is_default} for row in rows})
        return
    print_table(
        ("setting", "value", ""),
        ((row.key, row.value, "" if row.is_default else "set") for row in rows),
    )
