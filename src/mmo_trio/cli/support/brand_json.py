"""Shows brands and their keys as JSON objects."""

from __future__ import annotations

from typing import Any

from mmo_sansio.values.model import Type
from mmo_trio.cli.support.output import format_instant
from mmo_trio.storage.interface.admin_types import BrandHold, BrandRecord


def brand_to_json(record: BrandRecord, hold: BrandHold | None = None) -> dict[str, Any]:
    """Return a brand and its hold as a JSON object: its keys by number, never themselves (A5)."""
    brand = record.brand
    return {
        "id": brand.id,
        "name": brand.name,
        "enabled": brand.enabled,
        "heldAt": hold and format_instant(hold.held_at),
        "heldBy": hold and hold.held_by,
        "pushResultUrl": brand.push_result_url,
        "host": brand.host,
        "referenceReuse": {each.value: brand.reference_reuse.for_type(each) for each in Type},
        "redirectSchemes": sorted(brand.redirect_schemes),
        "limits": {
            "requestsPerSecond": brand.limits.requests_per_second,
            "requestsBurst": brand.limits.requests_burst,
            "pendingPayments": brand.limits.pending_payments,
        },
        "resultHosts": list(brand.result_hosts),
        "page": {
            "colour": brand.appearance.colour,
            "logo": brand.appearance.logo
            and {"type": brand.appearance.logo.media_type, "bytes": len(brand.appearance.logo.content)},
            "orderLabel": brand.appearance.order_label,
        },
        "methods": [
            {
                "key": each.key,
                "country": each.country,
                "provider": each.provider,
                "flows": sorted(each.operations),
                "limits": {
                    currency: {
                        "min": one.minimum.text,
                        "max": one.maximum.text,
                        "daily": {type.value: most.text for type, most in one.daily.items()},
                    }
                    for currency, one in each.limits.items()
                },
                "taxAuthorityId": each.tax_authority_id,
                "taxAuthorityAccount": each.tax_authority_account,
                "pushAccounts": list(each.push_accounts),
            }
            for each in brand.methods
        ],
        "keys": brand_keys_to_json(record),
    }


def brand_keys_to_json(record: BrandRecord) -> list[dict[str, object]]:
    """Return the number of each key of a brand, and when it was added, retired and reported as leaked."""
    return [
        {
            "id": key.id,
            "addedAt": format_instant(key.added_at),
            "retiredAt": format_instant(key.retired_at),
            "leakedAt": format_instant(key.leaked_at),
        }
        for key in record.keys
    ]
