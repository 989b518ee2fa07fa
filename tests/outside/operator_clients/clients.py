"""Lists the clients of operators that other people wrote, and installs each in an environment of
its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from attrs import frozen

from tests.packages.environments import Environment, an_environment

PROGRAMS = Path(__file__).with_name("programs")
CONSTRAINTS = Path(__file__).with_name("constraints")
"""What each package of PyPI is installed with, as `pip freeze` named it when its program was
written."""
NPM_BEFORE = "2026-11-20"
"""The date that packages of npm, which depend on ranges of versions, are resolved as of."""


@frozen
class OperatorClient:
    """Names a client package, and the program that drives an operator by it."""

    operator: str
    """The operator, as `mmo simulate` names it."""
    requirements: tuple[str, ...]
    """The package and what it needs, pinned; of PyPI, or of npm for a program in JavaScript."""
    program: str
    pin_padding: str | None = None
    """The only padding of PINs that the operator accepts; None: it accepts all."""

    @property
    def is_javascript(self) -> bool:
        return self.program.endswith(".js")

    @property
    def package(self) -> str:
        """The name of the package."""
        return re.split(r"[=@\[]", self.requirements[0])[0]

    @property
    def name(self) -> str:
        padding = () if self.pin_padding is None else (self.pin_padding,)
        return "-".join((self.operator, Path(self.program).stem, *padding))

    def install(self, directory: Path) -> list[str]:
        """Install the packages below the directory unless they are there, and return the command
        that runs the program."""
        home = directory / f"{self.operator}-{'-'.join(self.requirements)}"
        installed = home / "installed"
        if not installed.exists():
            shutil.rmtree(home, ignore_errors=True)
            self._install_into(home)
            installed.touch()
        program = str(PROGRAMS / self.program)
        if self.is_javascript:
            return ["env", f"NODE_PATH={home / 'node_modules'}", "node", program]
        return [Environment(home).python, program]

    def _install_into(self, home: Path) -> None:
        if self.is_javascript:
            npm = ("npm", "install", "--silent", "--before", NPM_BEFORE, "--prefix", str(home))
            subprocess.run([*npm, *self.requirements], check=True)
        else:
            an_environment(home, "-c", str(CONSTRAINTS / f"{self.package}.txt"), *self.requirements)


CLIENTS = (
    OperatorClient("mpesa", ("mpesakit==2.2.0",), "mpesakit_client.py"),
    OperatorClient("mpesa", ("daraja-sdk-py==2.0.0",), "daraja_sdk_client.py"),
    OperatorClient("mpesa", ("mpesa-daraja-mcp==0.1.4",), "mpesa_daraja_mcp_client.py"),
    OperatorClient("mpesa", ("mpesa-node@0.1.3",), "mpesa_node_client.js"),
    OperatorClient("mpesa", ("mpesa-api@3.0.2",), "mpesa_api_client.js"),
    OperatorClient("mtn", ("mtnmomo==3.0.1",), "mtnmomo_client.py"),
    OperatorClient("mtn", ("momo-openapi==0.1.2",), "momo_openapi_client.py"),
    OperatorClient("mtn", ("mtn-momo-client==2.0.1",), "mtn_momo_client_mtn.py"),
    OperatorClient("mtn", ("mobilemoney.py==0.1.2", "requests==2.34.2"), "mobilemoney_client.py"),
    OperatorClient("mtn", ("mtn-momo@2.0.0",), "mtn_momo_node_client.js"),
    OperatorClient("airtel", ("airtelmoney-py==1.0.6",), "airtelmoney_client.py"),
    OperatorClient("airtel", ("pyairtel==0.1.1", "pycryptodome==4.4.0"), "pyairtel_client.py"),
    OperatorClient("airtel", ("umojasdk==0.1.1",), "umojasdk_client.py"),
    OperatorClient("pawapay", ("pawapay-sdk@1.0.3",), "pawapay_sdk_client.js"),
    OperatorClient("wave", ("wave-business-api==1.0.0",), "wave_business_api_client.py"),
    *(
        OperatorClient(
            "airtel", ("mtn-momo-client[airtel]==2.0.1",), "mtn_momo_client_airtel.py", padding
        )
        for padding in ("pkcs1v15", "oaep-sha256", "oaep-sha256-mgf1-sha1", "oaep-sha1")
    ),
)
