"""Brings the brands of a file into the store: first a plan to show, then its application."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import Factory, evolve, field, frozen

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.values.clock import Instant
from mmo_sansio.values.fields import SettingsError
from mmo_sansio.values.model import Brand, Method, Status
from mmo_trio.brands.description import BrandDifference, brand_differences, method_name
from mmo_trio.brands.file import (
    API_KEY_LENGTH_MIN,
    SANDBOX_API_KEY_LENGTH_MIN,
    ConfiguredBrand,
    read_brands_file,
)
from mmo_trio.brands.keyring import KeyRing, generate_api_key
from mmo_trio.storage.interface.admin_types import AuditEvent, AuditKey, BrandRecord
from mmo_trio.storage.sql.store import Store

# Brands that one sentence names.
NAMES_SHOWN_MAX = 5

# Pending payments of a brand that are counted.
PENDING_SHOWN_MAX = 1_000


class BrandsOvertaken(Exception):
    """Somebody has changed brands since the plan was made."""

    def __init__(self, brands: Sequence[str]) -> None:
        super().__init__(
            f"Nothing is applied: somebody has changed {', '.join(brands)} meanwhile. Run the "
            f"command again, and look at what changes."
        )


class BrandRemoved(Exception):
    """A brand is there no more, as somebody has removed it meanwhile."""

    def __init__(self, brand: str) -> None:
        super().__init__(f"There is no brand {brand} any more: it was removed meanwhile.")


@frozen
class NewApiKey:
    """A key of the file that the store doesn't have yet."""

    brand: str
    api_key: str = field(repr=False)


@frozen
class BrandsPlan:
    """Describes the changes that a file makes to the store."""

    added: tuple[Brand, ...]
    changed: tuple[Brand, ...]
    removed: tuple[str, ...]
    """Ids; their keys go with them. Empty unless pruning."""
    unchanged: tuple[str, ...]
    keys_to_add: tuple[NewApiKey, ...]
    brands_needing_keys: tuple[str, ...]
    """The ids of brands that have no key in use, and none in the file."""
    differences: tuple[BrandDifference, ...] = ()
    """What changes in the changed brands."""
    replaced: Mapping[str, Brand | None] = Factory(dict)
    """What is in force of each brand that is added, changed or removed; None: it is not there. Only
    over these versions is the plan carried out."""
    kept_methods: tuple[str, ...] = ()
    """`BRAND: METHOD (COUNTRY)` of the methods that the file does not have; empty when pruning."""


def plan_brands(
    current: Sequence[BrandRecord],
    configured: Sequence[ConfiguredBrand],
    keyring: KeyRing,
    *,
    prune: bool,
    is_sandbox: bool = False,
    may_enable: bool = True,
) -> BrandsPlan:
    """Return the changes that bring the brands of a file into the store.

    Brands and methods that the file does not have are removed with `prune` only. A disabled brand
    stays disabled where the file says nothing about it, and with `may_enable` False in any case.
    Keys are only added: a retired one stays retired, and one that the file doesn't name stays in
    use. Raises SettingsError when a key of the file belongs to another brand, or when a new one is
    too short."""
    # 1. Brands that are there already, each with what staff have decided meanwhile.
    stored = {record.brand.id: record for record in current}
    known = [
        _with_present_state(entry, stored[entry.brand.id].brand, may_enable=may_enable)
        for entry in configured
        if entry.brand.id in stored
    ]

    # 2. Methods that the file does not have stay unless it prunes: a forgotten line takes none
    # away.
    missing = {
        brand.id: [] if prune else _removed_methods(stored[brand.id].brand, brand)
        for brand in known
    }
    known = [evolve(brand, methods=(*brand.methods, *missing[brand.id])) for brand in known]

    # 3. What is new, what differs, what goes.
    names = {entry.brand.id for entry in configured}
    added = tuple(entry.brand for entry in configured if entry.brand.id not in stored)
    changed = tuple(brand for brand in known if stored[brand.id].brand != brand)
    if prune:
        removed = tuple(id for id in stored if id not in names)
    else:
        removed = ()

    return BrandsPlan(
        added=added,
        changed=changed,
        removed=removed,
        unchanged=tuple(brand.id for brand in known if stored[brand.id].brand == brand),
        keys_to_add=tuple(_missing_keys(current, configured, keyring, is_sandbox=is_sandbox)),
        brands_needing_keys=tuple(
            entry.brand.id
            for entry in configured
            if not entry.api_keys and not _has_key_in_use(stored.get(entry.brand.id))
        ),
        differences=tuple(
            one for brand in known for one in brand_differences(stored[brand.id].brand, brand)
        ),
        replaced={
            **dict.fromkeys(brand.id for brand in added),
            **{id: stored[id].brand for id in (*(brand.id for brand in changed), *removed)},
        },
        kept_methods=tuple(
            f"{id}: {method_name(method)}" for id, kept in missing.items() for method in kept
        ),
    )


def _with_present_state(configured: ConfiguredBrand, stored: Brand, *, may_enable: bool) -> Brand:
    """Return the brand as the file describes it, disabled if staff have disabled it and the file
    does not enable it."""
    stays_disabled = not stored.enabled and not (configured.enabled and may_enable)
    if stays_disabled:
        return evolve(configured.brand, enabled=False)
    return configured.brand


def _removed_methods(before: Brand, after: Brand) -> Sequence[Method]:
    # A method is known by both: one key may occur once for each country.
    kept = {(method.key, method.country) for method in after.methods}
    return [method for method in before.methods if (method.key, method.country) not in kept]


async def check_new_ids(store: Store, plan: BrandsPlan, *, reused: Collection[str] = ()) -> None:
    """Raise SettingsError when a new brand would get the payments of a removed one, whose id it
    has, unless the id is `reused` on purpose."""
    for brand in plan.added:
        # Payments belong to an id: a new merchant would read those of the old one.
        if brand.id not in reused and await store.admin.find_transactions(brand=brand.id, limit=1):
            fault = (
                "an earlier brand with this id has payments, which the new one would see "
                "as its own."
            )
            remedy = (
                f"Use another id; if it is the same merchant, run `mmo brands apply FILE "
                f"--reuse-id {brand.id}`."
            )
            raise SettingsError(f"brand {brand.id}, id", fault, remedy)


async def check_removed(store: Store, plan: BrandsPlan) -> None:
    """Raise SettingsError when a brand would be removed that has pending payments: nobody could
    call it back."""
    for id in plan.removed:
        pending = await store.admin.find_transactions(
            brand=id, status=Status.PENDING, limit=PENDING_SHOWN_MAX
        )
        if pending:
            if len(pending) == PENDING_SHOWN_MAX:
                more = "or more "
            else:
                more = ""
            fault = f"it cannot be removed while {len(pending)} {more}of its payments are pending."
            remedy = (
                f"Run `mmo brands disable {id}`, and remove it when they have ended (`mmo tx list "
                f"--brand {id}`)."
            )
            raise SettingsError(f"brand {id}", fault, remedy)


def _missing_keys(
    current: Sequence[BrandRecord],
    configured: Sequence[ConfiguredBrand],
    keyring: KeyRing,
    *,
    is_sandbox: bool,
) -> Iterator[NewApiKey]:
    length_min = SANDBOX_API_KEY_LENGTH_MIN if is_sandbox else API_KEY_LENGTH_MIN

    # Retired ones as well: a key that was another brand's must not come back.
    owners = {key.digest: key.brand for record in current for key in record.keys}
    for brand in configured:
        where = f"brand {brand.brand.id}, api_keys"
        for number, api_key in enumerate(brand.api_keys, 1):
            digests = keyring.digests(api_key.encode())
            # Under any of the master keys, as a rotation may be under way.
            owner = next((owners[digest] for digest in digests if digest in owners), None)
            if owner is None and len(api_key) < length_min:
                fault = f"key {number} has fewer than {length_min} characters."
                raise SettingsError(
                    where, fault, "Take it from a generator, or leave it out: one is made."
                )
            if owner is None:
                yield NewApiKey(brand.brand.id, api_key)
            elif owner != brand.brand.id:
                raise SettingsError(
                    where, f"a key is brand {owner}'s already.", "Give another one."
                )


async def apply_plan(
    store: Store,
    keyring: KeyRing,
    plan: BrandsPlan,
    *,
    now: Instant,
    event: tuple[AuditEvent, AuditKey] | None = None,
) -> Mapping[str, str]:
    """Carry out the plan; return the new keys by brand, the only time that they can be seen (A5).

    Brands are saved at once, then keys one by one; after a fault in between, a new plan has the
    missing changes. Raises BrandRemoved, and BrandsOvertaken where a brand is not in the version
    any more that the plan was made from: then nothing is done."""
    # Brands first, in one commit with the row of the audit log; keys need their brand.
    if plan.replaced:
        overtaken = await store.admin.save_brands(
            (*plan.added, *plan.changed), removed=plan.removed, replaced=plan.replaced, event=event
        )
        if overtaken:
            raise BrandsOvertaken(overtaken)
    elif event is not None:
        await store.admin.append_audit(*event)

    for new_key in plan.keys_to_add:
        await add_key(store, keyring, new_key.brand, new_key.api_key, now=now)

    return {
        brand: await create_key(store, keyring, brand, now=now)
        for brand in plan.brands_needing_keys
    }


async def create_key(store: Store, keyring: KeyRing, brand: str, *, now: Instant) -> str:
    """Make another key for the brand, and return it. Raises BrandRemoved."""
    api_key = generate_api_key()
    await add_key(store, keyring, brand, api_key, now=now)
    return api_key


async def add_key(
    store: Store, keyring: KeyRing, brand: str, api_key: str, *, now: Instant
) -> bool:
    """Add the key to the brand; return False if it has it already. Raises BrandRemoved."""
    octets = api_key.encode()
    try:
        return await store.admin.add_key(
            brand, keyring.digest(octets), keyring.seal(brand, octets), now=now
        )
    except KeyError:
        raise BrandRemoved(brand) from None


def _has_key_in_use(record: BrandRecord | None) -> bool:
    return record is not None and any(key.retired_at is None for key in record.keys)


async def apply_brands_file(
    file: Path,
    store: Store,
    keyring: KeyRing,
    provider_titles: Mapping[str, str],
    rules: EgressRules,
    *,
    now: Instant,
    is_sandbox: bool,
    elsewhere: Collection[str] = (),
) -> Mapping[str, str]:
    """Store the brands of this file before the service starts; a brand that staff have disabled
    stays disabled, also one that they disable meanwhile.

    Return the keys that a sandbox makes for brands without one, by brand. Raises SettingsError,
    elsewhere also when a brand would have no key."""
    configured = read_brands_file(file, providers=provider_titles, rules=rules, elsewhere=elsewhere)
    while True:
        plan = await _plan_start(file, configured, store, keyring, is_sandbox=is_sandbox)
        try:
            return await apply_plan(store, keyring, plan, now=now)
        except BrandsOvertaken:
            continue  # Somebody, or another process that starts, has changed something.


async def _plan_start(
    file: Path,
    configured: Sequence[ConfiguredBrand],
    store: Store,
    keyring: KeyRing,
    *,
    is_sandbox: bool,
) -> BrandsPlan:
    plan = plan_brands(
        await store.admin.brands(),
        configured,
        keyring,
        prune=False,
        is_sandbox=is_sandbox,
        may_enable=False,
    )
    await check_new_ids(store, plan)

    # A key can be shown only once, and nobody reads what a service prints at its start (A5).
    if (keyless := plan.brands_needing_keys) and not is_sandbox:
        if len(keyless) > NAMES_SHOWN_MAX:
            more = f" and {len(keyless) - NAMES_SHOWN_MAX} more"
        else:
            more = ""
        raise SettingsError(
            f"{file}",
            f"these brands have no API key: {', '.join(keyless[:NAMES_SHOWN_MAX])}{more}.",
            "Give them api_keys, or run `mmo brands apply`, which makes keys and shows them.",
        )

    return plan
