"""The aggregator pawaPay (Merchant API v2) as a kind of provider of the mobile money gateway."""

from mmo_provider_pawapay.account import PRODUCTION_HOSTS, confirms_elsewhere
from mmo_provider_pawapay.adapter import PawapayProvider, open_pawapay
from mmo_provider_pawapay.rehearsal import PAWAPAY_REHEARSAL
from mmo_sansio.providers import ProviderKind

__all__ = ["PAWAPAY", "PawapayProvider"]

PAWAPAY = ProviderKind(
    "pawaPay",
    open_pawapay,
    (
        "auth_type",
        "base_url",
        "callback_keys",
        "callbacks_of",
        "customer_message",
        "market",
        "payer_hosts",
        "signing_key_id",
    ),
    ("api_token", "signing_key"),
    confirms_elsewhere=confirms_elsewhere,
    recorded=(
        "accountdetails",
        "authorizationurl",
        "authtype",
        "balances",
        "clientreferenceid",
        "countries",
        "currencies",
        "decimalsinamount",
        "deposit",
        "depositid",
        "failurecode",
        "failurereason",
        "market",
        "maxamount",
        "maxtransactionlimit",
        "metadata",
        "minamount",
        "mintransactionlimit",
        "nextstep",
        "operationtype",
        "operationtypes",
        "payout",
        "payoutid",
        "provider",
        "providers",
        "providertransactionid",
        "recipient",
        "refund",
        "refundid",
        "reversal",
        "signatureconfiguration",
        "signedcallbacks",
        "signedrequestsonly",
    ),
    production_hosts=PRODUCTION_HOSTS,
    rehearsal=PAWAPAY_REHEARSAL,
)
