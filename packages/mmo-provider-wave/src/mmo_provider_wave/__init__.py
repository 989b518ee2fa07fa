"""Wave (Business API) as a kind of provider of the mobile money gateway."""

from mmo_provider_wave.account import WaveAccount
from mmo_provider_wave.adapter import WaveProvider, open_wave
from mmo_sansio.providers import ProviderKind, fields_of

__all__ = ["WAVE", "WaveProvider"]

WAVE = ProviderKind(
    "Wave",
    open_wave,
    fields_of(WaveAccount),
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
