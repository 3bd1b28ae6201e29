"""The command line, run as a newcomer would: in a process of its own, in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file
from safetensors.torch import save_file as save_tensors

import holdfast
from holdfast import BadInput, MeanwO
from holdfast.attacks import ATTACKS, VOTERS
from holdfast.cli.app import app
from holdfast.cli.example import EXAMPLES
from holdfast.cli.files import load_all, save
from holdfast.cli.rules import plain
from holdfast.errors import install
from holdfast.rules import CATALOGUE
from holdfast.twophase import AGGREGATORS
from tests import children
from tests.pages import ask, served

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]


def run(line: str, folder: Path, code: int = 0) -> str:
    words = shlex.split(line)
    assert words[0] == "holdfast"
    done = children.run(children.holdfast(*words[1:]), cwd=folder, env=children.WIDE)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    run("holdfast sample demo", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_that_runs(name: str, demo: Path) -> None:
    example = EXAMPLES[name]
    assert example in run(f"holdfast {name} --help", demo)
    if name in ("play", "watch"):  # which serve until somebody interrupts them
        with served(*shlex.split(example)[1:]) as address:
            assert ask(address, "/")[0] == 200
        return
    if name in ("runs", "report"):
        run("holdfast sweep sweep.toml --sample --only seed=0", demo)
    if name == "replay":
        run("holdfast certify 'CWTM(f=2)' --n 5 --criterion kappa --budget 60 --out worst.npz", demo)
    if name == "ranks":
        (demo / "ranks.jsonl").write_text('{"round": 0, "kept": ["0", "1"], "excluded": {"2": "far"}, "dropped": {}}\n')
    if name in ("aggregate", "certificate", "compare", "profile"):
        run("holdfast sample sample", demo)
    for pattern in re.findall(r"\S*\*\S*", example):  # as a shell does
        example = example.replace(pattern, " ".join(sorted(str(p.relative_to(demo)) for p in demo.glob(pattern))))
    assert run(example, demo)


def test_the_example_of_a_certificate_is_the_readmes(tmp_path: Path) -> None:
    assert EXAMPLES["certificate"] in (Path(__file__).parent.parent / "README.md").read_text()
    assert "structured ones always are" in run("holdfast certify --help", tmp_path)


def test_version_and_catalogue(tmp_path: Path) -> None:
    assert run("holdfast --version", tmp_path) == f"holdfast {holdfast.__version__}\n"
    out = run("holdfast rules", tmp_path)
    for name, rule in CATALOGUE.items():
        assert name in out
        assert rule.formula in out
    assert "2-approximation" in run("holdfast rules CenterwO", tmp_path)
    assert "is no known rule" in run("holdfast rules Zeno", tmp_path, code=2)


def test_no_tex_on_a_terminal() -> None:
    for thing in (*AGGREGATORS.values(), *ATTACKS.values(), *VOTERS.values()):
        assert not re.search(r"\\|math:", plain(thing)), thing
    assert "    mean of the n-f nearest to argmin_i max ‖x - x_i‖\n\nwith K(x_i)" in plain(CATALOGUE["CenterwO"])
    assert "\n    Inner's answer or Outer's, whichever the workers elect\n\n" in plain(AGGREGATORS["Mean2P"])


def test_the_demo_names_its_liars(demo: Path) -> None:
    out = run(f"holdfast aggregate 'MeanwO(f=4)' {_workers(demo)} --json --reference demo/honest-mean.npz", demo)
    told = json.loads(out)
    assert told["distance_to_reference"] < 1.0
    assert len(told["dropped"]) == 2
    bad = json.loads(run(f"holdfast aggregate Average {_workers(demo)} --json --reference demo/honest-mean.npz", demo))
    assert bad["distance_to_reference"] > 10.0
    table = run(f"holdfast aggregate 'MeanwO(f=4)' {_workers(demo)}", demo)
    for name, why in told["dropped"].items():
        assert any(name in line and "dropped" in line and why in line for line in table.splitlines())
    assert "2 dropped" in table


def _workers(folder: Path) -> str:
    return " ".join(sorted(str(p.relative_to(folder)) for p in (folder / "demo").glob("worker-*.npz")))


def _write(path: Path, update: dict[str, np.ndarray]) -> None:
    match path.suffix:
        case ".npz":
            np.savez(path, **update)  # type: ignore[arg-type]
        case ".npy":
            np.save(path, update["w"])
        case ".safetensors":
            save_file(update, path)
        case _:
            torch.save({name: torch.from_numpy(value) for name, value in update.items()}, path)


def _read(path: Path) -> np.ndarray:
    match path.suffix:
        case ".npz":
            return np.load(path)["w"]
        case ".npy":
            return np.load(path)
        case ".safetensors":
            return load_file(path)["w"].numpy()
    return torch.load(path, weights_only=True)["w"].numpy()


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt", ".pth"])
def test_formats(ending: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
    X[2] = 1e30
    for i, row in enumerate(X):
        _write(tmp_path / f"{i}{ending}", {"w": row})
    files = " ".join(f"{i}{ending}" for i in range(7))
    run(f"holdfast aggregate 'MeanwO(f=2)' {files} --out out{ending}", tmp_path)
    assert np.allclose(_read(tmp_path / f"out{ending}"), MeanwO(2)(X), rtol=1e-6)
    assert not list(tmp_path.glob(".*"))


def test_one_file_with_all_workers(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((7, 4))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "named.npz", **{f"w{i}": row for i, row in enumerate(X)})
    np.savez(tmp_path / "matrix.npz", X=X)
    torch.save(torch.from_numpy(X), tmp_path / "x.pt")
    wanted = MeanwO(2).decide(X)
    for name in ("x.npy", "matrix.npz", "x.pt", "named.npz"):
        told = json.loads(run(f"holdfast aggregate 'MeanwO(f=2)' {name} --json --out o.npy", tmp_path))
        assert [int(w.strip("w")) for w in told["kept"]] == list(wanted.kept)
        assert np.allclose(np.load(tmp_path / "o.npy"), wanted.value)


def test_bfloat16_stays(tmp_path: Path) -> None:
    for i in range(5):
        save_tensors({"w": torch.full((3,), float(i), dtype=torch.bfloat16)}, tmp_path / f"{i}.safetensors")
    run("holdfast aggregate CWM " + " ".join(f"{i}.safetensors" for i in range(5)) + " -o o.safetensors", tmp_path)
    assert load_file(tmp_path / "o.safetensors")["w"].dtype == torch.bfloat16
    assert load_file(tmp_path / "o.safetensors")["w"].tolist() == [2.0, 2.0, 2.0]


def test_options(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((70, 4))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "start.npy", X[0])
    np.save(tmp_path / "model.npy", X[1])
    line = "holdfast aggregate 'Bucketing(s=2) >> CWM()' x.npy --seed 3 --json"
    assert run(line, tmp_path) == run(line, tmp_path)
    run("holdfast aggregate 'CenteredClipping(tau=1.0)' x.npy --start start.npy --like model.npy", tmp_path)
    table = run("holdfast aggregate 'MeanwO(f=2)' x.npy", tmp_path)
    assert len(table.splitlines()) == 5  # head, the two excluded, the summary, a hint: of many, only the odd ones


HOSTILE: dict[str, Any] = {
    "empty": b"",
    "noise": b"\x93NUMPY" + bytes(range(200)),
    "code": b"cos\nsystem\n(S'touch owned'\ntR.",
}


def test_a_file_that_is_not_what_its_name_says_gets_our_own_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", a=np.array([{}, []], object))
    assert "it is no npy file" in run("holdfast certificate 'MeanwO(f=1)' text.npy", tmp_path, code=2)
    for name in ("objects.npy", "objects.npz"):
        assert "it holds objects" in run(f"holdfast certificate 'MeanwO(f=1)' {name}", tmp_path, code=2)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_dropped_by_name_and_runs_nothing(kind: str, ending: str, tmp_path: Path) -> None:
    for i in range(5):
        np.save(tmp_path / f"{i}.npy", np.ones(3) + i)
    (tmp_path / f"bad{ending}").write_bytes(HOSTILE[kind])
    files = " ".join(f"{i}.npy" for i in range(5))
    told = json.loads(run(f"holdfast aggregate 'MeanwO(f=1)' {files} bad{ending} --json", tmp_path))
    assert "cannot be read" in told["dropped"][f"bad{ending}"]
    assert not (tmp_path / "owned").exists()
    assert "cannot be read" in run(f"holdfast aggregate 'MeanwO(f=1)' bad{ending}", tmp_path, code=2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("aggregate 'MeanwO(f=3)' x.npy", "at least 7 vectors"),
        ("aggregate 'MeanO(f=3)' x.npy", "did you mean MeanwO?"),
        ("aggregate 'MeanwO(f=1)' none.npy", "is no file"),
        ("aggregate 'MeanwO(f=1)' x.npy none.npy", "is no file"),
        ("aggregate 'MeanwO(f=1)' x.txt", "the formats are"),
        ("aggregate 'MeanwO(f=1)' x.npy --out y.txt", "the formats are"),
        ("aggregate 'MeanwO(f=1)' x.npy --out no/such/folder/y.npy", "there is no folder"),
        ("aggregate 'Bucketing(s=1) >> CWM()' x.npy", "add --seed 1"),
        ("aggregate 'MeanwO(f=1)' a.npy b.npy c.npy", "different structure"),
        ("aggregate 'MeanwO(f=1)' x.npy --reference a.npy", "differs in structure"),
        ("aggregate 'MeanwO(f=1)' layers.npz", "holds one update with 2 entries"),
        ("aggregate 'MeanwO(f=1)' layers.npz layers.npz layers.npz --out y.npy", "holds one array"),
        ("rules meanwo", "did you mean MeanwO?"),
        ("aggregate 'MeanwO(f=1)' number.npy", "single number"),
        ("aggregate 'MeanwO(f=1)' x.npy --seed -1", "not in the range"),
        ("picture x.bmp", "the formats are"),
        ("aggregate", "Missing argument"),
        ("aggregate 'MeanwO(f=1)' x.npy --sed 3", "No such option"),
        ("train --f 4", "No such option '--f'. Did you mean '--liars'?"),
        ("train --byzantine 4", "No such option '--byzantine'. Did you mean '--liars'?"),
        ("train --learning-rate 0.1", "Did you mean '--lr'?"),
        ("aggregate 'MeanwO(f=1)' x.npy --seed three", "not a valid int"),
        ("agregate", "No such command"),
    ],
)
def test_an_error_is_one_line(line: str, said: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(5))
    for name, size in (("a", 2), ("b", 3), ("c", 4)):
        np.save(tmp_path / f"{name}.npy", np.ones(size))
    (tmp_path / "x.txt").write_text("1")
    np.save(tmp_path / "number.npy", 3.0)
    np.savez(tmp_path / "layers.npz", weight=np.ones((2, 3)), bias=np.ones(2))
    error = run(f"holdfast {line}", tmp_path, code=2)
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("holdfast: ")


def test_a_stream_of_files(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"holdfast aggregate 'StreamCenterwO(f=4)' {_workers(demo)} --json --reference demo/honest-mean.npz"
    (demo / "demo" / "worker-03.npz").write_bytes(b"nonsense")
    told = json.loads(run(line, demo))
    assert told["distance_to_reference"] < 1.0
    assert "cannot be read" in told["dropped"]["worker-03.npz"]
    assert len(told["dropped"]) == 3
    (demo / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 1 kB\n")
    monkeypatch.setattr("holdfast.cli.files.MEMORY", demo / "meminfo")
    with pytest.raises(BadInput, match="take StreamCenterwO"):
        load_all(sorted((demo / "demo").glob("worker-*.npz")))


@pytest.mark.parametrize("rule", ["MeanwO(f=1)", "StreamCenterwO(f=1)"])
def test_more_dropped_than_tolerated_is_refused_unless_on_excess_says_lower(rule: str, demo: Path) -> None:
    line = f"holdfast aggregate '{rule}' {_workers(demo)} --json"
    refused = run(line, demo, code=2)
    assert refused.startswith(
        f"holdfast: {rule} was given n = 15 vectors, of which 2 were dropped (worker-11.npz is shape "
    )
    assert refused.endswith("and it tolerates 1; mend the workers, raise f, or add --on-excess lower.\n")
    assert len(refused.splitlines()) == 1
    told = json.loads(run(f"{line} --on-excess lower", demo))
    assert told["note"] == f"2 dropped are more than {rule} tolerates, and on_excess='lower' goes on"
    assert told["dropped"].keys() == {"worker-11.npz", "worker-12.npz"}
    assert "not one of 'refuse', 'lower'" in run(f"{line} --on-excess ignore", demo, code=2)


def test_compare_refuses_likewise_and_tells_how_answers_of_the_remaining_move(demo: Path) -> None:
    line = f"holdfast compare {_workers(demo)} --f 1"
    assert "of which 2 were dropped" in run(line, demo, code=2)
    assert "for f = 0: 0  1: " in run(f"{line} --on-excess lower", demo)


def test_a_file_that_cannot_be_read_counts_as_dropped(tmp_path: Path) -> None:
    for i in range(5):
        np.save(tmp_path / f"{i}.npy", np.ones(3) + i)
    for name in ("bad.npz", "worse.npz"):
        (tmp_path / name).write_bytes(b"nonsense")
    files = " ".join(f"{i}.npy" for i in range(5))
    told = json.loads(run(f"holdfast aggregate 'MeanwO(f=1)' {files} bad.npz --json", tmp_path))
    assert told["dropped"] == {"bad.npz": "a file that cannot be read: it is no npz file"}
    assert "1 of 6 dropped: bad.npz (a file that" in run(
        f"holdfast certificate 'MeanwO(f=1)' {files} bad.npz", tmp_path
    )
    for command in ("aggregate 'MeanwO(f=1)'", "aggregate 'StreamCenterwO(f=1)'", "certificate 'MeanwO(f=1)'"):
        refused = run(f"holdfast {command} {files} bad.npz worse.npz", tmp_path, code=2)
        assert (
            "n = 7 vectors, of which 2 were dropped (bad.npz is a file that cannot be read: it is no npz file and"
            in refused
        )


def test_compare_tells_cost_kept_and_how_answers_move(demo: Path) -> None:
    out = run(f"holdfast compare {_workers(demo)} --f 4 --plot demo/c.png", demo)
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert "the optimum is proven" in out
    assert "1.0000" in lines["MeanExact(f=4)"]
    liars = json.loads(run(f"holdfast aggregate 'MeanwO(f=4)' {_workers(demo)} --json", demo))
    for name in [*liars["excluded"], *liars["dropped"]]:
        assert name in lines["MeanwO(f=4)"]
    moves = [float(word) for word in re.findall(r"\d: (\S+)", out.splitlines()[-2])]
    assert moves[0] == 0
    assert moves[1] < moves[2] == pytest.approx(moves[3], rel=0.1), "two liars are left; then it rests"
    assert (demo / "demo" / "c.png").read_bytes()[:4] == b"\x89PNG"
    X = np.random.default_rng(0).standard_normal((7, 3))
    np.save(demo / "tiny.npy", X * 1e-200)
    np.save(demo / "far.npy", np.vstack([X, np.full((1, 3), 1e200)]))
    assert "nan" not in run("holdfast compare tiny.npy --f 1", demo)
    assert "nan" not in run("holdfast compare far.npy --f 1", demo)
    assert "at least" in run(f"holdfast compare {_workers(demo)} --f 40", demo, code=2)
    assert "the formats" in run(f"holdfast compare {_workers(demo)} --f 4 --plot c.txt", demo, code=2)


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    for i in range(4):
        save(tmp_path / f"{i}.npz", {"a": np.ones(3) + i, "file": np.ones(1)})
    save(tmp_path / "w[bold]x.npz", {"a": np.ones(3), "[/red]\n": np.ones(1)})
    out = run("holdfast aggregate 'MeanwO(f=1)' 0.npz 1.npz 2.npz 3.npz 'w[bold]x.npz' --out o.npz", tmp_path)
    assert "w[bold]x.npz" in out
    assert sorted(np.load(tmp_path / "o.npz").files) == ["a", "file"]
    (tmp_path / "d").mkdir()
    save(tmp_path / "d" / "1.npz", {"a": np.ones(3), "file": np.ones(1)})
    told = json.loads(run("holdfast aggregate CWM 0.npz 1.npz d/1.npz --json", tmp_path))
    assert list(told["weights"]) == ["0.npz", "1.npz", "d/1.npz"]


@pytest.mark.parametrize("name", ["OptALIE", "OptIPM", "IPM"])
def test_every_attack_that_a_message_lists_is_known(name: str, tmp_path: Path) -> None:
    said = run(f"holdfast attacks '{name}'", tmp_path)
    assert ("OptALIE() is PGA(along='std', thorough=True).\n" in said) is (name == "OptALIE")


def test_a_missing_extra_names_its_install(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('no', name='typer')")
    done = children.run(children.holdfast(), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.stderr.strip() == f"holdfast: the command line needs typer; {install('cli')}."
    assert done.returncode == 1


def test_the_picture_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "c.png"):
        run(f"holdfast picture {name}", tmp_path)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"


def test_the_picture_tells_the_truth() -> None:
    """In each panel the rule that is said to be near is nearer than the other and than the mean of all."""
    from holdfast.guarantees.instances import DILEMMA as POINTS
    from holdfast.guarantees.instances import SIEGE, SNEAK
    from holdfast.report.dilemma import ANSWERS

    for liars, near in ((SNEAK, "Outer"), (SIEGE, "Inner")):
        mean = np.delete(POINTS, liars, axis=0).mean(axis=0)
        off = {label.split(":")[0]: float(np.linalg.norm(rule(POINTS) - mean)) for label, rule, _, _ in ANSWERS}
        assert min(off, key=off.__getitem__) == near


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("CWTM(f=1)", "used 100% of the liars' updates in some coordinate, excluded 0%"),
        ("MeanwO(f=1)", "of the liars' updates, excluded"),
    ],
)
def test_a_rule_on_coordinates_was_said_to_keep_all_liars(tmp_path: Path, rule: str, said: str) -> None:
    assert said in run(f"holdfast train --rule '{rule}' --attack 'SignFlip()' --n 5 --rounds 2", tmp_path)


def test_a_training_without_a_folder_takes_a_new_one(tmp_path: Path) -> None:
    line = "holdfast train --rule 'MeanwO(f=1)' --n 4 --rounds 2"
    assert "record, metrics and model: run\n" in run(line, tmp_path)
    assert "record, metrics and model: run-2\n" in run(f"{line} --seed 1", tmp_path)
    assert "record, metrics and model: run\n" in run(line, tmp_path), "the same command finds its run again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-2"]


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ("--attack 'NaN()' --liars 1", "every message of the Byzantine workers was dropped"),
        ("--attack 'NaN()' --liars 2", "2 workers are Byzantine, and MeanwO(f=1) tolerates 1; all rounds were skipped"),
        ("--attack 'ALIE()' --liars 1", "ALIE() is no attack here: z_max is 0 if 1 of 5 workers are Byzantine"),
        ("--liars 1 --weights samples", "all workers count alike, so weights='samples' changes nothing"),
        ("--attack 'SignFlip()' --liars 0", "no worker is Byzantine, so nobody sends SignFlip()"),
    ],
)
def test_a_training_that_proves_nothing_says_so_in_its_first_line(tmp_path: Path, options: str, remark: str) -> None:
    said = run(f"holdfast train --rule 'MeanwO(f=1)' --n 5 --rounds 2 {options}", tmp_path)
    assert f"; {remark}" in said.splitlines()[0]


@pytest.mark.parametrize(("more", "silent"), [("", False), ("rates = [0.0, 0.4]", True), ("byzantine = 2", True)])
def test_a_sweep_in_which_nobody_lies_said_nothing(tmp_path: Path, more: str, silent: bool) -> None:
    (tmp_path / "s.toml").write_text(f"rules = ['CWM()']\nattacks = ['SignFlip()', 'Empire()']\n{more}\n")
    done = children.run(children.holdfast("sweep", "s.toml", "--dry-run"), cwd=tmp_path)
    said = "nobody lies in these runs: s.toml sets neither rates nor byzantine above 0\n"
    assert done.stderr == ("" if silent else said)


def test_a_rule_of_two_phases_gives_two_candidates(demo: Path) -> None:
    line = f"holdfast aggregate 'Mean2P(f=4)' {_workers(demo)}"
    assert "take the one that most workers prefer" in run(f"{line} --out both.npz", demo)
    for name, rule in (("inner", "MeanwO(f=4)"), ("outer", "OuterMean(f=4)")):
        run(f"holdfast aggregate '{rule}' {_workers(demo)} --out one.npz", demo)
        assert (demo / f"both-{name}.npz").read_bytes() == (demo / "one.npz").read_bytes()
    told = json.loads(run(f"{line} --json", demo))
    assert {name: one["rule"] for name, one in told.items()} == {"inner": "MeanwO(f=4)", "outer": "OuterMean(f=4)"}
    assert "take MeanwO(f=4) or OuterMean(f=4)" in run(
        f"holdfast certificate 'Mean2P(f=4)' {_workers(demo)}", demo, code=2
    )
