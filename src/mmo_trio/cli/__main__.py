"""`python -m mmo_trio.cli` is `mmo`."""

import sys

from mmo_trio.cli import installation_advice
from mmo_trio.cli.contents import help_text


def run() -> None:
    """Run the command `mmo`; where the packages of every command are missing, say what to
    install."""
    # Here, before anything is imported: a help text must not take a second.
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(help_text())
        return

    try:
        from mmo_trio.cli.group import main
    except ModuleNotFoundError as error:
        # What is missing is ours, so installing helps nobody.
        if (error.name or "").startswith("mmo_"):
            raise

        sys.exit(installation_advice("mmo", error.name, "server"))

    main(prog_name="mmo")


if __name__ == "__main__":
    run()
