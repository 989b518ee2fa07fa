"""Lists the clients of operators that other people wrote, and installs each in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from attrs import frozen

PROGRAMS = Path(__file__).with_name("programs")


@frozen
class OperatorClient:
    """Names a client package, and the program that drives an operator by it."""

    operator: str
    """The operator, as `mmo simulate` names it."""
    requirements: tuple[str, ...]
    """The package and what it needs, pinned; of PyPI, or of npm for a program in JavaScript."""
    program: str

    @property
    def is_javascript(self) -> bool:
        return self.program.endswith(".js")

    @property
    def name(self) -> str:
        return f"{self.operator}-{Path(self.program).stem}"

    def install(self, directory: Path) -> list[str]:
        """Install the packages below the directory unless they are there, and return the command that runs the
        program."""
        home = directory / f"{self.name}-{'-'.join(self.requirements).replace('/', '_')}"
        if self.is_javascript:
            if not home.exists():
                _make(home, ["npm", "install", "--silent", "--prefix", str(home), *self.requirements])
            return ["env", f"NODE_PATH={home / 'node_modules'}", "node", str(PROGRAMS / self.program)]
        python = home / "bin" / "python"
        if not home.exists():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            _make(home, [str(python), "-m", "pip", "install", "--quiet", *self.requirements])
        return [str(python), str(PROGRAMS / self.program)]


def _make(home: Path, command: list[str]) -> None:
    """Run the command that fills a directory, and remove the directory when that fails."""
    try:
        subprocess.run(command, check=True)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise


CLIENTS = (
    OperatorClient("mpesa", ("mpesakit==2.2.0",), "mpesakit_client.py"),
    OperatorClient("mpesa", ("daraja-sdk-py==2.0.0",), "daraja_sdk_client.py"),
    OperatorClient("mpesa", ("mpesa-node@0.1.3",), "mpesa_node_client.js"),
    OperatorClient("mtn", ("mtnmomo==3.0.1",), "mtnmomo_client.py"),
    OperatorClient("mtn", ("momo-openapi==0.1.2",), "momo_openapi_client.py"),
    OperatorClient("mtn", ("mtn-momo-client==2.0.1",), "mtn_momo_client_mtn.py"),
    OperatorClient("airtel", ("airtelmoney-py==1.0.6",), "airtelmoney_client.py"),
    OperatorClient("airtel", ("pyairtel==0.1.1", "pycryptodome==4.4.0"), "pyairtel_client.py"),
    OperatorClient("airtel", ("mtn-momo-client[airtel]==2.0.1",), "mtn_momo_client_airtel.py"),
)
