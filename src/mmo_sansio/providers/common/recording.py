"""Writes what goes to and comes from an operator as lines of JSON, without secrets, persons and our
addresses.

What a recording keeps is listed: the members of JSON that hold codes, states, ids, amounts and
times, and of these only values of such a form. Everything else is replaced by a stand-in. The same
number or name has the same one within a recording, and only the recording's key leads from a value
to its stand-in; so a test can play the lines as they were."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any, Final

from attrs import field, frozen

from mmo_sansio.http.messages import Headers, HttpRequest, HttpResponse
from mmo_sansio.providers.common.interface import ExchangeFailed
from mmo_sansio.providers.common.redaction import REDACTED, decode_base64, decode_percent

# The beginning of what stands for an address of ours.
HOOKS: Final = "https://hooks.invalid/hooks/"

# The beginning of what stands for any other address, as of an operator's page for a payer: who has
# that may see or pay the payment.
PAGES: Final = "https://pages.invalid/"

# What stands for a text that may name a person.
TEXT: Final = "[text]"

# The fields whose values are kept; of all others only the names are.
KEPT_HEADERS: Final = frozenset(
    (
        "accept",
        "content-type",
        "retry-after",
        "x-callback-url",
        "x-country",
        "x-currency",
        "x-reference-id",
        "x-target-environment",
    )
)


def _names(text: str) -> list[str]:
    return text.split()


# The members, without capitals and marks, whose codes, states, ids, amounts and times are kept in
# every recording. A kind of provider may add its own.
KEPT_MEMBERS: Final = frozenset(
    _names(
        """
        accountbalance airtelmoneyid amount available availablebalance
        b2cchargespaidaccountavailablefunds b2crecipientisregisteredcustomer
        b2cutilityaccountavailablefunds b2cworkingaccountavailablefunds balance billrefnumber body
        businessshortcode callbackmetadata callbackurl checkoutrequestid code collection commandid
        conversationid country created currency data disbursement errorcode expiresin externalid
        financialtransactionid granttype id identifiertype initiatoraccountcurrentbalance
        invoicenumber item items lines merchantrequestid mpesareceiptnumber orgaccountbalance
        originalconversationid originalid originaltransactionid originatorconversationid
        originatorconverstionid partyidtype payee payer product queuetimeouturl reason receiptno
        receiptnumber recieveridentifiertype reference referencedata referenceid referenceitem
        referenceidtorefund refundedid requestid response responsecode responserefid responsestatus
        result resultcode resultparameter resultparameters resulttype resulturl shortcode status
        statuscode stkcallback subscriber success timestamp transaction transactionamount
        transactioncompleteddatetime transactiondate transactionid transactionreceipt
        transactionstatus transactiontype transactype transamount transid transtime type validupto
        wallettype
        """
    )
)

# The members whose names are kept, and whose values are not.
_KNOWN_BESIDES: Final = frozenset(
    _names(
        """
        accesstoken accountreference clientid clientsecret customermessage errormessage initiator
        key message name note occasion occassion password payeenote payermessage pin remarks
        responsedescription resultdesc securitycredential statusmessage tokentype transactiondesc
        value
        """
    )
)

# Looked for first: a secret may have the form of a code.
_SECRET_NAMES: Final = re.compile(r"password|credential|secret|token|pin$|.key$|hash|signature")
_NUMBER_NAMES: Final = re.compile(r"^(msisdn|phone|phonenumber|partyid|partya|partyb)$")
_PERSON_NAMES: Final = re.compile(
    r"^(name|fullname|firstname|middlename|lastname|customername"
    r"|debitpartyname|creditpartyname|receiverpartypublicname)$"
)

# Seven digits or more, as the shortest national numbers have; some answers write `.0` behind them.
_PHONE: Final = re.compile(r"(?<![A-Za-z0-9])\+?[0-9]{7,}(?:\.0)?(?![A-Za-z0-9])", re.ASCII)
# A code or an id: one word without spaces, so that no sentence passes for one.
_CODE: Final = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,79}", re.ASCII)

# An id by RFC 9562. One in forty begins or ends with digits only, and is no telephone number.
_UUID: Final = re.compile(
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[1-8][0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}",
    re.ASCII,
)

# Up to six digits, as a short code has: more could be a telephone number.
_NUMBER: Final = re.compile(r"-?[0-9]{1,6}(\.[0-9]{1,4})?", re.ASCII)
# Where the member's name says that it is an amount, eight digits are one too.
_AMOUNT: Final = re.compile(r"-?[0-9]{1,8}(\.[0-9]{1,4})?", re.ASCII)
_AMOUNT_NAMES: Final = re.compile(r"amount|balance|funds")
_TIME: Final = re.compile(
    r"20[0-9]{2}[01][0-9][0-3][0-9]([0-2][0-9][0-5][0-9][0-5][0-9])?"
    r"|20[0-9]{2}-[01][0-9]-[0-3][0-9]"
    r"|20[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
    r" ?(Z|[+-][0-2][0-9]:?[0-5][0-9])?"
    r"|[0-3][0-9][.-][01][0-9][.-]20[0-9]{2}( [0-2][0-9]:[0-5][0-9]:[0-5][0-9])?",
    re.ASCII,
)
# No parameter but the character set: any other could hold anything.
_MEDIA_TYPE: Final = re.compile(
    r"(application|text|\*)/[a-z*+-]{1,30}(; ?charset=utf-?8)?", re.ASCII | re.IGNORECASE
)
_ADDRESS: Final = re.compile(r"https?://[!-~]+", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,49}", re.ASCII)


@frozen
class RecordedExchange:
    """A request and what answered it."""

    is_from_operator: bool
    """Whether the operator sent the request: a notification."""
    offset_ms: int
    """When it was answered, in milliseconds since the recording began."""
    request: HttpRequest
    answer: HttpResponse | ExchangeFailed


@frozen
class Redactor:
    """Replaces what a recording must not hold."""

    key: bytes = field(repr=False)
    """The random key of this recording."""
    redact: Callable[[str], str] = field(repr=False)
    """Removes the secrets and access tokens of the account, as RedactingProvider.redact does."""
    kept_members: Collection[str] = KEPT_MEMBERS
    """The members whose codes, states, ids, amounts and times are kept."""

    def to_line(self, exchange: RecordedExchange) -> str:
        """Return the line of an exchange in a recording."""
        return json.dumps(self.to_fields(exchange))

    def to_fields(self, exchange: RecordedExchange) -> dict[str, Any]:
        """Return what a recording shows of an exchange, for JSON."""
        request = exchange.request
        answer = exchange.answer
        origin = "gateway"
        if exchange.is_from_operator:
            origin = "operator"

        line: dict[str, Any] = {
            "from": origin,
            "offsetMs": exchange.offset_ms,
            "method": request.method,
            "target": self._target(request.target),
            "headers": self._headers(request.headers),
            "body": self._body(request.body, request.headers),
        }
        if isinstance(answer, ExchangeFailed):
            failure = self._words(answer.reason)
            return {**line, "failure": failure, "mayHaveArrived": answer.may_have_arrived}

        shown = {
            "status": answer.status,
            "headers": self._headers(answer.headers),
            "body": self._body(answer.body, answer.headers),
        }
        return {**line, "answer": shown}

    def shown(self, text: str) -> str:
        """Return a code, an id, an amount, a time or a number as a recording shows it."""
        return self._text(text)

    def _target(self, target: bytes) -> str:
        """Return an address by its parts: the host, segments of the path, members of the query."""
        path, mark, query = target.decode("utf-8", "replace").partition("?")
        plain = _unquoted(path)

        # The token in our address lets anybody send notifications: nothing of the address stays.
        if "/hooks/" in plain:
            shown = HOOKS + self._digest(plain.rpartition("/hooks/")[2])
        else:
            shown = "/".join(map(self._segment, plain.split("/")))

        if not mark:
            return shown

        members = []
        for pair in query.split("&"):
            name, equals, value = pair.partition("=")
            member = self._member(_unquoted(name))
            value = self._value(member, _unquoted(value))
            members.append(f"{member}{equals}{value}")

        return f"{shown}?{'&'.join(members)}"

    def _segment(self, segment: str) -> str:
        if segment:
            return self._kept(segment)
        return segment

    def _headers(self, headers: Headers) -> dict[str, str]:
        shown = {}
        for name, value in headers:
            plain = name.decode("latin-1").lower()
            # A name, too, is the sender's choice: it could hold a number, or a secret.
            if not _HEADER_NAME.fullmatch(plain) or self._words(plain) != plain:
                plain = "[header]"

            is_kept = plain in KEPT_HEADERS
            if is_kept:
                shown[plain] = self._header(value.decode("latin-1"))
            else:
                shown[plain] = REDACTED

        return shown

    def _header(self, value: str) -> str:
        if _MEDIA_TYPE.fullmatch(value):
            return value
        return self._text(value)

    def _body(self, body: bytes, headers: Headers) -> Any:
        """Return JSON, or lines of JSON, redacted; of anything else its length and type."""
        if not body:
            return ""

        document = _load(body)
        if not isinstance(document, dict | list):
            # Perhaps one object a line.
            lines = [_load(line) for line in body.splitlines() if line.strip()]
            document = None
            if all(isinstance(line, dict) for line in lines):
                document = {"lines": lines}

        if document is None:
            types = [value.decode("latin-1") for name, value in headers if name == b"content-type"]
            type = "unknown type"
            if types and _MEDIA_TYPE.fullmatch(types[0]):
                type = types[0]

            return f"[{len(body):,} bytes of {type}]"

        return self._value("", document)

    def _member(self, name: str) -> str:
        """Return the name of a member that is known; of another one a stand-in."""
        # "Conversation ID" in some answers of M-Pesa: the space could part a secret in two.
        joined = name.replace(" ", "")
        is_shown = self._is_known(_plain(name)) and self.redact(joined) == joined
        if is_shown:
            return name
        return self._stand_in("MEMBER", name)

    def _is_known(self, plain: str) -> bool:
        return (
            plain in self.kept_members
            or plain in _KNOWN_BESIDES
            or _NUMBER_NAMES.match(plain) is not None
            or _PERSON_NAMES.match(plain) is not None
        )

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(name, item) for item in value]
        if value is None or isinstance(value, bool) or value == "":
            return value

        # The worst first: what its name calls a secret or a person is hidden in any form.
        plain = _plain(name)
        text = str(value)
        if _SECRET_NAMES.search(plain):
            return REDACTED

        if _PERSON_NAMES.match(plain):
            # M-Pesa's ReceiverPartyPublicName joins both: "254705000000 - JANE DOE".
            number, dash, person = text.partition(" - ")
            if dash:
                return f"{self._number(number)} - {self._stand_in('NAME', person)}"

            return self._stand_in("NAME", text)

        if _NUMBER_NAMES.match(plain):
            # A number stays one, so that an adapter reads a recording as it read the answer.
            shown = self._number(text)
            is_number = not isinstance(value, str) and shown.isdigit()
            if is_number:
                return int(shown)

            return shown

        if plain not in self.kept_members:
            # Text stays text, and a number a number, for the same reason.
            if isinstance(value, str):
                return TEXT
            return 0

        if _AMOUNT_NAMES.search(plain) and _AMOUNT.fullmatch(text) and self.redact(text) == text:
            return value

        # Everything else that is kept has to have the form of a code, an id or a time.
        shown = self._text(text)
        if shown == text:
            return value
        if not isinstance(value, str) and shown.isdigit():
            return int(shown)

        return shown

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return an object; of one that is a pair of a name and a value, by that name."""
        # Both are M-Pesa's: `Key` in results, `Name` in the callbacks of prompts.
        for key in ("Key", "Name"):
            named = value.get(key)
            if isinstance(named, str) and "Value" in value:
                return {key: self._member(named), "Value": self._value(named, value["Value"])}
        return {self._member(name): self._value(name, item) for name, item in value.items()}

    def _text(self, text: str) -> str:
        """Return a text as it is where it has the form of a code, an amount or a time; our
        addresses and numbers by their stand-ins."""
        if "/hooks/" in text:
            return HOOKS + self._digest(text.rpartition("/hooks/")[2])
        return self._kept(text)

    def _kept(self, text: str) -> str:
        # 1. A secret. 2. An address. 3. What is plainly a time, a short number or an id.
        redacted = self.redact(text)
        if redacted != text:
            return REDACTED
        if _ADDRESS.fullmatch(text):
            return PAGES + self._digest(text)
        if any(form.fullmatch(text) for form in (_TIME, _NUMBER, _UUID)):
            return text

        # 4. A telephone number, however it is written. 5. No code, or one that hides something.
        if _PHONE.fullmatch(re.sub(r"[ ()/-]", "", text)):
            return self._number(text)
        if not _CODE.fullmatch(text) or self._is_private(text):
            return TEXT

        # 6. A code in which a number stands, as some ids have it.
        return _PHONE.sub(lambda found: self._number(found[0]), text)

    def _is_private(self, code: str) -> bool:
        """Return whether a code is a secret, a name, a number or an address of e-mail in
        hexadecimal or Base64."""
        for decode in (bytes.fromhex, decode_base64):
            try:
                text = decode(code).decode()
            except ValueError:
                continue

            # A space or an `@` in what it decodes to: a name or an address; seven digits: a number.
            is_readable = text.isprintable() and text
            if is_readable and (re.search(r"[ @]|[0-9]{7}", text) or self.redact(text) != text):
                return True

        return False

    def _words(self, text: str) -> str:
        """Return our own words, which name neither secrets nor numbers."""
        redacted = self.redact(text)
        # Without the marks that people write numbers with.
        has_number = re.search(r"[0-9]{7}", re.sub(r"[ ()-]", "", redacted))
        if has_number or "/hooks/" in redacted or "@" in redacted:
            return TEXT
        return redacted

    def _number(self, text: str) -> str:
        """Return the stand-in of a number: what stands before its last nine digits, the first of
        these, and others. Of a number that is masked, or none, a stand-in without digits."""
        plain = re.sub(r"[ ()/-]", "", self.redact(text)).removesuffix(".0")

        # A short code is no person's.
        if re.fullmatch(r"[0-9]{1,6}", plain, re.ASCII):
            return plain

        parts = re.fullmatch(r"(\+?[0-9]{0,6}?)([0-9]?)([0-9]{7,8})", plain, re.ASCII)
        if parts is None:
            return self._stand_in("NUMBER", text)

        # Digested without what stands before: with or without its country code it has one stand-in.
        digits = int(self._digest(parts[2] + parts[3]), 16) % 10 ** len(parts[3])
        return f"{parts[1]}{parts[2]}{digits:0{len(parts[3])}d}"

    def _stand_in(self, kind: str, value: str) -> str:
        return f"{kind} {self._digest(value)[:4]}"

    def _digest(self, value: str) -> str:
        # Keyed: nine digits are few enough to try them all against a bare hash.
        return hmac.new(self.key, value.encode("utf-8", "replace"), sha256).hexdigest()[:16]


def _plain(name: str) -> str:
    return re.sub(r"[ _-]", "", name).lower()


def _unquoted(text: str) -> str:
    return decode_percent(text).decode("utf-8", "replace")


def _load(body: bytes) -> Any:
    """Return what JSON says, also behind a byte order mark; None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        # It may be nested deeper than the parser follows: then it is kept as no JSON.
        return None
