"""A sandbox trusts the receivers that a merchant's own authority has signed and those of `mmo
listen`, both at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmo_trio.sandbox.local_ca import ensure_authority
from tests.support.receivers import receiver, url_of
from tests.support.sandbox_gateway import Serve


@pytest.mark.own_store
@pytest.mark.spec("K7")
async def test_a_sandbox_trusts_its_own_authority_and_another_one(
    serve: Serve, tmp_path: Path
) -> None:
    shops_authority = ensure_authority(tmp_path / "shop").certificate_file
    async with (
        receiver(tmp_path / "shop") as shop,
        serve(environment={"MMO_EGRESS_EXTRA_CA_FILE": str(shops_authority)}) as sandbox,
    ):
        to_listen = (await sandbox.merchant.accepted())["gatewayReference"]
        to_shop = (await sandbox.merchant.accepted(resultUrl=url_of(shop)))["gatewayReference"]
        assert (await sandbox.outcome_of(to_shop))["outcome"] == "delivered"
        assert (await sandbox.outcome_of(to_listen))["outcome"] == "delivered"
