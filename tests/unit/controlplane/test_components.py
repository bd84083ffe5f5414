"""Command lines: durable unless told otherwise, loopback only, and the user's own flags win."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.controlplane.components import Component, Options, flags
from tests.e2e.controlplane.paths import Layout
from tests.e2e.controlplane.ports import Ports

PORTS = Ports(apiserver=20001, etcd=20002, etcd_peer=20003, etcd_http=20004, controller_manager=20005)


def flags_of(component: Component, options: Options | None = None) -> list[str]:
    return flags(component, Layout(Path("/state")), PORTS, options or Options())


@pytest.mark.parametrize("component", Component)
def test_only_loopback_addresses_stand_in_a_command_line(component: Component) -> None:
    line = " ".join(flags_of(component))

    assert set(re.findall(r"\d+\.\d+\.\d+\.\d+", line)) <= {"127.0.0.1", "10.0.0.0"}  # the latter: Services
    assert "0.0.0.0" not in line.replace("10.0.0.0/24", "")


@pytest.mark.parametrize(("fsync", "want"), [(True, False), (False, True)])
def test_etcd_skips_fsync_only_where_it_was_chosen(fsync: bool, want: bool) -> None:
    assert ("--unsafe-no-fsync" in flags_of(Component.ETCD, Options(fsync=fsync))) is want


@pytest.mark.parametrize("component", Component)
def test_extra_flags_stand_last_on_their_own_component(component: Component) -> None:
    options = Options(extra_flags={component: ["--v=4"]})

    for each in Component:
        assert (flags_of(each, options)[-1] == "--v=4") is (each is component)


def test_the_controllers_are_those_that_were_chosen() -> None:
    options = Options(controllers=("job-controller", "namespace-controller"))

    assert "--controllers=job-controller,namespace-controller" in flags_of(Component.CONTROLLER_MANAGER, options)
