"""The board: what is trained, how parameters are chosen, that nothing is lost or measured twice, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import holdfast.cli.board as command
import holdfast.experiments.board as plan
from holdfast import CWTM, Average, BadInput, BrokenRule, Krum, TooManyFaults
from holdfast.cli.board import board
from holdfast.cli.own import parse_own
from holdfast.data import Natural, load
from holdfast.errors import NoWeightedForm
from holdfast.experiments import peers
from holdfast.experiments.board import (
    ATTACKS,
    COUNT,
    DECLARED,
    LARGE,
    NONE,
    POINTS,
    REPEATED,
    ROWS,
    SCENES,
    SEEDS,
    TUNED_AGAINST,
    TUNING_SEED,
    Job,
    Scene,
    attacks_of,
    count_all,
    plan_of,
    rows_in,
    rule_of,
    run_of,
    summarise,
)
from holdfast.experiments.measuring import carry_out, current, line_key, meet_hostile
from holdfast.experiments.peers import PeerRule
from holdfast.experiments.pool import carried_out
from holdfast.experiments.scores import ScoreFile
from holdfast.guarantees.bounds import number
from holdfast.report.board import Place, failures, front, markdown, places, proved
from holdfast.testing import find_aggregator
from holdfast.training.holding import deal_images
from holdfast.twophase import Mean2P
from tests.children import WIDE
from tests.shell import CROWD

pytest.importorskip("sklearn")
TINY = Scene("digits", Natural(), 1, workers=4, validation=2, changes={"rounds": 1, "every": 1, "batch": 2, "train": 8})
TINY_SCENES, ONE_ROW = {"tiny": TINY}, {"Average": "Average()"}


def walk(rule: Any, validation: Any, honest: Any) -> Iterator[tuple[str, list[Job], dict[Job, Any]]]:
    """The stages of a row whose scores are given by functions of a job."""
    scores: dict[Job, Any] = {}
    while True:
        plan = plan_of("scene", "row", rule, scores)
        jobs = plan.jobs()
        yield plan.stage, [job for job in jobs if job not in scores], scores
        if plan.stage == "done":
            return
        scores |= {job: {"validation": validation(job), "honest": honest(job)} for job in jobs}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board with two points and six attacks."""
    names = (NONE, "SF", *TUNED_AGAINST, COUNT)
    monkeypatch.setattr(plan, "ATTACKS", {name: ATTACKS[name] for name in names})
    monkeypatch.setattr(plan, "POINTS", POINTS[:2])


class TestPlan:
    def test_the_embedded_part_is_within_its_bounds(self) -> None:
        twenty = dict([*ROWS.items()][:20])
        assert count_all(twenty, SCENES) <= 4000
        assert len(ROWS) >= 20
        assert sum(text.startswith("byzfl:") for text in ROWS.values()) >= 2
        assert sum(text.startswith("flower:") for text in ROWS.values()) >= 2
        assert len(POINTS) <= 6
        assert len(TUNED_AGAINST) <= 3

    def test_every_row_fits_every_embedded_scene(self) -> None:
        for scene in SCENES.values():
            assert [name for name, _ in rows_in(ROWS, scene)] == list(ROWS)

    def test_rates_from_a_tenth_to_two_fifths(self) -> None:
        assert {scene.byzantine / scene.workers for scene in SCENES.values()} == {0.1, 0.2, 0.4}
        assert all(scene.run(Average(), NONE, 0, 0.1, 0.0).workers == scene.workers for scene in LARGE.values())

    def test_a_lied_count_is_declared(self) -> None:
        run = TINY.run(Average(), COUNT, 0, 0.1, 0.0)
        assert (run.weights, run.declared) == ("samples", DECLARED)
        assert TINY.run(Average(), NONE, 0, 0.1, 0.0).weights == "equal"

    def test_who_meets_which_attack(self) -> None:
        assert set(ATTACKS) - set(attacks_of(CWTM(f=1))) == {"Canvass"}
        assert set(ATTACKS) - set(attacks_of(Average())) == {"Canvass", COUNT}  # nothing caps its counts
        assert set(ATTACKS) - set(attacks_of(PeerRule(name="byzfl:Krum", f=1))) == {"Canvass", COUNT}
        assert "Canvass" in attacks_of(Mean2P(f=1))

    def test_the_point_with_the_best_worst_validation_is_chosen(self) -> None:
        best = POINTS[3]

        def validation(job: Job) -> float:
            if job.point == best:
                return 0.5
            return 0.1 if job.attack == TUNED_AGAINST[1] else 0.9  # better in the mean, worse at its worst

        stages = list(walk(Average(), validation, lambda job: 0.5))
        assert [stage for stage, _, _ in stages] == ["tune", "attack", "repeat", "done"]
        assert {job.point for job in stages[1][1] + stages[2][1]} == {best}

    def test_test_images_have_no_part_in_the_choice(self) -> None:
        def chosen(honest: Any) -> set[tuple[float, float]]:
            return {job.point for job in list(walk(Average(), lambda job: job.lr, honest))[1][1]}

        assert chosen(lambda job: job.momentum) == chosen(lambda job: -job.lr)

    @pytest.mark.parametrize("name", list(SCENES))
    def test_no_test_image_is_seen_in_any_stage(self, name: str) -> None:
        scene = SCENES[name]
        divided = []
        for seed in (TUNING_SEED, *SEEDS):
            run = scene.run(Average(), NONE, seed, 0.1, 0.0)
            shares, aside, _ = deal_images(run, load(scene.data))
            seen = np.concatenate([*(share.train for share in shares), *aside])
            scored = np.concatenate([share.test for share in shares])
            assert not set(seen) & set(scored)
            divided.append((sorted(seen), sorted(scored)))
        assert all(one == divided[0] for one in divided)

    def test_a_row_with_an_f_of_its_own_is_refused(self) -> None:
        for text in ("CWTM(f=2)", "Mean2P(f=2)", "NNM(f=2) >> CWTM(f=2)"):
            assert rule_of(text, 2).tolerance() == 2
            with pytest.raises(BadInput, match=r"tolerates 2, and 8 workers are Byzantine; write \{f\} for f"):
                rule_of(text, 8)

    def test_only_lines_of_the_chosen_point_count(self) -> None:
        *_, (_, _, scores) = walk(CWTM(f=1), lambda job: 0.5, lambda job: 0.9)
        stale = [replace(job, lr=9.0) for job in scores if job.stage != "tune"]
        plan = plan_of("scene", "row", CWTM(f=1), scores | {job: {"honest": 0.0} for job in stale})
        found = summarise(plan, scores)
        assert found is not None
        assert (found["worst"], found["clean"]) == pytest.approx((0.9, 0.9))

    def test_the_worst_attacks_are_repeated_with_more_seeds(self) -> None:
        order = {name: at / 100 for at, name in enumerate(attacks_of(CWTM(f=1)))}
        *_, (_, again, _), (_, _, scores) = walk(CWTM(f=1), lambda job: 0.5, lambda job: order[job.attack])
        worst = [name for name in order if name != NONE][:REPEATED]
        assert {(job.attack, job.seed) for job in again} == {
            (name, seed) for name in (NONE, *worst) for seed in SEEDS[1:]
        }
        found = summarise(plan_of("scene", "row", CWTM(f=1), scores), scores)
        assert found is not None
        assert (found["attack"], found["worst"], found["clean"]) == (worst[0], order[worst[0]], order[NONE])

    def test_a_training_that_failed_counts_as_nothing_learned(self) -> None:
        *_, (_, _, scores) = walk(CWTM(f=1), lambda job: 0.5, lambda job: None if job.attack == "SF" else 0.9)
        found = summarise(plan_of("scene", "row", CWTM(f=1), scores), scores)
        assert found is not None
        assert (found["attack"], found["worst"]) == ("SF", 0.0)

    def test_a_row_says_which_trainings_failed(self) -> None:
        *_, (_, _, scores) = walk(CWTM(f=1), lambda job: 0.5, lambda job: 0.9)
        lost = next(job for job in scores if job.stage == "attack" and job.attack == "SF")
        scores[lost] = {"failed": "it gave no answer."}
        found = summarise(plan_of("scene", "row", CWTM(f=1), scores), scores)
        assert found is not None
        assert found["failed"] == ("it gave no answer.",)
        place = Place("row", 0.9, 0.0, 0.0, 0.0, "SF", "1", "2", 0.1, "17/17", 0.1, 0.9, found["failed"])
        assert failures([place]) == ["row: 1 training failed and counted as accuracy 0; the first: it gave no answer."]


@pytest.mark.usefixtures("few")
class TestMeasuring:
    def test_stopped_and_run_again_nothing_is_lost_or_measured_twice(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path / "stopped")
        steps = carry_out(file, ONE_ROW, TINY_SCENES, processes=1)
        for _ in range(5):
            next(steps)
        steps.close()
        with file.path.open("a") as cut:
            cut.write('{"scene": "tiny", "row": "Aver')  # what a killed process leaves
        assert len(file.read()) == 5
        rest = [step.job for step in carry_out(file, ONE_ROW, TINY_SCENES, processes=1)]
        whole = ScoreFile(tmp_path / "whole")
        list(carry_out(whole, ONE_ROW, TINY_SCENES, processes=1))
        assert len(rest) == len(set(rest)) == count_all(ONE_ROW, TINY_SCENES) - 5
        numbers = [
            {job: (line["key"], line["honest"], line["validation"]) for job, line in one.read().items()}
            for one in (file, whole)
        ]
        assert numbers[0] == numbers[1]
        assert list(carry_out(file, ONE_ROW, TINY_SCENES)) == []
        self._shown(file)

    def _shown(self, file: ScoreFile) -> None:
        (place,) = places("tiny", TINY, file)
        clean = [line["honest"] for job, line in file.read().items() if job.attack == NONE]
        assert place.clean == pytest.approx(fmean(clean))
        assert place.low <= place.worst <= place.high
        assert place.kappa == "unbounded"
        text = markdown("tiny", TINY, [place])
        assert "| **Average** |" in text
        assert f"{place.worst:.3f}" in text
        certified = [line["kappa"] for job, line in file.read().items() if job.stage == "attack"]
        assert place.largest == ("unbounded" if None in certified else number(max(certified)))
        assert place.hostile == "-"  # nobody has let it meet them

    def test_a_row_meets_the_hostile_rounds_once(self, tmp_path: Path) -> None:
        file, rows = ScoreFile(tmp_path), {"a": "MeanwO(f={f})", "b": "Average()", "c": "Mean2P(f={f})"}
        found = dict(meet_hostile(file, rows))
        assert list(meet_hostile(file, rows)) == []
        assert [len(found[name]["broken"]) for name in rows] == [0, 13, 0]
        assert {line["rounds"] for line in file.hostile().values()} == {17}

    def test_a_round_costs_processor_time_without_its_evaluation(self, tmp_path: Path) -> None:
        run = replace(TINY.run(Average(), NONE, 0, 0.1, 0.0), rounds=6, every=3)
        (_, *_, news) = carried_out({"a": (run, None)}, 1, certify=["a"])
        assert news.cost is not None
        assert news.cost > 0
        assert news.result is not None
        assert all("kappa" in line for line in news.result.lines)
        (_, *_, news) = carried_out({"a": (replace(run, rounds=1), None)}, 1)
        assert news.cost is None
        assert news.result is not None
        assert not any("kappa" in line for line in news.result.lines)

    def test_a_training_that_fails_is_noted_and_tried_again_when_asked(self, tmp_path: Path) -> None:
        too_much = {"tiny": replace(TINY, validation=10**6)}
        file = ScoreFile(tmp_path)
        steps = carry_out(file, ONE_ROW, too_much, processes=1)
        line = next(steps).line
        steps.close()
        assert "sets aside" in line["failed"] or "validation" in line["failed"]
        assert len(file.read()) == 1
        file.forget_failed([], ["Average"])
        assert len(file.read()) == 1
        file.forget_failed(["tiny"], ["Average"])
        assert file.read() == {}


class TestLines:
    def line(self, file: ScoreFile, text: str = "Average()") -> Job:
        job = Job("tiny", "Average", "tune", "ALIE", 100, *POINTS[0])
        file.add(job.record() | {"key": line_key(run_of(job, rule_of(text, 1), TINY_SCENES)), "honest": 0.5})
        return job

    def test_a_line_of_another_rule_or_record_does_not_count(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path)
        job = self.line(file)
        rules = {"Average": Average()}
        assert list(current(file.read(), "tiny", TINY, rules)) == [job]
        assert not current(file.read(), "tiny", TINY, {"Average": CWTM(f=1)})
        assert not current(file.read(), "tiny", replace(TINY, changes={**TINY.changes, "batch": 3}), rules)
        assert not current(file.read(), "tiny", TINY, {"CWM": Average()})

    def test_a_line_of_code_that_was_changed_does_not_count(self, tmp_path: Path) -> None:
        source = (tmp_path / "changing.py").resolve()
        source.write_text(CROWD)
        rule = parse_own(f"{source}:Crowd(f=1)")
        before = line_key(TINY.run(rule, NONE, 0, 0.1, 0.0))
        source.write_text(CROWD + "\n# another\n")
        assert line_key(TINY.run(rule, NONE, 0, 0.1, 0.0)) != before
        assert "-" not in line_key(TINY.run(CWTM(f=1), NONE, 0, 0.1, 0.0))

    def test_a_row_of_ours_cannot_be_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "rows.json").write_text(json.dumps({"CWM": "Krum(f={f})", "mine": "CWM()", "odd": 5}))
        rows = ScoreFile(tmp_path).rows()
        assert (rows["CWM"], rows["mine"]) == ("CWM()", "CWM()")
        assert "odd" not in rows

    @pytest.mark.parametrize("text", ["[1, 2]", '{"a": ', ""])
    def test_a_broken_file_is_one_sentence(self, text: str, tmp_path: Path) -> None:
        for name, ask in (("rows.json", ScoreFile.rows), ("v1-hostile.json", ScoreFile.hostile)):
            (tmp_path / name).write_text(text)
            with pytest.raises(BadInput, match=f"{name} (cannot be read|holds list)"):
                ask(ScoreFile(tmp_path))

    def test_a_line_that_was_cut_within_a_letter(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path)
        job = self.line(file)
        with file.path.open("ab") as cut:
            cut.write('{"scene": "ké'.encode()[:-1])
        assert list(file.read()) == [job]
        self.line(file)
        assert len(file.path.read_bytes().split(b"\n")) == 4

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path)
        with file.held(), pytest.raises(BadInput, match="in use by another process"), file.held():
            pass

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ("raise ValueError('no')", "ValueError was raised: no"),
            ("raise SystemExit", "ended its process"),
            ("import os; os._exit(3)", "ended its process"),
        ],
    )
    def test_a_rule_that_ends_its_process_held_nothing(self, body: str, why: str, tmp_path: Path) -> None:
        source = (tmp_path / f"ending{len(body)}.py").resolve()
        source.write_text(CROWD.replace("return np.full(len(D), 1 / len(D))", body))
        file = ScoreFile(tmp_path)
        ((_, found),) = meet_hostile(file, {"Crowd": f"{source}:Crowd(f={{f}})"}, parse_own)
        assert (found["rounds"], len(found["broken"])) == (17, 17)
        assert all(why in said for said in found["broken"].values())


class TestRows:
    def test_a_row_of_ones_own(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path)
        file.add_row("mine", "NNM(f={f}) >> PTM(f={f})")
        file.add_row("mine", "NNM(f={f}) >> PTM(f={f})")  # again, the same
        assert set(file.rows()) == {*ROWS, "mine"}
        assert repr(rule_of(file.rows()["mine"], 3)) == "NNM(f=3) >> PTM(f=3)"
        with pytest.raises(BadInput, match="another name"):
            file.add_row("mine", "CWM()")
        with pytest.raises(BadInput, match="another name"):
            file.add_row("Krum", "CWM()")

    def test_a_rule_that_needs_more_workers_is_left_out(self) -> None:
        names = [
            name for name, _ in rows_in({"Krum": "Krum(f={f})", "CWTM": "CWTM(f={f})"}, replace(TINY, byzantine=1))
        ]
        assert names == ["CWTM"]


class TestFront:
    def test_who_is_beaten(self) -> None:
        def place(row: str, clean: float, worst: float) -> Place:
            return Place(row, clean, worst, worst, worst, "SF", "", "", 0.1, "", 0.1, 0.9)

        found = [place("a", 0.9, 0.5), place("b", 0.8, 0.6), place("c", 0.8, 0.5), place("d", 0.9, 0.5)]
        assert front(found) == {"a", "b", "d"}

    def test_constants_are_those_of_the_guarantees(self) -> None:
        scene = SCENES["digits, 40 %"]
        assert proved(CWTM(f=8), scene) == "2"
        assert proved(Average(), scene) == "unbounded"
        assert proved(PeerRule(name="byzfl:Krum", f=8), scene) == "none known"
        assert proved(Mean2P(f=8), scene) == "none known"


class TestPeers:
    @pytest.fixture
    def own(self, tmp_path: Path) -> Path:
        file = tmp_path / "aggregators.py"
        file.write_text(
            "import numpy as np\n"
            "def middle(X, f): return np.sort(X, axis=0)[f:len(X) - f].mean(axis=0)\n"
            "def short(X): return X[0][:1]\n"
            "def spoilt(X): return X[0] * np.nan\n"
        )
        return file

    def test_it_answers_as_the_library_does(self, own: Path) -> None:
        X = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
        name = f"{own}:middle"
        rule = PeerRule(name=name, f=2)
        assert np.array_equal(rule(X), find_aggregator(name, f=2).call(X))
        assert rule(X).dtype == np.float32
        parts = rule([{"a": row[:2].reshape(1, 2), "b": row[2:]} for row in X])
        assert np.array_equal(np.concatenate([parts["a"].ravel(), parts["b"]]), rule(X))

    def test_flower_and_its_strategy_agree(self) -> None:
        pytest.importorskip("flwr")
        X = np.random.default_rng(1).normal(size=(9, 5))
        assert np.allclose(PeerRule(name="flower:Krum", f=2)(X), Krum(f=2)(X))

    def test_broken_updates_are_dropped_and_more_than_f_are_refused(self, own: Path) -> None:
        X = np.random.default_rng(0).normal(size=(9, 5))
        X[[1, 4]] = np.nan
        decision = PeerRule(name=f"{own}:middle", f=2).decide(X)
        assert set(decision.dropped) == {1, 4}
        assert np.isfinite(decision.value).all()
        with pytest.raises(TooManyFaults):
            PeerRule(name=f"{own}:middle", f=1)(X)

    @pytest.mark.parametrize("name", ["short", "spoilt"])
    def test_an_answer_that_is_none(self, own: Path, name: str) -> None:
        with pytest.raises(BrokenRule, match="an aggregate is an array of 5 finite numbers"):
            PeerRule(name=f"{own}:{name}", f=1)(np.ones((4, 5)))

    def test_a_call_that_does_not_end_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peers, "SECONDS", 0.1)
        file = tmp_path / "endless.py"
        file.write_text("def endless(X):\n    while True:\n        pass\n")
        with pytest.raises(BrokenRule, match=r"gave no answer within 0\.1 seconds of processor time"):
            PeerRule(name=f"{file}:endless", f=1)(np.ones((4, 5)))

    def test_weights_are_refused(self, own: Path) -> None:
        with pytest.raises(NoWeightedForm):
            PeerRule(name=f"{own}:middle", f=1)(np.ones((4, 5)), weights=[1, 2, 3, 4])


@pytest.mark.usefixtures("few")
class TestCommand:
    @pytest.fixture(autouse=True)
    def _tiny(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(command, "SCENES", TINY_SCENES)
        monkeypatch.setattr(command, "LARGE", {})

    def call(self, *words: str) -> tuple[int, str, BaseException | None]:
        done = CliRunner(env=WIDE).invoke(board, list(words))
        return done.exit_code, done.output, done.exception

    def test_it_runs_shows_draws_and_replays(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        where = ("--folder", str(tmp_path))
        code, said, _ = self.call("run", "--row", "Average", "--dry-run", *where)
        assert code == 0
        assert f"{count_all(ONE_ROW, TINY_SCENES)} trainings, 0 of them done: 1 rows in 1 scenes" in said
        code, said, _ = self.call("run", "--row", "Average", "--jobs", "1", *where)
        assert code == 0
        assert "[0 left in this stage] tiny | Average" in said
        code, said, _ = self.call("show", *where)
        assert code == 0
        assert "∞" in said
        for name in ("board.md", "board.svg"):
            assert self.call("show", "--out", str(tmp_path / name), *where)[0] == 0
            assert "Average" in (tmp_path / name).read_text()
        line = json.loads((tmp_path / "v1.jsonl").read_text().splitlines()[-1])
        code, said, _ = self.call("replay", line["key"], *where)
        assert code == 0
        assert f"honest: {line['honest']} in the file, {line['honest']} now" in said

    def test_nothing_to_show(self, tmp_path: Path) -> None:
        assert "holdfast board run" in str(self.call("show", "--folder", str(tmp_path))[2])

    def test_strange_names(self, tmp_path: Path) -> None:
        where = ("--folder", str(tmp_path))
        assert "did you mean Krum" in str(self.call("run", "--row", "Krm", *where)[2])
        assert isinstance(self.call("run", "--scene", "moon", *where)[2], BadInput)
        assert "begins with" in str(self.call("replay", "zzz", *where)[2])
        assert "MeanwO" in str(self.call("add", "MeanW0(f={f})", *where)[2])
        for rule, words in (
            ("FLTrust()", "no update of its own"),
            ("NNM(f={f})", "gives back many vectors"),
            ("CWTM(f=0)", "write {f} for f"),
            ("flower:Nonsense", "Nonsense"),
        ):
            assert words in str(self.call("add", rule, *where)[2])
        assert not (tmp_path / "rows.json").exists()

    def test_a_row_that_cannot_be_read_does_not_hide_the_others(self, tmp_path: Path) -> None:
        where = ("--folder", str(tmp_path))
        assert self.call("run", "--row", "Average", "--jobs", "1", *where)[0] == 0
        (tmp_path / "rows.json").write_text(json.dumps({"gone": "gone.py:Crowd(f={f})", "odd": "Nonsense()"}))
        code, said, _ = self.call("show", *where)
        assert code == 0
        assert "Average" in said
        assert "gone is left out" in said
        assert "odd is left out" in said

    def test_a_line_of_another_board_is_not_replayed(self, tmp_path: Path) -> None:
        job = Job("moon", "Average", "tune", "ALIE", 0, 0.1, 0.0)
        ScoreFile(tmp_path).add(job.record() | {"key": "abc"})
        assert "does not have" in str(self.call("replay", "abc", "--folder", str(tmp_path))[2])

    def test_a_count_changes_nothing(self, tmp_path: Path) -> None:
        file = ScoreFile(tmp_path)
        file.add(Job("tiny", "CWM", "tune", "ALIE", 100, *POINTS[0]).record() | {"key": "k", "failed": "why"})
        code, _, _ = self.call("run", "--row", "Average", "--retry-failed", "--dry-run", "--folder", str(tmp_path))
        assert code == 0
        assert len(file.read()) == 1

    def test_own_code_needs_leave(self, tmp_path: Path) -> None:
        file = tmp_path / "my_rule.py"
        file.write_text(
            "import numpy as np\nfrom holdfast.rules.base import DistanceRule, Tolerance, value\n\n\n@value\n"
            "class Crowd(DistanceRule):\n    f: Tolerance\n\n    def weights(self, D, rng=None):\n"
            "        return np.full(len(D), 1 / len(D))\n"
        )
        where = ("--folder", str(tmp_path))
        code, said, _ = self.call("add", f"{file}:Crowd(f={{f}})", "--name", "Crowd", *where)
        assert code == 0
        assert "--own-code" in said
        assert "--own-code" in str(self.call("run", "--row", "Crowd", "--dry-run", *where)[2])
        assert self.call("run", "--row", "Crowd", "--dry-run", "--own-code", *where)[0] == 0
