"""The real thing: a SuperLink with TLS, SuperNodes with registered keys, and faults; all rows by `make deployment`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from deployment import ROWS, opened, row

SOME = ("honest", "count", "exception", "nan", "kill-server")


def test_a_deployment_lives_through_its_faults(tmp_path: Path) -> None:
    with opened(tmp_path) as federation:
        for fault in SOME:
            found = row(federation, fault, timeout=600.0, patience=600.0)  # slow is not silent
            assert found["rounds"] == 2, found
        started = dict(federation.processes)
    assert all(process.poll() is not None for process in started.values())
    assert set(SOME) < set(ROWS)
