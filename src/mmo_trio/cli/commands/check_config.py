"""`mmo check-config` checks the settings and shows those in force."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mmo_trio.cli.support.errors import UsageProblem
from mmo_trio.cli.support.options import json_option
from mmo_trio.cli.support.output import print_json, print_table, report_readable_secrets
from mmo_trio.settings import effective_settings, load_settings


@click.command("check-config")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="mmo.toml.")
@json_option
def check_config(config: Path | None, as_json: bool) -> None:
    """Check the settings as `mmo serve` does, and show them.

    Names every fault for which a gateway would not start: listeners, certificates, the master key, providers' options
    and the files that they name. Secrets are masked. The database is not asked: `mmo db check` does that.
    """
    # Imported here, as no other command needs it.
    from mmo_trio.service.configuration_check import configuration_faults

    settings = load_settings(file=config, environment=os.environ)
    faults = list(configuration_faults(settings))
    if faults:
        raise UsageProblem("\n".join(map(str, faults)))
    report_readable_secrets(config, None, settings)
    rows = effective_settings(settings)
    if as_json:
        print_json({row.key: {"value": row.value, "default": row.is_default} for row in rows})
        return
    print_table(("setting", "value", ""), ((row.key, row.value, "" if row.is_default else "set") for row in rows))
