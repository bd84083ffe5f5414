"""The line between one process and the API server: a TCP proxy of our own that can be cut, slowed, reset and held up.

Bytes pass as they are, TLS and all. Two tricks. Each line reaches the API server from a loopback address of its own, so
that the server's audit log tells who sent what. And whoever sends is read at once, whatever the state of the line: what
is held stays in our memory and arrives when the line is whole again, as packets do after a partition, even if the
sender has died meanwhile. So a process can be made to speak after its death.

A line is driven from the test's thread; its bytes are moved in another one.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

from tests.e2e.controlplane.kubeconfig import server_of
from tests.e2e.controlplane.ports import LOOPBACK

CHUNK_BYTES = 1 << 16
HELD_CHUNKS_MAX = 4096
"""In one direction of one connection; beyond it the sender is not read any more, as on a full network buffer."""
LATE_SPACING_S = 0.3
"""Between two chunks that were held: a request is looked at before the goodbye that its sender sent after it."""
CALL_LIMIT_S = 5.0
LINGER_NONE = struct.pack("ii", 1, 0)
"""A socket closed so sends RST."""
T = TypeVar("T")
Chunk = tuple[float, bytes]
"""When it came, on the loop's clock, and what; empty at the end of the stream."""


@dataclass(eq=False)
class Line:
    """One process's way to the API server."""

    address: str
    """From which the API server sees it."""
    server_port: int
    loop: asyncio.AbstractEventLoop
    port: int = 0
    """Where the process finds it."""
    delay_s: float = 0.0
    connections: set["_Connection"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.to_server, self.to_client = asyncio.Event(), asyncio.Event()
        self.to_server.set()
        self.to_client.set()

    def hold(self, *, answers_too: bool = True) -> None:
        """Let nothing through any more, and no connection end: half-open. Without `answers_too` the process still
        hears what the API server says."""
        self._call(self._hold(answers_too))

    def heal(self) -> None:
        """Let everything through, what was held first."""
        self._call(self._heal())

    def slow_down(self, delay_s: float) -> None:
        """Let each byte take so long, in both directions."""
        self.delay_s = delay_s

    def reset(self) -> None:
        """Break every connection by RST; new ones are welcome."""
        self._call(self._reset())

    async def listen(self) -> None:
        """Begin, on a free port."""
        server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(LOOPBACK, self.server_port, local_addr=(self.address, 0))
        except OSError:
            writer.transport.abort()  # nobody listens there now: neither do we
            return
        connection = _Connection(self, (reader, writer), upstream)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)

    async def _hold(self, answers_too: bool) -> None:
        self.to_server.clear()
        if answers_too:
            self.to_client.clear()

    async def _heal(self) -> None:
        self.to_server.set()
        self.to_client.set()

    async def _reset(self) -> None:
        for connection in self.connections:
            connection.reset()

    def _call(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self.loop).result(CALL_LIMIT_S)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """Two streams and the bytes between them."""

    def __init__(self, line: Line, client: Stream, server: Stream) -> None:
        self._line = line
        self._client = client
        self._server = server

    async def run(self) -> None:
        """Until both sides have said all."""
        line, (from_client, to_client), (from_server, to_server) = self._line, self._client, self._server
        try:
            await asyncio.gather(
                self._pass(from_client, to_server, line.to_server), self._pass(from_server, to_client, line.to_client)
            )
        finally:
            for writer in (to_client, to_server):
                writer.transport.abort()

    def reset(self) -> None:
        for _, writer in (self._client, self._server):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        chunks: asyncio.Queue[Chunk] = asyncio.Queue(HELD_CHUNKS_MAX)
        reading = asyncio.ensure_future(self._read(reader, chunks))
        try:
            await self._write(chunks, writer, gate)
        finally:
            reading.cancel()

    async def _read(self, reader: asyncio.StreamReader, chunks: asyncio.Queue[Chunk]) -> None:
        clock, data = self._line.loop, b"-"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:  # whoever dies says no goodbye
                data = b""
            await chunks.put((clock.time(), data))

    async def _write(self, chunks: asyncio.Queue[Chunk], writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        """Pass it all on; to nobody, once the receiver is gone, so that the sender is heard out."""
        clock, data = self._line.loop, b"-"
        while data:
            came_s, data = await chunks.get()
            late = not gate.is_set()
            await gate.wait()
            await asyncio.sleep(max(0.0, came_s + self._line.delay_s - clock.time()))
            with contextlib.suppress(OSError, RuntimeError):
                writer.write(data)
                await writer.drain()
                if not data:
                    writer.write_eof()
            if late:
                await asyncio.sleep(LATE_SPACING_S)


@dataclass
class Lines:
    """One line for each process, by its name; a process that is started again gets the same."""

    folder: Path
    loop: asyncio.AbstractEventLoop
    lines: dict[str, Line] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Line:
        return self.lines[name]

    def route(self, name: str, kubeconfig: Path) -> Path:
        """A kubeconfig as this one, over the line of this name."""
        if name not in self.lines:
            port = urlsplit(server_of(kubeconfig)).port
            assert port is not None, "a server on loopback has a port of its own"
            line = Line(f"127.0.1.{len(self.lines) + 1}", port, self.loop)
            asyncio.run_coroutine_threadsafe(line.listen(), self.loop).result(CALL_LIMIT_S)
            self.lines[name] = line
        content = yaml.safe_load(kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{self.lines[name].port}"
        self.folder.mkdir(parents=True, exist_ok=True)
        routed = self.folder / f"{name}.kubeconfig"
        routed.touch(mode=0o600)
        routed.write_text(yaml.safe_dump(content))
        return routed


@contextmanager
def lines_in(folder: Path) -> Iterator[Lines]:
    """Lines that last as long as the block; kubeconfigs are written into the folder."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="lines", daemon=True)
    thread.start()
    try:
        yield Lines(folder, loop)
    finally:
        asyncio.run_coroutine_threadsafe(_end_all_tasks(), loop).result(CALL_LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CALL_LIMIT_S)
        loop.close()


async def _end_all_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
