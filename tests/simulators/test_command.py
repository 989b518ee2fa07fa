"""`mmo simulate` needs the packages of `mmo-gateway[simulators]` and of the commands, and no
others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mmo_simulators.operators.mpesa.keys import open_mpesa
from mmo_simulators.operators.registry import (
    ACCOUNT_OPTIONS,
    CERTIFICATE_FILE,
    SIMULATORS,
    account_settings,
)
from mmo_trio.brands.master_key import create_master_key
from mmo_trio.cli.commands.simulate import simulate
from mmo_trio.service.configuration_check import configuration_faults
from mmo_trio.settings import load_settings

PACKAGES = ("attrs", "attr", "cryptography", "h11", "segno", "trio", "click", "rich")
"""What the extra and the commands name, by what is imported."""
THEIR_PACKAGES = (
    "cffi",
    "_cffi_backend",
    "idna",
    "outcome",
    "pygments",
    "sniffio",
    "sortedcontainers",
)
"""What these need themselves."""
WITHOUT_OTHERS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {allowed}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
from mmo_trio.cli.commands.simulate import simulate
from mmo_simulators.operators import registry
from mmo_simulators.server import serving
simulate.main(["mtn", "--ca-file", {missing!r}])
"""


def test_it_needs_no_package_of_a_gateway(tmp_path: Path) -> None:
    allowed = {
        *PACKAGES,
        *THEIR_PACKAGES,
        "mmo_sansio",
        "mmo_simulators",
        "mmo_trio",
        *sys.stdlib_module_names,
    }
    missing = tmp_path / "no.pem"
    missing.touch()
    program = WITHOUT_OTHERS.format(allowed=allowed, missing=str(missing))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1][:6]) == (2, "Error:"), done.stderr


def test_a_file_without_an_authority_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    result = CliRunner().invoke(
        simulate, ["mtn", "--port", "0", "--ca-file", str(tmp_path / "ca.pem")]
    )
    assert result.exit_code == 2
    assert f"--ca-file {tmp_path / 'ca.pem'}: it holds no certificate in PEM" in result.output


@pytest.mark.parametrize("operator", SIMULATORS)
def test_it_prints_the_settings_of_an_account_with_it(
    operator: str, tmp_path: Path, provider_packages: object
) -> None:
    """They are complete, and the operator's page has all of them."""
    (tmp_path / CERTIFICATE_FILE).write_text(open_mpesa().certificate)
    file = tmp_path / "mmo.toml"
    printed = account_settings(operator, "http://127.0.0.1:8090").replace(
        f'"{CERTIFICATE_FILE}', f'"{tmp_path}/{CERTIFICATE_FILE}'
    )
    create_master_key(tmp_path / "master.key")
    file.write_text(f'[keys]\nmaster_key_file = "{tmp_path}/master.key"\n{printed}\n')
    settings = load_settings(file=file)
    assert configuration_faults(settings) == []
    page = (
        Path(__file__).parents[2] / f"docs/providers/{ACCOUNT_OPTIONS[operator]['kind']}.md"
    ).read_text("utf-8")
    assert [value for value in ACCOUNT_OPTIONS[operator].values() if value not in page] == []


def test_the_certificate_of_m_pesa_is_always_the_same() -> None:
    assert open_mpesa().certificate == open_mpesa().certificate
