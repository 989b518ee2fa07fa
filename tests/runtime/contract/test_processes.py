"""Several processes as one service: real processes, real signals, one port."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme
from attrs import Factory, define
from prometheus_client.parser import text_string_to_metric_families

from mmo_trio.brands.master_key import create_master_key
from tests.runtime.contract.test_kill import KEY, creation
from tests.support.http_listener import Client, NoAnswerError, get
from tests.support.merchant import TIMEOUT_S, Merchant, ask
from tests.support.mmo_process import Process, environment_without_settings, serving_process
from tests.support.shared_operator import BRAND, shared_operator
from tests.support.time_limits import HANGS_AFTER_S

pytestmark = [pytest.mark.own_store, pytest.mark.long, pytest.mark.http1("sends bytes")]

COMMAND = (sys.executable, str(Path(__file__).parents[2] / "support" / "multi_file_service.py"))
WORKERS = 2
SERVES = re.compile(r"process_ready.*?pid=(\d+).*?slot=(worker-\d+)")

CONFIGURATION = """
[keys]
master_key_file = "{directory}/master.key"

[egress]
allow_private = true

[limits]
drain_timeout = "20s"

[listen]
api = "127.0.0.1:0"
pages = "127.0.0.1:0"
console = "127.0.0.1:0"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a service is configured."""
    create_master_key(tmp_path / "master.key")
    with shared_operator() as operator:
        text = CONFIGURATION.format(directory=tmp_path) + operator.account_settings
        (tmp_path / "mmo.toml").write_text(text, encoding="utf-8")
        (tmp_path / "brands.toml").write_text(BRAND.format(key=KEY), encoding="utf-8")
        yield tmp_path


@asynccontextmanager
async def service(directory: Path, workers: int = WORKERS) -> AsyncIterator[Process]:
    """A service of several processes, until the block ends."""
    log = directory / "log"
    async with serving_process(directory, str(workers), log=log, command=COMMAND) as running:
        yield running


def served(log: Path) -> list[tuple[str, int]]:
    """Every worker that ever said that it serves, by its post."""
    text = re.sub(r"\x1b\[\d*m", "", log.read_text(encoding="utf-8"))
    return [(slot, int(pid)) for pid, slot in SERVES.findall(text)]


async def until(is_so: Callable[[], object]) -> None:
    """Wait until it is so; nobody announces what other processes do."""
    with trio.fail_after(3 * TIMEOUT_S):
        while not is_so():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def is_alive(port: int) -> bool:
    """Whether a new connection is taken and answered."""
    return (await ask(f"http://127.0.0.1:{port}/healthz")).status == 200


@asynccontextmanager
async def stopped(pid: int) -> AsyncIterator[None]:
    """The process stands still as long as the block lasts: every new connection is somebody
    else's."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: state_of(pid) == "T")
    yield
    os.kill(pid, signal.SIGCONT)


def state_of(pid: int) -> str:
    """The process's state as `ps` says it in one letter."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()[:1]


async def test_each_worker_answers_on_the_one_port(directory: Path) -> None:
    async with service(directory) as running:
        pids = [pid for _, pid in served(directory / "log")]
        assert len(pids) == WORKERS
        for pid in pids:
            async with stopped(pid):
                assert await is_alive(running.port)
        merchant = Merchant(running.ready["api"], KEY)
        assert (await merchant.create()).status == 200


async def test_whichever_worker_is_asked_tells_the_figures_of_all(directory: Path) -> None:
    async with service(directory) as running:
        merchant = Merchant(running.ready["api"], KEY)
        for _ in range(4):
            assert (await merchant.create()).status == 200
        with trio.fail_after(3 * TIMEOUT_S):
            while True:
                text = (await ask(f"{running.ready['console']}/metrics")).body.decode()
                taken = {
                    sample.labels["process"]: sample.value
                    for family in text_string_to_metric_families(text)
                    for sample in family.samples
                    if sample.name == "mmo_http_requests_total"
                    and (sample.labels["route"], sample.labels["status"]) == ("direct/payin", "2xx")
                }
                if sum(taken.values()) == 4 and set(taken) == {"worker-1", "worker-2"}:
                    break
                await trio.sleep(0.2)  # Others tell theirs every few seconds.
        assert text.count("# TYPE mmo_http_requests_total ") == 1


def give_certificate(directory: Path) -> bytes:
    """A new certificate for the listeners, from an authority of its own; as it goes over the
    wire."""
    made = trustme.CA().issue_cert("localhost")
    (directory / "key.pem").write_bytes(made.private_key_pem.bytes())
    chain = made.cert_chain_pems[0].bytes()
    (directory / "chain.pem").write_bytes(chain)
    return ssl.PEM_cert_to_DER_cert(chain.decode())


async def shown_certificate(port: int) -> bytes | None:
    """The certificate of whoever takes a new connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context)
    async with stream:
        await stream.do_handshake()
        found: bytes | None = stream.getpeercert(binary_form=True)
        return found


async def test_every_worker_reads_a_renewed_certificate(directory: Path) -> None:
    files = (
        f'[listen]\nhttp2 = "127.0.0.1:0"\ntls_certificate = "{directory}/chain.pem"\ntls_key = '
        f'"{directory}/key.pem"'
    )
    text = (directory / "mmo.toml").read_text(encoding="utf-8").replace("[listen]", files)
    (directory / "mmo.toml").write_text(text, encoding="utf-8")
    first = give_certificate(directory)
    async with service(directory) as running:
        ports = [int(running.ready[each].rsplit(":", 1)[1]) for each in ("api", "http2", "pages")]
        for port in ports:
            assert await shown_certificate(port) == first
        second = give_certificate(directory)
        running.process.send_signal(signal.SIGHUP)
        log = directory / "log"
        await until(lambda: log.read_text("utf-8").count("certificate_reloaded") == WORKERS)
        for _, pid in served(log):
            async with stopped(pid):
                for port in ports:
                    assert await shown_certificate(port) == second
        assert len(served(log)) == WORKERS


async def test_however_often_it_is_asked_to_end_it_ends_cleanly(directory: Path) -> None:
    async with service(directory) as running:
        with trio.fail_after(TIMEOUT_S):
            while running.process.poll() is None:
                running.process.terminate()
                await trio.sleep(0.002)
        assert running.process.returncode == 0


async def test_a_killed_worker_is_replaced_and_nobody_is_refused(directory: Path) -> None:
    async with service(directory) as running:
        for round in range(1, 4):
            post, pid = served(directory / "log")[-1]
            os.kill(pid, signal.SIGKILL)
            for _ in range(20):
                assert await answered_or_cut_off(running.port)
            await until(lambda round=round: len(served(directory / "log")) == WORKERS + round)  # type: ignore[misc]
            assert served(directory / "log")[-1][0] == post
            assert await is_alive(running.port)


async def answered_or_cut_off(port: int) -> bool:
    """Connecting must do; only what the dead one had accepted already may end without an answer."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        try:
            return (await Client(stream).ask(get(b"/healthz"))).status == 200
        except (NoAnswerError, trio.BrokenResourceError):
            return True


async def test_new_settings_hold_for_the_workers_that_come(directory: Path) -> None:
    file = directory / "mmo.toml"
    async with service(directory) as running:
        merchant = Merchant(running.ready["api"], KEY)
        assert (await merchant.create()).status == 200
        text = file.read_text(encoding="utf-8").replace("[limits]", '[limits]\nbody = "10B"')
        file.write_text(text, encoding="utf-8")
        running.process.send_signal(signal.SIGUSR2)
        await until(lambda: len(served(directory / "log")) == 2 * WORKERS)
        with trio.fail_after(TIMEOUT_S):  # The last of the old ones may just be leaving.
            while (await merchant.create()).status != 413:
                pass


def test_the_supervisor_that_forks_has_one_thread() -> None:
    program = (
        "import os, mmo_trio.service.supervisor, mmo_trio.storage.postgres;"
        "import threading; assert threading.active_count() == 1;"
        "tasks = '/proc/self/task'; assert not os.path.exists(tasks) or len(os.listdir(tasks)) == 1"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS_AFTER_S)


@define(eq=False)
class Steady:
    """Clients that never stop asking, and what went wrong."""

    port: int
    answers: int = 0
    faults: list[str] = Factory(list)

    async def keep_asking(self, pause_s: float) -> None:
        """One request after the other, on one connection as long as the answers leave it open."""
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", self.port)
                async with stream:
                    client, is_last = Client(stream), False
                    while not is_last:
                        answer = await client.ask(get(b"/readyz"))
                        assert answer.status == 200, answer.body
                        self.answers += 1
                        is_last = answer.is_last
                        await trio.sleep(pause_s)
            except Exception as error:
                self.faults.append(repr(error))

    async def ask_anew(self) -> None:
        """A new connection for every request."""
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", self.port)
                async with stream:
                    answer = await Client(stream).ask(get(b"/readyz", b"Connection: close"))
                    assert answer.status == 200, answer.body
                    self.answers += 1
            except Exception as error:
                self.faults.append(repr(error))


async def test_replacing_every_worker_costs_no_request(directory: Path) -> None:
    async with service(directory) as running, trio.open_nursery() as nursery:
        steady = Steady(running.port)
        for pause_s in (0, 0, 0.01, 0.1, 0.5):
            nursery.start_soon(steady.keep_asking, pause_s)
        for _ in range(2):
            nursery.start_soon(steady.ask_anew)
        for rolls in (1, 2):
            before = steady.answers
            running.process.send_signal(signal.SIGUSR2)
            await until(lambda rolls=rolls: len(served(directory / "log")) == WORKERS * (1 + rolls))  # type: ignore[misc]
            await until(lambda before=before: steady.answers > before)  # type: ignore[misc]
        nursery.cancel_scope.cancel()
    assert steady.faults == []
    posts = [post for post, _ in served(directory / "log")]
    assert posts[WORKERS:] == ["worker-1", "worker-2"] * 2


async def test_a_newcomer_that_cannot_start_leaves_the_others_alone(directory: Path) -> None:
    async with service(directory) as running:
        (directory / "refused").touch()
        running.process.send_signal(signal.SIGUSR2)
        await until(
            lambda: "rolling_restart_aborted" in (directory / "log").read_text(encoding="utf-8")
        )
        assert await is_alive(running.port)
        assert len(served(directory / "log")) == WORKERS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[limits]", "[colours]\n[limits]"),
        ("[limits]", '[provider.sandbox]\nkind = "sandbox"\n[limits]'),
        ("[listen]", '[listen]\ntls_certificate = "none"\ntls_key = "none"'),
    ],
    ids=["unknown section", "a sandbox is one process", "no certificate"],
)
async def test_settings_that_cannot_be_replace_nobody(directory: Path, old: str, new: str) -> None:
    file = directory / "mmo.toml"
    async with service(directory) as running:
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        running.process.send_signal(signal.SIGUSR2)
        await until(
            lambda: "settings_reload_rejected" in (directory / "log").read_text(encoding="utf-8")
        )
        assert await is_alive(running.port)
        assert len(served(directory / "log")) == WORKERS


async def connect_until_refused(port: int) -> None:
    while True:
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()


async def test_what_is_in_flight_is_answered_before_the_end(directory: Path) -> None:
    request = creation(1, "https://127.0.0.1:9/callback")
    async with service(directory) as running:
        stream = await trio.open_tcp_stream("127.0.0.1", running.port)
        async with stream:
            client = Client(stream)
            await client.send(request[:-10])
            assert await is_alive(running.port)
            running.process.terminate()
            with trio.fail_after(TIMEOUT_S), pytest.raises(OSError):
                await connect_until_refused(
                    running.port
                )  # Nobody waits in vain, as the supervisor listens no more.
            await client.send(request[-10:])
            with trio.fail_after(TIMEOUT_S):
                answer = await client.answer()
            assert answer.status == 200, answer.body
            assert answer.is_last
        with trio.fail_after(TIMEOUT_S):
            assert await running.process.wait() == 0


async def test_a_service_that_cannot_start_says_why_and_ends(directory: Path) -> None:
    (directory / "refused").touch()
    with trio.fail_after(HANGS_AFTER_S):
        done = await trio.run_process(
            [*COMMAND, str(directory), str(WORKERS)],
            env=environment_without_settings(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stdout == b""
    said = done.stderr.decode()
    assert "this is refused" in said
    assert "workers in a row couldn't start; the last one ended with exit code 3." in said


async def test_a_stop_while_the_store_is_prepared_leaves_no_process(directory: Path) -> None:
    database = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = database[0].socket.getsockname()[1]
    settings = directory / "mmo.toml"
    url = f"postgresql://gateway@127.0.0.1:{port}/gateway"
    settings.write_text(
        f'{settings.read_text("utf-8")}\n[database]\nurl = "{url}"\nallow_clear = true\n', "utf-8"
    )
    process = await trio.lowlevel.open_process(
        [*COMMAND, str(directory), str(WORKERS)],
        env=environment_without_settings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with trio.fail_after(HANGS_AFTER_S):
        async with database[0], await database[0].accept():  # It accepts, and says nothing.
            process.terminate()
            assert process.stdout is not None
            while await process.stdout.receive_some():
                pass  # The pipe ends when the last process that has it is gone.
            assert await process.wait() == 0


async def test_workers_do_not_outlive_their_supervisor(directory: Path) -> None:
    async with service(directory) as running:
        running.process.kill()
        assert running.process.stdout is not None
        with trio.fail_after(TIMEOUT_S):
            while await running.process.stdout.receive_some():
                pass  # The pipe ends when the last process that has it is gone.
        with pytest.raises(OSError, match="all attempts"):
            await trio.open_tcp_stream("127.0.0.1", running.port)


def title(pid: int) -> str:
    """What `ps` shows of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").rstrip("\0")


async def test_processes_are_told_apart_in_ps_and_in_the_log(directory: Path) -> None:
    async with service(directory) as running:
        pids = dict(served(directory / "log"))
        assert {slot: title(pid) for slot, pid in pids.items()} == {
            slot: f"mmo: {slot}" for slot in pids
        }
        assert title(running.process.pid) == "mmo: supervisor"
        os.kill(pids["worker-1"], signal.SIGHUP)
        await until(
            lambda: "process=worker-1" in re.sub(r"\x1b\[\d*m", "", (directory / "log").read_text())
        )
