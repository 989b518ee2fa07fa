"""Every limit of the listener: nobody holds a connection longer than its phase allows, and the
listener outlives a want of room."""

from __future__ import annotations

import errno
import gc
import os
import socket
import subprocess
import sys
import textwrap
import weakref
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from mmo_sansio.http.listener_limits import ListenerLimits
from mmo_trio.http.server.connection import ListenerContext, ServerConnection
from mmo_trio.http.server.connection_limits import AcceptRules
from mmo_trio.http.server.listener import REJECTIONS_MAX, serve_http
from tests.support.http_listener import (
    ERROR_DOCS,
    Client,
    NoAnswerError,
    RunningListener,
    SmallService,
    assert_problem,
    get,
    listening,
    open_descriptors,
    post,
)
from tests.support.time_limits import HANGS_AFTER_S

PATIENT = ListenerLimits(
    idle_timeout_s=9, head_timeout_s=9, body_timeout_s=9, write_timeout_s=9, linger_timeout_s=9
)
"""Limits that no test reaches but those it shortens."""
SOON_S = 0.5
"""The limit that is tested."""
STALL_S = 1.0
"""The same where the kernel's time counts, which is not virtual: so long may a busy machine
stall."""


@asynccontextmanager
async def listening_with(**limits: Any) -> AsyncIterator[RunningListener]:
    """A listener with these limits and else patient ones."""
    async with listening(attrs.evolve(PATIENT, **limits)) as here:
        yield here


@pytest.mark.spec("V1")
def test_the_limits_are_those_of_the_design() -> None:
    limits = ListenerLimits()
    assert limits.head_timeout_s == 5
    assert limits.body_timeout_s == 10
    assert limits.write_timeout_s == 30
    assert limits.idle_timeout_s == 75
    assert limits.short_idle_timeout_s == 5
    assert limits.handshake_timeout_s == 10
    assert limits.head.target_bytes >= 8192 + len("/gateway/mmo/v2/status/mref/")


async def drip(client: Client, data: bytes, at_once: int = 0) -> None:
    """Send byte after byte, each well within any limit, until the other side has had enough."""
    await client.send(data[:at_once])
    try:
        for byte in data[at_once:]:
            await client.send(bytes((byte,)))
            await trio.sleep(SOON_S / 10)
    except trio.BrokenResourceError:
        pass


@pytest.mark.spec("P4")
@pytest.mark.parametrize("after_one", [False, True])
async def test_a_slow_head_is_a_408_however_steadily_it_drips(
    after_one: bool, jumping_clock: MockClock
) -> None:
    async with listening_with(head_timeout_s=SOON_S) as here, trio.open_nursery() as nursery:
        client = await here.connect()
        if after_one:
            await client.ask(get())
        nursery.start_soon(drip, client, b"GET / HTTP/1.1\r\nX: " + b"x" * 2000)
        answer = await client.answer()
        assert_problem(answer, 408, "request_timeout")
        assert answer.is_last
        assert await client.rest() == b""
        nursery.cancel_scope.cancel()


@pytest.mark.spec("P4")
async def test_line_ends_after_a_body_begin_no_request(jumping_clock: MockClock) -> None:
    async with listening_with(head_timeout_s=SOON_S) as here:
        client = await here.connect()
        for line_ends in (b"\r\n", b"\r\n\r\n", b""):
            assert (await client.ask(post(b"{}") + line_ends)).status == 200
            await client.send(line_ends)
            await trio.sleep(2 * SOON_S)
        assert (await client.ask(get())).status == 200


@pytest.mark.spec("P4")
async def test_what_a_closed_connection_held_goes_with_it() -> None:
    def open_connections() -> list[weakref.ref[ServerConnection]]:
        found = [each for each in gc.get_objects() if isinstance(each, ServerConnection)]
        return [weakref.ref(each) for each in found]

    async with listening_with() as here:
        gc.collect()
        before = len(open_connections())
        client = await here.connect()
        await client.send(post(bytes(1_000))[:-1])
        await trio.testing.wait_all_tasks_blocked(0.05)
        connections = open_connections()
        assert len(connections) == before + 1
        gc.disable()
        try:
            await client.stream.aclose()
            with trio.fail_after(HANGS_AFTER_S):
                while sum(each() is not None for each in connections) > before:
                    await trio.testing.wait_all_tasks_blocked(0.01)
        finally:
            gc.enable()


@pytest.mark.spec("P4")
async def test_a_slow_body_is_a_408_however_steadily_it_drips(jumping_clock: MockClock) -> None:
    async with listening_with(body_timeout_s=SOON_S) as here, trio.open_nursery() as nursery:
        client = await here.connect()
        nursery.start_soon(drip, client, post(b"x" * 2000)[:-1], 90)
        answer = await client.answer()
        assert_problem(answer, 408, "request_timeout")
        assert answer.is_last
        assert await client.rest() == b""
        assert here.service.bodies == []
        nursery.cancel_scope.cancel()


@pytest.mark.spec("P4")
async def test_a_client_invited_to_send_its_body_that_sends_none_is_a_408(
    jumping_clock: MockClock,
) -> None:
    async with listening_with(body_timeout_s=SOON_S) as here:
        client = await here.connect()
        head = get(b"/", b"Content-Length: 3", b"Expect: 100-continue", method=b"POST")
        assert (await client.ask(head)).status == 100
        assert_problem(await client.answer(), 408, "request_timeout")


async def pester(client: Client) -> None:
    """Send on without reading; raises BrokenResourceError once the other side has hung up."""
    while True:
        await client.send(b"x" * 4096)
        await trio.sleep(SOON_S / 10)


async def test_a_slow_reader_is_cut_off(jumping_clock: MockClock) -> None:
    async with listening_with(write_timeout_s=SOON_S) as here:
        client = await here.connect()
        await client.send(get(b"/large"))
        with pytest.raises(trio.BrokenResourceError):
            await pester(client)
        assert here.service.heads[0].target == b"/large"


async def test_a_reader_who_keeps_up_gets_a_large_answer() -> None:
    async with listening_with() as here:
        assert len((await here.ask(get(b"/large"))).body) == 20_000_000


async def test_a_merchant_that_does_not_read_costs_another_one_behind_its_proxy_nothing() -> None:
    async with listening_with(write_buffer_bytes=50_000_000, write_timeout_s=HANGS_AFTER_S) as here:
        modest, *greedy = [await here.connect() for _ in range(3)]
        await modest.send(get(b"/large", b"X-Brand: modest"))
        modest.unread += await modest.stream.receive_some(1)
        for client in greedy:
            await client.send(get(b"/large", b"X-Brand: greedy"))
            await client.stream.receive_some(1)

        assert len((await modest.answer()).body) == 20_000_000
        with pytest.raises(trio.BrokenResourceError):
            await pester(greedy[0])


@pytest.mark.parametrize("after_one", [False, True])
async def test_an_idle_connection_is_closed_without_a_word(
    after_one: bool, jumping_clock: MockClock
) -> None:
    async with listening_with(idle_timeout_s=SOON_S) as here:
        client = await here.connect()
        if after_one:
            await client.ask(get())
        assert await client.is_closed()


async def test_a_request_that_came_in_time_is_answered_by_a_process_that_was_late(
    mock_clock: MockClock,
) -> None:
    async with listening_with(idle_timeout_s=SOON_S) as here:
        clients = [await here.connect() for _ in range(12)]
        for client in clients:
            await client.ask(get())
        await wait_all_tasks_blocked()

        for client in clients:
            assert isinstance(client.stream, trio.SocketStream)
            os.write(client.stream.socket.fileno(), get())
        mock_clock.jump(SOON_S + 1)  # Nothing of this process ran meanwhile.

        assert [(await each.answer()).status for each in clients] == [200] * 12


async def test_no_deadline_of_the_connection_cuts_the_service_short(
    jumping_clock: MockClock,
) -> None:
    soon = attrs.evolve(
        PATIENT, idle_timeout_s=SOON_S, head_timeout_s=SOON_S, body_timeout_s=SOON_S
    )
    async with listening(soon) as here:
        client = await here.connect()
        await client.send(post(b"abc", target=b"/wait"))
        await here.service.at_work.wait()
        await trio.sleep(SOON_S * 2)
        here.service.go_on.set()
        assert (await client.answer()).json["length"] == 3


async def test_a_client_that_never_stops_sending_is_cut_off_at_last(
    jumping_clock: MockClock,
) -> None:
    async with listening_with(linger_timeout_s=SOON_S) as here:
        client = await here.connect()
        assert (await client.ask(b"bad\r\n")).status == 400
        with pytest.raises(trio.BrokenResourceError):
            await pester(client)


@pytest.mark.spec("P4", "P5")
async def test_a_connection_too_many_is_a_503_and_closed() -> None:
    async with listening_with(connections=2) as here:
        first, second = [await here.connect() for _ in range(2)]
        for busy in (first, second):
            await busy.send(get(b"/wait"))
            await here.service.at_work.wait()
            here.service.at_work = trio.Event()
        refusal = await (await here.connect()).answer()
        assert_problem(refusal, 503, "service_unavailable")
        assert int(refusal.headers["retry-after"]) >= 1
        assert refusal.is_last
        here.service.go_on.set()
        assert (await first.answer()).status == 200
        assert (await (await here.connect()).ask(get())).status == 200


@pytest.mark.parametrize("silence", [b"", b"GET / HTT", get()])
async def test_a_full_listener_makes_room_where_most_wait_longest(silence: bytes) -> None:
    async with listening_with(connections=4) as here:
        one = Client(await trio.open_tcp_stream("127.0.0.1", here.port, local_address="127.0.0.2"))
        assert (await one.ask(get())).status == 200
        many = [await here.connect() for _ in range(3)]
        for client in many:
            await client.send(silence)
            if silence == get():
                await client.answer()
        newcomer = Client(
            await trio.open_tcp_stream("127.0.0.1", here.port, local_address="127.0.0.3")
        )
        assert (await newcomer.ask(get())).status == 200
        assert await many[0].is_closed()
        for client in (one, newcomer):
            assert (await client.ask(get())).status == 200


async def test_a_flood_above_the_limit_is_answered_503_as_long_as_it_listens() -> None:
    async with listening_with(connections=1) as here:
        only = await here.connect()
        await only.send(get(b"/wait"))
        await here.service.at_work.wait()
        for _ in range(REJECTIONS_MAX + 5):
            refused = await here.connect()
            assert (await refused.answer()).status == 503
            await trio.aclose_forcefully(refused.stream)
        deaf = [await here.connect() for _ in range(REJECTIONS_MAX)]
        assert await (await here.connect()).is_closed(), "without a word"
        for client in deaf:
            assert (await client.answer()).status == 503


@pytest.mark.spec("P4")
async def test_a_connection_too_many_from_one_address_is_a_503() -> None:
    async with listening_with(connections_per_address=1) as here:
        first = await here.connect()
        assert (await first.ask(get())).status == 200
        assert_problem(await (await here.connect()).answer(), 503, "service_unavailable")
        elsewhere = await trio.open_tcp_stream("127.0.0.1", here.port, local_address="127.0.0.2")
        assert (await Client(elsewhere).ask(get())).status == 200
        await elsewhere.aclose()


async def test_when_connections_run_short_the_idle_ones_go_sooner(jumping_clock: MockClock) -> None:
    async with listening_with(connections=8, short_idle_timeout_s=SOON_S) as here:
        few = [await here.connect() for _ in range(6)]
        for client in few:
            await client.ask(get())
        seventh = await here.connect()
        await seventh.send(get(b"/wait"))
        for client in few:
            assert await client.is_closed()
        here.service.go_on.set()
        assert (await seventh.answer()).status == 200, "it was not idle"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_a_listener_outlives_a_want_of_descriptors(
    number: int, monkeypatch: pytest.MonkeyPatch, jumping_clock: MockClock
) -> None:
    accept = trio.SocketListener.accept
    failures = iter([OSError(number, "no more")] * 2)

    async def scarce(self: trio.SocketListener) -> trio.SocketStream:
        if failure := next(failures, None):
            raise failure
        return await accept(self)

    with capture_logs() as lines:
        async with listening_with(short_idle_timeout_s=SOON_S) as here:
            idle = await here.connect()
            await idle.ask(get())
            monkeypatch.setattr(trio.SocketListener, "accept", scarce)
            for _ in range(2):
                assert (await here.ask(get())).status == 200
            assert await idle.is_closed()
    assert ("accept_paused", errno.errorcode[number]) in [
        (line["event"], line.get("error")) for line in lines
    ]


def accept_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a listener fail to accept a connection that is there, so that it pauses."""
    accept = trio.SocketListener.accept
    failures = iter([OSError(errno.EMFILE, "no more")])

    async def accept_after_a_pause(self: trio.SocketListener) -> trio.SocketStream:
        await trio.lowlevel.wait_readable(self.socket.fileno())
        if failure := next(failures, None):
            raise failure
        return await accept(self)

    monkeypatch.setattr(trio.SocketListener, "accept", accept_after_a_pause)


@pytest.mark.spec("P5", "C12")
async def test_a_request_that_waited_too_long_to_be_accepted_is_a_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client may have given it up, and sent it to another process."""
    accept_late(monkeypatch)
    monkeypatch.setattr("mmo_trio.http.server.listener.ACCEPT_PAUSE_S", 2 * STALL_S)
    async with listening_with(accept_timeout_s=STALL_S) as here:
        client = await here.connect()
        await client.send(post(b"abc"))
        assert_problem(await client.answer(), 503, "service_unavailable")
        assert await client.is_closed()
        assert here.service.heads == []
        assert (await here.ask(get())).status == 200, "the next one has not waited"


async def test_a_request_that_waited_a_little_to_be_accepted_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept_late(monkeypatch)
    async with listening_with() as here:
        assert (await here.ask(post(b"abc"))).json["length"] == 3


async def test_an_accept_that_fails_for_another_reason_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(self: trio.SocketListener) -> trio.SocketStream:
        raise OSError(errno.EBADF, "closed under us")

    monkeypatch.setattr(trio.SocketListener, "accept", broken)
    with pytest.RaisesGroup(
        pytest.RaisesExc(OSError, match="closed under us"), flatten_subgroups=True
    ):
        async with listening_with():
            await trio.sleep_forever()


SCARCE = """
    import resource, sys, trio
    from mmo_sansio.http.listener_limits import ListenerLimits
    from mmo_trio.system.logs import configure_logs
    from tests.support.http_listener import get, listening

    async def main():
        limits = ListenerLimits(idle_timeout_s=3600, short_idle_timeout_s=1)
        async with listening(limits) as here:
            print(here.port, flush=True)
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
            await trio.sleep_forever()

    configure_logs(log_format="console", level="info")
    trio.run(main)
"""


async def test_a_process_out_of_descriptors_sends_the_idle_away_and_serves_on(
    tmp_path: Path,
) -> None:
    """The real thing: forty descriptors, sixty clients that stay."""
    root = Path(__file__).parents[4]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", textwrap.dedent(SCARCE)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=root,
            env={"PYTHONPATH": f"{root / 'src'}:{root}"},
        )
    try:
        assert process.stdout is not None
        with trio.fail_after(HANGS_AFTER_S):
            port = int(await process.stdout.receive_some())
            crowd = [Client(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(60)]
            latecomer = Client(await trio.open_tcp_stream("127.0.0.1", port))
            assert (await latecomer.ask(get())).status == 200
            for client in (*crowd, latecomer):
                await trio.aclose_forcefully(client.stream)
    finally:
        process.kill()
        await process.wait()
    assert "EMFILE" in log.read_text()


async def test_a_listener_leaves_descriptors_to_what_is_more_important() -> None:
    """It stops accepting while few are left, and goes on when some are free again."""
    service = SmallService()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with trio.fail_after(HANGS_AFTER_S), ExitStack() as others:
        reserved = open_descriptors() + 20
        rules = AcceptRules(descriptors_max=reserved)
        async with trio.open_nursery() as nursery:
            context = ListenerContext(
                service,
                PATIENT,
                error_docs_url=ERROR_DOCS,
                mint_request_id=lambda: "request-1",
                drain=trio.Event(),
                accept_rules=rules,
            )
            await nursery.start(serve_http, context, [listener])
            with capture_logs() as lines:
                while others.enter_context(socket.socket()).fileno() < reserved:
                    # Numbers below may have become free: what other tests left is closed at some
                    # time.
                    pass
                client = Client(await trio.open_tcp_stream("127.0.0.1", port))
                assert await client.is_closed()
            assert {"event": "accept_paused", "error": "reserve", "log_level": "warning"} in lines
            await trio.aclose_forcefully(client.stream)
            others.close()
            while True:
                client = Client(await trio.open_tcp_stream("127.0.0.1", port))
                try:
                    assert (await client.ask(get())).status == 200
                    break
                except (NoAnswerError, trio.BrokenResourceError):
                    pass
                finally:
                    await trio.aclose_forcefully(client.stream)
            nursery.cancel_scope.cancel()
