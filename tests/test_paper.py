"""The paper's tables and figures as lists of runs, next to the printed numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from holdfast import BadInput
from holdfast.attacks import CodedPGA, LabelFlip, NoAttack, Omniscient
from holdfast.cli import paper as command
from holdfast.experiments.paper import (
    EIGHT,
    MAIN,
    ON_EMNIST,
    ORDER,
    PAPERS,
    TABLES,
    Setting,
    available,
    difference,
    draws,
    everything,
    measured,
    printed,
    readings,
    reference,
    table,
    votes,
)
from holdfast.experiments.pool import News
from holdfast.experiments.store import Entry, Store, key
from holdfast.experiments.sweep import Runs
from holdfast.report.agreement import _agreement, agreements
from holdfast.report.dilemma import numbers
from holdfast.report.paper import aside, compared, group, sections
from holdfast.report.plots import curves
from holdfast.report.tables import markdown
from holdfast.training import Run
from tests import children

ROOT = Path(__file__).parent.parent
ARCHIVE = ROOT / "results" / "paper" / "runs.jsonl"


def entry(run: Run, accuracy: float) -> Entry:
    facts = {"rounds": run.rounds, "outer": 0.5 if run.two_phase else None}
    return Entry(key(run), run, "done", [{"round": run.rounds, "accuracy": accuracy}], facts)


def test_the_printed_numbers_are_all_there() -> None:
    assert len(printed()) == 444
    assert sum(attack != "Worst" for _, _, attack in printed()) == 384
    assert printed()[MAIN, "Cent2P", "SF"][0] == 0.62
    assert printed()["ablation", "Mean1P", "Omn"][0] == 0.01
    for name, one in TABLES.items():
        if not name.startswith("beyond"):
            assert set(reference(name)) == {(r, a) for r in one.rules for a in (*one.attacks, "Worst")}
            worst = {
                r: min(v for (row, a), v in reference(name).items() if row == r and a != "Worst") for r in one.rules
            }
            assert all(abs(reference(name)[r, "Worst"] - value) < 0.011 for r, value in worst.items())


@pytest.mark.parametrize("preset", ["program", "text"])
def test_every_cell_is_a_run_of_its_own(preset: str) -> None:
    setting = Setting(preset, seeds=2)
    for one in TABLES.values():
        found = one.runs(setting)
        assert len(found) == 2 * len(one.rules) * len(one.attacks)
        assert {(run.workers, run.rounds, run.batch, run.lr) for run in found.values()} == {(35, 1500, 3, 0.1)}
        assert all(run.vote_batch == 24 for run in found.values())
        assert all(Run.read(run.text()) == run for run in found.values())
    runs = {key(run) for one in TABLES.values() for run in one.runs(setting).values()}
    assert runs <= set(everything(setting))


def test_what_the_program_does() -> None:
    main = TABLES[MAIN].runs(Setting())
    assert len(main) == 48
    assert main["Avg", "Omn", 0].attack == Omniscient(form="program")
    assert {run.byzantine for run in TABLES["homogeneous 0.1"].runs(Setting()).values()} == {4}
    assert {run.byzantine for run in TABLES["homogeneous 0.1"].runs(Setting("text")).values()} == {3}
    assert {run.reject for run in main.values()} == {1e5}
    assert {run.reject for run in TABLES[MAIN].runs(Setting("text")).values()} == {None}
    assert main["Mean2P", "LF", 0].shrink == 21 / 35
    hetero = TABLES["heterogeneous 0.2"].runs(Setting())
    assert hetero["Krum", "PGA", 0].attack == CodedPGA()
    assert "Dirichlet" in repr(hetero["Krum", "PGA", 0].split)
    cifar = TABLES["cifar"].runs(Setting())
    assert cifar["Cent2P", "LF", 0].attack == NoAttack()
    assert cifar["Cent2P", "LF", 0].byzantine == 7  # who vote the other way round all the same
    assert TABLES["cifar"].runs(Setting("text"))["Cent2P", "LF", 0].attack == LabelFlip()
    beyond = TABLES["beyond 0.4 momentum"].runs(Setting())
    assert {(run.momentum, run.shrink, run.reject) for run in beyond.values()} == {(0.9, 1.0, None)}


def test_the_most_telling_comes_first() -> None:
    runs = list(everything(Setting()).values())
    first = [run for name in ORDER[:3] for run in TABLES[name].runs(Setting()).values()]
    assert runs[: len(first)] == first
    assert len(runs) == len({key(run) for run in runs})
    assert {run.vote_batch for run in votes(Setting()).values()} == {3, 24, 96}
    assert len({(run.seed, run.draw) for run in draws(Setting()).values()}) == 9


@pytest.mark.parametrize(
    ("name", "rate", "why"), [("homo", None, "no known table"), ("homogeneous", 0.3, "no known table")]
)
def test_tables_that_the_paper_does_not_have(name: str, rate: float | None, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        table(name, rate)
    with pytest.raises(BadInput, match="preset"):
        Setting("novel")


def test_ours_stands_next_to_theirs() -> None:
    setting = Setting(seeds=2)
    runs = TABLES[MAIN].runs(setting)
    entries = [entry(run, 0.5 + 0.1 * seed) for (_, attack, seed), run in runs.items() if attack != "SV"]
    found = measured(MAIN, setting, entries)
    assert found["Avg", "SF"] == [0.5, 0.6]
    off = difference(MAIN, {("Avg", "SF"): [0.5, 0.6]})
    assert off == pytest.approx(0.55 - 0.04)
    shown = compared(MAIN, setting, entries)
    assert shown.rows == list(EIGHT)
    assert "40 of 48 cells" in shown.caption
    assert shown["Avg", "SF"].reference == 0.04
    assert shown["Cent2P", "Worst"].reference == 0.62
    assert "0.55" in markdown(shown)
    assert "(paper: 5)" in Setting(rounds=3).caption("femnist")
    assert "3 rounds (paper: 1,500)" in Setting(rounds=3).caption("femnist")
    assert "digits instead of femnist" in Setting(sets={"femnist": "digits"}).caption("femnist")
    assert "on EMNIST (the same characters" in Setting(sets=ON_EMNIST).caption("femnist")


def test_femnist_is_drawn_by_its_natural_frequencies() -> None:
    for name, split in ((MAIN, "Natural(prior='byclass')"), ("heterogeneous 0.4", "Dirichlet(prior='byclass')")):
        found = TABLES[name].runs(Setting()).values()
        assert {(run.data, repr(run.split), run.train, run.test) for run in found} == {("femnist", split, 583, 116)}
    beyond = TABLES["beyond 0.4"].run(("Avg", "SF"), Setting())
    assert (beyond.data, repr(beyond.split)) == ("femnist", "Natural(prior='byclass')")
    emnist = TABLES[MAIN].run(("Avg", "SF"), Setting(sets=ON_EMNIST))
    assert (emnist.data, repr(emnist.split), emnist.train) == ("emnist", "Natural()", 750)


def test_every_archived_run_has_the_key_of_its_run() -> None:
    """Old lines, without the version of their code, and new ones; a run that is there is not run again."""
    lines = ARCHIVE.read_text().splitlines()
    found = [Entry.read(line) for line in lines]
    assert [key(one.run) for one in found] == [json.loads(line)["key"] for line in lines]
    assert [one.text() for one in found] == lines
    known = set(everything(Setting(seeds=5))) | set(everything(Setting(seeds=5, sets=ON_EMNIST)))
    assert {one.key for one in found} <= known


def test_the_docs_show_emnist_where_more_was_measured_there() -> None:
    setting = Setting()
    emnist = [entry(run, 0.5) for run in TABLES[MAIN].runs(Setting(sets=ON_EMNIST)).values()]
    femnist = [entry(run, 0.6) for run in TABLES[MAIN].runs(setting).values()]
    few = sections(setting, [*emnist, *femnist[:3]])
    assert "on EMNIST" in few[MAIN]
    assert "| homogeneous 0.4 | femnist | 3 of 48 |" in few["summary"]
    assert "| homogeneous 0.4 | emnist | 48 of 48 |" in few["summary"]
    assert "on EMNIST" not in sections(setting, [*emnist, *femnist])[MAIN]
    assert few["ablation"] == "Not measured yet.\n"


def test_both_readings_of_uniform() -> None:
    found = readings(Setting())
    assert {repr(run.split) for run in found.values()} == {"Natural(prior='byclass')", "Uniform()"}
    assert found["Avg", "SF", "natural"] == TABLES[MAIN].run(("Avg", "SF"), Setting())
    text = aside("readings", Setting(seeds=3), [entry(found["Avg", "SF", "equal"], 0.25)])
    assert "| Avg under SF | – | 0.25 | 0.04 |" in text
    assert "1 seed (paper: 5)" in text


def test_what_votes_and_draws_say_of_themselves_is_true() -> None:
    """They told the seeds and the images of a vote that the tables have; and fell over a run without an election."""
    setting = Setting(seeds=3, vote_batch=24)
    skipped = [entry(run.changed(), 0.5) for run in votes(setting).values()]
    for one in skipped:
        one.facts["outer"] = None
    assert aside("votes", setting, skipped).endswith("\nPreset program, 1,500 rounds, 1 seed (paper: 5).\n")
    assert "| Cent2P under SF | 0.50, – | 0.50, – | 0.50, – | 0.62 |" in aside("votes", setting, skipped)
    assert aside("draws", setting, []).endswith("\nPreset program, 1,500 rounds.\n")


def test_what_the_paper_does_not_have_is_not_next_to_it() -> None:
    said = compared("beyond 0.4 momentum", Setting("text", rounds=9, seeds=2), []).caption
    assert "Worker momentum 0.9, 9 rounds (paper: 1,500), 2 seeds, votes on 24 images. 0 of 64" in said


def test_the_figure_has_the_papers_names(tmp_path: Path) -> None:
    entries = [entry(run, 0.5) for run in TABLES["heterogeneous 0.2"].runs(Setting()).values()]
    shown = group("heterogeneous 0.2", Setting(), entries)
    assert len(shown.cells) == 56
    curves(shown, tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert all(f"<!-- {name} -->" in text for name in ("PGA", "Cent2P", "CClip"))


def test_sneak_and_siege_in_numbers() -> None:
    text = numbers()
    assert "cosine -1.00" in text
    rows = {line[:18].strip(): [float(word) for word in line[18:].split()] for line in text.splitlines()[4:7]}
    assert rows["Outer: OuterMean"][0] < rows["Average"][0] < rows["Inner: MeanwO"][0]
    assert rows["Inner: MeanwO"][1] < rows["Average"][1] < rows["Outer: OuterMean"][1]


def test_smaller_data_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert set(available(tmp_path)) == {"femnist", "cifar10"}
    assert set(available(tmp_path).values()) <= {"mnist-5k", "digits"}
    (tmp_path / "emnist_byclass_132k.npz").touch()
    assert available(tmp_path)["femnist"] == "emnist"
    (tmp_path / "femnist_leaf_part.npz").touch()
    assert available(tmp_path)["femnist"] == "femnist"


def run(folder: Path, *words: str, code: int = 0) -> str:
    env = {"XDG_CACHE_HOME": str(folder), "COLUMNS": "200", "NO_COLOR": "1"}
    done = children.run(children.holdfast("paper", *words), cwd=folder, env=env)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_a_newcomer_without_the_data_gets_small_numbers_that_say_so(tmp_path: Path) -> None:
    said = run(tmp_path, "run", "votes", "--rounds", "2", "--store", "s")
    assert "femnist is not there" in said
    assert "7 to do: about" in said or "9 to do: about" in said
    assert "Cent2P under Omn" in said
    again = run(tmp_path, "run", "votes", "--rounds", "2", "--store", "s")
    assert "to do" not in again
    assert len(Store(tmp_path / "s").read()[0]) == 9
    table = run(tmp_path, "show", "table", "--rounds", "2", "--store", "s", "--out", "t.tex")
    assert "3 of 48 cells" in table
    assert r"\toprule" in (tmp_path / "t.tex").read_text()
    run(tmp_path, "show", "beyond", "--rounds", "2", "--store", "s", "--out", "t.md")
    assert (tmp_path / "t.md").read_text().count("| rule |") == 2  # the last was left


def test_single_rows_and_the_tables_of_emnist(tmp_path: Path) -> None:
    said = run(tmp_path, "show", "table", "--rule", "Avg", "--rule", "Krum", "--seeds", "3", "--store", "s")
    assert "36 trainings, 0 of them done" in said
    words = ["show", "table", "--store", str(ARCHIVE), "--data"]
    assert "48 trainings, 48 of them done" in (emnist := run(tmp_path, *words, "emnist"))
    assert "on EMNIST" in emnist
    assert "stands in" not in emnist
    assert "on EMNIST" not in run(tmp_path, *words, "femnist")


def test_a_training_that_failed_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ended with 0."""

    def fails(todo: Runs, *_: object, **__: object) -> Iterator[News]:
        yield from (News(name, "failed", why="it was too hot") for name in todo)

    monkeypatch.setattr(command, "sweep", fails)
    monkeypatch.setattr(command, "estimate", lambda *_: 0.0)
    with pytest.raises(typer.Exit) as end:
        command.run("votes", rounds=2, store=tmp_path, out=tmp_path / "t.md")
    assert end.value.exit_code == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("the first that failed: Cent2P")
    assert (tmp_path / "t.md").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["chapter"], "no known part of the paper"),
        (["table", "homo"], "no known table"),
        (["table", "--preset", "x"], "preset"),
        (["table", "--rate", "0.3"], "no known table"),
        (["table", "--rule", "Mean1P"], "no known row of the table"),
        (["votes", "--rule", "Avg"], "--rule Avg was given for votes"),
        (["table", "--data", "mnist"], "no known data set of the paper's characters"),
        (["table", "--data", "."], "--data . was given, which is a folder; name it by --folder ."),
        (["beyond", "--rate", "0.2"], "no known table"),  # it was left aside
        (["all", "--rate", "0.2"], "--rate 0.2 was given for all"),
        (["table", "--out", "x.pdf"], "the formats are .md, .tex, .html"),  # told when all had been measured
        (["figure", "--out", "x.md"], "the formats are .svg, .png, .pdf"),
        (["votes", "--out", "nowhere/x.md"], "no folder nowhere"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(tmp_path: Path, words: list[str], why: str) -> None:
    said = run(tmp_path, "run", *words, code=2)
    assert why in said
    assert len(said.strip().splitlines()) == 1


def test_docs_paper_shows_what_was_measured() -> None:
    entries, complaints = Store(ARCHIVE).read()
    assert not complaints
    text = (ROOT / "docs" / "paper.md").read_text()
    for name, section in sections(Setting(), entries).items():
        assert f"<!-- {name} -->\n{section}<!-- /{name} -->" in text, f"{name} is stale: make tables"


def test_verify_tells_agreement_and_what_is_missing(tmp_path: Path) -> None:
    said = run(tmp_path, "verify", "--store", str(ARCHIVE), "--out", "cells.svg")
    entries = Store(ARCHIVE).read()[0]
    found = list(agreements(Setting(), entries))
    ours = [one for one in found if one.data in PAPERS]
    done, missing = (sum(len(getattr(one, name)) for one in ours) for name in ("pairs", "missing"))
    assert done + missing == 384
    assert f"{done} of the paper's 384 results are measured on its data sets" in said
    assert all(f"missing in {one.table}: " in said for one in ours if one.missing)
    assert (tmp_path / "cells.svg").read_text().count("<use ") >= sum(len(one.pairs) for one in found)


def test_agreement_is_what_its_definitions_say() -> None:
    theirs = {("a", "x"): (0.1, 0.05), ("b", "x"): (0.3, 0.05), ("c", "x"): (0.5, 0.05), ("d", "x"): (0.7, 0.05)}
    table = replace(TABLES[MAIN], attacks=("x",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLES, MAIN, table)
        found = {("a", "x"): [0.0, 0.2], ("b", "x"): [0.5], ("c", "x"): [0.4], ("d", "x"): [0.7]}
        one = _agreement(MAIN, "femnist", found, theirs)
        few = _agreement(MAIN, "femnist", {("a", "x"): [0.2]}, theirs)
    assert one.difference == pytest.approx(0.3 / 4)
    assert one.correlation == pytest.approx(0.8)  # 1 - 6 * 2 / (4 * 15)
    assert one.within == 0.75
    assert (few.correlation, len(few.missing)) == (None, 3)
