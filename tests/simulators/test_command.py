"""`mmo simulate` needs the packages of `mmo-gateway[simulators]` and of the commands, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from mmo_trio.cli.commands.simulate import simulate

PACKAGES = ("attrs", "attr", "cryptography", "h11", "segno", "trio", "click", "rich")
"""What the extra and the commands name, by what is imported."""
THEIR_PACKAGES = ("cffi", "_cffi_backend", "idna", "outcome", "pygments", "sniffio", "sortedcontainers")
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
    allowed = {*PACKAGES, *THEIR_PACKAGES, "mmo_sansio", "mmo_simulators", "mmo_trio", *sys.stdlib_module_names}
    missing = tmp_path / "no.pem"
    missing.touch()
    program = WITHOUT_OTHERS.format(allowed=allowed, missing=str(missing))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1][:6]) == (2, "Error:"), done.stderr


def test_a_file_without_an_authority_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    result = CliRunner().invoke(simulate, ["mtn", "--port", "0", "--ca-file", str(tmp_path / "ca.pem")])
    assert result.exit_code == 2
    assert f"--ca-file {tmp_path / 'ca.pem'}: it holds no certificate in PEM" in result.output
