"""Small files that unpack to a great deal: each is dropped by name before it takes memory."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from holdfast import BadInput
from holdfast.cli.app import app
from holdfast.cli.files import load, load_all
from holdfast.structure import Malformed

MB = 1 << 20


@pytest.fixture
def honest(tmp_path: Path) -> list[Path]:
    """Four updates of 8 KB."""
    paths = [tmp_path / f"honest-{i}.npz" for i in range(4)]
    for i, path in enumerate(paths):
        np.savez(path, w=np.full(1000, float(i)))
    return paths


@pytest.fixture
def peak() -> Iterator[list[int]]:
    """The most memory that Python and numpy took, once the test has asked."""
    tracemalloc.start()
    yield []
    tracemalloc.stop()


def packed(path: Path, size: int) -> Path:
    """An npz of zeros: a thousandth of its size on disk."""
    np.savez_compressed(path, w=np.zeros(size // 8))
    return path


def stand_in(path: Path, size: int = 0x7FFFFFFF) -> Path:
    """A pickle of seven bytes that says that a text of two gigabytes follows."""
    path.write_bytes(b"\x80\x02X" + size.to_bytes(4, "little"))
    return path


def refused(paths: list[Path], **limits: Any) -> dict[int, str]:
    """Which of the files are no updates, and why."""
    updates, _ = load_all(paths, **limits)
    return {i: str(update) for i, update in enumerate(updates) if isinstance(update, Malformed)}


def taken() -> int:
    return tracemalloc.get_traced_memory()[1]


@pytest.mark.usefixtures("peak")
def test_a_small_npz_took_gigabytes_before_it_was_dropped(honest: list[Path], tmp_path: Path) -> None:
    bomb = packed(tmp_path / "bomb.npz", 128 * MB)
    assert bomb.stat().st_size < MB
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    unread = refused([*honest, bomb])
    assert "unpacks to 134,217,8" in unread[4]
    assert "--max-bytes" in unread[4]
    assert taken() - before < 8 * MB


@pytest.mark.usefixtures("peak")
def test_a_pickle_of_seven_bytes_took_two_gigabytes(honest: list[Path], tmp_path: Path) -> None:
    before = tracemalloc.get_traced_memory()[0]
    unread = refused([*honest, stand_in(tmp_path / "bomb.pt")])
    assert "cannot be read" in unread[4]
    assert taken() - before < 32 * MB, "torch itself is imported meanwhile"


@pytest.mark.usefixtures("peak")
def test_a_compressed_pt_is_limited_too(honest: list[Path], tmp_path: Path) -> None:
    torch.save(torch.zeros(16 * MB), tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in plain.namelist():
            bomb.writestr(name, plain.read(name))
    unread = refused([*honest, tmp_path / "bomb.pt"])
    assert "unpacks to" in unread[4]


def test_a_tensor_that_repeats_one_number_counts_with_its_whole_size(honest: list[Path], tmp_path: Path) -> None:
    torch.save(torch.zeros(1).expand(1 << 40), tmp_path / "bomb.pt")
    unread = refused([*honest, tmp_path / "bomb.pt"])
    assert "unpacks to" in unread[4]


def test_two_bombs_of_five_do_not_raise_the_limit(honest: list[Path], tmp_path: Path) -> None:
    bombs = [packed(tmp_path / f"bomb-{i}.npz", 32 * MB) for i in range(4)]
    unread = refused([*bombs, *honest])
    assert sorted(unread) == [0, 1, 2, 3], "the lower median is an honest size while at most half lie"


@pytest.mark.parametrize("rule", ["MeanwO(f=1)", "StreamCenterwO(f=1)"])
@pytest.mark.parametrize("words", [[], ["--like"], ["--max-bytes", "100000"]])
def test_aggregate_drops_a_bomb_by_name(rule: str, words: list[str], honest: list[Path], tmp_path: Path) -> None:
    bomb = packed(tmp_path / "bomb.npz", 32 * MB)
    words = [*words, str(honest[0])] if words == ["--like"] else words
    told = CliRunner().invoke(app, ["aggregate", rule, *map(str, [bomb, *honest]), "--json", *words])
    assert told.exit_code == 0, told.output
    assert "unpacks to" in json.loads(told.stdout)["dropped"]["bomb.npz"]


@pytest.mark.usefixtures("peak")
def test_estimate_read_files_of_any_size(tmp_path: Path) -> None:
    paths = [tmp_path / f"worker-{i}.npz" for i in range(3)]
    for i, path in enumerate(paths):
        np.savez(path, w=np.random.default_rng(i).random((8, 100)))
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, w=np.zeros((8, 8 * MB)))
    call = ["estimate", *map(str, [*paths, bomb])]
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    told = CliRunner().invoke(app, call)
    assert isinstance(told.exception, BadInput)
    assert f"{bomb} unpacks to 536,8" in str(told.exception)
    assert "--max-bytes" in str(told.exception)
    assert taken() - before < 32 * MB
    assert CliRunner().invoke(app, ["estimate", *map(str, paths), "--max-bytes", "10000"]).exit_code == 0


def test_max_bytes_admits_what_is_larger_than_the_others(honest: list[Path], tmp_path: Path) -> None:
    large = packed(tmp_path / "large.npz", 32 * MB)
    unread = refused([*honest, large], max_bytes=64 * MB)
    assert not unread


def test_one_file_that_unpacks_to_a_thousand_times_its_size_needs_a_limit(tmp_path: Path) -> None:
    bomb = packed(tmp_path / "rows.npz", 300 * MB)
    with pytest.raises(BadInput, match="--max-bytes"):
        load_all([bomb])


def test_honest_updates_of_zeros_are_read(tmp_path: Path) -> None:
    paths = [packed(tmp_path / f"{i}.npz", 4 * MB) for i in range(3)]
    assert not refused(paths)
    assert load(paths[0])["w"].shape == (MB // 2,)
