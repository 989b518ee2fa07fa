"""The aggregator pawaPay (Merchant API v2) as a kind of provider of the mobile money gateway."""

from mmo_provider_pawapay.account import PRODUCTION_HOSTS, PawapayAccount, confirms_elsewhere
from mmo_provider_pawapay.adapter import PawapayProvider, open_pawapay
from mmo_provider_pawapay.rehearsal import PAWAPAY_REHEARSAL
from mmo_sansio.providers import ProviderKind, fields_of

__all__ = ["PAWAPAY", "PawapayProvider"]

PAWAPAY = ProviderKind(
    "pawaPay",
    open_pawapay,
    fields_of(PawapayAccount),
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
