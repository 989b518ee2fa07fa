"""`mmo records digest` sums a day up, for another side to compare with its own."""

from __future__ import annotations

from datetime import datetime

import click

from mmo_merchant.reconciliation.comparison import RecordedPayment
from mmo_merchant.reconciliation.daily_digest import DailyDigest, digest_day
from mmo_merchant.reconciliation.recorded_payments import Period
from mmo_sansio.values import clock
from mmo_sansio.values.clock import DAY, later
from mmo_trio.cli.support.options import json_option, to_instant
from mmo_trio.cli.support.output import format_sums, print_rows
from mmo_trio.cli.support.statements import read_record
from mmo_trio.cli.support.stored_records import brand_ids, read_records
from mmo_trio.cli.support.target import CommandTarget, target_options
from mmo_trio.storage.sql.store import Store

_day_type = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option("--date", "day", type=_day_type, required=True, help="The day (UTC) on which the payments ended.")
@click.option("--brand", help="Only this brand's digest; by default every brand's.")
@json_option
@target_options
def digest(day: datetime, brand: str | None, as_json: bool, target: CommandTarget) -> None:
    """Print a digest of each brand's payments that ended on a day, for another side to compare with its own."""
    begin = to_instant(day, clock.FIRST_INSTANT)
    period = Period(begin, later(begin, DAY))

    async def load(store: Store) -> dict[str, DailyDigest]:
        found: dict[str, dict[str, RecordedPayment]] = {name: {} for name in await brand_ids(store, brand)}
        async for name, text in read_records(store, brand, period, None):
            payment = read_record(text, period)
            if payment.is_expected:
                found.setdefault(name, {})[payment.gateway_reference] = payment
        return {name: digest_day(payments.values()) for name, payments in found.items()}

    rows = [
        {
            "brand": name,
            "date": f"{day:%Y-%m-%d}",
            "count": each.count,
            "sums": format_sums(each.sums),
            "fees": format_sums(each.fees),
            "sha256": each.sha256,
        }
        for name, each in target.with_store(load).items()
    ]
    columns = ("brand", "date", "count", "sums", "fees", "sha256")
    print_rows({name: name for name in columns}, rows, as_json=as_json)
