"""Reads tables of what an operator answers and what is reported then, and plays their rows before
an adapter.

A table is a text file beside the test of the adapter:

    ## A sentence that all rows below it prove. [S6, E1]
    payin,payout submit again -> never_received
        401,403 refusal code=denied
        503 -> unreachable

- A line that is not indented: operations, stage, conditions. Stages: `submit`, `poll` or `search`,
  `reverse` or `refund`, `ask` (after a reversal), `payee`, `callback` or `webhook`, `sign_in` (its
  operation is the scope), `balances`, `availability`, `check`; `judge`, `judge_reverse`,
  `judge_poll` (what the answer says of the account); and others of an adapter, which are
  submissions.
- Conditions: `again`: submitted twice; `after 10min`, `before 10min`: so long after START, or the
  least unit less; `name=value`: members of the payment, and behind `with` options of the account.
- A line that is indented: an answer, and its report where it is not that of the line above.
- An answer: `nothing` is asked, `lost`, `unsent`, or a status and a body. A body: none, `empty`,
  `deep`, a text that begins with `{`, `[`, `<` or `\\`, or one of
  `tests/captures/KIND/bodies.toml` with members that are changed (`name=value`, the value in JSON,
  a text, or `x*41` of it; `~name=value`: written exactly so), added (`+name=value`) or left out
  (`without name`).
- A report: its kind, and words that it must have, or must not (`!paid`), in any order; of words in
  quotes a part is enough.
- What commas separate, outside of quotes and brackets, are rows of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field, frozen

from mmo_sansio.http.messages import HttpRequest, HttpResponse
from mmo_sansio.messages import inputs, reversals
from mmo_sansio.providers.common.balances import BalanceReport
from mmo_sansio.providers.common.interface import (
    AccessToken,
    AccountFinding,
    DepositAnswer,
    DepositReport,
    DepositValidation,
    ExchangeFailed,
    SignInFailed,
    drive,
)
from mmo_sansio.testing import REFERENCE, START, a_party
from mmo_sansio.values import payees
from mmo_sansio.values.clock import DAY, HOUR, MINUTE, SECOND, Instant, Moment, Span, later
from mmo_sansio.values.model import Evidence, Stage, Transaction
from mmo_sansio.values.money import to_money
from mmo_sansio.values.reversals import Reversal
from tests.support.bodies import changed_body, read_bodies, to_value
from tests.support.reversals import LOST, UNSENT, a_reversal

Answer = HttpResponse | ExchangeFailed
Exchange = Callable[[HttpRequest], HttpResponse]

# A word: runs without spaces, and texts in quotes, which may have some.
_WORD: Final = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+')
# A body that is written as it is: it follows the status, or stands alone.
_LITERAL: Final = re.compile(r"^(?:[\d,]+ )?([{\[<].*)")
_TITLE: Final = re.compile(r"## (.*?)(?: \[([A-Z0-9, ]+)\])?")
_SPAN: Final = re.compile(r"(\d+)(s|min|h|d)")
_UNITS: Final = {"s": SECOND, "min": MINUTE, "h": HOUR, "d": DAY}
# Stages that ask about the account.
_QUESTIONS: Final = {
    "balances": "ask_balances",
    "availability": "ask_availability",
    "check": "check_account",
}


@frozen
class Row:
    """A line of a table."""

    title: str
    operation: str
    stage: str
    after: Span
    members: Mapping[str, Any]
    """Of the payment, or of the reversal."""
    options: Mapping[str, Any]
    """Of the account."""
    answer: Sequence[str]
    """In words."""
    expected: Sequence[str]

    @property
    def now(self) -> Instant:
        """When it is played."""
        return later(START, self.after)


def read_rows(path: Path) -> list[Any]:
    """Return the rows of a table as parameters of a test, each marked with its clauses."""
    return list(_rows(path.read_text(encoding="utf-8")))


def _rows(text: str) -> Iterator[Any]:
    title, marks, context = "", [], ""
    for line in text.splitlines():
        if heading := _TITLE.fullmatch(line):
            title, clauses = heading[1], heading[2]
            marks = [pytest.mark.spec(*clauses.split(", "))] if clauses else []
        elif line.startswith(" "):
            answer, _, report = line.strip().partition(" -> ")
            where, _, usual = context.partition(" -> ")
            for context_words, answer_words in product(_choices(where), _choices(answer)):
                row = _row(title, context_words, answer_words, report or usual)
                words = f"{' '.join(context_words)}: {' '.join(answer_words)}"
                yield pytest.param(row, marks=marks, id=f"{title} {words}"[:160])
        elif line and not line.startswith("#"):
            context = line


def _choices(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of a text, once for each choice that it leaves; a literal body is a word."""
    before, literal = text, []
    if found := _LITERAL.search(text):
        before, literal = text[: found.start(1)], [[found[1]]]
    return product(*(_alternatives(word) for word in _WORD.findall(before)), *literal)


def _alternatives(word: str) -> Sequence[str]:
    name, equals, value = word.partition("=")
    if not equals:
        value = name
    if value[:1] in ("{", "[", "<", "\\") or "," not in value:
        return [word]
    values = re.findall(r'"(?:\\.|[^"\\])*"|[^,]+', value)
    return [f"{name}={each}" if equals else each for each in values]


def _row(title: str, context: Sequence[str], answer: Sequence[str], report: str) -> Row:
    operation, stage, *conditions = context
    after = Span(0)
    members: dict[str, Any] = {}
    options: dict[str, Any] = {}
    chosen = members
    words = iter(conditions)
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            if chosen is members:
                name, value = _member(name, value)
            else:
                value = to_value(value)
            chosen[name] = value
        elif word == "with":
            chosen = options
        elif word == "again":
            members["submissions"] = 2
        else:
            assert word in ("after", "before"), f"{title} {word}"
            after = Span(_span(next(words)) - (word == "before"))
    told = dict(each.lstrip("+").split("=", 1) for each in answer if "=" in each)
    expected = [_expected(word, {"reference": REFERENCE, **told}) for word in _WORD.findall(report)]
    return Row(title, operation, stage, after, members, options, answer, expected)


def _expected(word: str, told: Mapping[str, str]) -> str:
    """Return a word of a report: `{name}` stands for what the answer has there."""
    if word.startswith('"'):
        return str(to_value(word))
    return re.sub(r"\{([\w.]+)\}", lambda found: str(to_value(told[found[1]])), word)


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    assert found is not None, text
    return Span(int(found[1]) * _UNITS[found[2]])


def _member(name: str, text: str) -> tuple[str, Any]:
    """Return a member of a payment that a condition names, and its name."""
    match name:
        case "stage":
            return name, Stage[text.upper()]
        case "requested" | "amount":
            amount, currency = text.split("_")
            return name, to_money(Decimal(amount), currency)
        case "msisdn":
            return "party", a_party(msisdn=text)
        case "evidence":
            receipt, code = text.split("/")
            return name, Evidence(receipt.replace("{reference}", REFERENCE), code)
        case _ if name.endswith(("_at", "_since")):
            return name, later(START, _span(text))
    return name, to_value(text)


@define
class Played:
    """An adapter, and what its rows are about."""

    kind: str
    """The directory in `tests/captures` with its bodies."""
    open_provider: Callable[..., Any]
    """By the options of an account."""
    make_payment: Callable[..., Transaction]
    """By an operation and members of the payment."""
    before: Callable[[Row], Sequence[Answer]] = lambda row: ()
    """What is answered before the answer of the row."""
    exchange: Callable[[Row, Answer], Exchange] | None = None
    """How an answer is given; None: in its turn, after what comes before."""
    notify: Callable[[Row, bytes], HttpRequest] = lambda row, body: HttpRequest(
        "POST", b"/", (), body
    )
    placeholders: Mapping[str, str] = field(factory=dict)
    payee: tuple[str, str] = ("", "")
    """The number and the name of the payee who is asked about."""
    moment: Callable[[Instant], Moment] = Moment.at
    """Of our own time."""
    is_always_versioned: bool = True
    """Whether each report names the version that was asked about."""

    def check(self, row: Row) -> None:
        """Fail where the report of a row is another one."""
        report = self.play(row)
        told = words_of(report)
        wrong = [word for word in row.expected if is_said(word, told) is word.startswith("!")]
        assert row.expected[0] == told[0], f"{report}"
        assert wrong == [], f"{report}"

    def play(self, row: Row) -> object:
        """Return what the adapter reports."""
        provider = self.open_provider(**row.options)
        report = self.report(row, provider)
        assert getattr(report, "provider", provider.name) == provider.name
        return report

    def report(self, row: Row, provider: Any) -> object:
        """Return what the adapter makes of a notification, or of the answer to what it asks."""
        now = self.moment(row.now)
        if row.stage.startswith("callback") or row.stage == "webhook":
            return provider.read_notification(self.notify(row, self.body(row.answer)))
        if row.stage == "sign_in":
            return self.sign_in(row, provider.sign_in(row.operation, now=now))
        if row.stage == "payee":
            return self.converse(row, provider.ask_payee(*self.payee, now=now))[0]
        if row.stage in _QUESTIONS:
            return self.converse(row, getattr(provider, _QUESTIONS[row.stage])(now=now))[0]

        # A conversation about a reversal, or a payment.
        about: Transaction | Reversal
        if row.stage.removeprefix("judge_") in ("reverse", "refund", "ask"):
            payment = self.make_payment(row.operation, stage=Stage.SUCCEEDED)
            about = a_reversal(payment, **row.members)
            converse = provider.poll_reversal if row.stage == "ask" else provider.reverse
            conversation = converse(about, payment, now=now)
        else:
            about = self.make_payment(row.operation, **row.members)
            converse = provider.poll if row.stage.endswith(("poll", "search")) else provider.submit
            conversation = converse(about, now=now)

        report, requests = self.converse(row, conversation)
        if row.stage.startswith("judge"):
            return provider.judge_answer(requests[-1], self.answer(row.answer))
        check_identity(report, about, is_always_versioned=self.is_always_versioned)
        return report

    def sign_in(self, row: Row, conversation: Any) -> object:
        """Return the token, or the refusal, which quotes no secret."""
        result: Any
        try:
            result = self.converse(row, conversation)[0]
        except SignInFailed as refusal:
            result = refusal
        assert not re.search("secret|canary", f"{result} {result!r}", re.IGNORECASE)
        return result

    def converse(self, row: Row, conversation: Any) -> tuple[Any, Sequence[HttpRequest]]:
        """Hold a conversation with the answers of a row, which all must be used; return what it
        comes to, and its requests."""
        answers = list(self.before(row))
        if row.answer != ("nothing",):
            answers.append(self.answer(row.answer))
        exchange = self.exchange and self.exchange(row, answers[-1])
        requests: list[HttpRequest] = []

        def answer(request: HttpRequest) -> HttpResponse:
            requests.append(request)
            return exchange(request) if exchange else given(answers.pop(0))

        report = drive(conversation, answer)
        assert exchange or answers == []
        return report, requests

    def answer(self, words: Sequence[str]) -> Answer:
        """Return an answer that is written in words."""
        match words:
            case ["lost"]:
                return LOST
            case ["unsent"]:
                return UNSENT
        return HttpResponse(int(words[0]), (), self.body(words[1:]))

    def body(self, words: Sequence[str]) -> bytes:
        """Return a body that is written in words."""
        return changed_body(read_bodies(self.kind), words, self.placeholders)


def given(answer: Answer) -> HttpResponse:
    """Return an answer, or raise what is there in its place."""
    if isinstance(answer, ExchangeFailed):
        raise answer
    return answer


def check_identity(
    report: Any, about: Transaction | Reversal, *, is_always_versioned: bool
) -> None:
    """Fail where a report is about another payment or reversal, or another version of it."""
    if isinstance(about, Transaction):
        assert report.gateway_reference == about.reference
        version = about.progress.version
    else:
        assert report.reversal == about.id
        version = about.version
    assert report.version == version or (report.version is None and not is_always_versioned)


def is_said(word: str, told: Sequence[str]) -> bool:
    """Tell whether a report has a word, or several of its words have this text."""
    word = word.removeprefix("!")
    return word in told or (" " in word and any(f" {word}" in f" {each}" for each in told))


def check_answer(row: Row, answer: HttpResponse) -> None:
    """Fail where a simulator's answer has not the status of a row, or lacks one of its words."""
    told = [str(answer.status), *_texts(parse_or_text(answer.body))]
    assert row.expected[0] == told[0], answer.body
    assert [word for word in row.expected if not is_said(word, told)] == [], answer.body


def parse_or_text(body: bytes) -> Any:
    """Return the document of a body, else its text."""
    return to_value(body.decode())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _texts(member)
    else:
        yield str(value)


def words_of(report: Any) -> Sequence[str]:
    """Return a report in words: its kind, and what it says."""
    match report:
        case inputs.ProviderAccepted() | reversals.ReversalAccepted():
            return ["accepted", *_said(report.provider_reference)]
        case inputs.ProviderSucceeded():
            return ["succeeded", *_said(report.provider_reference, report.final, report.fee)]
        case reversals.ReversalSucceeded():
            return ["succeeded", *_said(report.provider_reference, report.amount)]
        case inputs.ProviderFailed():
            code = report.error_code
            return ["failed", code.name, *_said(report.native_code, report.native_message)]
        case reversals.ReversalFailed():
            lacks_float = "float" if report.lacks_float else None
            return ["failed", *_said(report.native_code, report.reason, lacks_float)]
        case inputs.ProviderUnreachable():
            denied = "denied" if report.denies_payment else None
            later_on = "later" if report.is_answered_later else None
            return ["unreachable", *_said(denied, _evidence(report.evidence), later_on)]
        case reversals.ReversalUnreachable():
            return ["unreachable"]
        case inputs.ProviderNeverReceived() | reversals.ReversalNeverReceived():
            return ["never_received"]
        case inputs.ProviderCannotTell() | reversals.ReversalCannotTell():
            return ["cannot_tell"]
        case inputs.ProviderHinted():
            paid = "paid" if report.says_paid else None
            return ["hinted", *_said(report.gateway_reference, paid, _evidence(report.evidence))]
        case reversals.ReversalHinted():
            return ["hinted", report.reversal]
        case inputs.UnmatchedNotified():
            assert "\0" not in report.content
            assert len(report.content) <= 2_000
            return ["unmatched"]
        case None:
            return ["nothing"]
        case AccessToken():
            return ["token", report.value, f"{(report.expires_at - report.issued_at) // SECOND}s"]
        case SignInFailed():
            return ["refused"]
        case BalanceReport():
            rows = [f"{row.account}={row.amount}" for row in report.balances if row.is_float]
            return ["balances", *(rows or ["none"])]
        case tuple() | list():
            states = [f"{row.part}={row.state.value}/{row.code}" for row in report]
            held = [f"{row.part}:{type.value}" for row in report for type in row.held]
            return ["findings", *states, *held]
        case AccountFinding():
            held = [type.value for type in report.held]
            reversals_too = "reversals" if report.holds_reversals else None
            words = _said(report.part, report.code, report.words, *held, reversals_too)
            return [report.state.value, *words]
        case DepositReport():
            names = f"{report.party.first_name} {report.party.last_name}"
            words = _said(report.provider_reference, report.account, report.bill_reference)
            return ["deposit", *words, str(report.amount), names, report.trust.name]
        case DepositValidation():
            return ["validation", str(report.deposit.amount)]
        case DepositAnswer():
            ours = "ours" if report.is_ours else None
            return [report.outcome.name, *_said(ours, report.amount, report.payer or "nobody")]
        case payees.PayeeNamed():
            return ["named", report.name, f"barred={report.is_barred}"]
        case payees.PayeeCompared():
            return ["compared", str(report.matches)]
        case payees.PayeePredicted():
            return ["predicted", report.operator, "served" if report.is_served else "elsewhere"]
        case payees.PayeeUnknown():
            return ["unknown"]
        case payees.PayeeUnanswered():
            return ["unanswered"]
    raise AssertionError(f"no words for {report}")


def _evidence(evidence: Evidence | None) -> str | None:
    if evidence is None:
        return None
    return f"{evidence.receipt}/{evidence.code}"


def _said(*members: object) -> Iterator[str]:
    return (str(member) for member in members if member is not None)
