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
        python = home / "bin" / "python"
        if self.is_javascript:
            steps = [["npm", "install", "--silent", "--prefix", str(home), *self.requirements]]
        else:
            installing = [str(python), "-m", "pip", "install", "--quiet", *self.requirements]
            steps = [[sys.executable, "-m", "venv", str(home)], installing]
        _install_once(home, steps)
        program = str(PROGRAMS / self.program)
        if self.is_javascript:
            return ["env", f"NODE_PATH={home / 'node_modules'}", "node", program]
        return [str(python), program]


def _install_once(home: Path, steps: list[list[str]]) -> None:
    """Run the commands that fill a directory, unless they have all succeeded before."""
    done = home / "installed"
    if done.exists():
        return
    shutil.rmtree(home, ignore_errors=True)
    for each in steps:
        subprocess.run(each, check=True)
    done.touch()


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
