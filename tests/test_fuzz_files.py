"""Files that were damaged in any way: they are read, or refused in one sentence; nothing is lost, nothing leaks.

`make test` tries a few examples, always the same; `make fuzz` tries new ones for minutes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist
import typer
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._C._distributed_c10d import HashStore

from holdfast import BadInput, MeanwO
from holdfast.cli import main
from holdfast.cli.app import app
from holdfast.engines.journal import Journal
from holdfast.engines.journal import State as Server
from holdfast.engines.sharded import Ledger, Momentum, load, save
from holdfast.experiments.store import Store, key, summarise
from holdfast.journal import parse_line, read_journal
from holdfast.training import Run, train
from holdfast.training.folder import FORMAT, OWN
from holdfast.training.state import State
from holdfast.web.app import _json
from holdfast.web.live import Live
from tests.fuzzing import SECRET, Damage, Harm, contents, damages, examples, harms, no_hang, tried
from tests.test_flower_journal import run as trained

FILES = ("record.json", "metrics.jsonl", "summary.json", "timing.json", "done", "failed", "lock", "code", "model.npz")


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """A copy of a folder, beside a secret; gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(source, folder, symlinks=True)
        (Path(name) / "secret").write_text(SECRET)
        yield folder
        assert (Path(name) / "secret").read_text() == SECRET, "somebody wrote through a link"


def answered(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call answers, or the one sentence in which it refuses."""
    try:
        return call(), ""
    except BadInput as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1, refusal
    return None, refusal


COMMAND = typer.main.get_command(app)  # once: building it takes longer than most commands


def said(*words: str) -> str:
    """What a command prints; it answers, or refuses in one line."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch("holdfast.cli.app.app", COMMAND),
        patch.object(sys, "argv", ["holdfast", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    code, told = ended.value.code or 0, out.getvalue() + err.getvalue()
    assert code in (0, 2), told
    if code == 2:
        assert err.getvalue().startswith("holdfast: ")
        assert len(err.getvalue().splitlines()) == 1
    assert not [letter for letter in told if not letter.isprintable() and letter not in "\n\t"], told
    return told


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that are done, one that failed, one that begun, and another in an archive."""
    folder = tmp_path_factory.mktemp("fuzz") / "runs"
    other = folder.parent / "other"
    for rule, seed, where in (("CWM()", 0, folder), ("Mean2P(f=2)", 0, folder), ("CWM()", 7, other)):
        run = Run(rule=rule, attack="SignFlip()", workers=7, byzantine=2, rounds=4, every=2, seed=seed)
        train(run, Store(where).place(run))
        summarise(Store(where).place(run), run)
    done, unsummed = sorted(folder.iterdir())
    (unsummed / "summary.json").unlink()
    for seed, note in ((1, "failed"), (2, "")):
        run = Run(rule="CWM()", workers=7, rounds=4, seed=seed)
        place = folder / key(run)
        place.mkdir()
        (place / "record.json").write_text(json.dumps({**run.record(), "task": OWN, "format": FORMAT}))
        shutil.copy(done / "metrics.jsonl", place)
        if note:
            (place / note).write_text("no memory")
    said("runs", str(other), "--export", str(folder / "archive.jsonl"))
    return folder


@given(some=st.lists(harms(), min_size=1, max_size=3), page=st.integers(0, 19))
@examples(12, 100)
def test_damaged_stores_are_read_or_refused_in_a_sentence(some: list[Harm], page: int, store: Path) -> None:
    tried("store of runs")
    places = sorted(one.name for one in store.iterdir() if one.is_dir())
    names = ["archive.jsonl", *places, *(f"{place}/{name}" for place in places for name in FILES)]
    names += [f"{place}/{name}" for place in places for name in ("metrics.jsonl", "summary.json", "record.json")]
    with copied(store) as folder, no_hang():
        for harm in some:
            if (folder / names[harm.file % len(names)]).parent.is_dir():
                harm(folder, folder.parent / "secret", names)
        before = contents(folder)
        harmed = {names[harm.file % len(names)].split("/")[0] for harm in some}
        sound = {one.key: one.text() for one in Store(store).read()[0] if one.key in set(places) - harmed}
        entries, _ = Store(folder).read()
        assert sound.items() <= {one.key: one.text() for one in entries}.items(), "sound runs are told as they were"
        at = Live(folder)
        assert at.over.wait(50)
        at._scan()
        rows = at.changes({})
        told = [str(_json(rows).body), *(str(_json(at.detail({"key": row["key"]})).body) for row in rows["rows"])]
        assert {row["key"] for row in rows["rows"]} == {one.key for one in entries}
        kind = "html" if page == 0 else "markdown" if page < 10 else "latex" if page < 15 else "terminal"
        out = folder.parent / "report"
        told += [said("runs", str(folder)), said("report", str(folder), "--format", kind, "--out", str(out))]
        told += [said("runs", str(folder), "--export", f"{out}.csv"), said("runs", str(folder), "--compare", "seed")]
        told += [path.read_text() for path in (out, Path(f"{out}.csv")) if path.exists()]
        assert not [text for text in told if SECRET in text], "a secret was followed through a link"
        assert contents(folder) == before, "reading changes nothing"


# ---- journals


def lines(folder: Path, *names: str) -> Counter[bytes]:
    """The lines of regular files, each as often as it is there; empty ones are none."""
    found = Counter[bytes]()
    for name in names:
        if (folder / name).is_file() and not (folder / name).is_symlink():
            found.update(text for text in (folder / name).read_bytes().split(b"\n") if text.strip())
    return found


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server after three rounds, of which the last was once done twice."""
    folder = tmp_path_factory.mktemp("fuzz") / "server"
    trained(folder, 3)
    whole = (folder / "rounds.jsonl").read_bytes()
    (folder / "rounds-set-aside.jsonl").write_bytes(whole.splitlines(keepends=True)[-1])
    return folder


JOURNAL = ("rounds.jsonl", "rounds-set-aside.jsonl")
SERVER = [*JOURNAL, "rounds.jsonl", "state.npz", ".state.part", ".rounds.part"]


@given(some=st.lists(harms(), min_size=1, max_size=3))
@examples(12, 100)
def test_a_server_goes_on_from_a_damaged_folder_or_refuses_and_loses_no_line(
    some: list[Harm], federation: Path
) -> None:
    tried("journal and state of a server")
    with copied(federation) as folder, no_hang():
        for harm in some:
            harm(folder, folder.parent / "secret", SERVER)
        before, sealed = lines(folder, *JOURNAL), contents(folder)
        said("flower", "report", str(folder), "--out", str(folder.parent / "nodes.html"))
        assert contents(folder) == sealed, "reading changes nothing"
        model, refusal = answered(lambda: trained(folder, 5))
        if refusal:
            assert lines(folder, *JOURNAL) >= before, "a line was lost"
            return
        assert (model == 5).all(), "the state was another one than was written"
        after = lines(folder, *JOURNAL)
        assert after >= before, "a line was lost"
        assert SECRET.encode() not in b"\n".join(after)
        known = [parse_line(text) for text in lines(folder, "rounds.jsonl")]
        assert None not in known, "damaged lines are set aside"
        assert [line["round"] for line in known if line][-1] == 5


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """A job of one rank, this process."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
@given(some=st.lists(harms(), min_size=1, max_size=3))
@examples(12, 100)
def test_a_ledger_goes_on_after_damage_or_refuses_and_loses_no_line(some: list[Harm]) -> None:
    tried("journal of ranks")
    with tempfile.TemporaryDirectory() as name, no_hang():
        path, secret = Path(name) / "ranks.jsonl", Path(name) / "secret"
        secret.write_text("")
        for step in range(3):
            Ledger(path).add(step, MeanwO(f=1).decide(np.array([[0.0], [1.0], [2.0], [90.0]])))
        for harm in some:
            harm(path.parent, secret, [path.name])
        before = lines(path.parent, path.name)
        said("ranks", str(path))
        _, refusal = answered(lambda: Ledger(path).add(3, None, skipped="too few"))
        if refusal:
            assert lines(path.parent, path.name) == before
            return
        assert next(line["round"] for line in reversed(read_journal(path))) == 3
        assert secret.read_text() or lines(path.parent, path.name) > before, "a line was lost"
        said("ranks", str(path), "--out", f"{path}.html")


# ---- states


def damaged(path: Path, some: list[Damage]) -> bool:
    """Change a file; whether it is another one now."""
    before = path.read_bytes()
    content = before
    for damage in some:
        content = damage(content)
    path.write_bytes(content)
    return content != before


BYTES = st.lists(
    damages("flip", "flip", "flip", "cut", "behead", "insert", "overwrite", "repeat", "replace"), min_size=1, max_size=2
)


@given(some=BYTES, seed=st.integers(0, 2**32 - 1))
@examples(60, 600)
def test_a_damaged_checkpoint_of_a_training_is_refused_or_the_same(some: list[Damage], seed: int) -> None:
    tried("checkpoint of a training")
    rng = np.random.default_rng(seed)
    wanted = State(rng.normal(size=33), rng.normal(size=33), rng.normal(size=(3, 33)), rng.normal(size=33), 7)
    with tempfile.TemporaryDirectory() as name, no_hang():
        path = Path(name) / "checkpoint.npz"
        wanted.save(path)
        if not damaged(path, some):
            return
        found, refusal = answered(lambda: State.load(path))
        if refusal:
            return
        for one, other in zip(vars(found).values(), vars(wanted).values(), strict=True):
            assert np.array_equal(one, other), "damage was not seen"
            assert np.asarray(one).dtype == np.asarray(other).dtype


@given(some=BYTES, seed=st.integers(0, 2**32 - 1))
@examples(60, 600)
def test_a_damaged_state_of_a_server_is_refused_or_the_same(some: list[Damage], seed: int) -> None:
    tried("state of a server")
    rng = np.random.default_rng(seed)
    model: dict[str, Any] = {
        "layer": rng.normal(size=33),
        "steps": rng.integers(9, size=3),
        "ü": rng.random((2, 7), np.float32),
    }
    wanted = Server(model, {name: -values for name, values in model.items()}, {"m": model}, "MeanwO(f=1), seed 0")
    with tempfile.TemporaryDirectory() as name, no_hang():
        journal = Journal(name)
        journal.save(4, wanted)
        if not damaged(Path(name) / "state.npz", some):
            return
        held, refusal = answered(journal.state)
        if refusal:
            return
        done, found = held
        assert (done, found.who, list(found.memory)) == (4, wanted.who, ["m"])
        for one, other in ((found.model, model), (found.last, wanted.last), (found.memory["m"], model)):
            assert one is not None
            assert other is not None
            assert list(one) == list(other)
            assert all(np.array_equal(one[k], other[k]) and one[k].dtype == other[k].dtype for k in one)


@pytest.fixture(scope="module")
def sharded(alone: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a model, momenta and an optimizer."""
    folder = tmp_path_factory.mktemp("fuzz") / "sharded"
    save(folder, 3, *shards(1.0))
    return folder


def shards(start: float) -> tuple[nn.Module, Momentum, Any]:
    """A model, its momenta and an optimizer with a memory; all numbers follow from the first."""
    model, momentum = nn.Linear(5, 3), Momentum(0.9)
    nn.init.constant_(model.weight, start)
    nn.init.constant_(model.bias, start)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(10.0).reshape(2, 5)).sum().backward()
    momentum.load(list(model.parameters()), [torch.full_like(p, 2 * start) for p in model.parameters()])
    optimizer.step()
    return model, momentum, optimizer


def numbers_of(model: nn.Module, momentum: Momentum, optimizer: Any) -> list[Any]:
    memory = [value for one in optimizer.state.values() for value in one.values()]
    return [*model.state_dict().values(), *momentum.state(list(model.parameters())), *memory]


SHARDS = ["checksums.json", ".metadata", "__0_0.distcp"]


@pytest.mark.filterwarnings("ignore")
@given(some=st.lists(harms(), min_size=1, max_size=2))
@examples(20, 150)
def test_a_damaged_sharded_checkpoint_is_refused_or_the_same(some: list[Harm], sharded: Path) -> None:
    tried("sharded checkpoint")
    with copied(sharded) as folder, no_hang():
        (place,) = folder.iterdir()
        for harm in some:
            harm(place, folder.parent / "secret", SHARDS)
        unsigned = not os.path.lexists(place / "checksums.json")  # as of an older holdfast
        parts = shards(5.0)
        before = [one.clone() for one in numbers_of(*parts)]
        done, refusal = answered(lambda: load(folder, *parts))
        if refusal:
            assert all(map(torch.equal, numbers_of(*parts), before)), "nothing is loaded of what is refused"
            return
        if not unsigned:
            assert done == 3
            assert all(map(torch.equal, numbers_of(*parts), numbers_of(*shards(1.0)))), "damage was not seen"
