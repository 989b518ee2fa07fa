"""The aggregator pawaPay (Merchant API v2) as a kind of provider of the mobile money gateway."""

from mmo_provider_pawapay.adapter import PawapayProvider, open_pawapay
from mmo_sansio.providers import ProviderKind

__all__ = ["PAWAPAY", "PawapayProvider"]

PAWAPAY = ProviderKind(
    "pawaPay",
    open_pawapay,
    ("base_url", "callback_keys", "callbacks_of", "customer_message", "market", "signing_key_id"),
    ("api_token", "signing_key"),
    recorded=(
        "balances",
        "clientreferenceid",
        "countries",
        "currencies",
        "depositid",
        "failurecode",
        "failurereason",
        "market",
        "operationtype",
        "operationtypes",
        "payoutid",
        "provider",
        "providers",
        "providertransactionid",
        "recipient",
        "refundid",
    ),
)
