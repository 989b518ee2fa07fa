"""`brands.toml`: what it may say, how it is refused, and what applying it does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.model import (
    Brand,
    BrandLimits,
    Limits,
    Method,
    Operation,
    ReferenceReuse,
    ReusePolicy,
    Type,
)
from mmo_sansio.values.money import Money
from mmo_trio.brands.apply import BrandsPlan, add_key, apply_plan, check_new_ids, plan_brands
from mmo_trio.brands.edit import InvalidEdit, brand_form, edit_brand
from mmo_trio.brands.file import ConfiguredBrand, parse_brands, read_brands_file
from mmo_trio.brands.keyring import KeyRing
from mmo_trio.settings import SettingsError
from mmo_trio.storage.sql.store import Store
from mmo_trio.storage.sqlite import SqliteStore
from tests.conformance.driver import NOON, submit_batch
from tests.conformance.inputs import brand, creation

RING = KeyRing(bytes(range(32)))
PROVIDERS = {"sandbox": "Sandbox", "mpesa": "M-PESA"}
RULES = EgressRules()

WHOLE = """
[[brand]]
id = "acme"
name = "Acme Ltd"
api_keys = ["acme-key-of-24-characters"]
enabled = false
push_result_url = "https://merchant.example/push"
host = "Acme.Example"
reference_reuse = "never"
redirect_schemes = ["AcmeApp"]
result_hosts = ["*.Shop.example", "pay.acme.example"]
  [[brand.method]]
  key = "mpesa_ke"
  provider = "mpesa"
  country = "KE"
  flows = ["direct/payin", "direct/taxpayout"]
  limits.KES = { min = "10.50", max = 150000 }
  limits.UGX = { min = "500", max = "500" }
  tax_authority_id = "KRA"
  tax_authority_account = "572572"
"""
SMALL = """
[[brand]]
id = "acme"
name = "Acme Ltd"
"""
METHOD = """
  [[brand.method]]
  key = "mpesa_ke"
  provider = "sandbox"
  country = "KE"
  flows = ["direct/payin"]
  limits.KES = { min = "10", max = "150000" }
"""


def read(text: str) -> Sequence[ConfiguredBrand]:
    return parse_brands(text, source="brands.toml", providers=PROVIDERS, rules=RULES)


def test_a_direct_payin_is_refused_where_payers_confirm_at_a_page_or_with_a_code() -> None:
    text = SMALL + METHOD
    read_elsewhere = partial(
        parse_brands, source="brands.toml", providers=PROVIDERS, rules=RULES, elsewhere=["sandbox"]
    )
    with pytest.raises(SettingsError) as raised:
        read_elsewhere(text)
    assert raised.value.location.endswith("flows")
    assert "'direct/payin'" in raised.value.fault
    assert "'sandbox'" in raised.value.fault
    assert "web/payin" in raised.value.remedy
    (configured,) = read(text)
    with pytest.raises(InvalidEdit, match="'direct/payin' has no page") as edited:
        edit_brand(configured.brand, brand_form(configured.brand), elsewhere=["sandbox"])
    assert edited.value.field == "0.direct/payin"
    assert edit_brand(configured.brand, brand_form(configured.brand)) == configured.brand
    assert read_elsewhere(text.replace("direct/payin", "web/payin"))


def test_amounts_of_the_form_have_their_thousands_parted() -> None:
    (configured,) = read(WHOLE)
    form = brand_form(configured.brand)
    assert form["0.KES.max"] == "150,000.00"
    assert edit_brand(configured.brand, form) == configured.brand

    more = edit_brand(configured.brand, {**form, "0.KES.max": "1,500,000.50"})
    assert more.methods[0].limits["KES"].maximum == Money(150_000_050, "KES")


@pytest.mark.parametrize("text", ["1,5", "15,00", "1,500,00", "1500,000", "1.500,00", ",500"])
def test_a_comma_that_parts_no_thousands_is_refused(text: str) -> None:
    (configured,) = read(WHOLE)
    form = {**brand_form(configured.brand), "0.KES.max": text}
    with pytest.raises(InvalidEdit) as edited:
        edit_brand(configured.brand, form)
    assert edited.value.field == "0.KES.max"


@pytest.mark.spec("C11", "S4", "A6", "C12", "C8")
def test_a_whole_brand_is_read() -> None:
    (configured,) = read(WHOLE)
    assert configured.api_keys == ("acme-key-of-24-characters",)
    assert "acme-key-of-24-characters" not in repr(configured)
    assert configured.brand == Brand(
        id="acme",
        name="Acme Ltd",
        methods=(
            Method(
                key="mpesa_ke",
                provider="mpesa",
                provider_title="M-PESA",
                country="KE",
                operations=frozenset({Operation.DIRECT_PAYIN, Operation.DIRECT_TAXPAYOUT}),
                limits={
                    "KES": Limits(Money(1_050, "KES"), Money(15_000_000, "KES")),
                    "UGX": Limits(Money(500, "UGX"), Money(500, "UGX")),
                },
                tax_authority_id="KRA",
                tax_authority_account="572572",
            ),
        ),
        enabled=False,
        push_result_url="https://merchant.example/push",
        host="acme.example",
        reference_reuse=ReusePolicy.same_for_all(ReferenceReuse.NEVER),
        redirect_schemes=frozenset({"acmeapp"}),
        result_hosts=("*.shop.example", "pay.acme.example"),
    )


def test_what_is_left_out_has_its_default() -> None:
    (configured,) = read(SMALL)
    assert configured == ConfiguredBrand(Brand("acme", "Acme Ltd", ()), ())
    assert read("") == ()


@pytest.mark.spec("C12")
def test_reuse_is_chosen_for_all_types_or_for_each() -> None:
    chosen = {
        'reference_reuse = "unless_paid"': ReusePolicy.same_for_all(ReferenceReuse.UNLESS_PAID),
        'reference_reuse = "after_window"': ReusePolicy.same_for_all(ReferenceReuse.AFTER_WINDOW),
        'reference_reuse.payout = "unless_paid"': ReusePolicy(payout=ReferenceReuse.UNLESS_PAID),
        'reference_reuse = { payin = "never", tax = "unless_paid" }': ReusePolicy(
            ReferenceReuse.NEVER, ReferenceReuse.NEVER, ReferenceReuse.UNLESS_PAID
        ),
    }
    for line, policy in chosen.items():
        (configured,) = read(SMALL + line)
        assert configured.brand.reference_reuse == policy, line


def test_a_brand_has_limits_of_its_own() -> None:
    daily = METHOD.replace(
        'max = "150000" }', 'max = "150000", daily_payout = "500000", daily_payin = 10 }'
    )
    (configured,) = read(
        SMALL + "limits = { requests_per_second = 20, pending_payments = 1000 }" + daily
    )
    assert configured.brand.limits == BrandLimits(20, None, 1000)
    assert configured.brand.methods[0].limits["KES"].daily == {
        Type.PAYOUT: Money(50_000_000, "KES"),
        Type.PAYIN: Money(1_000, "KES"),
    }


WRONG = [
    (SMALL + "limits = 5", "limits: must be a table"),
    (SMALL + "limits.pending = 5", "Did you mean pending_payments"),
    (SMALL + "limits.pending_payments = 0", "must be a whole number from 1 to 1000000"),
    (
        SMALL + 'limits.requests_per_second = "20"',
        "limits.requests_per_second: must be a whole number",
    ),
    (SMALL + "limits.requests_burst = 20", "needs requests_per_second"),
    (
        SMALL + METHOD.replace("max =", "daily = 5, max ="),
        "Did you mean daily_payin, daily_payout or daily_tax",
    ),
    ("[[brand]", "is not TOML"),
    ('[[brands]]\nid = "acme"', "Did you mean brand?"),
    ('brand = "acme"', r"Begin each with \[\[brand\]\]"),
    ('[[brand]]\nname = "x"', "brand 1, id: is missing"),
    ('[[brand]]\nid = "a b"\nname = "x"', "1 to 64 ASCII"),
    ('[[brand]]\nid = "acme"', "brand acme, name: is missing"),
    (SMALL + SMALL, "id acme stands there twice"),
    (SMALL + "enable = true", "Did you mean enabled?"),
    (SMALL + 'enabled = "yes"', "must be true or false"),
    (SMALL + 'push_result_url = "http://merchant.example/"', "must begin with https"),
    (SMALL + 'push_result_url = "https://169.254.169.254/"', "push_result_url"),
    (SMALL + 'host = "acme.example/x"', "more than a name"),
    (SMALL + 'host = "acme.example:8443"', "more than a name"),
    (SMALL + 'host = "a b"', "Give a host name only"),
    (SMALL + 'reference_reuse = "sometimes"', "must be one of unless_paid, never, after_window"),
    (
        SMALL + 'reference_reuse.payout = "sometimes"',
        "brand acme, reference_reuse.payout: must be one of",
    ),
    (SMALL + 'reference_reuse.payouts = "never"', "Did you mean payout?"),
    (SMALL + "reference_reuse = 15", "must be one of"),
    (SMALL + 'redirect_schemes = ["javascript"]', "dangerous"),
    (SMALL + 'redirect_schemes = ["DATA"]', "dangerous"),
    (SMALL + 'redirect_schemes = ["vbscript"]', "dangerous"),
    (SMALL + 'redirect_schemes = ["file"]', "dangerous"),
    (SMALL + 'redirect_schemes = ["a:b"]', "is no scheme"),
    (SMALL + 'redirect_schemes = "acmeapp"', "must be a list of schemes"),
    (SMALL + 'result_hosts = ["https://acme.example/"]', "Give host names only"),
    (SMALL + 'result_hosts = ["*"]', "Give host names only"),
    (SMALL + 'result_hosts = ["*.example"]', "covers too much"),
    (SMALL + 'result_hosts = "acme.example"', "must be a list of host names"),
    (SMALL + 'api_keys = ["short"]', "key 1 can't be used"),
    (SMALL + 'api_keys = ["schlüssel-0001"]', "key 1 can't be used"),
    (
        SMALL + 'api_keys = ["acme-key-of-24-characters", "acme-key-of-24-characters"]',
        "an API key stands there twice",
    ),
    (SMALL + METHOD + METHOD, "method mpesa_ke in KE stands there twice"),
    (SMALL + METHOD.replace('"mpesa_ke"', f'"{"k" * 101}"'), "1 to 100 characters"),
    (SMALL + METHOD.replace('"sandbox"', '"sandbux"'), "Did you mean sandbox?"),
    (SMALL + METHOD.replace('"KE"', '"ke"'), "ISO 3166-1"),
    (SMALL + METHOD.replace("direct/payin", "direct/payn"), "Did you mean direct/payin?"),
    (SMALL + METHOD.replace('["direct/payin"]', "[]"), "there are none"),
    (
        SMALL + METHOD.replace("limits.KES", "limits.KSH"),
        "limits.KSH: ISO 4217 has no such currency",
    ),
    (SMALL + METHOD.replace('"10"', "10.5"), "limits.KES.min.*no exact amount.*quotes"),
    (SMALL + METHOD.replace('"150000"', '"150.000"'), "limits.KES.max.*part thousands"),
    (SMALL + METHOD.replace('"10"', "true"), "no exact amount"),
    (SMALL + METHOD.replace('"10"', '"ten"'), "decimal number"),
    (SMALL + METHOD.replace('"10"', '"0"'), "greater than 0"),
    (SMALL + METHOD.replace('"10"', '"10.005"'), "at most 2 decimals"),
    (SMALL + METHOD.replace('"10"', '"200000"'), "limits.KES.min: is above max"),
    (SMALL + METHOD.replace('min = "10", ', ""), "limits.KES.min: is missing"),
    (SMALL + METHOD.partition("  limits")[0], "limits: is missing"),
    (SMALL + METHOD + "  fee = 1", "there is no such key"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named_with_its_remedy(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as raised:
        read(text)
    assert str(raised.value).startswith("brands.toml")
    assert raised.value.remedy
    assert "acme-key-of-24-characters" not in str(raised.value)


def test_all_faults_of_a_file_are_named_at_once() -> None:
    """Each one is named once, also a host by which another key is judged."""
    first = SMALL + 'nmae = "x"\nhost = "a/b"\npush_result_url = "http://merchant.example"\n'
    methods = METHOD.replace('"KE"', '"ke"') + METHOD.replace('"sandbox"', '"sandbux"')
    second = SMALL.replace('"acme"', '"two"').replace('name = "Acme Ltd"', "name = 7")
    with pytest.raises(SettingsError) as raised:
        read(first + methods + second)
    places = [line.partition(": ")[0] for line in str(raised.value).splitlines()]
    assert places == [
        "brands.toml, brand acme, nmae",
        "brands.toml, brand acme, push_result_url",
        "brands.toml, brand acme, host",
        "brands.toml, brand acme, method 1, country",
        "brands.toml, brand acme, method 2, provider",
        "brands.toml, brand two, name",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('enabled = 3\n[brand]\nid = "acme"', ["enabled: there is no", "brand: must be a list"]),
        (SMALL + "typo = 1\n" + SMALL * 2, ["brand acme, typo: there is no", "acme stands there"]),
        (
            (SMALL + 'host = "a.example"\n') * 2,
            ["id acme stands there twice", "host a.example stands there twice"],
        ),
    ],
    ids=["no tables", "twice beside a fault", "twice twofold"],
)
def test_no_fault_hides_one_of_another_kind(text: str, said: list[str]) -> None:
    with pytest.raises(SettingsError) as raised:
        read(text)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True)), lines


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        read_brands_file(tmp_path / "nowhere.toml", providers=PROVIDERS, rules=RULES)
    (tmp_path / "brands.toml").write_text(SMALL)
    found = read_brands_file(tmp_path / "brands.toml", providers=PROVIDERS, rules=RULES)
    assert [each.brand.id for each in found] == ["acme"]


UNCHANGED_PLAN = BrandsPlan((), (), (), ("acme", "globex"), (), ())


async def planned(store: Store, *configured: ConfiguredBrand, prune: bool = False) -> BrandsPlan:
    return plan_brands(await store.admin.brands(), configured, RING, prune=prune)


async def test_applying_twice_does_nothing_the_second_time(store: SqliteStore) -> None:
    with_key = ConfiguredBrand(brand("acme"), ("acme-key-of-24-characters",))
    without_key = ConfiguredBrand(brand("globex"), ())
    plan = await planned(store, with_key, without_key)
    assert (plan.added, plan.changed, plan.removed) == (
        (with_key.brand, without_key.brand),
        (),
        (),
    )
    assert [key.brand for key in plan.keys_to_add] == ["acme"]
    assert plan.brands_needing_keys == ("globex",)
    assert "acme-key-of-24-characters" not in repr(plan)
    shown = await apply_plan(store, RING, plan, now=Instant(1))
    assert set(shown) == {"globex"}
    for key, of in (("acme-key-of-24-characters", "acme"), (shown["globex"], "globex")):
        found = await store.key_owner(RING.digest(key.encode()))
        assert found is not None
        assert found.brand == brand(of)
    again = await planned(store, with_key, without_key)
    assert again == UNCHANGED_PLAN


async def test_a_change_is_applied_and_only_pruning_removes(store: SqliteStore) -> None:
    both = (ConfiguredBrand(brand("acme"), ()), ConfiguredBrand(brand("globex"), ()))
    await apply_plan(store, RING, await planned(store, *both), now=Instant(1))
    renamed = ConfiguredBrand(evolve(brand("acme"), name="Acme plc"), ())
    plan = await planned(store, renamed)
    assert (plan.changed, plan.removed) == ((renamed.brand,), ())
    plan = await planned(store, renamed, prune=True)
    assert plan.removed == ("globex",)
    assert not await apply_plan(store, RING, plan, now=Instant(2))
    (left,) = await store.admin.brands()
    assert left.brand.name == "Acme plc"
    assert len(left.keys) == 1


async def test_a_retired_key_stays_retired_and_a_key_has_one_owner(store: SqliteStore) -> None:
    with_key = ConfiguredBrand(brand("acme"), ("acme-key-of-24-characters",))
    await apply_plan(store, RING, await planned(store, with_key), now=Instant(1))
    ((key,),) = [record.keys for record in await store.admin.brands()]
    assert await store.admin.retire_key("acme", key.id, now=Instant(2))
    assert await planned(store, with_key) == evolve(UNCHANGED_PLAN, unchanged=("acme",))
    with pytest.raises(SettingsError, match="brand acme's already"):
        await planned(store, ConfiguredBrand(brand("globex"), ("acme-key-of-24-characters",)))


@pytest.mark.spec("A5")
async def test_a_new_key_of_the_file_is_long_enough_and_a_stored_one_stays(
    store: SqliteStore,
) -> None:
    short = ConfiguredBrand(brand("acme"), ("seventeen-letters",))
    with pytest.raises(SettingsError, match="key 1 has fewer than 24 characters") as caught:
        await planned(store, short)
    assert "seventeen" not in str(caught.value)
    await store.admin.save_brands([brand("acme")])
    assert await add_key(store, RING, "acme", "seventeen-letters", now=Instant(1))
    assert (await planned(store, short)).keys_to_add == ()


async def test_a_disabled_brand_stays_disabled_unless_staff_apply_a_file_that_enables_it(
    store: SqliteStore,
) -> None:
    silent, enabling = (
        ConfiguredBrand(brand("acme"), ()),
        ConfiguredBrand(brand("acme"), (), enabled=True),
    )
    await store.admin.save_brands([evolve(brand("acme"), enabled=False)])
    current = await store.admin.brands()
    assert plan_brands(current, [silent], RING, prune=False).unchanged == ("acme",)
    assert plan_brands(current, [enabling], RING, prune=False, may_enable=False).unchanged == (
        "acme",
    )
    assert plan_brands(current, [enabling], RING, prune=False).changed == (brand("acme"),)


async def test_a_new_brand_does_not_get_the_payments_of_a_removed_one_by_accident(
    store: SqliteStore,
) -> None:
    await store.admin.save_brands([brand("acme")])
    await submit_batch(store, (creation(1), NOON))
    await store.admin.save_brands([], removed=["acme"])
    plan = await planned(
        store, ConfiguredBrand(brand("acme"), ()), ConfiguredBrand(brand("globex"), ())
    )
    with pytest.raises(SettingsError, match="--reuse-id acme"):
        await check_new_ids(store, plan)
    await check_new_ids(store, plan, reused=["acme"])
