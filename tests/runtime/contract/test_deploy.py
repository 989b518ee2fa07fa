"""Dashboard and alert rules speak of what a gateway's metrics really hold: names, labels and their
values."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mmo_sansio import __version__
from mmo_sansio.providers.common.interface import AccountState
from tests.support.merchant import ask
from tests.support.sandbox_gateway import Serve
from tests.support.time_limits import HANGS_AFTER_S

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\bmmo_[a-z_]+")
SELECTOR = re.compile(r"\b(mmo_[a-z_]+)\{([^}]*)\}")
MATCHER = re.compile(r'([a-z_]+)\s*(!?=~?)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
NODES = ("one", "two")
"""The gateways of the compose file."""
OF_PROMETHEUS = {"job", "instance", "le", "process"}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def drawn() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


async def labels_of(serve: Serve) -> dict[str, dict[str, set[str]]]:
    """Of every sample that a gateway gives, the labels with their values."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    async with serve() as sandbox:
        await sandbox.merchant.ended((await sandbox.merchant.accepted())["gatewayReference"])
        text = (await ask(f"{sandbox.ready.console}/metrics")).body.decode()
    for family in text_string_to_metric_families(text):
        found[family.name]["le"] |= set()
        for sample in family.samples:
            for label, value in sample.labels.items():
                found[sample.name][label].add(value)
            found[sample.name]["le"] |= set()
    # A sandbox has no account with a real operator, whose breaker would have a state.
    breaker = found["mmo_provider_breaker_state"]
    breaker["provider"].add("momo")
    breaker["state"] |= {"open", "closed", "half_open"}
    account = found["mmo_provider_account_state"]
    account["provider"].add("momo")
    account["part"].add("sign-in")
    account["state"] |= {each.value for each in AccountState}
    # It asks for a balance half a minute after the start.
    asked = ("float_low", "balance", "balance_seconds_old", "float_seconds_left")
    for each in (f"mmo_provider_{name}" for name in asked):
        found[each]["provider"].add("momo")
        found[each]["account"].add("disbursement")
    return found


async def test_every_name_label_and_value_is_there(serve: Serve) -> None:
    there = await labels_of(serve)
    expressions = [*drawn(), *(rule["expr"] for rule in rules())]
    assert len(expressions) > 30
    for expression in expressions:
        names = NAME.findall(expression)
        assert names, expression
        assert set(names) <= set(there), (expression, set(names) - set(there))
        for name, matchers in SELECTOR.findall(expression):
            for label, operator, value in MATCHER.findall(matchers):
                if label in OF_PROMETHEUS:
                    continue
                assert label in there[name], (expression, label)
                if operator in ("=", "!="):
                    assert value in there[name][label], (expression, value)
        labels = {each for name in names for each in there[name]} | OF_PROMETHEUS
        for group in GROUPED.findall(expression):
            assert {each.strip() for each in group.split(",")} <= labels, expression


async def test_the_operators_page_names_every_figure_and_no_other(serve: Serve) -> None:
    page = (DEPLOY.parent / "docs" / "monitoring.md").read_text(encoding="utf-8")
    table = page.partition("## Metrics")[2].partition("## ")[0]
    named = set(re.findall(r"`(mmo_[a-z_]+)`", table))
    async with serve() as sandbox:
        text = (await ask(f"{sandbox.ready.console}/metrics")).body.decode()
    there = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
    assert named == there


def test_what_shall_wake_somebody_is_there() -> None:
    names = {rule["alert"] for rule in rules()}
    assert {
        "MmoCallbacksFail",
        "MmoCallbackBreakerOpen",
        "MmoTransactionsStuck",
        "MmoExpiryBacklog",
        "MmoProviderDown",
    } <= names
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["advice"]
    page = (DEPLOY.parent / "docs" / "monitoring.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(Mmo\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert told == {rule["alert"]: rule["labels"]["severity"] for rule in rules()}
    for placed in re.findall(r"mmo [a-z]+ [a-z]+", str(rules())):
        assert placed in {
            "mmo tx list",
            "mmo tx reversals",
            "mmo db restored",
            "mmo providers balances",
            "mmo providers check",
            "mmo providers disable",
            "mmo providers list",
            "mmo suspense list",
            "mmo db check",
            "mmo audit verify",
        }


def test_the_dashboard_is_whole() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels), "no panel lies on another"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't installed")
def test_prometheus_can_read_them(tmp_path: Path) -> None:
    made = [
        {"record": f"drawn:{number}", "expr": each.replace("$job", ".*")}
        for number, each in enumerate(drawn())
    ]
    (tmp_path / "drawn.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "drawn", "rules": made}]})
    )
    for file in (DEPLOY / "prometheus-alerts.yml", tmp_path / "drawn.yml"):
        subprocess.run(["promtool", "check", "rules", str(file)], check=True, timeout=HANGS_AFTER_S)
    played = DEPLOY / "prometheus-alerts.test.yml"
    subprocess.run(["promtool", "test", "rules", str(played)], check=True, timeout=HANGS_AFTER_S)
    subprocess.run(
        ["promtool", "check", "config", str(DEPLOY / "prometheus.yml")],
        check=True,
        timeout=HANGS_AFTER_S,
    )


def test_the_unit_waits_for_what_draining_may_take() -> None:
    unit = (DEPLOY / "mmo-gateway.service").read_text()
    assert "TimeoutStopSec=90s" in unit, "20 s for requests, 20 s to drain, 40 s of work"
    for promise in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n"):
        assert promise in unit


def test_the_container_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    [user] = re.findall(r"^USER ([0-9]+):([0-9]+)$", text[text.rindex("FROM ") :], re.M)
    assert "0" not in user
    assert "MMO_LOG_FORMAT=json" in text


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


def test_every_image_of_the_compose_file_is_one_exact_version() -> None:
    for name, service in services().items():
        if name in NODES:
            assert service["image"] == f"mmo-gateway:{__version__}"
        else:
            assert re.search(r":v?[0-9]+(\.[0-9]+)+(-[a-z]+)?$", service["image"]), name


def test_the_compose_file_mounts_files_that_are_here() -> None:
    mounted = [each.split(":")[0] for service in services().values() for each in service["volumes"]]
    paths = {each for each in mounted if each.startswith(".")} - {"./mmo"}
    assert len(paths) == 5
    assert all((DEPLOY / each).is_file() for each in paths)


def test_prometheus_asks_both_nodes_and_grafana_asks_prometheus() -> None:
    [job] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    consoles = {
        f"{name}:{services()[name]['environment']['MMO_LISTEN_CONSOLE'].rpartition(':')[2]}"
        for name in NODES
    }
    assert set(job["static_configs"][0]["targets"]) == consoles
    for name in NODES:
        assert services()[name]["environment"]["MMO_CONSOLE_HOSTS"].split(",") == list(NODES)
    [source] = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text())["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == (
        "prometheus",
        "http://prometheus:9090",
        True,
    )
    [provider] = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yml").read_text())["providers"]
    assert (
        f"./grafana-dashboard.json:{provider['options']['path']}/grafana-dashboard.json:ro"
        in (services()["grafana"]["volumes"])
    )
