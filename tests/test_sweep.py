"""Sweeps: what a file says, what a store keeps, and that nothing is lost when somebody pulls the plug."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput
from holdfast.cli.live import named, varied, watch
from holdfast.experiments.export import write
from holdfast.experiments.pool import News, carried_out
from holdfast.experiments.progress import Progress, estimate
from holdfast.experiments.store import Entry, Store, key, summarise_run
from holdfast.experiments.sweep import only, read, runs, sweep
from holdfast.training import Run, train
from holdfast.training.folder import FORMAT, Folder
from tests import children
from tests.children import PATIENCE, wait_until

SMALL: dict[str, Any] = {"workers": 7, "rounds": 4, "every": 2, "batch": 4, "model": "linear"}
GRID: dict[str, Any] = {"rules": ["MeanwO(f={f})", "Mean2P(f={f})"], "attacks": ["SignFlip()"], "rates": 0.3, **SMALL}


def ended(news: Iterator[News]) -> dict[str, list[str]]:
    """What happened to each run, apart from its rounds."""
    out: dict[str, list[str]] = {}
    for one in news:
        if one.what != "round":
            out.setdefault(one.key, []).append(one.what)
    return out


def sweeping(folder: Path, *words: str, heard: bool = False) -> AbstractContextManager[subprocess.Popen[str]]:
    """`holdfast sweep` in a session of its own, so that all of its processes can be killed at once."""
    call = children.holdfast("sweep", *words)
    pipe = subprocess.PIPE if heard else subprocess.DEVNULL
    return children.started(call, cwd=folder, new_session=True, stdout=pipe, stderr=pipe)


class TestFile:
    def test_every_combination_is_a_run(self, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text(
            "rules = ['Average()', 'CWTM(f={f})']\nattacks = ['SignFlip()', 'ALIE()']\nrates = [0.1, 0.4]\n"
            "splits = ['Natural()', 'Dirichlet(alpha=0.1)']\nseeds = [3, 4]\nmomentum = [0, 0.9]\nworkers = 10\n"
        )
        found = read(tmp_path / "s.toml")
        assert len(found) == 2 * 2 * 2 * 2 * 2 * 2
        assert all(key(run) == name for name, run in found.items())
        assert {(run.byzantine, run.f) for run in found.values() if "CWTM" in repr(run.rule)} == {(1, 1), (4, 4)}
        assert {run.seed for run in found.values()} == {3, 4}

    def test_a_share_is_rounded_down(self) -> None:
        (run,) = runs({"rule": "CWTM(f={f})", "rate": 0.1, "workers": 35}).values()
        assert (run.byzantine, run.f) == (3, 3)
        (run,) = runs({"rule": "CWTM(f={f})", "rate": 0.3, "workers": 10}).values()
        assert run.byzantine == 3

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("rules = ['Zeno()']", "Zeno is no known rule"),
            ("rules = ['CWM()']\nattacks = ['Zap()']", "Zap is no known attack"),
            ("rules = ['CWM()']\ncolour = 3", "colour is no known key of a sweep"),
            ("rules = ['CWM()']\nliars = 2", "liars is no known key of a sweep; did you mean rates or byzantine?"),
            ("rules = ['CWM()']\nf = 2", "f is no known key of a sweep; did you mean rates or byzantine?"),
            ("rules = ['CWM()']\nlearning_rate = 2", "did you mean lr?"),
            ("rules = ['CWM()']\nrates = [0.7]", "rate = 0.7"),
            ("rules = ['CWM()']\nrates = ['many']", "rate = 'many'"),
            ("rules = ['CWM()']\nseeds = []", "no seeds"),
            ("rules = ['CWM()']\nseed = 1\nseeds = 2", "'seed' twice"),
            ("rules = ['CWM()']\nrate = 0.1\nbyzantine = 2", "both rates and byzantine"),
            ("rules = ['CWM()']\nhonest = 5\nworkers = 6", "both honest and workers"),
            ("rules = ['CWM()']\nhonest = 0", "honest is a whole number, 1 to"),
            ("rules = ['CWM()']\nzip = ['lr']", "'lr' is no list of it"),
            ("rules = ['CWM()']\nzip = [3]", "3 is no list of it"),
            ("rules = ['CWM()']\nlr = [1, 2]\nseeds = 3\nzip = ['lr', 'seeds']", "2 of lr, 3 of seed; zipped"),
            ("rules = ['CWM()']\nrounds = 'ten'", "rounds = 'ten'"),
            ("rules = ['CWTM(f={f}']", "CWTM"),
            ("rules = [3]", "rule = 3"),
            ("attacks = ['ALIE()']", "no rules"),
            ("rules = [", "no TOML"),
            ("rules = ['CWTM(f={f})']\nrates = 0.4\nworkers = 2.5", "workers = 2.5"),
            ("[rules]\na = 'CWM()'", "rule"),
            ("rules = ['CWM()']\nseeds = 100000000000000000000", "combinations"),
            ("rules = ['CWM()']\nrates = 0.1\nworkers = 1" + 400 * "0", "workers"),
        ],
    )
    def test_what_cannot_be_run_is_one_sentence(self, tmp_path: Path, text: str, why: str) -> None:
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(BadInput) as refusal:
            read(tmp_path / "s.toml")
        assert why in str(refusal.value)
        assert "s.toml" in str(refusal.value)
        assert "\n" not in str(refusal.value).strip()

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="cannot be read"):
            read(tmp_path / "nothing.toml")
        (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(BadInput, match="no TOML"):
            read(tmp_path / "bytes.toml")

    def test_a_mark_at_the_beginning_and_zeros_do_no_harm(self, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text("rules = ['CWM()']\nmomentum = [0.0, -0.0]\n", encoding="utf-8-sig")
        assert len(read(tmp_path / "s.toml")) == 1

    def test_conditions_know_the_text_that_was_written(self) -> None:
        found = runs({"rules": ["CWTM(8)", "CWM()"], "attacks": ["Empire(scale=0.1)", "SignFlip()"], "byzantine": 8})
        assert len(only(found, ["attack=Empire(scale=0.1)"])) == 2
        assert len(only(found, ["attack!=Empire(scale=0.1)"])) == 2
        assert len(only(found, ["rule=CWTM(8)"])) == 2

    def test_only_some(self) -> None:
        found = runs(GRID | {"seeds": 3})
        assert len(only(found, ["rule=Mean2P*"])) == 3
        assert len(only(found, ["rule=Mean2P*", "seed=1"])) == 1
        assert len(only(found, ["seed!=1"])) == 4
        with pytest.raises(BadInput, match="a condition was given as"):
            only(found, ["colour=3"])


class TestSweep:
    def test_runs_once_and_not_again(self, tmp_path: Path) -> None:
        found, store = runs(GRID), Store(tmp_path / "store")
        assert set(map(tuple, ended(sweep(found, store, 2)).values())) == {("began", "done")}
        assert set(map(tuple, ended(sweep(found, store, 2)).values())) == {("there",)}
        entries, complaints = store.read()
        assert not complaints
        assert {one.key: one.run for one in entries} == found
        for one in entries:
            alone = train(one.run)
            assert one.accuracy == alone.accuracy
            assert one.curve() == alone.curve()
            assert one.facts["rounds"] == 4
            assert (one.facts["outer"] is None) == (not one.run.two_phase)

    def test_one_that_fails_is_told_and_loses_nothing_else(self, tmp_path: Path) -> None:
        found = runs(GRID) | runs(GRID | {"data": "nowhere", "rules": ["CWM()"]})
        news = ended(sweep(found, Store(tmp_path), 1))
        assert sorted(one[-1] for one in news.values()) == ["done", "done", "failed"]

    def test_one_that_failed_is_left_alone_until_asked_for(self, tmp_path: Path) -> None:
        found, store = runs(GRID), Store(tmp_path)
        bad, good = found.values()
        with pytest.raises(RuntimeError):
            train(bad, store.place(bad), on_round=_stumble)
        (store.place(bad) / "failed").write_text("it stumbled")
        assert store.state(bad) == "failed"
        assert [one.why for one in store.read()[0] if one.run == bad] == ["it stumbled"]
        news = ended(sweep(found, store, 1))
        assert news[key(bad)] == ["failed"]
        assert news[key(good)] == ["began", "done"]
        assert ended(sweep(found, store, 1, retry_failed=True))[key(bad)] == ["began", "done"]
        assert not (store.place(bad) / "failed").exists()

    def test_a_process_that_dies_takes_only_its_own_run_with_it(self, tmp_path: Path) -> None:
        (victim,) = endless = runs(GRID | {"rules": ["CWM()"], "rounds": 10**6})
        found = endless | runs(GRID | {"seeds": 2, "rounds": 20})
        killed = False
        last: dict[str, News] = {}
        for news in carried_out({name: (run, tmp_path / name) for name, run in found.items()}, 2):
            last[news.key] = news
            if not killed and news.what == "round" and news.key == victim:
                killed = True
                _kill_whoever_holds(tmp_path / victim)
        assert last[victim].what == "failed"
        assert "signal 9" in last[victim].why
        assert [one.what for name, one in last.items() if name != victim] == ["done"] * 4

    def test_two_sweeps_share_the_work_and_no_run(self, tmp_path: Path) -> None:
        (tmp_path / "s.toml").write_text(_text(GRID | {"seeds": 3, "rounds": 500, "every": 500}))
        words = ("s.toml", "--jobs", "1")
        with sweeping(tmp_path, *words, heard=True) as one, sweeping(tmp_path, *words, heard=True) as other:
            said = [each.communicate(timeout=PATIENCE) for each in (one, other)]
        assert (one.returncode, other.returncode) == (0, 0), said
        entries, complaints = Store(tmp_path / "runs").read()
        assert not complaints
        assert [one.state for one in entries] == ["done"] * 6
        ran = [line.split("] ")[1] for _, err in said for line in err.splitlines() if "accuracy" in line]
        assert len(set(ran)) == 6  # both may tell of a run that the one waited for, and only one carried it out

    def test_killed_at_ten_random_moments_nothing_is_lost_or_done_twice(self, tmp_path: Path) -> None:
        text = _text(GRID | {"seeds": 3, "rounds": 600, "every": 200, "vote_batch": 4})
        (tmp_path / "s.toml").write_text(text)
        with sweeping(tmp_path, "s.toml", "--store", "calm") as calm:
            assert calm.wait(PATIENCE) == 0
        draw = random.Random(6)
        finished: dict[str, int] = {}
        for _ in range(10):
            with sweeping(tmp_path, "s.toml", "--store", "stormy") as one:
                _wait_for_rounds(one, tmp_path / "stormy", draw.randint(1, 350))  # of 3600
                if draw.random() < 0.5:  # the whole group, or the parent alone
                    with suppress(ProcessLookupError):
                        os.killpg(one.pid, signal.SIGKILL)
            for mark in (tmp_path / "stormy").glob("*/done"):
                assert finished.setdefault(mark.parent.name, mark.stat().st_mtime_ns) == mark.stat().st_mtime_ns
        with sweeping(tmp_path, "s.toml", "--store", "stormy") as last:
            assert last.wait(PATIENCE) == 0
        for mark in (tmp_path / "stormy").glob("*/done"):
            assert finished.setdefault(mark.parent.name, mark.stat().st_mtime_ns) == mark.stat().st_mtime_ns
        calm_metrics, stormy = (
            {path.parent.name: path.read_bytes() for path in (tmp_path / name).glob("*/metrics.jsonl")}
            for name in ("calm", "stormy")
        )
        assert len(calm_metrics) == 6
        assert stormy == calm_metrics


def _stumble(line: dict[str, Any]) -> None:
    raise RuntimeError("a listener fell over")


def _rounds(store: Path) -> int:
    """How many rounds the runs of a store have written."""
    return sum(path.read_bytes().count(b"\n") for path in store.glob("*/metrics.jsonl"))


def _wait_for_rounds(process: subprocess.Popen[str], store: Path, more: int) -> None:
    """Until the runs of a store have so many rounds more, or the process has ended."""
    wanted = _rounds(store) + more
    wait_until(lambda: process.poll() is not None or _rounds(store) >= wanted, f"{more} more rounds")


def _kill_whoever_holds(place: Path) -> None:
    """By the lock's own list of holders: only a process that the test started has this file open."""
    for process in Path("/proc").glob("[0-9]*/fd"):
        try:
            held = {os.readlink(link) for link in process.iterdir()}
        except OSError:
            continue
        if str(place / "lock") in held:
            os.kill(int(process.parent.name), signal.SIGKILL)


def _text(grid: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in grid.items())


class TestStore:
    def test_a_key_is_of_all_fields_and_the_format(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = Run(rule="CWM()")
        assert key(run) == key(Run.read(run.text()))
        others = [run.changed(seed=1), run.changed(every=11), run.changed(rule="CWTM(f=1)"), run.changed(draw=0)]
        assert len({key(one) for one in (run, *others)}) == 5
        before = key(run)
        monkeypatch.setattr("holdfast.experiments.store.FORMAT", FORMAT + 1)
        assert key(run) != before

    def test_broken_folders_are_a_sentence_each_and_the_others_are_there(self, tmp_path: Path) -> None:
        store, found = Store(tmp_path), list(runs(GRID | {"seeds": 3}).values())
        for run in found:
            train(run, store.place(run))
        first, second, third, fourth = (store.place(run) for run in found[:4])
        (first / "record.json").write_text('{"rule": "CW')
        record = json.loads((second / "record.json").read_text())
        (second / "record.json").write_text(json.dumps(record | {"format": 0}))
        (third / "record.json").write_text(json.dumps(record | {"rule": "Zeno()"}))
        (fourth / "record.json").unlink()
        (tmp_path / "empty").mkdir()
        entries, complaints = store.read()
        assert {one.run for one in entries} == set(found[4:])
        assert len(complaints) == 5
        wanted = {first: "no record", second: "format 0", third: "another run", fourth: "no record.json"}
        for place, why in wanted.items():
            (said,) = (one for one in complaints if str(place) in one)
            assert why in said
            assert "\n" not in said
        with pytest.raises(BadInput, match="of format 0 and this holdfast writes"):
            train(found[1], second)

    def test_done_is_done_only_with_the_run_itself(self, tmp_path: Path) -> None:
        store, (one, other) = Store(tmp_path), runs(GRID).values()
        train(one, store.place(one))
        shutil.copytree(store.place(one), store.place(other))
        assert store.state(other) == "broken"
        news = ended(sweep({key(run): run for run in (one, other)}, store, 1))
        assert news == {key(one): ["there"], key(other): ["failed"]}
        entries, (said,) = store.read()
        assert [entry.run for entry in entries] == [one]
        assert "another run than its name says" in said
        (store.place(one) / "metrics.jsonl").unlink()
        (store.place(one) / "summary.json").unlink(missing_ok=True)
        assert store.state(one) == "broken"

    def test_an_archive_s_run_is_not_hidden_by_an_unfinished_folder(self, tmp_path: Path) -> None:
        store = Store(tmp_path)
        for run in runs(GRID).values():
            train(run, store.place(run))
        write(store.read()[0], tmp_path / "archive.jsonl")
        (store.place(run) / "done").unlink()
        assert [entry.state for entry in Store(tmp_path).read()[0]] == ["done", "done"]
        assert Store(tmp_path).state(run) == "done"

    def test_the_time_of_an_interrupted_run_is_kept(self, tmp_path: Path) -> None:
        run = Run(rule="CWM()", **SMALL | {"rounds": 6})
        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "run", on_round=_stop, save=0)
        before = json.loads((tmp_path / "run" / "timing.json").read_text())["seconds"]
        train(run, tmp_path / "run")
        assert json.loads((tmp_path / "run" / "timing.json").read_text())["seconds"] >= before

    def test_notes_of_failures_may_be_anything(self, tmp_path: Path) -> None:
        run = Run(rule="CWM()", **SMALL)
        with Folder(tmp_path / key(run), run).held():
            pass
        (tmp_path / key(run) / "failed").write_bytes(b"x\xff")
        assert [one.what for one in sweep({key(run): run}, Store(tmp_path), 1)] == ["failed"]

    def test_a_line_that_was_cut_off_is_left_out(self, tmp_path: Path) -> None:
        run = Run(rule="CWM()", **SMALL | {"rounds": 6})
        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / key(run), on_round=_stop, save=0)
        with (tmp_path / key(run) / "metrics.jsonl").open("a") as file:
            file.write('{"round": 3, "ke')
        ((entry,), complaints) = Store(tmp_path).read()
        assert not complaints
        assert (entry.state, entry.facts["rounds"], entry.accuracy) == ("begun", 3, None)
        assert train(run, tmp_path / key(run)).lines == train(run).lines

    def test_a_run_that_is_under_way_is_seen(self, tmp_path: Path) -> None:
        run = Run(rule="CWM()", **SMALL)
        store = Store(tmp_path)
        assert store.state(run) is None
        with Folder(store.place(run), run).held():
            assert store.state(run) == "running"
        assert store.state(run) == "begun"

    def test_an_archive_tells_the_same(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "store")
        for run in runs(GRID).values():
            train(run, store.place(run))
        assert write(store.read()[0], tmp_path / "all.jsonl") == 2
        there, complaints = Store(tmp_path / "all.jsonl").read()
        assert not complaints
        assert [one.text() for one in there] == [one.text() for one in store.read()[0]]
        (tmp_path / "further").mkdir()
        (tmp_path / "further" / "archive.jsonl").write_bytes((tmp_path / "all.jsonl").read_bytes())
        more = runs(GRID | {"seeds": 2})
        assert sorted(one[-1] for one in ended(sweep(more, Store(tmp_path / "further"), 1)).values()) == [
            "done", "done", "there", "there",
        ]  # fmt: skip
        assert {one.key for one in Store(tmp_path / "further").read()[0]} == set(more)
        good = json.loads(there[0].text())
        odd = [{"round": 4, "accuracy": value} for value in ("hi", [1], 5, True, float("nan"))]
        wrong: list[dict[str, Any]] = [{"evaluations": [one]} for one in odd]
        wrong += [
            {"seconds": 10**400},
            {"facts": {"outer": "x"}},
            {"evaluations": [1]},
            {"facts": None},
            {"seconds": "x"},
            {"state": "zzz"},
            {"key": "7"},
            {"format": 0},
        ]
        bad = ['{"key": 3}', "[1]", *(json.dumps(good | one) for one in wrong), '{"cut']
        with (tmp_path / "all.jsonl").open("a") as file:
            file.write("\n".join(bad))
        there, complaints = Store(tmp_path / "all.jsonl").read()
        assert len(there) == 2
        assert len(complaints) == len(bad)
        assert Entry.read(there[0].text()).evaluations == there[0].evaluations

    def test_a_store_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="is not there"):
            Store(tmp_path / "nowhere").read()

    def test_facts_of_skipped_rounds(self) -> None:
        run = Run(rule="CWM()", attack="NoAttack()", **SMALL)
        lines = [{"round": 0, "events": ["skipped: why"], "winner": "", "liars": None}]
        assert summarise_run(run, "begun", lines).facts["skipped"] == 1


def _stop(line: dict[str, Any]) -> None:
    if line["round"] == 2:
        raise KeyboardInterrupt


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB, for those who may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


class TestDisk:
    def test_a_full_disk_is_one_sentence_and_loses_nothing(self, tmp_path: Path, small_disk: Path) -> None:
        run = Run(rule="CWM()", **SMALL | {"rounds": 400})
        with pytest.raises(BadInput, match=r"cannot be written .No space left on device.*goes on from what was saved"):
            train(run, small_disk / "run", save=0)
        (small_disk / "store").mkdir()
        with pytest.raises(BadInput, match="cannot be written"):
            list(sweep({key(run): run}, Store(small_disk / "store"), 1))
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        assert train(run, small_disk / "run").lines == train(run).lines
        assert ended(sweep({key(run): run}, Store(small_disk / "store"), 1)) == {key(run): ["began", "done"]}

    def test_a_read_only_store_is_one_sentence(self, small_disk: Path) -> None:
        run = Run(rule="CWM()", **SMALL)
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        with pytest.raises(BadInput, match=r"cannot be written .Read-only file system"):
            list(sweep({key(run): run}, Store(small_disk), 1))
        with pytest.raises(BadInput, match=r"cannot be written .Read-only file system"):
            train(run, small_disk / "run")


def test_markup_in_a_failure_is_text(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(_text(GRID | {"data": "[/b]nope [red]x"}))
    with sweeping(tmp_path, "s.toml", heard=True) as one:
        out, err = one.communicate(timeout=PATIENCE)
    assert one.returncode == 1
    assert "Traceback" not in err
    assert "'[/b]nope [red]x' is no known data set" in err
    assert "2 failed" in out


def test_runs_of_other_fields_had_the_same_name() -> None:
    found = runs(GRID | {"momentum": [0.0, 0.9], "draw": [1, 2], "seeds": 2})
    names = {named(run, varied(found)) for run in found.values()}
    assert len(names) == len(found)
    assert "MeanwO | SignFlip | 2 of 7 lie | digits, Natural | momentum 0.9 | draw 2 | seed 1" in names


def test_an_accuracy_that_is_not_known_was_zero(capsys: pytest.CaptureFixture[str]) -> None:
    found = runs(GRID)
    watch((News(name, "done") for name in found), found)
    said = capsys.readouterr().err
    assert said.count("accuracy not known") == len(found)
    assert "0.0000" not in said


def test_an_interrupt_while_the_table_is_drawn_ends_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """They went on until somebody collected the generator."""
    found, ended = runs(GRID), []

    def news() -> Generator[News]:
        try:
            yield from (News(name, "began") for name in found)
        finally:
            ended.append(True)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "hear", interrupted)
    with pytest.raises(KeyboardInterrupt) as error:
        watch(news(), found)
    assert error
    assert ended


def test_no_processes_at_all_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 1"):
        list(carried_out({}, -1))


def test_the_board_counts_and_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = runs(GRID | {"seeds": 2, "rounds": 100})
    names = list(found)
    progress, now = Progress(found), 0.0
    monkeypatch.setattr("holdfast.experiments.progress.time.monotonic", lambda: now)
    assert progress.seconds() is None
    progress.hear(News(names[0], "there"))
    progress.hear(News(names[1], "began"))
    progress.hear(News(names[1], "round", round=10, accuracy=0.5))
    now = 5.0
    progress.hear(News(names[1], "round", round=20))
    assert progress.running[names[1]].accuracy == 0.5
    assert progress.seconds() == pytest.approx(0.5 * (80 + 100 + 100))
    progress.hear(News(names[2], "failed", why="no"))
    progress.hear(News(names[1], "done"))
    progress.hear(News(names[3], "busy"))
    assert (progress.there, progress.done, list(progress.failed), progress.busy) == (1, 1, [names[2]], {names[3]})
    assert estimate([Run(rule="CWM()", **SMALL)], None, 1) > 0


def test_the_board_guesses_where_no_rounds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster nobody knew how long it would take, to the end."""
    found = runs(GRID | {"rounds": 100})
    (first, second), now = found, 0.0
    progress = Progress(found)
    monkeypatch.setattr("holdfast.experiments.progress.time.monotonic", lambda: now)
    progress.hear(News(first, "began"))
    now = 50.0
    progress.hear(News(first, "done", round=100))
    assert progress.seconds() == 0.5 * 100
    progress.hear(News(second, "failed", why="no"))
    assert progress.seconds() == 0
