"""Puts an HTTP server and a client on two machines of a simulated network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import Factory, define

from mmo_sansio.http.egress_rules import EgressRules
from mmo_sansio.http.exchange import ExchangeResult, NoResponseReceived, ResponseReceived
from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_sansio.http.messages import HttpRequest, HttpResponse, RequestHead
from mmo_trio.http.client.client import HttpClient
from mmo_trio.http.handler import Admitted, RequestContext
from mmo_trio.http.server.connection import ListenerContext
from mmo_trio.http.server.listener import serve_http
from mmo_trio.system.ids import request_id_generator
from tests.simulation.network.identities import ServerIdentity
from tests.simulation.network.machines import SimulatedNetwork
from tests.simulation.world.process import SimulatedProcess
from tests.simulation.world.run import Simulation, run_simulated

NAME = "shop.example"
ADDRESS = "203.0.113.7"
HTTPS = 443
IDENTITY = ServerIdentity(frozenset({NAME}))
URL = f"https://{NAME}/callback"


@define(eq=False)
class TwoMachines:
    """A client's process and a server's."""

    simulation: Simulation
    network: SimulatedNetwork
    client: SimulatedProcess
    server: SimulatedProcess
    nursery: trio.Nursery
    bodies: list[bytes] = Factory(list)
    """What the server has received."""
    clients: list[str] = Factory(list)
    """The addresses of those who sent it."""
    answer: bytes = b"thanks"
    work_s: float = 0.0
    """How long the server takes for an answer."""

    async def admit(self, head: RequestHead, context: RequestContext) -> HttpResponse | Admitted:
        async def respond(body: bytes) -> HttpResponse:
            self.bodies.append(body)
            self.clients.append(context.client)
            await trio.sleep(self.work_s)
            return HttpResponse(200, (), self.answer)

        return Admitted(1_000_000, respond)

    def serve(self, identity: ServerIdentity | None = IDENTITY) -> None:
        """Let the server's process serve HTTPS."""
        listener = self.server.listen(HTTPS, identity=identity)

        async def run(_: SimulatedProcess) -> None:
            context = ListenerContext(
                self,
                ListenerLimits(),
                error_docs_url="https://docs.example",
                mint_request_id=request_id_generator(),
                drain=trio.Event(),
            )
            await serve_http(context, [listener])

        self.nursery.start_soon(self.server.run, run)

    async def exchange(
        self, *, url: str = URL, body: bytes = b"paid", deadline_s: float = 15.0
    ) -> ExchangeResult:
        """Send a request from the client's machine."""
        http = HttpClient(
            rules=EgressRules(), network=self.client.network, resolver=self.client.network.look_up
        )
        request = HttpRequest("POST", url.encode(), (), body)
        return await http.exchange(request, skip_egress_rules=True, deadline_s=deadline_s)

    async def failure(self, *, url: str = URL, deadline_s: float = 15.0) -> str:
        """Send a request that gets no response; return why."""
        result = await self.exchange(url=url, deadline_s=deadline_s)
        assert isinstance(result, NoResponseReceived)
        return result.detail

    async def success(self, *, body: bytes = b"paid", deadline_s: float = 15.0) -> bytes:
        """Send a request that gets a whole response; return its body."""
        result = await self.exchange(body=body, deadline_s=deadline_s)
        assert isinstance(result, ResponseReceived), result
        assert result.is_complete
        return result.body


def simulate(test: Callable[[TwoMachines], Awaitable[None]], *, seed: int = 1) -> TwoMachines:
    """Run a test in a simulation with two machines; return what is left."""

    async def main(simulation: Simulation) -> TwoMachines:
        network = SimulatedNetwork(simulation.clock, simulation.choices.of("network"))
        network.names.set_addresses(NAME, [ADDRESS])
        client = SimulatedProcess(
            "gateway", network.add_machine("gateway", "10.0.0.1"), simulation.tasks
        )
        server = SimulatedProcess("shop", network.add_machine("shop", ADDRESS), simulation.tasks)
        async with trio.open_nursery() as nursery:
            machines = TwoMachines(simulation, network, client, server, nursery)
            await test(machines)
            client.kill()
            server.kill()
            nursery.cancel_scope.cancel()
        assert not client.ends, "a connection is left"
        assert not server.ends, "a connection is left"
        return machines

    return run_simulated(main, seed=seed)
