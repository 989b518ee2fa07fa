"""Files with secrets that everybody can read are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings.secret_files import readable_secret_files

MPESA = '[provider.kenya]\nkind = "mpesa_daraja"\n'
BRAND = '[[brand]]\nid = "acme"\nname = "Acme"\n'


@pytest.mark.parametrize(
    ("text", "holds_secrets"),
    [
        (MPESA + 'consumer_secret = "s"', True),
        (MPESA + 'consumer_secret_file = "/run/secret"', False),
        (MPESA + "shortcode = 174379", False),
        ('[provider.x]\nkind = "unknown"\nconsumer_secret = "s"', False),
        ('[database]\nurl = "postgresql://mmo:pass@db.example/mmo"', True),
        ('[database]\nurl = "postgresql://mmo@db.example/mmo?password=pass"', True),
        ('[database]\nurl = "postgresql://mmo@db.example/mmo"', False),
        ('[notices]\nwebhook_url = "https://chat.example/hooks/secret"', True),
        ("[notices]\nfailed_callbacks = 3", False),
        ("[provider]\nx = 3", False),
        ("not TOML", False),
    ],
)
def test_settings_with_secrets_are_found_when_everybody_can_read_them(
    text: str, holds_secrets: bool, tmp_path: Path
) -> None:
    file = tmp_path / "mmo.toml"
    file.write_text(text)
    file.chmod(0o644)
    assert list(readable_secret_files(file, None, PROVIDER_KINDS)) == (
        [file] if holds_secrets else []
    )
    file.chmod(0o640)
    assert not list(readable_secret_files(file, None, PROVIDER_KINDS))
    assert not list(readable_secret_files(tmp_path / "none", tmp_path / "none", PROVIDER_KINDS))


@pytest.mark.parametrize(
    ("text", "holds_secrets"),
    [(BRAND + 'api_keys = ["k"]', True), (BRAND, False), ("brand = 3", False)],
)
def test_brands_with_keys_are_found_when_everybody_can_read_them(
    text: str, holds_secrets: bool, tmp_path: Path
) -> None:
    file = tmp_path / "brands.toml"
    file.write_text(text)
    file.chmod(0o644)
    assert list(readable_secret_files(None, file, PROVIDER_KINDS)) == (
        [file] if holds_secrets else []
    )
    file.chmod(0o600)
    assert not list(readable_secret_files(None, file, PROVIDER_KINDS))
