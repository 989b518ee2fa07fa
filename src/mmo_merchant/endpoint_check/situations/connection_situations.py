"""Lists the situations in which the connection of a callback is slow, shared, or breaks."""

from __future__ import annotations

from collections.abc import Callable

from mmo_merchant.endpoint_check.situations.played_payments import PlayedPayments
from mmo_merchant.endpoint_check.situations.situation import (
    PAID,
    ConnectionUse,
    Expectation,
    Handling,
    KeyVariant,
    PlayedRequest,
    Script,
    SendingPace,
    Situation,
    TlsVersion,
)

# Seconds within which an endpoint should answer: a third of the time that it has.
QUICK_S = 5.0


def _paced(pace: SendingPace) -> Callable[[PlayedPayments], Script]:
    def write(payments: PlayedPayments) -> Script:
        return Script(
            ((PlayedRequest(payments.success(), pace=pace),),), {payments.reference(): PAID}
        )

    return write


def _slow(name: str, title: str, pace: SendingPace, duty: str) -> Situation:
    return Situation(name, title, duty, ("K2",), _paced(pace), question="Was the payment booked?")


def _only(version: TlsVersion) -> Callable[[PlayedPayments], Script]:
    # Nothing has to be handled: an endpoint of one version alone is right, too.
    def write(payments: PlayedPayments) -> Script:
        return Script(((PlayedRequest(payments.success(), tls=version),),))

    return write


def _tls(name: str, version: TlsVersion) -> Situation:
    return Situation(
        name,
        f"The gateway speaks {version.value} only.",
        "Answer with a 2xx. The gateway speaks TLS 1.2 and 1.3, so that one of them is enough "
        "today; offer both.",
        ("K7",),
        _only(version),
        is_required=False,
        needs_tls=True,
    )


def _broken_off(payments: PlayedPayments) -> Script:
    # The gateway never sends a callback twice (K3), but another process may have begun it before a
    # crash.
    whole = PlayedRequest(payments.success())
    half = PlayedRequest(payments.success(), Expectation.NOTHING, pace=SendingPace.BROKEN_OFF)
    return Script(((half,), (whole,)), {payments.reference(): PAID})


def _on_one_connection(payments: PlayedPayments) -> Script:
    rounds = tuple((PlayedRequest(payments.success(which)),) for which in range(3))
    return Script(
        rounds, {payments.reference(which): PAID for which in range(3)}, ConnectionUse.KEPT
    )


def _rejected_then_kept(payments: PlayedPayments) -> Script:
    # The body of the rejected one must not be read as the head of the next.
    wrong = PlayedRequest(payments.failure(0), Expectation.REJECT, KeyVariant.WRONG)
    handled = {payments.reference(0): Handling(0), payments.reference(1): PAID}
    return Script(((wrong,), (PlayedRequest(payments.success(1)),)), handled, ConnectionUse.KEPT)


def _with_silent_connections(payments: PlayedPayments) -> Script:
    request = PlayedRequest(payments.success())
    # The player opens some beside it, on which it never sends a byte.
    return Script(((request,),), {payments.reference(): PAID}, ConnectionUse.WITH_SILENT)


def _quick(payments: PlayedPayments) -> Script:
    return Script(((PlayedRequest(payments.success(), within_s=QUICK_S),),))


CONNECTION_SITUATIONS = (
    Situation(
        "quick-answer",
        "A callback comes and waits for its answer.",
        "Answer within 5 seconds: store the result, answer, and do the work later. After 15 "
        "seconds it has failed.",
        ("K2",),
        _quick,
        is_required=False,
    ),
    _slow(
        "body-after-head",
        "The body of a callback comes a moment after its head.",
        SendingPace.HEAD_FIRST,
        "Answer with a 2xx: read as many bytes as Content-Length says, however many arrive "
        "at first.",
    ),
    _slow(
        "slow-head",
        "The head of a callback comes in small pieces, over some seconds.",
        SendingPace.SLOW_HEAD,
        "Answer with a 2xx: a slow network may take some seconds. Close a connection only after "
        "ten or more.",
    ),
    _slow(
        "slow-body",
        "The body of a callback comes in small pieces, over some seconds.",
        SendingPace.SLOW_BODY,
        "Answer with a 2xx: a slow network may take some seconds. Close a connection only after "
        "ten or more.",
    ),
    Situation(
        "broken-off",
        "A callback breaks off in its body; then the same one comes whole.",
        "Book nothing of the first, and answer the second with a 2xx.",
        ("K3",),
        _broken_off,
        question="Was the payment booked once?",
    ),
    Situation(
        "kept-connection",
        "Three callbacks come on one connection.",
        "Answer each with a 2xx, with a whole head and the right Content-Length, or close the "
        "connection after one.",
        ("K2",),
        _on_one_connection,
        question="Were all three booked?",
    ),
    Situation(
        "kept-after-rejection",
        "A callback with a wrong key comes, then one with yours on the same connection.",
        "Read or discard the body of what you reject, or close: its rest must not be taken for "
        "the next request.",
        ("K2",),
        _rejected_then_kept,
        question="Was the payment booked?",
    ),
    Situation(
        "silent-connections",
        "Four connections are open on which nothing is sent; then a callback comes.",
        "Answer with a 2xx: serve connections at the same time, so that a silent one keeps "
        "nobody waiting.",
        ("K2",),
        _with_silent_connections,
        question="Was the payment booked?",
    ),
    _tls("tls-1.2", TlsVersion.TLS_1_2),
    _tls("tls-1.3", TlsVersion.TLS_1_3),
)
