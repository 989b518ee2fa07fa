"""Kinds of provider that other distributions bring by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings import SettingsError, effective_settings, load_settings
from mmo_trio.settings.providers import PROVIDERS_GROUP, _installed
from mmo_trio.settings.service import provider_titles

MODULE = """
from attrs import evolve
from mmo_sansio.providers.registry import PROVIDER_KINDS

KIND = evolve(PROVIDER_KINDS["sandbox"], title="Pesaplus")


def kind():
    return KIND


def broken():
    raise RuntimeError("no luck")


def other():
    return 7
"""
Install = Callable[..., None]
PESAPLUS = {"MMO_PROVIDER__P__KIND": "pesaplus"}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with these entry points on the path, as an installer does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mmo_extension", raising=False)
    (tmp_path / "mmo_extension.py").write_text(MODULE)

    def put(name: str, value: str, distribution: str = "mmo-extension") -> None:
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(
            f"[{PROVIDERS_GROUP}]\n{name} = mmo_extension:{value}\n"
        )
        _installed.cache_clear()

    yield put
    _installed.cache_clear()


@pytest.mark.parametrize("value", ["KIND", "kind"], ids=["object", "function"])
def test_a_kind_of_provider_comes_from_a_distribution(install: Install, value: str) -> None:
    install("pesaplus", value)
    settings = load_settings(environment=PESAPLUS)
    assert settings.provider_kinds["pesaplus"].origin == "mmo-extension 1.2"
    assert provider_titles(settings, is_sandbox=False) == {"p": "Pesaplus"}
    (row,) = [each for each in effective_settings(settings) if each.key == "provider.p.kind"]
    assert row.value == "pesaplus (from mmo-extension 1.2)"


def test_what_is_not_used_is_not_loaded(install: Install) -> None:
    install("pesaplus", "missing")
    load_settings()
    assert "mmo_extension" not in sys.modules


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("broken", "can't be loaded: RuntimeError: no luck"),
        ("missing", "can't be loaded: AttributeError"),
        ("other", "is a int"),
    ],
)
def test_a_kind_of_provider_that_cannot_be_used_is_named(
    install: Install, value: str, what: str
) -> None:
    install("pesaplus", value)
    with pytest.raises(SettingsError) as caught:
        load_settings(environment=PESAPLUS)
    for part in ("'pesaplus'", PROVIDERS_GROUP, "mmo-extension 1.2"):
        assert part in caught.value.location
    assert what in caught.value.fault
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "what"), [("mtn_momo", "name of a built-in kind"), ("Pesa-Plus", "no usable name")]
)
def test_a_name_that_is_taken_or_wrong_is_refused_even_unused(
    install: Install, name: str, what: str
) -> None:
    install(name, "KIND")
    with pytest.raises(SettingsError, match=what) as caught:
        load_settings()
    assert "mmo-extension 1.2" in caught.value.location


def test_two_distributions_with_one_name_are_refused(install: Install) -> None:
    install("pesaplus", "KIND")
    install("pesaplus", "KIND", "mmo-other")
    with pytest.raises(SettingsError, match="is brought by mmo-"):
        load_settings()


def test_an_argument_may_bring_a_kind_and_no_taken_name(install: Install) -> None:
    install("pesaplus", "KIND")
    kind = PROVIDER_KINDS["sandbox"]
    settings = load_settings(
        environment={"MMO_PROVIDER__P__KIND": "own"}, provider_kinds={"own": kind}
    )
    assert settings.providers["p"].kind == "own"
    with pytest.raises(SettingsError, match="is built in"):
        load_settings(provider_kinds={"mtn_momo": kind})
    with pytest.raises(SettingsError, match="is brought by the caller, too"):
        load_settings(provider_kinds={"pesaplus": kind})
