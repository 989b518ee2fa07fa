"""Defines the texts of the payment page in English."""

from __future__ import annotations

from mmo_sansio.values.error_codes import EXPLANATIONS, PayerStep
from mmo_sansio.values.number_format import ENGLISH_NUMBERS
from mmo_trio.pages.payment.languages.texts import PageTexts, PluralCategory, one_or_other

ENGLISH = PageTexts(
    code="en",
    direction="ltr",
    name="English",
    numbers=ENGLISH_NUMBERS,
    language="Language",
    title="Pay {amount} to {brand}",
    with_provider="With",
    number="Phone number",
    ending_in="ending in {digits}",
    instructions="A message from {provider} will come to {number}.",
    pay="Pay {amount}",
    time_left="Time left to pay: {time}",
    plural=one_or_other,
    minutes={PluralCategory.OTHER: "{count} min"},
    hours={PluralCategory.OTHER: "{count} h"},
    sending="The payment is being sent to your phone.",
    waiting="Confirm the payment on your phone with your PIN. This page updates by itself.",
    slow="Still waiting. You can close this page: the shop learns the result.",
    waited="Waiting for {time}",
    no_connection="No connection. This page goes on as soon as there is one.",
    pin_warning="Type your PIN on your phone only. This page never asks for it.",
    check_status="Check the payment",
    paid="Paid",
    not_paid="Not paid",
    unclear="It is not clear whether you paid",
    not_taken="No money was taken.",
    amount="Amount",
    order="For",
    date="Date",
    reference="Payment reference",
    date_time="{day} {month} {year}, {time}",
    months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    call="Call {number}",
    ask_shop="Ask the shop",
    run_by="Payment page of {gateway} for {brand}",
    instructions_elsewhere="You confirm with {provider}, for {number}. The next step says how.",
    asking="{provider} is being asked about the payment. This page updates by itself.",
    elsewhere="Confirm the payment with {provider}, then come back to this page.",
    go="Continue to {provider}",
    leads_to="The button opens {host}.",
    enter_code="Type the code that {provider} gives you for this payment.",
    ask_for_code="Ask for the code in the menu or in the app of {provider}.",
    code_label="Code",
    code_unusable="That can't be a code. Type it as you got it.",
    steps="Steps of the payment",
    step_confirm="Confirm here",
    step_pin="PIN on your phone",
    step_done="Done",
    no_message=(
        "No message? Check that {number} is your number, and that your phone is on and has a "
        "signal."
    ),
    dial="Or dial {code}, and look for payments that wait.",
    receipt="Receipt number",
    next_paid="Thank you. Keep the receipt number. You can close this page.",
    other_device="Pay on your phone instead",
    scan="Scan the code with your phone's camera: this page opens there.",
    back="Back to the shop",
    unknown_title="There is nothing to pay here",
    unknown="The link is incomplete or no longer valid. Go back to the shop and start again.",
    missing_title="There is no such page",
    missing="The address may be incomplete. Go back to the shop and open its link again.",
    fault_title="That did not work",
    fault="Go back, load the page again, and try once more.",
    busy_title="One moment, please",
    busy="The payment service can't answer right now. This page tries again.",
    reasons={code: explanation.for_payer for code, explanation in EXPLANATIONS.items()},
    next_steps={
        PayerStep.TRY_AGAIN: "You can try again: go back to the shop.",
        PayerStep.TOP_UP: "Add money to your account, then start again in the shop.",
        PayerStep.CHANGE_NUMBER: "Trying again will not help. Go back to the shop and give "
        "another number.",
        PayerStep.ASK_PROVIDER: "Trying again will not help. Ask your mobile money "
        "provider, or pay "
        "another way.",
        PayerStep.ASK_SHOP: "Trying again will not help. Ask the shop how else you can pay.",
        PayerStep.WAIT: "Look at the messages on your phone. Don't pay again: the shop will "
        "tell you.",
    },
)
