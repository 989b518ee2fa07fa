"""Kinds of provider and of store that other distributions bring by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.settings import SettingsError, effective_settings, load_settings
from mmo_trio.settings.extensions import PROVIDERS_GROUP, STORES_GROUP, _installed
from mmo_trio.settings.service import check_production, provider_titles
from mmo_trio.storage.interface.store import StoreUnusable
from mmo_trio.storage.open_store import STORE_KINDS, StoreKind, open_store

MODULE = """
from attrs import evolve
from mmo_sansio.providers.registry import PROVIDER_KINDS
from mmo_trio.storage.open_store import STORE_KINDS

KIND = evolve(PROVIDER_KINDS["sandbox"], title="Pesaplus")
STORE = STORE_KINDS["sqlite"]
SHARED = STORE_KINDS["postgresql"]


def kind():
    return KIND


def open_url(url, *, serving, create):
    return STORE.open_url(url, serving=serving, create=create)


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

    def put(group: str, name: str, value: str, distribution: str = "mmo-extension") -> None:
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = mmo_extension:{value}\n")
        _installed.cache_clear()

    yield put
    _installed.cache_clear()


@pytest.mark.finding("new-users-M4")
@pytest.mark.parametrize("value", ["KIND", "kind"], ids=["object", "function"])
def test_a_kind_of_provider_comes_from_a_distribution(install: Install, value: str) -> None:
    install(PROVIDERS_GROUP, "pesaplus", value)
    settings = load_settings(environment=PESAPLUS)
    assert settings.provider_kinds["pesaplus"].origin == "mmo-extension 1.2"
    assert provider_titles(settings, is_sandbox=False) == {"p": "Pesaplus"}
    (row,) = [each for each in effective_settings(settings) if each.key == "provider.p.kind"]
    assert row.value == "pesaplus (from mmo-extension 1.2)"


@pytest.mark.parametrize(("value", "is_shared"), [("STORE", False), ("open_url", False), ("SHARED", True)])
def test_a_store_comes_from_a_distribution(install: Install, value: str, is_shared: bool) -> None:
    install(STORES_GROUP, "files+x", value)
    settings = load_settings(environment={"MMO_DATABASE_URL": "files+x://somewhere"})
    assert settings.store_kind.origin == "mmo-extension 1.2"
    assert settings.store_kind.is_shared is is_shared
    (row,) = [each for each in effective_settings(settings) if each.key == "database.url"]
    assert row.value == "files+x://somewhere (from mmo-extension 1.2)"
    if not is_shared:
        with pytest.raises(SettingsError, match="can't serve from one files"):
            check_production(settings, workers=2)


def test_what_is_not_used_is_not_loaded(install: Install) -> None:
    install(PROVIDERS_GROUP, "pesaplus", "missing")
    load_settings()
    assert "mmo_extension" not in sys.modules


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("broken", "can't be loaded: RuntimeError: no luck"),
        ("missing", "can't be loaded: AttributeError"),
        ("other", "is a int"),
        ("STORE", "is a StoreKind"),
    ],
)
def test_a_kind_of_provider_that_cannot_be_used_is_named(install: Install, value: str, what: str) -> None:
    install(PROVIDERS_GROUP, "pesaplus", value)
    with pytest.raises(SettingsError) as caught:
        load_settings(environment=PESAPLUS)
    for part in ("'pesaplus'", PROVIDERS_GROUP, "mmo-extension 1.2"):
        assert part in caught.value.location
    assert what in caught.value.fault
    assert caught.value.remedy


@pytest.mark.parametrize(("value", "what"), [("missing", "can't be loaded"), ("KIND", "is a Pro")])
def test_a_store_that_cannot_be_used_is_named(install: Install, value: str, what: str) -> None:
    install(STORES_GROUP, "files", value)
    with pytest.raises(SettingsError, match=f"'files'.*mmo-extension 1.2: {what}"):
        load_settings(environment={"MMO_DATABASE_URL": "files://somewhere"})


@pytest.mark.parametrize(
    ("group", "name", "what"),
    [
        (PROVIDERS_GROUP, "mtn_momo", "name of a built-in kind"),
        (STORES_GROUP, "sqlite", "name of a built-in kind"),
        (PROVIDERS_GROUP, "Pesa-Plus", "no usable name"),
        (STORES_GROUP, "a_b", "no usable name"),
    ],
)
def test_a_name_that_is_taken_or_wrong_is_refused_even_unused(
    install: Install, group: str, name: str, what: str
) -> None:
    install(group, name, "KIND")
    with pytest.raises(SettingsError, match=what) as caught:
        load_settings()
    assert "mmo-extension 1.2" in caught.value.location


def test_two_distributions_with_one_name_are_refused(install: Install) -> None:
    install(PROVIDERS_GROUP, "pesaplus", "KIND")
    install(PROVIDERS_GROUP, "pesaplus", "KIND", "mmo-other")
    with pytest.raises(SettingsError, match="is brought by mmo-"):
        load_settings()


def test_an_argument_may_bring_a_kind_and_no_taken_name(install: Install) -> None:
    install(PROVIDERS_GROUP, "pesaplus", "KIND")
    kind = PROVIDER_KINDS["sandbox"]
    settings = load_settings(
        environment={"MMO_PROVIDER__P__KIND": "own", "MMO_DATABASE_URL": "own://x"},
        provider_kinds={"own": kind},
        store_kinds={"own": StoreKind(STORE_KINDS["sqlite"].open_url)},
    )
    assert settings.providers["p"].kind == "own"
    assert settings.store_kind.origin == ""
    with pytest.raises(SettingsError, match="is built in"):
        load_settings(provider_kinds={"mtn_momo": kind})
    with pytest.raises(SettingsError, match="is built in"):
        load_settings(store_kinds={"sqlite": STORE_KINDS["sqlite"]})
    with pytest.raises(SettingsError, match="is brought by the caller, too"):
        load_settings(provider_kinds={"pesaplus": kind})


def test_an_unknown_scheme_or_kind_names_what_there_is(install: Install) -> None:
    install(STORES_GROUP, "files", "STORE")
    with pytest.raises(SettingsError, match=r"'mysql'\. Known are: .*files"):
        load_settings(environment={"MMO_DATABASE_URL": "mysql://root:hunter2@db/x"})
    with pytest.raises(StoreUnusable, match="mysql"):
        open_store("mysql://root@db/x", serving=True)
