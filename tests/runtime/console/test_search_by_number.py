"""The console finds a payment by its number, however staff write it, in each country with mobile
money."""

from __future__ import annotations

from mmo_sansio.values.dialling_codes import DIALLING_CODES, is_msisdn_of
from tests.support.console_browser import ConsoleBrowser, add_users
from tests.support.merchants import ACME_KEY
from tests.support.sandbox_gateway import Serve

KEEPS_ZERO = ("BJ", "CG", "CI")
"""Where the zero in front belongs to the number."""
BRAND = f'[[brand]]\nid = "acme"\nname = "Acme"\napi_keys = ["{ACME_KEY}"]\n'
METHOD = """
[[brand.method]]
key = "{country}"
provider = "sandbox"
country = "{country}"
flows = ["direct/payin"]
limits.KES = {{ min = "1", max = "1000" }}
"""


def national_number(country: str) -> str:
    """Return a mobile number of a country as it follows the country's code."""
    begin = "07" if country in KEEPS_ZERO else "7"
    for length in range(6, 14):
        national = begin + "1234567890123"[: length - len(begin)]
        if is_msisdn_of(country, DIALLING_CODES[country] + national):
            return national
    raise AssertionError(country)


async def test_a_payment_of_each_country_is_found_by_three_notations_of_its_number(
    serve: Serve,
) -> None:
    brand = BRAND + "".join(METHOD.format(country=country) for country in DIALLING_CODES)
    async with serve(brands=brand, api_key=ACME_KEY) as running:
        await add_users(running.directory, sam="support")
        sam = ConsoleBrowser(running.ready.console)
        assert (await sam.sign_in("sam")).status == 303

        missed = []
        for country, code in DIALLING_CODES.items():
            national = national_number(country)
            running.merchant.method = country
            made = await running.merchant.accepted(country=country, msisdn=code + national)
            at_home = national if country in KEEPS_ZERO else f"0{national}"
            for written in (f"+{code} {national}", f"00{code}-{national}", at_home):
                found = await sam.search(written)
                if made["gatewayReference"].encode() not in found.body:
                    missed.append((country, written))
        assert missed == []
        assert len(DIALLING_CODES) == 60
