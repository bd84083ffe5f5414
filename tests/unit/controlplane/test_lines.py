"""The lines of the drills: what they hold up arrives, in order, and late; and what they break is broken."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane.waiting import eventually
from tests.e2e.support.lines import Line, Lines, lines_in


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(10)
        yield made


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    with lines_in(tmp_path) as made:
        yield made


def connect(line: Line, server: socket.socket) -> tuple[socket.socket, socket.socket, str]:
    """Both ends of a connection over the line, and the address that the server sees."""
    client = socket.create_connection(("127.0.0.1", line.port), timeout=10)
    accepted, (address, _) = server.accept()
    accepted.settimeout(10)
    return client, accepted, address


def line_to(server: socket.socket, lines: Lines, tmp_path: Path, name: str = "ann") -> Line:
    kubeconfig = tmp_path / "kubeconfig"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{server.getsockname()[1]}"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    routed = yaml.safe_load(lines.route(name, kubeconfig).read_text())
    assert routed["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{lines[name].port}"
    return lines[name]


def test_each_line_has_an_address_of_its_own_and_passes_bytes_both_ways(
    server: socket.socket, lines: Lines, tmp_path: Path
) -> None:
    seen = set()
    for name in ("ann", "ben"):
        client, accepted, address = connect(line_to(server, lines, tmp_path, name), server)
        with client, accepted:
            client.sendall(b"ask")
            assert accepted.recv(3) == b"ask"
            accepted.sendall(b"answer")
            assert client.recv(6) == b"answer"
        assert address == lines[name].address
        seen.add(address)
    assert len(seen) == 2


def test_what_is_held_arrives_after_its_sender_has_died(server: socket.socket, lines: Lines, tmp_path: Path) -> None:
    line = line_to(server, lines, tmp_path)
    client, accepted, _ = connect(line, server)
    with accepted:
        line.hold(answers_too=False)
        client.sendall(b"last words")
        accepted.sendall(b"news")
        assert client.recv(4) == b"news"
        client.close()
        accepted.settimeout(0.1)
        with pytest.raises(TimeoutError):
            accepted.recv(1)
        line.heal()
        accepted.settimeout(10)
        assert accepted.recv(100) == b"last words"
        assert accepted.recv(1) == b""


def test_a_line_that_is_half_open_ends_no_connection_and_answers_nothing(
    server: socket.socket, lines: Lines, tmp_path: Path
) -> None:
    line = line_to(server, lines, tmp_path)
    client, accepted, _ = connect(line, server)
    with client, accepted:
        line.hold()
        accepted.sendall(b"news")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        line.heal()
        client.settimeout(10)
        assert client.recv(4) == b"news"


def test_a_reset_breaks_connections_and_welcomes_new_ones(server: socket.socket, lines: Lines, tmp_path: Path) -> None:
    line = line_to(server, lines, tmp_path)
    client, accepted, _ = connect(line, server)
    with client, accepted:
        eventually("the line knows of it", lambda: line.connections)  # the server may have accepted it before
        line.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with pytest.raises(ConnectionResetError):
            accepted.recv(1)
    eventually("it is forgotten", lambda: not line.connections)
    again, taken, _ = connect(line, server)
    with again, taken:
        again.sendall(b"x")
        assert taken.recv(1) == b"x"
