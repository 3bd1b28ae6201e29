"""Flipped bits: real ranks name whom the benchmark names in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.journal import read_journal
from holdfast.report.nodes import History, nodes
from tests.flipping import BITS, LAST, RANKS
from tests.test_sharded import job, results


def test_ranks_name_a_flipped_bit_as_the_benchmark_does_in_one_process(tmp_path: Path) -> None:
    job("flipping", RANKS, tmp_path)
    lines = read_journal(tmp_path / "ranks.jsonl")
    for step, (line, found) in enumerate(zip(lines, results(tmp_path, 1)[0], strict=True)):
        told = {int(rank): times for rank, times in line["far"].items()}
        assert told == pytest.approx(found, rel=0.02), step  # three digits are written
        assert not line["dropped"]
    named = [bool(line["far"].get(str(LAST), 0) > 100) for line in lines]
    assert named[0]
    assert not any(one for one, bit in zip(named, BITS, strict=True) if bit != 30)
    worst, *others = nodes(History.of(lines, far=100))
    assert (worst.name, worst.letters.count("f")) == (str(LAST), sum(named))
    assert not any("f" in other.letters for other in others)
