"""Checks of how processes learn that brands, keys or closed providers have changed, and staff that
they know it."""

from __future__ import annotations

from attrs import evolve

from mmo_trio.storage.interface.admin_types import ClosedProvider, Configuration, ServingProcess
from tests.conformance.driver import NOON, OpenStore, after_noon
from tests.conformance.inputs import brand


async def check_changes_raise_the_generation(open_store: OpenStore) -> None:
    """Every change of a brand, a key or a closed provider raises the generation, and what changes
    nothing does not."""
    async with open_store() as store:
        generations = [(await store.configuration()).generation]

        async def note() -> bool:
            """Return whether the generation has grown since the last time."""
            generations.append((await store.configuration()).generation)
            return generations[-1] > generations[-2]

        await store.admin.save_brands([brand("acme")])
        assert await note()
        assert await store.admin.add_key("acme", b"digest", b"sealed", now=NOON)
        [acme] = await store.admin.brands()
        await note()
        assert await store.admin.retire_key("acme", acme.keys[0].id, now=after_noon(1))
        assert await note()
        assert not await store.admin.retire_key("acme", acme.keys[0].id, now=after_noon(2))
        assert not await note()
        assert await store.admin.mark_key_leaked("acme", acme.keys[0].id, now=after_noon(3))
        assert await note()
        closed = ClosedProvider("momo", NOON, "ada", "out of order")
        assert await store.admin.close_provider(closed)
        assert await note()
        assert not await store.admin.close_provider(evolve(closed, closed_by="bob"))
        assert not await note()
        await store.admin.save_brands((), removed=["acme"])
        assert await note()
    async with open_store() as store:
        assert await store.configuration() == Configuration(generations[-1], frozenset({"momo"}))
        assert await store.admin.open_provider("momo")
        assert await note()
        assert not await store.admin.open_provider("momo")
        assert not await note()
        assert (await store.configuration()).closed_providers == frozenset()


async def check_generation_in_use(open_store: OpenStore) -> None:
    """A process that serves is known by its name and by the generation that it uses."""
    async with open_store() as store:
        [unnamed] = await store.serving_processes()
        assert unnamed.generation is None
        for generation in (4, 4, 5):
            await store.use_configuration(generation, process="process 7 on gw1")
            assert list(await store.serving_processes()) == [
                ServingProcess("process 7 on gw1", generation)
            ]


async def check_generations_of_several_processes(open_store: OpenStore) -> None:
    """Each process that is alive is listed, and none that has ended."""
    async with open_store() as one:
        async with open_store() as other:
            await one.use_configuration(2, process="one")
            await other.use_configuration(3, process="other")
            found = await one.serving_processes()
            assert sorted((each.name, each.generation) for each in found) == [
                ("one", 2),
                ("other", 3),
            ]
            assert list(await other.serving_processes()) == list(found)
        assert list(await one.serving_processes()) == [ServingProcess("one", 2)]
