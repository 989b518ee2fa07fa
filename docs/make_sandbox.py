"""Write `docs/sandbox.md` from the sandbox's table of scenarios, so that it always agrees with what
the sandbox plays.

PYTHONPATH=src python docs/make_sandbox.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mmo_sansio.providers.sandbox.scenarios import NOT_PLAYED, SCENARIOS, DelayOrigin, Scenario
from mmo_sansio.values.error_codes import ErrorCode

PAGE = Path(__file__).with_name("sandbox.md")

HEAD = """\
# The sandbox

`mmo sandbox` serves the whole gateway with a simulated operator: no money moves. Its front page shows this table,
too; `docs/make_sandbox.py` writes this page.

## Test numbers

The last three digits of the payer's or payee's phone number choose what happens to a payment: `254700000101` does not
have enough money. The header `X-Sandbox-Scenario` chooses it by name, whatever the number is; a tax payout has no
number, and needs it. `mmo serve` with a provider of kind `sandbox` knows the numbers, and ignores the header.

| Digits | `X-Sandbox-Scenario` | The payment |
|---|---|---|
"""

CODES = """
See each code once that [a payment can fail with](errors.md#failed-payments). These are not in the table above:

| `errorCode` | How |
|---|---|
"""

TAIL = """
A request that is [rejected](errors.md) needs no test number: send a wrong key, an unknown method, or the same
reference twice.

## What the operator rejects

The simulated operator takes no fraction of a shilling, as M-Pesa does not: KES 150.55 fails with
`amount_out_of_range`. A scenario that the header names is played in any case, and with `sandbox.lenient = true`
(`MMO_SANDBOX_LENIENT=true`) fractions are taken.

## Whose account is behind a number

With `MMO_GATEWAY_PAYEES_PER_MINUTE=600` in its environment the sandbox tells [payees](extensions.md#payees): every
number is Jane Doe's. Of one that ends in 106 there is no account, 107 is barred, of 109 letters are masked, and about
104 and 105 the operator does not answer.

## Money that goes back

`MMO_CONSOLE_FOUR_EYES=false mmo tx reverse order-1 --amount 50.00 --reason test` does what the gateway's staff do when
you [ask for a reversal](extensions.md#giving-money-back). Seconds later the list of reversals has it.

## Time

`mmo sandbox-clock advance 3d` moves the time of the sandbox, and everything that is due in between happens on the
way: a payment of 130 fails. `mmo sandbox-clock advance 16m` shows what a request does that is repeated [after its
window](api.md#repeat-a-request-without-paying-twice).

After an advance (`mmo trigger` advances, too) a job that lists records by the machine's clock finds nothing new: list
up to the sandbox's time (`sandbox_time` in the log), or begin again with `mmo sandbox --reset`.

## Controls

The pages listener of a sandbox takes these requests in JSON, without a key; in production it does not.

| Request | What it does |
|---|---|
| `POST /sandbox/clock` `{"advance": "3d"}` | moves the time forward |
| `POST /sandbox/push` `{"brand", "method", "providerReference", "amount", "party"}` | reports an offline deposit |
| `POST /sandbox/pay` `{"gatewayReference"}` | presses the button of the payment page |
| `GET /sandbox/callbacks?brand=demo` | lists every attempt to send a callback, with its outcome |
| `GET /sandbox/requests?after=0` | lists the latest requests of merchants, and why one was refused |
| `GET /sandbox/suspense` | lists the open entries of the suspense book |

The last three are pages in a browser, with headers, bodies and answers; `?as=json` shows there what programs get.

The [console](console.md) of a sandbox works like that of a gateway; `mmo users add ada --role admin` makes its first
user.

## Before you go live

- Every code of the table above leads to the right page of your shop, an unknown code to a general one.
- Your [receiver](callbacks.md) compares `X-API-KEY` in constant time, takes a result once (150), and answers within
  15 seconds.
- A request without an answer is [repeated or looked up first](api.md#repeat-a-request-without-paying-twice), with the
  reference that you stored before.
- A job [looks up what no callback brought](callbacks.md#when-it-does-not-arrive). Test it with your receiver switched
  off.
- A payment that fails with `transaction_expired` (130) is neither delivered nor paid again before a person has asked
  the gateway's staff.
- Amounts are read as decimals, and `finalAmount` is compared with what was asked for (120).
- You have asked the gateway's staff for your methods, countries, currencies and limits, for `result_hosts`, and for
  limits on requests and sums of a day.
- You know how to change your key, and what to do when it has leaked.
"""


def page() -> str:
    """Return the page as Markdown."""
    rows = (
        f"| {each.digits or 'others'} | `{each.name}` | {each.description} |\n"
        for each in SCENARIOS
    )
    return f"{HEAD}{''.join(rows)}{CODES}{''.join(map(_code_row, _unnamed_codes()))}{TAIL}"


def _unnamed_codes() -> Iterator[ErrorCode]:
    """Yield the codes that no scenario's description names."""
    described = " ".join(each.description for each in SCENARIOS)
    return (code for code in ErrorCode if f"fails with `{code}`" not in described)


def _code_row(code: ErrorCode) -> str:
    way = NOT_PLAYED.get(code) or f"a number that ends in {playing_scenarios(code)[0].digits}"
    return f"| `{code}` | {way} |\n"


def playing_scenarios(code: ErrorCode) -> tuple[Scenario, ...]:
    """Return the scenarios whose payment ends with this error code."""
    expires = code is ErrorCode.TRANSACTION_EXPIRED
    return tuple(
        each
        for each in SCENARIOS
        if (_has_no_result_in_time(each) if expires else _first_failure(each) is code)
    )


def _has_no_result_in_time(scenario: Scenario) -> bool:
    steps = scenario.steps
    return not scenario.waits_for_person and not (
        steps and steps[0].counted_from is DelayOrigin.SUBMISSION
    )


def _first_failure(scenario: Scenario) -> ErrorCode | None:
    return scenario.steps[0].failure if scenario.steps else None


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
