"""Whose account is behind a number, as operators on real sockets tell it to a merchant who asks."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from attrs import define

from mmo_simulators.common.faults import parse_planned_fault
from mmo_simulators.common.simulator import Simulator
from mmo_simulators.operators.pawapay.api import API_TOKEN, open_pawapay
from mmo_simulators.operators.registry import open_simulator
from mmo_trio.settings.providers import provider_variable
from tests.support.airtel_account import PAYER, a_simulator
from tests.support.airtel_account import options as airtel_options
from tests.support.merchant import Answer, ask
from tests.support.merchants import ACME_KEY, ZENITH_KEY
from tests.support.mmo_process import COMMAND, FREE_PORTS, serving_process
from tests.support.operator_gateway import RunningSimulator, run_simulator
from tests.support.provider_double import SILENT
from tests.support.sandbox_gateway import Running, serving

pytestmark = pytest.mark.usefixtures("provider_packages")

USER = "c72025f5-5cd1-4630-99e4-8ba4722fad56"
MTN_OPTIONS = {
    "kind": "mtn_momo",
    "market": "sandbox",
    "disbursement_subscription_key": "d15b0250e3f74a6c9b1d7e2f4c8a0b36",
    "disbursement_api_user": USER,
    "disbursement_api_key": "f1db798c98df4bcf83b538175893bbf0",
}
METHODS: Mapping[str, tuple[str, str, str]] = {
    "airtel": ("airtel", "UG", "UGX"),
    "mtn": ("mtn", "UG", "EUR"),
    "pawapay": ("pawapay", "RW", "RWF"),
    "sandbox": ("sandbox", "KE", "KES"),
    "silent": ("silent", "KE", "KES"),
}
AIRTEL_NUMBER = f"256{PAYER}"
MTN_NUMBER = "256772123456"
PAWAPAY_NUMBER = "250783456789"


def a_brand(id: str, key: str, methods: tuple[str, ...]) -> str:
    parts = [f'[[brand]]\nid = "{id}"\nname = "{id}"\napi_keys = ["{key}"]\n']
    for method in methods:
        provider, country, currency = METHODS[method]
        parts.append(
            f'[[brand.method]]\nkey = "{method}"\nprovider = "{provider}"\n'
            f'country = "{country}"\nflows = ["direct/payout"]\n'
            f'limits.{currency} = {{ min = "1", max = "1000" }}\n'
        )
    return "\n".join(parts)


TELLING = ("airtel", "mtn", "pawapay", "sandbox")
BRANDS = a_brand("acme", ACME_KEY, TELLING) + a_brand("zenith", ZENITH_KEY, ("airtel",))


@define(eq=False)
class Operators:
    """Holds three operators on their sockets."""

    airtel: RunningSimulator
    mtn: RunningSimulator
    pawapay: RunningSimulator

    def environment(self, **more: str) -> dict[str, str]:
        """Return the settings of a gateway with an account of each."""
        accounts: Mapping[str, Mapping[str, Any]] = {
            "airtel": {"kind": "airtel_money", **airtel_options(self.airtel.origin)},
            "mtn": {**MTN_OPTIONS, "base_url": self.mtn.origin},
            "pawapay": {
                "kind": "pawapay",
                "market": "MTN_MOMO_RWA",
                "api_token": API_TOKEN,
                "base_url": self.pawapay.origin,
            },
            "sandbox": {"kind": "sandbox"},
        }
        settings = {
            provider_variable(name, key): str(value)
            for name, options in accounts.items()
            for key, value in options.items()
        }
        return {**settings, "MMO_GATEWAY_PAYEES_PER_MINUTE": "600", **more}


@asynccontextmanager
async def operators() -> AsyncIterator[Operators]:
    async with (
        run_simulator(a_simulator()) as airtel,
        run_simulator(open_simulator("mtn")) as mtn,
        run_simulator(open_pawapay()) as pawapay,
    ):
        yield Operators(airtel, mtn, pawapay)


async def payee(
    api: str, method: str, msisdn: str, *, key: str = ACME_KEY, query: str = ""
) -> Answer:
    path = f"/extensions/v1/payees/{quote(method, safe='')}/{quote(msisdn, safe='')}{query}"
    return await ask(api + path, headers={"X-Api-Key": key})


def told(answer: Answer) -> dict[str, Any]:
    """What an answer tells, without what is not known."""
    assert answer.status == 200, answer.body
    return {
        name: value
        for name, value in answer.json.items()
        if value is not None and name not in ("method", "country", "msisdn")
    }


@asynccontextmanager
async def gateway(tmp_path: Path, **more: str) -> AsyncIterator[tuple[Running, Operators]]:
    async with operators() as played:
        environment = played.environment(**more)
        async with serving(
            tmp_path, environment=environment, brands=BRANDS, api_key=ACME_KEY
        ) as running:
            yield running, played


def plan(simulator: Simulator, **fault: Any) -> None:
    simulator.faults.plan([parse_planned_fault(fault)])


async def test_each_operator_tells_what_it_knows(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, _):
        api = running.ready.api
        answer = await payee(api, "mtn", f"+{MTN_NUMBER}", query="?name=Jane%20Doe")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json == {
            "method": "mtn",
            "country": "UG",
            "msisdn": f"+{MTN_NUMBER}",
            "outcome": "named",
            "name": "Sand Box",
            "isMasked": False,
            "isBarred": None,
            "matches": None,
            "operator": None,
            "isServed": None,
        }
        assert told(await payee(api, "airtel", AIRTEL_NUMBER)) == {
            "outcome": "named",
            "name": "Jane Doe",
            "isMasked": False,
            "isBarred": False,
        }
        assert told(await payee(api, "airtel", "256752999999")) == {"outcome": "unknown"}
        predicted = {"outcome": "predicted", "operator": "MTN_MOMO_RWA", "isServed": True}
        assert told(await payee(api, "pawapay", PAWAPAY_NUMBER)) == predicted
        other = await payee(api, "pawapay", "250733456789")
        assert told(other) == {**predicted, "operator": "AIRTEL_RWA", "isServed": False}


async def test_an_operator_that_does_not_answer_is_told_as_such(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, played):
        plan(played.airtel.simulator, at="user", do="lose_answer")
        plan(played.mtn.simulator, at="account", do="answer_instead", status=503)
        for method, number in (("airtel", AIRTEL_NUMBER), ("mtn", MTN_NUMBER)):
            answer = await payee(running.ready.api, method, number)
            assert told(answer) == {"outcome": "unanswered"}


async def test_what_can_not_be_asked_names_field_and_remedy(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, _):
        for method, number, query, field, words in (
            ("mtm", MTN_NUMBER, "", "method", "Did you mean 'mtn'?"),
            ("mtn", "12ab", "", "msisdn", "must be digits"),
            ("mtn", "254708374149", "", "msisdn", "must be a mobile number of UG, with its code."),
            ("mtn", "2" * 300, "", "msisdn", "must be digits"),
            ("mtn", MTN_NUMBER, "?name=%00", "name", "control characters"),
            ("mtn", MTN_NUMBER, "?name=a&name=b", "name", "only once"),
            ("mtn", MTN_NUMBER, "?name=%ff", "name", "UTF-8"),
        ):
            answer = await payee(running.ready.api, method, number, query=query)
            assert answer.status == 400
            (error,) = answer.json["errors"]
            assert error["field"] == field
            assert words in error["detail"]
            assert number not in answer.body.decode()


async def test_a_method_whose_operator_tells_nothing_is_refused(tmp_path: Path) -> None:
    environment = {
        provider_variable("silent", "kind"): "silent",
        "MMO_GATEWAY_PAYEES_PER_MINUTE": "600",
    }
    async with serving(
        tmp_path,
        environment=environment,
        brands=a_brand("acme", ACME_KEY, ("silent",)),
        api_key=ACME_KEY,
        provider_kinds={"silent": SILENT},
    ) as running:
        answer = await payee(running.ready.api, "silent", "254708374149")
        assert (answer.status, answer.segment) == (400, "config_unsupported_payment_method")
        assert "Silent Money doesn't tell" in answer.json["detail"]
        (error,) = answer.json["errors"]
        assert error["field"] == "method"
        assert "must be one whose operator tells it" in error["detail"]


async def test_the_sandbox_plays_each_answer(tmp_path: Path) -> None:
    jane = {"outcome": "named", "name": "Jane Doe", "isMasked": False, "isBarred": False}
    async with serving(
        tmp_path,
        environment={"MMO_GATEWAY_PAYEES_PER_MINUTE": "600"},
        brands=a_brand("acme", ACME_KEY, ("sandbox",)),
        api_key=ACME_KEY,
    ) as running:
        for digits, expected in (
            ("001", jane),
            ("104", {"outcome": "unanswered"}),
            ("106", {"outcome": "unknown"}),
            ("107", jane | {"isBarred": True}),
            ("109", jane | {"name": "J*** D**", "isMasked": True}),
        ):
            answer = await payee(running.ready.api, "sandbox", f"254708374{digits}")
            assert told(answer) == expected


async def test_a_brand_asks_only_by_its_own_methods_and_with_a_key(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, _):
        api = running.ready.api
        answer = await payee(api, "mtn", MTN_NUMBER, key=ZENITH_KEY)
        assert (answer.status, answer.segment) == (400, "config_unsupported_payment_method")
        assert (await payee(api, "mtn", MTN_NUMBER, key="wrong")).status == 401
        path = f"{api}/extensions/v1/payees/mtn/{MTN_NUMBER}"
        posted = await ask(path, method="POST", headers={"X-Api-Key": ACME_KEY}, body=b"")
        assert (posted.status, posted.headers["allow"]) == (405, "GET")


async def test_each_brand_has_a_pace_of_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path, MMO_GATEWAY_PAYEES_PER_MINUTE="20") as (running, _):
        api = running.ready.api
        asked = [await payee(api, "airtel", AIRTEL_NUMBER) for _ in range(3)]
        assert [each.status for each in asked] == [200, 200, 429]
        refused = asked[-1]
        assert refused.segment == "too_many_requests"
        assert 1 <= int(refused.headers["retry-after"]) <= 3
        assert "20 questions about payees a minute" in refused.json["detail"]
        other = await payee(api, "airtel", AIRTEL_NUMBER, key=ZENITH_KEY)
        assert other.status == 200
        records = await ask(f"{api}/extensions/v1/methods", headers={"X-Api-Key": ACME_KEY})
        assert records.status == 200


async def test_a_gateway_that_does_not_tell_says_who_may_switch_it_on(tmp_path: Path) -> None:
    async with operators() as played:
        environment = played.environment()
        del environment["MMO_GATEWAY_PAYEES_PER_MINUTE"]
        async with serving(
            tmp_path, environment=environment, brands=BRANDS, api_key=ACME_KEY
        ) as running:
            answer = await payee(running.ready.api, "airtel", AIRTEL_NUMBER)
            assert (answer.status, answer.segment) == (404, "not_found")
            assert "gateway.payees_per_minute" in answer.json["detail"]


async def test_no_number_and_no_name_is_logged_stored_or_counted(
    tmp_path: Path, provider_packages: Sequence[str]
) -> None:
    log, brands = tmp_path / "log", tmp_path / "acme.toml"
    brands.write_text(BRANDS, encoding="utf-8")
    data = tmp_path / "data"
    async with operators() as played:
        settings = [f"{name}={value}" for name, value in played.environment().items()]
        path = f"PYTHONPATH={os.pathsep.join(provider_packages)}"
        command = ("env", "MMO_LOG_FORMAT=json", "MMO_LOG_LEVEL=debug", path, *settings, *COMMAND)
        async with serving_process(
            "sandbox", "--data", data, "--brands", brands, *FREE_PORTS, log=log, command=command
        ) as process:
            api = process.ready["api"]
            believed = "?name=Canary%20Believed"
            for method, number in (("airtel", AIRTEL_NUMBER), ("mtn", MTN_NUMBER)):
                assert (await payee(api, method, number, query=believed)).status == 200
            plan(played.airtel.simulator, at="user", do="answer_instead", status=500)
            lost = await payee(api, "airtel", AIRTEL_NUMBER)
            assert told(lost) == {"outcome": "unanswered"}
            assert (await payee(api, "mtm", MTN_NUMBER, query=believed)).status == 400
            assert (await payee(api, "mtn", f"{AIRTEL_NUMBER}0", query=believed)).status == 400
            metrics = (await ask(f"{process.ready['console']}/metrics")).body.decode()

    stored = b"".join(each.read_bytes() for each in data.rglob("*") if each.is_file())
    logged = log.read_text(encoding="utf-8")
    assert any(json.loads(line)["event"] == "request_rejected" for line in logged.splitlines())
    for private in (PAYER, MTN_NUMBER, "Jane", "Sand Box", "Canary", "Believed"):
        assert private not in logged, private
        assert private.encode() not in stored, private
        assert private not in metrics, private
    for provider, outcome in (("airtel", "named"), ("airtel", "unanswered"), ("mtn", "named")):
        [line] = [
            line
            for line in metrics.splitlines()
            if line.startswith("mmo_payee_questions_total{")
            and f'provider="{provider}"' in line
            and f'outcome="{outcome}"' in line
        ]
        assert float(line.rpartition(" ")[2]) == 1
