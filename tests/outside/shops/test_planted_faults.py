"""The check of endpoints names each fault that is planted into a copy of an example in Node, PHP or
on Flask; those in Python's receiver are in `tests/merchant/endpoint_check/test_check.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve, frozen

from tests.support.receiver_process import EXAMPLES, FILES, running_receiver
from tests.support.shop_process import a_shop_process, shortcomings_of


@frozen
class Fault:
    """A fault that is planted by replacing a piece of an example, and the situation that must show
    it."""

    example: str
    name: str
    old: str
    new: str
    situation: str


NODE_KEY = 'if (!isOurs(request.headers["x-api-key"])) return answer(401);'
NODE_COMPARISON = "timingSafeEqual(digested, digest(key))"
PHP_COMPARISON = "hash_equals(hash('sha256', $key), hash('sha256', $received))"
FLASK_CALLBACK = "request.headers, request.get_data()"
FLASK_ANSWER = 'return "", status'
FLASK_SETTLED = "    is_paid = "

FAULTS = (
    Fault("node", "no check of the key", NODE_KEY, "", "key-wrong"),
    Fault(
        "node",
        "a beginning passes",
        NODE_COMPARISON,
        'key.startsWith(header ?? "?")',
        "key-beginning",
    ),
    Fault(
        "node", "repeats are errors", 'if (error.code === "EEXIST") return false;', "", "repeated"
    ),
    Fault("node", "successes only", '["success", "failed"]', '["success"]', "failed"),
    Fault("node", "small bodies only", "= 1024 * 1024", "= 64 * 1024", "big-provider-data"),
    Fault(
        "node",
        "no JSON breaks it",
        "  } catch {\n    return null;",
        "  } catch (e) {\n    throw e;",
        "body-no-json",
    ),
    Fault("node", "codes are stored as results", '".qr.json"', '".json"', "result-after-qr-code"),
    Fault("node", "any method will do", "return answer(405)", "return answer(200)", "method-get"),
    Fault(
        "php",
        "no check of the key",
        "if (!is_ours($_SERVER['HTTP_X_API_KEY'] ?? ''))",
        "if (false)",
        "key-missing",
    ),
    Fault(
        "php",
        "letter case is ignored",
        PHP_COMPARISON,
        "strcasecmp($key, $received) === 0",
        "key-other-case",
    ),
    Fault(
        "php",
        "repeats are booked",
        "if (@link($draft, $stored))",
        "if (copy($draft, $stored))",
        "repeated",
    ),
    Fault("php", "repeats are errors", "if (file_exists($stored))", "if (false)", "repeated-later"),
    Fault("php", "successes only", "['success', 'failed']", "['success']", "repeated-failure"),
    Fault(
        "php",
        "pending is booked",
        "['success', 'failed']",
        "['success', 'failed', 'pending']",
        "status-pending",
    ),
    Fault(
        "php",
        "file names of others",
        " || preg_match(ULID, $reference) !== 1",
        "",
        "reference-path",
    ),
    Fault("php", "any method will do", "return 405;", "return 204;", "method-get"),
    Fault(
        "flask",
        "no check of the key",
        FLASK_CALLBACK,
        FLASK_CALLBACK.replace("request.headers", '{"X-API-KEY": KEYS[0]}'),
        "key-wrong",
    ),
    Fault(
        "flask",
        "the key in the answer",
        FLASK_ANSWER,
        FLASK_ANSWER.replace('""', "KEYS[0]"),
        "key-missing",
    ),
    Fault("flask", "a redirect", FLASK_ANSWER, FLASK_ANSWER.replace("status", "303"), "key-right"),
    Fault(
        "flask",
        "an order of its own is needed",
        FLASK_SETTLED,
        "    assert result.merchant_reference\n" + FLASK_SETTLED,
        "deposit",
    ),
    Fault(
        "flask",
        "successes only",
        FLASK_SETTLED,
        "    assert result.final_amount\n" + FLASK_SETTLED,
        "expired",
    ),
    Fault(
        "flask",
        "known flows only",
        FLASK_SETTLED,
        '    assert result.flow in ("direct", "web")\n' + FLASK_SETTLED,
        "unknown-flow",
    ),
    Fault(
        "flask",
        "small bodies only",
        "closer = ",
        'app.config["MAX_CONTENT_LENGTH"] = 65536\ncloser = ',
        "big-provider-data",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: f"{each.example}: {each.name}")
def test_each_planted_fault_is_named(fault: Fault, tmp_path: Path) -> None:
    file = FILES.get(fault.example, "shop_flask.py")
    source = (EXAMPLES / file).read_text(encoding="utf-8")
    assert fault.old in source, "the example has changed"
    source, names = source.replace(fault.old, fault.new), {"key-right", fault.situation}
    if fault.example in FILES:
        with running_receiver(fault.example, tmp_path, source) as receiver:
            found = trio.run(partial(receiver.shortcomings, names))
    else:
        (tmp_path / file).write_text(source, encoding="utf-8")
        with a_shop_process(fault.example, tmp_path) as shop:
            found = trio.run(shortcomings_of, evolve(shop, source=tmp_path), names)
    assert fault.situation in found, found
