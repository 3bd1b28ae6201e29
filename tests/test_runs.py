"""The runs of a store: listed, chosen, compared, and written for other programs."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import BadInput, __version__
from holdfast.cli import main
from holdfast.experiments.export import COLUMNS, compared, picked, rows, tensorboard, write
from holdfast.experiments.store import Entry, Store
from holdfast.experiments.sweep import only, runs, sweep
from holdfast.experiments.where import condition
from holdfast.training import code
from holdfast.training.code import code_version, note_code, read_code
from holdfast.training.folder import Folder
from tests.children import PATIENCE, holdfast, started
from tests.test_experiments import SMALL

pytest.importorskip("torch")  # which trains

GRID = {"rules": ["MeanwO(f=2)", "Mean2P(f=2)"], "attacks": ["SignFlip()", "Omniscient()"], "seeds": 2, **SMALL}
Said = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "runs"
    news = [one for one in sweep(runs(GRID), Store(path), jobs=1) if one.what != "round"]
    assert {one.what for one in news} == {"began", "done"}
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, to harm, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, "runs")
    return Path("runs")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """What `holdfast runs` prints, or the one line with which it refuses."""

    def call(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["holdfast", "runs", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        if code:
            assert err.startswith("holdfast: ")
            assert len(err.splitlines()) == 1
            assert not out
        return err if code else out

    return call


def test_the_version_of_the_code_stands_beside_each_run(store: Path, tmp_path: Path) -> None:
    first = entries(store)[0]
    assert first.code == [code_version()]
    assert code_version().startswith(__version__)
    with (store / first.key / "code").open("a") as file:
        file.write("9.9.9+gabc\n")
    write(entries(store), tmp_path / "all.jsonl")
    again = {one.key: one for one in Store(tmp_path / "all.jsonl").read()[0]}
    assert again[first.key].code == [code_version(), "9.9.9+gabc"]
    note_code(store / first.key)  # resumed by this version again
    assert read_code(store / first.key) == [code_version(), "9.9.9+gabc", code_version()]


def test_archives_without_versions_are_read_and_written_as_they_were(store: Path, tmp_path: Path) -> None:
    first = entries(store)[0]
    line = json.loads(first.text())
    del line["code"]
    (tmp_path / "old.jsonl").write_text(json.dumps(line) + "\n")
    write(entries(tmp_path / "old.jsonl"), tmp_path / "new.jsonl")
    assert (tmp_path / "new.jsonl").read_text() == (tmp_path / "old.jsonl").read_text()
    (tmp_path / "old.jsonl").write_text(json.dumps(line | {"code": "1.0"}) + "\n")
    assert "its code is no list of versions" in Store(tmp_path / "old.jsonl").read()[1][0]


def test_an_installed_package_has_its_version_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "ROOT", tmp_path)
    assert code.code_version.__wrapped__() == __version__
    (tmp_path / ".git").mkdir()  # and no repository in it
    assert code.code_version.__wrapped__() == __version__


def entries(store: Path) -> list[Entry]:
    found, complaints = Store(store).read()
    assert complaints == []
    return found


def half(store: Path) -> tuple[Path, Entry]:
    """The first run as it was before its end, with the last of its lines cut off."""
    one = entries(store)[0]
    place = store / one.key
    for name in ("done", "summary.json", "timing.json", "model.npz"):
        (place / name).unlink()
    text = (place / "metrics.jsonl").read_bytes()
    (place / "metrics.jsonl").write_bytes(text[:-20])
    return place, one


def test_a_table_shows_what_differs(store: Path, said: Said) -> None:
    head, *lines = said("runs").splitlines()
    assert head.split() == ["key", "state", "rule", "attack", "seed", "accuracy", "minutes", "done"]
    assert [line.split()[2:5] for line in lines[:2]] == [["MeanwO(f=2)", "Omniscient()", str(i)] for i in range(2)]
    assert all(line.split()[-1] == "3/3" for line in lines[:8])
    assert "Mean2P(f=2)" in lines[7], "the paper's name, and not the long one"
    assert lines[8:] == ["", "8 done"]
    assert {line[:8] for line in lines[:8]} == {one.key[:8] for one in entries(store)}
    told = said("runs", "--columns", "rule, seed ,accuracy,clip,outer,seconds")
    assert told.split()[:6] == ["rule", "seed", "accuracy", "clip", "outer", "seconds"]
    assert "None" in told


def test_nothing_is_cut_off_where_there_is_no_terminal(
    store: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = said("runs", "--columns", ",".join(COLUMNS)).splitlines()
    assert len(table) == 1 + 8 + 2
    assert table[0].split() == list(COLUMNS)


def test_conditions_and_order(store: Path, said: Said) -> None:
    everything = entries(store)
    best = picked(everything, sort=["-accuracy", "seed"])
    found = [(-(one.accuracy or 0), one.run.seed) for one in best]
    assert found == sorted(found)
    assert len(picked(everything, ["rule=Mean2P*", "seed>0", "attack!=Sign*"])) == 1
    assert len(picked(everything, ["rule=Mean?P(f=2)"])) == len(picked(everything, ["rule=Two*"])) == 4
    assert picked(everything, ["clip>1"]) == picked(everything, ["rule<1"]) == []
    assert len(picked(everything, ["lr=1e-1", "clip=None", "standardise==True", "rounds_done<=3"])) == 8
    assert "4 done" in said("runs", "--where", "rule=MeanwO*", "--where", "accuracy>=0", "--sort", "seconds")
    assert len(only(runs(GRID), ["rule=Mean2P*", "seed<1"])) == 2
    assert condition("lr>=0.1")(everything[0].run)
    for text in ("rule", "zip=3", "seed<", "seed<two", "accuracy<0.5"):
        with pytest.raises(BadInput, match="a condition was given as"):
            condition(text)


def test_runs_side_by_side(store: Path, said: Said) -> None:
    groups = compared(entries(store), "rule")
    assert len(groups) == 4
    assert all(len(found) == 2 and "rule" not in others for others, found in groups)
    head, *lines = said("runs", "--compare", "seed").splitlines()
    assert head.split() == ["rule", "attack", "0", "1", "best", "-", "worst"]
    for line in lines[:4]:
        _, _, one, two, apart = line.split()
        assert float(apart) == pytest.approx(abs(float(one) - float(two)), abs=2e-4)
    assert said("runs", "--compare", "rule").splitlines()[0].split()[2:4] == ["MeanwO(f=2)", "Mean2P(f=2)"]
    half(store)
    lines = said("runs", "--compare", "attack").splitlines()[1:5]
    assert sorted(len(line.split()) for line in lines) == [3, 5, 5, 5], "what is not done has no accuracy"


def _empty(row: dict[str, Any]) -> dict[str, str]:
    """What a CSV has for texts that an old record lacks."""
    return {name: "" for name, value in row.items() if value is None and COLUMNS[name] in ("str", "Any")}


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet", ".JSON"])
def test_what_is_exported_can_be_read_back(ending: str, store: Path, said: Said) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    half(store)
    out, wanted = Path(f"out{ending}"), rows(entries(store))
    assert "8 runs in out" in said("runs", "--export", str(out), "--sort", "")
    found: list[dict[str, Any]]
    match ending.lower():
        case ".csv":
            found = [
                {
                    name: text if COLUMNS[name] in ("str", "Any", "bool") else json.loads(text or "null")
                    for name, text in row.items()
                }
                for row in csv.DictReader(out.read_text().splitlines())
            ]
            wanted = [row | {"standardise": str(row["standardise"]), **_empty(row)} for row in wanted]
        case ".json":
            found = json.loads(out.read_text())
        case _:
            from pyarrow import parquet

            table = parquet.read_table(out)
            assert str(table.schema.field("clip").type) == "double", "though no run has one"
            found = table.to_pylist()
    assert found == wanted
    assert [row["state"] for row in found].count("done") == 7
    assert (found[0]["rounds_done"], found[0]["accuracy"], found[0]["seconds"]) == (2, None, None)
    assert {path.name for path in Path().iterdir()} == {"runs", out.name}, "nothing lies beside it"


def test_an_archive_is_a_store_of_what_is_done(store: Path, said: Said) -> None:
    half(store)
    assert "7 runs in out.jsonl" in said("runs", "--export", "out.jsonl")
    assert all(Entry.read(line).state == "done" for line in Path("out.jsonl").read_bytes().splitlines())
    assert rows(entries(Path("out.jsonl"))) == [row for row in rows(entries(store)) if row["state"] == "done"]
    assert "7 done" in said("out.jsonl")
    assert "is the store itself" in said("out.jsonl", "--where", "seed=0", "--export", "./out.jsonl", code=2)
    assert "no run that is done" in said("runs", "--where", "state=begun", "--export", "none.jsonl", code=2)


def test_tensorboard_shows_evaluations_and_rounds(store: Path, said: Said) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def shown(place: Path) -> dict[str, list[tuple[int, float]]]:
        board = EventAccumulator(str(place))
        board.Reload()
        return {tag: [(one.step, one.value) for one in board.Scalars(tag)] for tag in board.Tags()["scalars"]}

    one = next(one for one in entries(store) if one.run.two_phase)
    (store / one.key).rename(store / "by another name")
    for _ in range(2):  # the second time it replaces the first
        assert "tensorboard --logdir board" in said("runs", "--tensorboard", "board")
    assert len(list(Path("board").iterdir())) == len(list(Path("board").glob("*/*"))) == 8
    (place,) = Path("board").glob(f"Mean2P(f=2)-*-{one.key[:8]}")
    found = shown(place)
    assert set(found) == {"accuracy", "loss", "gradient_norm", "norm", "margin", "lead", "liars"}
    assert found["accuracy"] == [(at, float(np.float32(value))) for at, value in one.curve()]
    lines = Folder(store / "by another name", one.run).lines()
    assert found["norm"] == [(line["round"] + 1, float(np.float32(line["norm"]))) for line in lines]
    write([one], "archive.jsonl")
    assert tensorboard([one], Store("archive.jsonl"), "small") == 1
    assert set(shown(next(Path("small").iterdir()))) == {"accuracy", "loss", "gradient_norm"}
    assert "File exists" in said("runs", "--tensorboard", "archive.jsonl", code=2)


@pytest.mark.parametrize(
    ("package", "words"), [("pyarrow", ("--export", "x.parquet")), ("tensorboard", ("--tensorboard", "x"))]
)
def test_a_missing_package_names_its_install(
    package: str, words: tuple[str, str], store: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    assert f"pip install {package}." in said("runs", *words, code=2)
    assert not Path(words[1]).exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nowhere",), "nowhere is not there; name a folder of runs"),
        (("empty",), "empty holds no runs"),
        (("empty.jsonl",), "empty.jsonl holds no runs"),
        (("runs", "--where", "rule=Zed*", "--where", "seed=0"), "8 runs, and none meets rule=Zed* and seed=0"),
        (("runs", "--where", "ruel=Mean*"), "write field=pattern or field<number"),
        (("runs", "--sort", "acuracy"), "did you mean accuracy?"),
        (("runs", "--columns", "rule,minuets"), "did you mean minutes?"),
        (("runs", "--compare", "accuracy"), "is no known field of a run"),
        (("runs", "--compare", "lr"), "no two of the 8 runs differ in lr alone"),
        (("runs", "--compare", "rule", "--columns", "rule"), "leave one out"),
        (("runs", "--export", "runs.txt"), "the formats are .csv, .json, .parquet, .jsonl"),
        (("runs", "--export", "no/such/folder.csv"), "No such file or directory"),
        (("runs", "--export", "empty.jsonl/x.csv"), "Not a directory"),
        (("runs", "--export", "folder.csv"), "Is a directory"),
        (("runs", "--tensorboard", "runs/board"), "is in the store"),
    ],
)
def test_a_refusal_is_one_line(words: tuple[str, ...], why: str, store: Path, said: Said) -> None:
    Path("empty").mkdir()
    Path("folder.csv").mkdir()
    Path("empty.jsonl").touch()
    assert why in said(*words, code=2)
    assert not list(Path().glob("*.part"))


@pytest.mark.parametrize("words", [["runs", "runs"], ["report", "runs", "--format", "markdown"], ["rules"]])
def test_a_reader_that_has_seen_enough_is_no_error(words: list[str], store: Path) -> None:
    """`holdfast runs runs | head` ended with 1."""
    with started(holdfast(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait(PATIENCE)) == ("", 0)


def test_one_run_is_no_store(store: Path, said: Said) -> None:
    assert "is one run and no store" in said(str(store / entries(store)[0].key), code=2)


def test_what_cannot_be_read_is_told_and_the_others_are_listed(store: Path, said: Said) -> None:
    first, second, third, fourth = entries(store)[:4]
    (store / first.key / "record.json").write_text('{"rule": "Mea')
    old = json.loads((store / second.key / "record.json").read_text()) | {"format": 0}
    (store / second.key / "record.json").write_text(json.dumps(old))
    shutil.copytree(store / third.key, store / "twice")
    (store / fourth.key / "record.json").unlink()
    lines = said("runs").splitlines()
    assert lines[7:9] == ["", "6 done"]
    assert len(lines[9:]) == 3
    told = {name: line for line in lines[9:] for name in (first.key, second.key, fourth.key) if name in line}
    assert "is no record of a run" in told[first.key]
    assert "is of format 0 and this holdfast writes" in told[second.key]
    assert "has no record.json" in told[fourth.key]
    for place in store.iterdir():
        (place / "record.json").unlink(missing_ok=True)
    assert "There are 8 more" in said("runs", code=2)


def test_states_that_a_run_can_be_in(store: Path, said: Said) -> None:
    place, one = half(store)
    assert f"{one.key[:8]}  begun" in (table := said("runs"))
    assert "2/3" in table, "the line that was cut off does not count"
    (place / "failed").write_text("no memory,\nat all.\n")
    assert f"{one.key[:8]} failed: no memory, at all.\n" in (table := said("runs"))
    assert "7 done, 1 failed\n" in table
    with Folder(place, one.run).held():
        assert "7 done, 1 running\n" in said("runs")
        assert "1 running\n" in said("runs", "--where", "state=running", "--columns", "state,accuracy,minutes")
