"""pawaPay's callbacks: only a signed one is a result; one that is signed wrongly, long ago or for
another address is refused; and requests of ours are signed as documented."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from mmo_provider_pawapay.account import authority_of
from mmo_provider_pawapay.refunds import refund_id
from mmo_provider_pawapay.signatures import (
    ALGORITHMS,
    SignatureFault,
    check_age,
    content_digest,
    load_public_keys,
    parse_signature_input,
    signature_base,
    verify_signature,
)
from mmo_provider_pawapay.wire import gateway_reference
from pawapay_samples import (
    EC_KEY,
    EC_PRIVATE_PEM,
    FOUND_ID,
    HOOKS_URL,
    NAME,
    SIGNED_CALLBACK_BASE,
    SIGNED_CALLBACK_HEADERS,
    a_payment,
    an_account,
    answering,
    example,
    public_pem,
)

from mmo_sansio import MINUTE, SECOND, Instant, later
from mmo_sansio.providers import (
    Headers,
    HttpRequest,
    HttpResponse,
    ProviderHinted,
    ReversalHinted,
    Span,
    UnmatchedNotified,
    drive,
)
from mmo_sansio.providers.common.redaction import RedactingProvider
from mmo_sansio.testing import REFERENCE, START
from mmo_sansio.values.clock import Moment

RSA_KEY = rsa.generate_private_key(65537, 2048)
P384_KEY = ec.derive_private_key(0xC0FFEE, ec.SECP384R1())
KEYS: Mapping[str, Any] = {
    "ecdsa-p256-sha256": EC_KEY,
    "ecdsa-p384-sha384": P384_KEY,
    "rsa-pss-sha512": RSA_KEY,
    "rsa-v1_5-sha256": RSA_KEY,
}
COMPONENTS = ("@method", "@authority", "@path", "signature-date", "content-digest", "content-type")
AUTHORITY, PATH = "pay.example", "/hooks/pawapay/0123abcd"

COMPLETED = json.dumps(json.loads(example("deposit_completed"))["data"]).encode()
FAILED = json.dumps(json.loads(example("deposit_failed"))["data"]).encode()
PAYOUT = json.dumps(json.loads(example("payout_completed"))["data"]).encode()
PAID_REFERENCE = gateway_reference(FOUND_ID) or ""


def signed_by(key: Any, algorithm: str, base: bytes) -> bytes:
    """A signature as pawaPay makes it: those of ECDSA are in DER."""
    match algorithm:
        case "ecdsa-p256-sha256":
            found = key.sign(base, ec.ECDSA(SHA256()))
        case "ecdsa-p384-sha384":
            found = key.sign(base, ec.ECDSA(SHA384()))
        case "rsa-pss-sha512":
            found = key.sign(base, padding.PSS(padding.MGF1(SHA512()), 64), SHA512())
        case _:
            found = key.sign(base, padding.PKCS1v15(), SHA256())
    assert isinstance(found, bytes)
    return found


def header(name: str, value: str) -> tuple[bytes, bytes]:
    return name.encode(), value.encode()


def a_callback(
    body: bytes = COMPLETED,
    *,
    key: Any = EC_KEY,
    algorithm: str = "ecdsa-p256-sha256",
    told_algorithm: str | None = None,
    components: tuple[str, ...] = COMPONENTS,
    authority: str = AUTHORITY,
    path: str = PATH,
    digest: str = "sha-512",
    created: Instant = START,
    parameters: str | None = None,
    is_raw: bool = False,
) -> HttpRequest:
    """A callback with its signature."""
    second = created // SECOND
    if parameters is None:
        parameters = f";created={second};expires={second + 60}"
    listed = " ".join(f'"{each}"' for each in components)
    value = f'({listed});alg="{told_algorithm or algorithm}";keyid="HTTP_EC_P256_KEY:1"{parameters}'
    plain: Headers = (
        header("host", authority),
        header("content-type", "application/json; charset=UTF-8"),
        header("content-digest", content_digest(body, digest)),
        header("signature-date", "2026-09-21T14:13:20.000000Z"),
    )
    available = {
        **{name.decode(): text.decode() for name, text in plain},
        "@method": "POST",
        "@authority": authority,
        "@path": path,
    }
    lines = [f'"{each}": {available[each]}' for each in components]
    base = "\n".join((*lines, f'"@signature-params": {value}')).encode()
    signature = signed_by(key, algorithm, base)
    if is_raw:
        signature = b"".join(
            each.to_bytes(key.key_size // 8) for each in decode_dss_signature(signature)
        )
    text = base64.b64encode(signature).decode()
    signed = (
        *plain,
        header("signature", f"sig-pp=:{text}:"),
        header("signature-input", f"sig-pp={value}"),
    )
    return HttpRequest("POST", path.encode(), signed, body)


ACCOUNT = an_account(callback_keys=public_pem(EC_KEY))


def without(request: HttpRequest, name: bytes) -> HttpRequest:
    return evolve(request, headers=tuple(each for each in request.headers if each[0] != name))


def replaced(request: HttpRequest, name: bytes, value: bytes) -> HttpRequest:
    return evolve(
        request, headers=tuple((key, value if key == name else old) for key, old in request.headers)
    )


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://API.pawapay.io:443/v2", "api.pawapay.io"),
        ("https://api.pawapay.io", "api.pawapay.io"),
        ("https://api.pawapay.io:8443", "api.pawapay.io:8443"),
        ("http://127.0.0.1:80", "127.0.0.1"),
        ("https://gw.example:80", "gw.example:80"),
    ],
)
def test_a_signature_leaves_the_own_port_of_the_scheme_out(url: str, authority: str) -> None:
    assert authority_of(url) == authority


def test_the_base_of_the_documentations_callback_is_the_documentations() -> None:
    [value] = [value for name, value in SIGNED_CALLBACK_HEADERS if name == b"signature-input"]
    covered = parse_signature_input(value.decode())
    base = signature_base(
        covered.components,
        covered.text,
        "POST",
        "localhost:8080",
        "/callback",
        SIGNED_CALLBACK_HEADERS,
    )
    assert base == SIGNED_CALLBACK_BASE
    assert covered.label == "sig-pp"
    with pytest.raises(SignatureFault, match="documented form"):
        parse_signature_input(value.decode().replace("sig-pp=", "sig-other="))
    assert covered.created == Instant(1_714_657_551 * SECOND)
    check_age(covered, now=covered.created)
    with pytest.raises(SignatureFault, match="expired"):
        check_age(covered, now=later(covered.created, Span(91 * SECOND)))


class TestResults:
    @pytest.mark.spec("S5")
    @pytest.mark.parametrize("body", [COMPLETED, PAYOUT, FAILED])
    def test_a_signed_callback_causes_a_question_as_any_other(self, body: bytes) -> None:
        """pawaPay signs everybody's callbacks: whoever knows our address could have one sent to it
        about a payment of their own, under the id of ours."""
        request = a_callback(body)
        assert ACCOUNT.refuse_notification(request, now=Moment.at(START)) is None
        assert ACCOUNT.read_notification(request) == ProviderHinted(
            PAID_REFERENCE, NAME, body.decode(), says_paid=body != FAILED
        )

    def test_one_about_another_market_is_of_that_markets_account(self) -> None:
        account = an_account(
            market="MTN_MOMO_UGA", callbacks_of="MTN_MOMO_ZMB=pawapay_zm AIRTEL_RWA=pawapay_rw"
        )
        report = account.read_notification(HttpRequest("POST", PATH.encode(), (), COMPLETED))
        assert report == ProviderHinted(
            PAID_REFERENCE, "pawapay_zm", COMPLETED.decode(), says_paid=True
        )

    def test_what_names_no_payment_is_kept_for_staff(self) -> None:
        for body in (b"", b"[]", b'{"depositId":"1"}', b"\xff"):
            assert isinstance(ACCOUNT.read_notification(a_callback(body)), UnmatchedNotified)

    @pytest.mark.spec("S5")
    @pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "NEW"])
    def test_a_signed_refund_is_asked_after(self, status: str) -> None:
        reversal = f"{REFERENCE}-1"
        document = {
            "refundId": refund_id(reversal),
            "status": status,
            "metadata": {"reversal": reversal},
        }
        report = ACCOUNT.read_notification(a_callback(json.dumps(document).encode()))
        assert report == ReversalHinted(reversal, NAME)

    def test_only_what_is_stored_is_answered_200(self) -> None:
        assert ACCOUNT.answer_notification(a_callback(), True).status == 200
        assert ACCOUNT.answer_notification(a_callback(), False).status == 503

    def test_the_gateway_passes_a_refusal_on(self) -> None:
        unsigned = without(a_callback(), b"signature")
        assert (
            RedactingProvider(ACCOUNT).refuse_notification(unsigned, now=Moment.at(START))
            is not None
        )
        assert (
            RedactingProvider(ACCOUNT).refuse_notification(a_callback(), now=Moment.at(START))
            is None
        )


class TestSignatures:
    @pytest.mark.parametrize("digest", ["sha-256", "sha-512"])
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_every_documented_algorithm_is_verified(self, algorithm: str, digest: str) -> None:
        account = an_account(callback_keys="\n".join(map(public_pem, (EC_KEY, P384_KEY, RSA_KEY))))
        request = a_callback(key=KEYS[algorithm], algorithm=algorithm, digest=digest)
        assert account.refuse_notification(request, now=Moment.at(START)) is None
        assert isinstance(account.read_notification(request), ProviderHinted)

    @pytest.mark.parametrize("algorithm", ["ecdsa-p256-sha256", "ecdsa-p384-sha384"])
    def test_the_form_of_the_rfc_is_verified_too(self, algorithm: str) -> None:
        key = KEYS[algorithm]
        keys = load_public_keys(public_pem(key).encode())
        verify_signature(a_callback(key=key, algorithm=algorithm, is_raw=True), keys, (AUTHORITY,))

    def test_the_host_that_the_request_names_counts_where_a_proxy_changed_it(self) -> None:
        assert (
            ACCOUNT.refuse_notification(
                a_callback(authority="127.0.0.1:8080"), now=Moment.at(START)
            )
            is None
        )
        behind_proxy = replaced(a_callback(), b"host", b"gateway.internal:8080")
        assert ACCOUNT.refuse_notification(behind_proxy, now=Moment.at(START)) is None

    @pytest.mark.parametrize(
        ("age_s", "is_refused"), [(-31, True), (-30, False), (0, False), (90, False), (91, True)]
    )
    def test_one_that_is_old_or_from_the_future_is_refused(
        self, age_s: int, is_refused: bool
    ) -> None:
        request = a_callback(created=Instant(START - age_s * SECOND))
        assert (
            ACCOUNT.refuse_notification(request, now=Moment.at(START)) is not None
        ) == is_refused

    def test_a_replay_is_refused_once_it_is_old_and_changes_nothing_before(self) -> None:
        request = a_callback()
        assert ACCOUNT.read_notification(request) == ACCOUNT.read_notification(request)
        assert ACCOUNT.refuse_notification(
            request, now=Moment.at(later(START, Span(2 * MINUTE)))
        ) == ("The signature has expired.")

    def test_one_that_says_it_never_ends_ends_a_minute_after_its_beginning(self) -> None:
        request = a_callback(parameters=f";created={START // SECOND};expires=99999999999")
        assert ACCOUNT.refuse_notification(request, now=Moment.at(START)) is None
        assert (
            ACCOUNT.refuse_notification(request, now=Moment.at(later(START, Span(91 * SECOND))))
            is not None
        )

    @pytest.mark.parametrize(
        "request_",
        [
            HttpRequest("POST", PATH.encode(), (), COMPLETED),
            without(a_callback(), b"signature"),
            without(a_callback(), b"signature-input"),
            without(a_callback(), b"content-digest"),
            without(a_callback(), b"signature-date"),
            without(a_callback(), b"content-type"),
            evolve(a_callback(), body=COMPLETED.replace(b"123.00", b"923.00")),
            replaced(
                evolve(a_callback(), body=FAILED),
                b"content-digest",
                content_digest(FAILED).encode(),
            ),
            replaced(a_callback(), b"content-digest", b"md5=:AAAA:"),
            replaced(a_callback(), b"content-digest", b"sha-512=:AAAA:"),
            replaced(a_callback(), b"content-digest", b"sha-512"),
            replaced(a_callback(), b"signature", b"sig-pp=:AAAA:"),
            replaced(a_callback(), b"signature", b"sig-pp=:A:"),
            replaced(a_callback(), b"signature", b"other=:AAAA:"),
            replaced(a_callback(), b"signature", b"sig-pp=AAAA"),
            replaced(a_callback(), b"signature-date", b"2026-09-21T14:13:21.000000Z"),
            replaced(a_callback(), b"signature-input", b"((( no dictionary"),
            replaced(a_callback(), b"signature-input", b"\xff"),
            a_callback(key=ec.derive_private_key(7, ec.SECP256R1())),
            a_callback(key=RSA_KEY, algorithm="rsa-pss-sha512"),
            a_callback(told_algorithm="rsa-v1_5-sha256"),
            a_callback(told_algorithm="hmac-sha256"),
            a_callback(told_algorithm="none"),
            evolve(a_callback(), target=b"/hooks/other/0123abcd"),
            evolve(a_callback(), method="PUT"),
            evolve(a_callback(), headers=(*a_callback().headers, *a_callback().headers)),
            replaced(a_callback(authority="other.example"), b"host", b"pay.example"),
            a_callback(parameters=""),
            a_callback(parameters=f";created={START // SECOND}"),
            a_callback(parameters=f";expires={START // SECOND + 60}"),
            a_callback(parameters=2 * f";created={START // SECOND}" + ";expires=99999999999"),
            a_callback(components=(*COMPONENTS, "@path")),
            *(
                a_callback(components=tuple(each for each in COMPONENTS if each != one))
                for one in COMPONENTS[:3]
            ),
            a_callback(components=tuple(each for each in COMPONENTS if each != "content-digest")),
        ],
    )
    def test_a_wrong_or_missing_signature_is_refused_and_never_a_result(
        self, request_: HttpRequest
    ) -> None:
        assert ACCOUNT.refuse_notification(request_, now=Moment.at(START)) is not None
        assert isinstance(ACCOUNT.read_notification(request_), UnmatchedNotified)

    def test_bytes_of_any_kind_are_refused_and_raise_nothing(self) -> None:
        for name in (b"signature", b"signature-input", b"content-digest", b"host"):
            for value in (
                b"",
                b"\0",
                b"\xff\xfe",
                b"a" * 100_000,
                b"sig-pp=" * 10_000,
                b'sig-pp=("@method" ' * 5_000,
            ):
                ACCOUNT.read_notification(replaced(a_callback(), name, value))
                fault = ACCOUNT.refuse_notification(
                    replaced(a_callback(), name, value), now=Moment.at(START)
                )
                assert (fault is None) == (name == b"host")


class TestOurSignatures:
    def test_a_submission_is_signed_as_documented_and_its_repetition_is_the_same(self) -> None:
        account = an_account(signing_key=EC_PRIVATE_PEM, signing_key_id="CUSTOMER_TEST_KEY")
        sent: list[HttpRequest] = []
        for _ in range(2):
            drive(
                account.submit(a_payment(REFERENCE), now=Moment.at(START)),
                answering(HttpResponse(500), sent),
            )
        request, repetition = sent
        assert request == repetition
        assert request.value(b"content-digest") == content_digest(request.body).encode()
        second = START // SECOND
        assert request.value(b"signature-input") == (
            b'sig-pp=("@method" "@authority" "@path" "signature-date" "content-digest" '
            b'"content-type")'
            b';alg="ecdsa-p256-sha256";keyid="CUSTOMER_TEST_KEY";created=%d;expires=%d'
            % (second, second + 60)
        )
        received = evolve(request, target=b"/v2/deposits")
        covered = verify_signature(
            received, load_public_keys(public_pem(EC_KEY).encode()), ("api.pawapay.io",)
        )
        check_age(covered, now=START)

    def test_a_poll_is_not_signed(self) -> None:
        account = an_account(signing_key=EC_PRIVATE_PEM, signing_key_id="CUSTOMER_TEST_KEY")
        sent: list[HttpRequest] = []
        drive(
            account.poll(a_payment(REFERENCE), now=Moment.at(START)),
            answering(HttpResponse(500), sent),
        )
        assert [name for name, _ in sent[0].headers] == [b"authorization"]


def test_the_address_of_the_tests_is_that_of_the_account() -> None:
    assert f"https://{AUTHORITY}{PATH}" == HOOKS_URL
