"""`mmo conform` reports what an endpoint should have done, as text, JSON and JUnit XML."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import trustme
from click.testing import CliRunner, Result

from mmo_merchant.endpoint_check.situations import SITUATIONS
from mmo_trio.cli.group import main
from tests.support.time_limits import HANGS_AFTER_S

EXAMPLE = Path(__file__).parents[3] / "examples/callback_receiver.py"
KEY = "The-key-0123456789abcdef"
SOME = ("key-right", "key-wrong", "repeated", "tls-1.2", "tls-1.3")


def conform(*arguments: object) -> Result:
    done = CliRunner().invoke(main, ["conform", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert KEY not in done.output
    return done


@contextmanager
def example(directory: Path, key: str) -> Iterator[tuple[str, Path]]:
    """The example receiver as a program with TLS, which expects this key: its URL, and its
    output."""
    authority, log = trustme.CA(), directory / "log"
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "certificate.pem")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    options = ["--certificate", "certificate.pem", "--key", "key.pem"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, EXAMPLE, "--port", "0", *options],
            stdout=output,
            env=os.environ | {"API_KEY": key},
            cwd=directory,
        )
    try:
        end = time.monotonic() + HANGS_AFTER_S
        while (found := re.search(r"listening on port (\d+)", log.read_text())) is None:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        yield f"https://127.0.0.1:{found[1]}/results", log
    finally:
        process.terminate()
        process.wait(60)


def test_an_endpoint_that_does_right_passes(tmp_path: Path) -> None:
    report, only = tmp_path / "report.xml", [word for name in SOME for word in ("--only", name)]
    count = f"open('{tmp_path}/log').read().count('result {{reference}}')"
    probe = f'{sys.executable} -c "print({count})"'
    with example(tmp_path, KEY) as (url, _):
        options = [
            "--key",
            KEY,
            "--ca-file",
            tmp_path / "ca.pem",
            *only,
            "--probe",
            probe,
            "--junit",
            report,
        ]
        done = conform(url, *options)
        asked = conform(url, "--key", KEY, "--ca-file", tmp_path / "ca.pem", "--only", "repeated")
    assert done.exit_code == 0, done.output
    assert "5 passed, 0 failed, 0 with advice, 0 not played." in done.stdout
    assert "Ask yourself" not in done.stdout
    cases = ElementTree.parse(report).getroot()
    assert [each.get("name") for each in cases] == list(SOME)
    assert (cases.get("tests"), cases.get("failures")) == ("5", "0")
    assert "repeated: Was it booked once?" in asked.stdout


def test_an_endpoint_that_does_wrong_fails(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    with example(tmp_path, "another key") as (url, _):
        options = ["--ca-file", tmp_path / "ca.pem", "--only", "key-right", "--only", "key-wrong"]
        done = conform(url, "--key", KEY, *options, "--junit", report)
        as_json = conform(url, "--key", KEY, *options, "--json")
        untrusted = conform(url, "--key", KEY, "--only", "key-right")
    assert done.exit_code == 1
    assert "It answered 401, so the delivery has failed, and there is no second one." in done.stdout
    assert "Answer with any 2xx" in done.stdout
    assert "(K1, K2, K3)" in done.stdout
    (failure,) = ElementTree.parse(report).getroot().iter("failure")
    assert "It answered 401" in str(failure.get("message"))
    assert as_json.exit_code == 1
    assert [each["verdict"] for each in json.loads(as_json.stdout)] == ["failed", "passed"]
    assert untrusted.exit_code == 1
    assert "the certificate is not accepted" in untrusted.stdout
    assert "--ca-file" in untrusted.stdout


def test_what_cannot_be_played_takes_a_line_for_each_reason() -> None:
    """Fifty lines would hide the one that says why."""
    unreachable = conform("http://127.0.0.1:1/", "--key", KEY, "--allow-http")
    lines = unreachable.stdout.splitlines()
    assert unreachable.exit_code == 1
    assert "-       tls-1.2, tls-1.3: It needs TLS." in lines
    others = f"{len(SITUATIONS) - 3} situations"
    assert f"-       {others}: The endpoint gave no answer to the first request." in lines
    assert len(lines) < 12


def test_wrong_options_are_named() -> None:
    for words, named in (
        ((), "URL"),
        (("https://shop.example/", "--only", "nothing", "--key", KEY), "--only nothing"),
        (("http://127.0.0.1:1/", "--key", KEY), "--allow-http"),
        (("shop", "--key", KEY), "shop"),
        (("https://shop.example/", "--key", KEY, "--probe", "count"), "{reference}"),
    ):
        done = conform(*words)
        assert done.exit_code == 2, done.output
        assert named in done.stderr


def test_the_situations_are_listed_and_are_many() -> None:
    listed = json.loads(conform("--list", "--json").stdout)
    assert [each["name"] for each in listed] == [each.name for each in SITUATIONS]
    assert len(listed) >= 30
    assert all(each["clauses"] and each["duty"].endswith(".") for each in listed)
