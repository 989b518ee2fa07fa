"""`mmo check-config` names every fault for which `mmo serve` would not start."""

from __future__ import annotations

from pathlib import Path

import trustme

from mmo_trio.brands.master_key import create_master_key
from tests.support.commands import mmo


def written(folder: Path, text: str) -> Path:
    config = folder / "mmo.toml"
    config.write_text(f'[keys]\nmaster_key_file = "{folder}/master.key"\n{text}')
    return config


def faults(config: Path) -> str:
    refused = mmo(f"check-config --config {config}")
    assert refused.exit_code == 2, refused.output
    return refused.stderr


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        f"""
[listen]
api = "0.0.0.0:8443"
tls_certificate = "{tmp_path}/missing.pem"
tls_key = "{tmp_path}/missing.key"
console = "0.0.0.0:9000"

[egress]
extra_ca_file = "{tmp_path}/authority.pem"

[provider.momo]
kind = "mtn_momo"
market = "sandbox"
markt = "x"
""",
    )
    said = faults(config)
    for location in (
        "listen.console",
        "listen.tls_certificate",
        "keys.master_key_file",
        "egress.extra_ca_file",
    ):
        assert f"{location}" in said
    assert "provider.momo.markt (MMO_PROVIDER__MOMO__MARKT)" in said
    assert "listen.api:" not in said


def test_a_file_that_can_be_read_in_part_is_checked_whole(tmp_path: Path) -> None:
    """Keys that do not exist, values that cannot be read, and what a gateway would miss at its
    start."""
    config = written(
        tmp_path,
        """
[listen]
api = "nowhere"
adress = "127.0.0.1:1"
console = "0.0.0.0:9000"

[gateway]
base_url = "ftp://pay.example"

[limitz]
a = 1

[provider."bad name"]
kind = "mtn_momo"

[provider.other]
kind = "mtn_mono"
""",
    )
    said = faults(config)
    for location in (
        *(
            "listen.api",
            "listen.adress",
            "listen.console",
            "gateway.base_url",
            "[limitz]",
            "provider.bad name",
        ),
        *("provider.other.kind", "keys.master_key_file"),
    ):
        assert location in said, said


def test_all_options_that_an_account_lacks_are_named_at_once(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    options = 'kind = "mpesa_daraja"\nbase_url = "ftp://x"\nmarkt = "x"\n'
    options += 'results = "sometimes"\ntill = "no"\n'
    lines = faults(written(tmp_path, f"[provider.ke]\n{options}")).splitlines()
    keys = ("markt", "shortcode", "base_url", "consumer_key", "consumer_secret", "results", "till")
    assert len(lines) == len(keys), lines
    for key in keys:
        assert any(f"provider.ke.{key} (" in line for line in lines), (key, lines)


def test_a_key_that_does_not_match_its_certificate_is_a_fault(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    authority = trustme.CA()
    for name in ("one", "two"):
        made = authority.issue_cert(f"{name}.example")
        made.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        made.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
    listen = '[listen]\ntls_certificate = "{0}/one.pem"\ntls_key = "{0}/{1}.key"\n'
    assert "listen.tls_certificate" in faults(written(tmp_path, listen.format(tmp_path, "two")))
    right = written(tmp_path, listen.format(tmp_path, "one"))
    assert mmo("check-config --config", right).exit_code == 0


def test_a_master_key_that_everybody_can_read_is_a_fault(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    (tmp_path / "master.key").chmod(0o644)
    assert "Run: chmod 600" in faults(written(tmp_path, ""))


def test_only_secrets_of_a_provider_are_masked(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    config = written(
        tmp_path,
        """
[provider.momo]
kind = "mtn_momo"
title = "MoMo of Uganda"
market = "mtnuganda"
collection_subscription_key = "d484a1f0d34f4301916d0f2c9e9106a2"
collection_api_user = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
collection_api_key = "a-secret-key"
""",
    )
    shown = mmo(f"check-config --config {config}").stdout
    assert "MoMo of Uganda" in shown
    assert "mtnuganda" in shown
    assert "a-secret-key" not in shown
    assert "d484a1f0" not in shown


def test_it_says_of_which_accounts_it_may_be_asked_whether_money_moves(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    account = """
kind = "mpesa_daraja"
consumer_key = "key"
consumer_secret = "secret"
shortcode = "174379"
deposits = "trust"
"""
    config = written(
        tmp_path,
        f"""
[provider.real]{account}
[provider.tried]{account}base_url = "https://sandbox.safaricom.co.ke"
[provider.proxied]{account}base_url = "https://proxy.example"
production = true
""",
    )
    checked = mmo(f"check-config --config {config}")
    assert checked.exit_code == 0, checked.output
    assert "provider.real:" not in checked.stderr
    assert "provider.tried: no money moves by this account" in checked.stderr
    assert "provider.proxied: by production = true money moves" in checked.stderr


def test_pages_without_https_are_a_fault_where_an_operator_sends_payers_back(
    tmp_path: Path, provider_packages: object
) -> None:
    """Also those of the listener, whose address the pages have where the settings name none."""
    create_master_key(tmp_path / "master.key")
    account = """
[provider.wave_sn]
kind = "wave"
api_key = "wave_sn_prod_a-secret-key"
"""
    for pages in ("", '[gateway]\nhpp_url = "http://checkout.example"\n'):
        said = faults(written(tmp_path, pages + account))
        assert "gateway.hpp_url" in said
        assert "provider.wave_sn needs that" in said

    config = written(tmp_path, '[gateway]\nhpp_url = "https://checkout.example"\n' + account)
    checked = mmo(f"check-config --config {config}")
    assert checked.exit_code == 0, checked.output
