"""`mmo notices test` tries the webhook by which staff are told what waits for a person."""

from __future__ import annotations

import click
import trio

from mmo_sansio.http.exchange import DeliveryAttempt, DeliveryOutcome
from mmo_trio.cli.support.errors import NegativeAnswer, UsageProblem
from mmo_trio.cli.support.output import print_status
from mmo_trio.cli.support.target import CommandTarget, target_options

# In the place of the text about what waits; `matters` stays empty, as nothing does.
TEST_TEXT = "This is a test: staff are told here of what waits for a person."

PRIVATE_REMEDY = "A receiver in your own network needs `notices.allow_private = true`."


@click.group()
def notices() -> None:
    """Try the webhook that tells staff what waits for a person."""


@notices.command("test")
@target_options
def send_test(target: CommandTarget) -> None:
    """Send a message to `notices.webhook_url` now, and say what became of it."""
    # Imported here, as it is slow to import and no other command needs it.
    from mmo_trio.workers.notices import NoticeReceiver

    gateway = target.settings.gateway.base_url or f"http://{target.settings.listen.api}"
    receiver = NoticeReceiver.of(target.settings, gateway)
    if receiver is None:
        raise UsageProblem("notices.webhook_url is not set: name the address of your receiver.")

    async def send() -> DeliveryAttempt:
        return await receiver.send(TEST_TEXT, {"matters": []}, target.clock().wall_time())

    attempt = trio.run(send)
    if attempt.outcome is not DeliveryOutcome.DELIVERED:
        answer = ""
        if attempt.status is not None:
            answer = f" (HTTP {attempt.status})"

        reason = attempt.detail or "The receiver did not take it."
        # A refused address is most often a receiver in the own network, for which there is a
        # setting.
        is_refused = attempt.outcome is DeliveryOutcome.EGRESS_REFUSED
        if is_refused and not target.settings.notices.allow_private:
            reason += f" {PRIVATE_REMEDY}"

        raise NegativeAnswer(f"The message was not delivered{answer}. {reason}")

    print_status(f"Delivered: the receiver answered HTTP {attempt.status}.")
