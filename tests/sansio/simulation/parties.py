"""Those around the gateway: merchants, payers, operators, and whoever sends what nobody expects."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from attrs import evolve

from mmo_sansio.messages.inputs import (
    ConfirmPage,
    CreatePayment,
    DepositNotified,
    Draft,
    Input,
    MarkRestored,
    PayerReturned,
    UnmatchedNotified,
)
from mmo_sansio.messages.intents import IntentKind, SubmitToProvider
from mmo_sansio.messages.queries import ListRecords
from mmo_sansio.payments.ledger import ReferenceUse
from mmo_sansio.testing import (
    KES,
    PROVIDER_TITLE,
    START,
    UNUSED_REFERENCE,
    a_brand,
    a_confirmation,
    a_method,
    a_party,
    a_resolution,
    a_stop,
    a_wake,
    accepted,
    callback_concluded,
    cannot_tell,
    failed,
    hinted,
    never_received,
    numbered_reference,
    succeeded,
    unreachable,
)
from mmo_sansio.values import clock
from mmo_sansio.values.clock import Instant, Span, later
from mmo_sansio.values.error_codes import ErrorCode
from mmo_sansio.values.model import (
    Brand,
    Operation,
    ReferenceReuse,
    ReusePolicy,
    Source,
    Stage,
    Status,
    Terms,
)
from mmo_sansio.values.payer_actions import EnterCode, OpenUrl
from tests.sansio.simulation.records import Walk, page

if TYPE_CHECKING:
    from tests.sansio.simulation.world import Simulation

METHODS = (
    a_method(),
    a_method(key="other_ke", provider="other", provider_title="Other"),
    a_method(key="mute_ke", provider="mute", provider_title="Mute"),
)
BRANDS: tuple[Brand, ...] = (
    a_brand(methods=METHODS),
    a_brand(
        id="duka",
        methods=METHODS,
        push_result_url=None,
        reference_reuse=ReusePolicy(
            payout=ReferenceReuse.AFTER_WINDOW, tax=ReferenceReuse.AFTER_WINDOW
        ),
    ),
    a_brand(
        id="soko",
        methods=METHODS,
        reference_reuse=ReusePolicy(ReferenceReuse.AFTER_WINDOW, ReferenceReuse.UNLESS_PAID),
    ),
)
TERMS = (Terms(), Terms(), Terms(page_session=None), Terms(pending_timeout=clock.HOUR))
OPERATIONS = (
    Operation.DIRECT_PAYIN,
    Operation.DIRECT_PAYIN,
    Operation.DIRECT_PAYOUT,
    Operation.WEB_PAYIN,
    Operation.WEB_PAYIN,
    Operation.QR_PAYIN,
    Operation.DIRECT_TAXPAYOUT,
)
PARTIES = (a_party(), a_party(id="customer-2"))


class Parties:
    """What they do, chosen by the simulation's seed."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.random = world.random
        self.minted = 0
        self.deposits: list[DepositNotified] = []

    def mint(self) -> str:
        """A fresh gatewayReference, as the edge makes them."""
        self.minted += 1
        return numbered_reference(self.minted)

    def known(self) -> str:
        """Some payment of ours."""
        transactions = self.world.ledger.transactions
        return self.random.choice(tuple(transactions)) if transactions else UNUSED_REFERENCE

    def a_wish(self, brand: Brand, merchant_reference: str) -> CreatePayment:
        """A creation request, sometimes for what the brand hasn't got."""
        random, tally = self.random, self.world.tally
        operation = random.choice(OPERATIONS)
        fault = random.random()
        draft = Draft(
            operation,
            random.choice((*METHODS[:2], *METHODS)).key,
            Decimal(random.randrange(10, 151 if fault > 0.05 else 400_000)),
            "KES" if not 0.05 < fault < 0.1 else "UGX",
            "KE",
            "https://acme.example/result",
            merchant_reference,
            None,
            None if operation is Operation.DIRECT_TAXPAYOUT else PARTIES[0],
        )
        tally["page" if operation is Operation.WEB_PAYIN else "no page"] += 1
        token = f"token-{self.minted}"
        is_free = random.random() < 0.5
        reserved = (
            next(each.provider for each in METHODS if each.key == draft.method) if is_free else None
        )
        return CreatePayment(
            brand, self.mint(), draft, token, random.choice(TERMS), reserved_provider=reserved
        )

    def create(self) -> None:
        """A merchant wants a payment; brands use each other's references without knowing."""
        brand = self.random.choice(BRANDS)
        self.world.insist(self.a_wish(brand, f"order-{self.random.randrange(120)}"))

    def reuse_a_reference(self) -> None:
        """The same brand sends a reference again, often at the very edge of the window."""
        world = self.world
        if not world.ledger.references:
            return
        key = self.random.choice(tuple(world.ledger.references))
        use: ReferenceUse = world.ledger.references[key]
        edge = use.at + 15 * clock.MINUTE + self.random.choice((-1, -500, 0, 1))
        if edge > world.stamp and self.random.random() < 0.6:
            world.raw = world.stamp = Instant(edge - 1)
            world.tally["reuse at the edge of the window"] += 1
        else:
            world.tally["reuse"] += 1
        brand = next(each for each in BRANDS if each.id == key[0])
        if self.random.random() < 0.5:  # The brand has changed its mind.
            policy = ReusePolicy.same_for_all(self.random.choice(tuple(ReferenceReuse)))
            brand = evolve(brand, reference_reuse=policy)
        keep = world.raw
        world.raw = Instant(min(world.raw, world.stamp - 400_000))
        world.insist(self.a_wish(brand, key[1]))
        world.raw = max(keep, world.stamp)

    def tell_a_deposit(self) -> None:
        """A provider tells of a deposit: a new one, one told before, or one told otherwise."""
        random, chance = self.random, self.random.random()
        tally = self.world.tally
        if chance < 0.5 or not self.deposits:
            brand = random.choice((*BRANDS, None))
            given = DepositNotified(
                random.choice(("test", "other")),
                f"DEP-{random.randrange(200)}",
                PROVIDER_TITLE,
                self.mint(),
                brand,
                random.choice(("test_ke", "other_ke")),
                KES(random.randrange(1, 9)),
                random.choice(PARTIES),
                random.random() > 0.1,
            )
            tally["deposit told"] += 1
            self.deposits.append(given)
        else:
            before = random.choice(self.deposits)
            amount = before.amount if chance < 0.8 else KES(999)
            tally["deposit told again" if chance < 0.8 else "deposit told otherwise"] += 1
            given = DepositNotified(
                before.provider,
                before.provider_reference,
                before.provider_title,
                self.mint(),
                before.brand,
                before.method,
                amount,
                before.party,
            )
        self.world.insist(given)

    def confirm_a_page(self) -> None:
        """A payer presses the button of some page that is open, with a code or without one, leaves
        it, or comes back to it from another."""
        pages = [each for each in self.world.rows() if each.order.page is not None]
        chance = self.random.random()
        if pages and chance < 0.7:
            self.world.tally["page confirmed"] += 1
            page = self.random.choice(pages)
            code = self.random.choice((None, "123456"))
            asked = page.progress.payer_action
            self.world.tally["code given"] += code is not None and isinstance(asked, EnterCode)
            self.world.receive(ConfirmPage(page.reference, code))
        elif pages and chance < 0.85:
            page = self.random.choice(pages)
            self.world.tally["came back"] += isinstance(page.progress.payer_action, OpenUrl)
            self.world.receive(PayerReturned(page.reference))
        else:
            self.world.tally["page abandoned"] += 1

    def resolve_by_hand(self) -> None:
        """A member of staff ends a payment, stops one that was not submitted yet, or marks one as
        restored."""
        chance = self.random.random()
        if chance < 0.3:
            self.world.tally["stopped by hand"] += 1
            self.world.receive(a_stop(self.known()))
            return
        if chance < 0.37:
            self.world.tally["marked as restored"] += 1
            stage = self.random.choice((Stage.CREATED, *Stage))
            among = [each.reference for each in self.world.rows() if each.progress.stage is stage]
            chosen = self.random.choice(among or [UNUSED_REFERENCE])
            self.world.receive(MarkRestored(chosen, "ada"))
            return
        self.world.tally["resolved by hand"] += 1
        code = self.random.choice((None, ErrorCode.PROVIDER_TIMEOUT))
        booked, number = (
            [receipt for _, receipt in self.world.ledger.deposits],
            self.random.randrange(200),
        )
        named = booked[number % len(booked)] if booked and number % 2 else f"DEP-{number}"
        receipt = self.random.choice((None, named))
        chosen = self.known()
        about = self.world.ledger.transactions.get(chosen)
        provider = "test" if about is None else about.order.provider
        self.world.receive(
            a_resolution(chosen, provider=provider, error_code=code, provider_reference=receipt)
        )

    def notify(self) -> None:
        """A provider sends a notification; it arrives some time, in any order."""
        provider = self.world.providers[
            self.random.choice(("test", "other", "test", "other", "mute"))
        ]
        told = provider.notify()
        if told is not None:
            self.world.arriving.append(told)

    def stray(self) -> None:
        """Something comes for a payment that nobody expects it for."""
        world, random = self.world, self.random
        name = self.known() if random.random() < 0.85 else UNUSED_REFERENCE
        world.tally["stray"] += 1
        transaction = world.ledger.transactions.get(name)
        provider = transaction.order.provider if transaction else "test"
        wrong = "nobody" if random.random() < 0.2 else provider
        strays: list[Input] = [
            accepted(name, provider=wrong),
            unreachable(name, provider=wrong),
            hinted(name, provider=wrong),
            cannot_tell(name, provider="nobody"),
            never_received(name, provider=wrong, version=0),
            succeeded(name, provider="nobody"),
            failed(name, provider="nobody"),
            a_wake(name),
            PayerReturned(name),
            a_confirmation(name),
            a_resolution(name, final=KES(7)) if name == UNUSED_REFERENCE else a_confirmation(name),
            UnmatchedNotified("test", "?"),
        ]
        if transaction is None or transaction.progress.provider_data is None:
            strays += [
                succeeded(name, provider=provider, source=Source.POLL),
                failed(name, provider=provider),
            ]
        if (name, IntentKind.CALLBACK) not in world.ledger.intents:
            strays.append(callback_concluded(name))
        index = random.randrange(len(strays) + 1)
        if index < len(strays):
            world.receive(strays[index])
        else:
            world.tally["handed out twice"] += 1
            world.submit(name) if transaction is None else world.todo.append(SubmitToProvider(name))

    def begin_a_walk(self) -> Walk:
        """A reader pages through a window that lies wholly in the past."""
        random, world = self.random, self.world
        query = ListRecords(
            random.choice(BRANDS).id,
            later(START, Span(random.choice((0, 0, clock.MINUTE)))),
            later(world.stamp, Span(1)),
            status=random.choice((None, None, Status.PENDING, Status.SUCCESS)),
            page_size=random.randrange(1, 6),
        )
        every, _ = page(
            world.rows(), ListRecords(query.brand, query.begin, query.end, page_size=10**6)
        )
        return Walk(query, [row.reference for row in every])
