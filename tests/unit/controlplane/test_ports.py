"""Ports that are free, and that no outgoing connection can take from us."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e.controlplane import ports as ports_module
from tests.e2e.controlplane.ports import LOOPBACK, Ports, choose_ports, free_ports, is_free


def remembered() -> Ports:
    return Ports(*free_ports(5))


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        assert not is_free(listener.getsockname()[1])


def test_a_port_is_free_again_right_after_its_connections_were_closed() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection((LOOPBACK, port))
        server, _ = listener.accept()
        server.close()  # the side that closes first keeps the port in TIME_WAIT
        client.close()

    assert is_free(port)


def test_free_ports_are_different_and_below_the_range_of_outgoing_connections() -> None:
    found = free_ports(20)

    assert len(set(found)) == 20
    lowest_outgoing = int(ports_module.EPHEMERAL_RANGE_FILE.read_text().split()[0])
    assert lowest_outgoing < ports_module.LOWEST + ports_module.PROBES_MAX or max(found) < lowest_outgoing


def test_a_machine_whose_outgoing_range_covers_everything_still_gets_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n")
    monkeypatch.setattr(ports_module, "EPHEMERAL_RANGE_FILE", everything)

    found = free_ports(3)

    assert len(set(found)) == 3
    assert all(map(is_free, found))


def test_the_ports_of_the_last_time_are_chosen_again() -> None:
    before = remembered()

    assert choose_ports(before, {}) == before


def test_a_port_of_the_last_time_that_is_taken_is_replaced_and_the_others_stay() -> None:
    before = remembered()
    with socket.create_server((LOOPBACK, before.apiserver)):
        chosen = choose_ports(before, {"apiserver": None})

    assert chosen.apiserver != before.apiserver
    assert (chosen.etcd, chosen.etcd_peer) == (before.etcd, before.etcd_peer)


def test_a_port_asked_for_by_number_wins_over_the_last_time() -> None:
    assert choose_ports(remembered(), {"apiserver": 6443}).apiserver == 6443


def test_ports_are_read_back_as_written(tmp_path: Path) -> None:
    written = remembered()
    written.save(tmp_path / "ports.json")

    assert Ports.load(tmp_path / "ports.json") == written


@pytest.mark.parametrize("content", [None, "", "[]", '{"apiserver": 1}', '{"apiserver": "x"}'])
def test_a_file_that_holds_no_ports_counts_as_none(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ports.json"
    if content is not None:
        file.write_text(content)

    assert Ports.load(file) is None
