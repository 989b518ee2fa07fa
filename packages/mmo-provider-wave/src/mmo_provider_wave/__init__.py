"""Wave (Business API) as a kind of provider of the mobile money gateway."""

from mmo_provider_wave.adapter import WaveProvider, open_wave
from mmo_sansio.providers import ProviderKind

__all__ = ["WAVE", "WaveProvider"]

WAVE = ProviderKind(
    "Wave",
    open_wave,
    ("base_url", "restrict_payer"),
    ("api_key", "signing_secret", "webhook_secret"),
    recorded=(
        "checkoutstatus",
        "clientreference",
        "date",
        "endcursor",
        "errorcode",
        "hasnextpage",
        "isreversal",
        "lastpaymenterror",
        "pageinfo",
        "paymentstatus",
        "payouterror",
        "receiveamount",
        "result",
        "transactionid",
        "wavelaunchurl",
        "whencompleted",
        "whencreated",
        "whenexpires",
    ),
    confirms_elsewhere=lambda options: True,
)
