"""Lists what `mmo` can do, as plain values, and makes them the text of `mmo --help`.

Nothing is imported here, so that the text is there in the time that Python takes to start.
"""

# The commands by section: each one's name, its module in `mmo_trio.cli.commands`, one sentence on
# it, and the extra of the distribution that brings its packages.
COMMANDS = {
    "Build a shop": (
        ("demo", "demo", "Show a whole first payment.", "server"),
        ("sandbox", "serve", "Serve a sandbox to build against.", "server"),
        ("sandbox-clock", "sandbox_clock", "Set the sandbox's clock forward.", "server"),
        (
            "listen",
            "listen",
            "Receive callbacks on this machine; forward them to a local server.",
            "server",
        ),
        (
            "requests",
            "requests",
            "Show the requests that a sandbox got, and why it refused some.",
            "server",
        ),
        ("trigger", "trigger", "Play a whole scenario against a running sandbox.", "server"),
        (
            "pay-outs",
            "mmo_merchant.payroll.command",
            "Pay a file of pay-outs, each line once.",
            "merchant,tools",
        ),
        ("conform", "conform", "Test a merchant's endpoint for callbacks.", "merchant,tools"),
    ),
    "Run a gateway": (
        ("serve", "serve", "Serve in production.", "server"),
        (
            "check-config",
            "serve",
            "Check the settings as `mmo serve` does, and show them.",
            "server",
        ),
        ("db", "db", "Migrate, check, correct and restore the store.", "server"),
        ("brands", "brands", "Show and change brands, their methods and keys.", "server"),
        ("providers", "providers", "Show, close and open providers of mobile money.", "server"),
        (
            "notices",
            "notices",
            "Try the webhook that tells staff what waits for a person.",
            "server",
        ),
        ("users", "users", "Show and change the users of the console.", "server"),
        (
            "keys",
            "master_keys",
            "Show and replace the master key, with which the store's secrets are sealed.",
            "server",
        ),
        (
            "simulate",
            "simulate",
            "Simulate a mobile money operator, with money of no value.",
            "simulators",
        ),
    ),
    "Look after payments": (
        ("explain", "payments", "Explain the outcome of a payment.", "server"),
        ("tx", "payments", "Show transactions, resolve one by hand, and ask money back.", "server"),
        ("suspense", "suspense", "Show and close entries of the suspense book.", "server"),
        (
            "records",
            "records",
            "Write transactions for reconciliation, and compare them with statements.",
            "server",
        ),
        (
            "audit",
            "audit",
            "Show the audit log: sign-ins, and all actions of users and of commands.",
            "server",
        ),
    ),
    "Use the command": (
        ("completion", "completion", "Print the completion script of a shell.", "server"),
    ),
}

_HELP = """\
Usage: mmo [OPTIONS] COMMAND [ARGS]...

  An open mobile money gateway.

  `mmo demo` shows a whole payment; `mmo sandbox` serves one to build against.

Options:
  --version   Show version and commit, and exit.
  -h, --help  Show this message and exit."""


def help_text() -> str:
    """Return the text of `mmo --help`."""
    # One width for all sections, so that their sentences begin below each other.
    width = max(len(row[0]) for rows in COMMANDS.values() for row in rows)
    sections = (
        "\n".join(
            [f"\n{section}:", *(f"  {name:{width}}  {sentence}" for name, _, sentence, _ in rows)]
        )
        for section, rows in COMMANDS.items()
    )
    return "\n".join([_HELP, *sections])
