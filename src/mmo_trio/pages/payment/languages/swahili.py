"""Defines the texts of the payment page in Swahili."""

from __future__ import annotations

from mmo_sansio.values.error_codes import ErrorCode
from mmo_trio.pages.payment.languages.texts import NumberFormat, PageTexts

SWAHILI = PageTexts(
    code="sw",
    direction="ltr",
    name="Kiswahili",
    numbers=NumberFormat(thousands_separator=",", decimal_separator=".", is_currency_first=True),
    language="Lugha",
    title="Lipa {amount} kwa {brand}",
    to="Kwa",
    with_provider="Kupitia",
    number="Nambari ya simu",
    ending_in="inayoishia na {digits}",
    instructions="Utapokea ujumbe kwenye simu yako. Thibitisha malipo hapo kwa PIN yako.",
    pay="Lipa {amount}",
    time_left="Muda uliobaki wa kulipa: {time}",
    minutes="dakika {count}",
    hours="saa {count}",
    closed="Ukurasa huu umefungwa. Hakuna kilicholipwa.",
    sending="Malipo yanatumwa kwenye simu yako.",
    waiting="Thibitisha malipo kwenye simu yako kwa PIN yako. Ukurasa huu utafuata.",
    pin_warning="Andika PIN yako kwenye simu yako tu, kamwe si kwenye ukurasa kama huu.",
    check_status="Angalia hali ya malipo",
    paid="Imelipwa. Asante.",
    not_paid="Haijalipwa.",
    back="Rudi dukani",
    unknown_title="Hakuna cha kulipa hapa",
    unknown="Kiungo hakijakamilika au kimeisha muda. Rudi dukani uanze tena.",
    busy_title="Subiri kidogo, tafadhali",
    busy="Huduma ya malipo haiwezi kujibu kwa sasa. Ukurasa huu unajaribu tena.",
    reasons={
        ErrorCode.USER_INSUFFICIENT_FUNDS: "Hakuna pesa za kutosha kwenye akaunti yako.",
        ErrorCode.USER_TIMEOUT: "Malipo hayakuthibitishwa kwa wakati.",
        ErrorCode.USER_CANCELLED: "Umeghairi malipo.",
        ErrorCode.PROVIDER_UNAVAILABLE: "Huduma ya pesa kwa simu haipatikani kwa sasa.",
        ErrorCode.PROVIDER_TIMEOUT: ("Huduma ya pesa kwa simu ilichukua muda mrefu mno. Hakuna pesa zilizochukuliwa."),
        ErrorCode.TRANSACTION_EXPIRED: "Malipo hayakukamilika kwa wakati.",
        ErrorCode.USER_NOT_FOUND: "Hakuna akaunti ya pesa kwa simu kwa nambari hii.",
        ErrorCode.USER_ACCOUNT_BLOCKED: ("Akaunti yako haiwezi kutumika kwa sasa. Tafadhali uliza mtoa huduma wako."),
        ErrorCode.USER_LIMIT_EXCEEDED: "Malipo haya yanazidi kikomo cha akaunti yako.",
        ErrorCode.USER_WRONG_PIN: "PIN haikuwa sahihi.",
        ErrorCode.USER_BUSY: "Kuna malipo mengine kwenye simu yako. Tafadhali yamalize kwanza.",
        ErrorCode.AMOUNT_OUT_OF_RANGE: "Kiasi hiki hakiwezi kulipwa kwa njia hii.",
        ErrorCode.MERCHANT_INSUFFICIENT_FUNDS: "Malipo hayawezi kufanyika kwa sasa.",
        ErrorCode.MERCHANT_MISCONFIGURED: "Malipo hayawezi kufanyika kwa sasa.",
        ErrorCode.DUPLICATE_REQUEST: "Malipo yaleyale yalifanywa muda mfupi uliopita.",
        ErrorCode.TRANSACTION_DECLINED: "Malipo yamekataliwa.",
    },
)
