"""Replies that come late: no reply is used twice, at most one for each worker, turns, ages, and training with them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import BadInput, Run, train
from holdfast.errors import NoWeightedForm
from holdfast.mailbox import Letter, Mailbox
from holdfast.training import Functions, State
from holdfast.training.late import Late, OnTime, to_arrays, to_mailbox
from holdfast.training.samples import declared_masses

SIZE = 6


def quadratic(workers: int = 9) -> Functions:
    """Workers whose gradients lead to a point of their own, near one."""
    return Functions(
        workers=workers,
        first=np.zeros(SIZE),
        update=lambda worker, model, t: model - 1 - 0.1 * np.sin(worker + np.arange(SIZE)),
        loss=lambda worker, model, t: float(np.square(model - 1 - 0.1 * np.sin(worker + np.arange(SIZE))).sum()),
        evaluation=lambda model: {"error": float(abs(model - 1).max())},
    )


def settings(**fields: Any) -> Run:
    usual: dict[str, Any] = {"rule": "PTM(f=2)", "attack": "SignFlip()", "byzantine": 2, "late": Late(wait=6)}
    return Run(**{"workers": 9, "rounds": 40, "every": 40, "momentum": 0.5, **usual, **fields})


def used(lines: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Worker and round of the model of every reply that a rule used, in all rounds."""
    return [
        (worker, line["round"] - int(age))
        for line in lines
        for worker, (age, kept) in enumerate(zip(line["age"], line["kept"] or "." * len(line["age"]), strict=True))
        if kept != "."
    ]


class TestMailbox:
    moves = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), max_size=40)

    @given(moves, st.integers(0, 4), st.integers(0, 5))
    def test_its_laws(self, moves: list[tuple[int, int, int]], most: int, oldest: int) -> None:
        box, seen = Mailbox[int](), set[tuple[int, int]]()
        for now, (worker, delay, back) in enumerate(moves):
            box.put(Letter(worker, max(0, now - back), now + delay, what=(worker, now)))
            taken = box.take(now, time=now, most=most, oldest=oldest)
            assert len(taken) == len({one.worker for one in taken})  # at most one for each worker
            assert not most or len(taken) <= most
            for one in taken:
                assert one.due <= now
                assert one.age(now) <= oldest
                assert (one.worker, one.made) not in seen  # never twice
                assert not any(w == one.worker and made > one.made for w, made in seen)  # never back in time
            seen |= {(one.worker, one.made) for one in taken}
        assert len(box.waiting) <= 5 * (oldest + 1)  # it does not grow with the rounds

    def test_workers_take_turns(self) -> None:
        box, times = Mailbox[str](), Counter[str]()
        for now in range(40):
            for worker in ("quick", "b", "c", "d"):
                box.put(Letter(worker, now, now, None))
            times.update(one.worker for one in box.take(now, time=now, most=2))
        assert times == {"quick": 20, "b": 20, "c": 20, "d": 20}

    def test_who_waits_keeps_its_turn(self) -> None:
        box = Mailbox[str]()
        for worker in "abc":
            box.put(Letter(worker, 0, 0, None))
        assert [one.worker for one in box.take(0, time=0, most=2)] == ["a", "b"]
        for worker in "ab":
            box.put(Letter(worker, 1, 1, None))
        assert [(one.worker, one.age(1)) for one in box.take(1, time=1, most=2)] == [("c", 1), ("a", 0)]

    def test_a_reply_that_was_overtaken_is_lost(self) -> None:
        box = Mailbox[str]()
        box.put(Letter("a", 0, 3, "old"))
        box.put(Letter("a", 1, 1, "new"))
        assert box.busy(2) == {"a"}
        assert [one.what for one in box.take(1, time=1)] == ["new"]
        box.put(Letter("a", 1, 1, "the same round again"))
        box.put(Letter("a", 0, 2, "older"))
        assert box.take(3, time=3) == []
        assert not box.waiting

    def test_used_replies_are_recalled_up_to_an_age(self) -> None:
        box = Mailbox[str](keeps=True)
        for worker in "ab":
            box.put(Letter(worker, 0, 0, worker))
        box.take(0, time=0)
        assert [one.what for one in box.recall(2, 2, without={"a"})] == ["b"]
        assert box.recall(3, 2, without={"a"}) == []

    @pytest.mark.parametrize("keeps", [False, True])
    def test_it_survives_a_checkpoint(self, keeps: bool) -> None:
        box = Mailbox[int](keeps=keeps)
        for worker, due in ((3, 0), (1, 2), (2, 0)):
            box.put(Letter(worker, 0, due, np.full(4, float(worker))))
        box.take(0, time=0, most=1)
        back = to_mailbox(to_arrays(box) | {"round": 1}, np.zeros(4))
        assert back is not None
        for one in (box, back):
            one.put(Letter(3, 1, 1, np.full(4, 9.0)))
        for now in (1, 2):
            mine, theirs = (
                [(x.worker, x.made, x.due, list(x.what)) for x in one.take(now, time=now)] for one in (box, back)
            )
            assert mine == theirs
        assert [one.worker for one in back.recall(2, 9, ())] == [one.worker for one in box.recall(2, 9, ())]


class TestTraining:
    @pytest.mark.parametrize("late", [Late(wait=6), Late(), Late(oldest=0), Late(share=1.0, most=1)])
    def test_no_reply_is_used_twice(self, late: Late) -> None:
        lines = train(settings(late=late), task=quadratic()).lines
        replies = used(lines)
        assert len(replies) == len(set(replies))
        assert all(int(age) <= late.oldest for line in lines for age in line["age"].replace(".", ""))
        assert not any(line["events"] for line in lines)  # no round was skipped for lack of replies

    def test_a_round_that_waits_for_all_has_all_and_takes_long(self) -> None:
        whole = train(settings(late=OnTime()), task=quadratic())
        waited = train(settings(late=Late(wait=9)), task=quadratic())
        assert {line["age"] for line in waited.lines} == {"0" * 9}
        np.testing.assert_array_equal(waited.model, whole.model)
        quick = train(settings(late=Late(wait=6)), task=quadratic())
        assert 3 < waited.lines[-1]["time"] / 40 <= 4
        assert 1 <= quick.lines[-1]["time"] / 40 < 2

    def test_replies_are_late_as_often_as_was_said(self) -> None:
        late = Late(share=0.4, most=3)
        delays = np.concatenate([late.delays(np.random.default_rng(seed), 20) for seed in range(500)])
        assert np.bincount(delays) / len(delays) == pytest.approx([0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3], abs=0.02)

    def test_who_is_busy_takes_part_in_no_other_round(self) -> None:
        asked: dict[int, set[int]] = {}

        def update(worker: int, model: np.ndarray, t: int) -> np.ndarray:
            asked.setdefault(t, set()).add(worker)
            return model - 1

        task = Functions(workers=9, first=np.zeros(SIZE), update=update)
        result = train(settings(late=Late(share=1.0, most=20, wait=6), byzantine=0), task=task)
        assert asked[0] == set(range(9))
        assert len(asked[1]) < 9
        for worker, made in used(result.lines):
            assert worker in asked[made]

    def test_byzantine_workers_send_anew_in_each_round_in_which_they_are_present(self) -> None:
        lines = train(settings(late=Late(wait=6, again=False), present=7, rounds=60), task=quadratic()).lines
        assert {line["age"][7:].replace(".", "") for line in lines} <= {"", "0", "00"}
        assert any(line["age"][7:] != "00" for line in lines)

    def test_who_is_always_there_has_few_more_turns(self) -> None:
        run = settings(rounds=200, workers=20, byzantine=3, rule="PTM(f=3)", late=Late(share=0.4, wait=8))
        times = Counter(worker for worker, _ in used(train(run, task=quadratic(20)).lines))
        honest = np.mean([times[worker] for worker in range(17)])
        byzantine = np.mean([times[worker] for worker in range(17, 20)])
        assert byzantine / honest < 1.2  # all three in every round would be 3.4

    def test_with_last_replies_again_everybody_takes_part(self) -> None:
        lines = train(settings(late=Late(share=0.6, again=True)), task=quadratic()).lines
        assert all("." not in line["age"] for line in lines[4:])
        replies = used(lines)
        assert len(replies) > len(set(replies))
        newest: dict[int, int] = {}  # nobody takes part with an older reply than before
        for line in lines:
            for worker, age in enumerate(line["age"]):
                if age != ".":
                    assert line["round"] - int(age) >= newest.get(worker, 0)
                    newest[worker] = line["round"] - int(age)

    def test_last_replies_again_and_a_round_that_waits_for_new_ones(self) -> None:
        lines = train(settings(late=Late(share=0.6, wait=6, again=True)), task=quadratic()).lines
        assert all("." not in line["age"] for line in lines[4:])
        fresh = [len({*used(lines[: at + 1])} - {*used(lines[:at])}) for at in range(len(lines))]
        assert min(fresh) >= 6

    def test_a_reply_that_is_not_finite_is_not_used_again(self) -> None:
        def broken(worker: int, model: np.ndarray, t: int) -> np.ndarray:
            return model * np.nan if worker == 0 and t == 3 else model - 1

        task = Functions(workers=9, first=np.zeros(SIZE), update=broken)
        lines = train(settings(late=Late(share=0.5, again=True), momentum=0.0), task=task).lines
        assert sum("x" in line["kept"] for line in lines) <= 1

    def test_who_is_busy_does_not_vote(self) -> None:
        run = settings(rule="Mean2P(f=2)", late=Late(share=0.6, again=True), rounds=30)
        lines = train(run, task=quadratic()).lines
        few = [line for line in lines if line["age"].count("0") < 5]
        assert few
        assert any("fewer than 5" in event for line in few for event in line["events"])

    def test_old_replies_count_less(self) -> None:
        run, ages = settings(late=Late(fade=1.0)), np.array([0, 1, 3, 0, 0, 0, 0])
        masses = declared_masses(run, quadratic(), np.arange(7), ages)
        assert masses is not None
        np.testing.assert_allclose(masses.given / masses.given[0], [1, 1 / 2, 1 / 4, 1, 1, 1, 1])
        assert declared_masses(settings(late=Late(fade=0.0)), quadratic(), np.arange(7), ages) is None
        assert declared_masses(run, quadratic(), np.arange(7), 0 * ages) is None

    @pytest.mark.parametrize("late", [Late(wait=6), Late(again=True, share=0.7)])
    @pytest.mark.parametrize("rule", ["PTM(f=2)", "Mean2P(f=2)"])
    def test_an_interrupted_run_goes_on_to_the_same_bits(self, late: Late, rule: str, tmp_path: Path) -> None:
        run = settings(late=late, rule=rule)
        whole = train(run, tmp_path / "whole", task=quadratic())

        def interrupt(line: dict[str, Any]) -> None:
            if line["round"] == 17:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "cut", task=quadratic(), on_round=interrupt, save=0)
        again = train(run, tmp_path / "cut", task=quadratic())
        assert again.lines == whole.lines
        np.testing.assert_array_equal(again.model, whole.model)

    @pytest.mark.parametrize(
        "damage",
        [
            lambda arrays: arrays.pop("marks"),
            lambda arrays: arrays.update(marks=arrays["marks"][1:]),
            lambda arrays: arrays.update(marks=arrays["marks"].astype(float)),
            lambda arrays: arrays.update(letters=arrays["letters"][:, :3]),
            lambda arrays: arrays.update(letters=arrays["letters"].astype(complex)),
            lambda arrays: arrays["marks"].__setitem__((0, 1), 10**6),
            lambda arrays: arrays["marks"].__setitem__((0, 0), -3),
            lambda arrays: arrays["marks"].__setitem__((0, 0), 99),
            lambda arrays: arrays["marks"].__setitem__((0, 3), 7),
            lambda arrays: arrays.update(keeps=np.array(True)),
        ],
    )
    def test_a_damaged_checkpoint_is_refused(self, damage: Any, tmp_path: Path) -> None:
        run = settings(late=Late(share=1.0))
        with pytest.raises(KeyError):
            train(run, tmp_path, task=quadratic(), on_round=lambda line: line["moon"])
        path = tmp_path / "checkpoint.npz"
        assert State.load(path).mail is not None
        with np.load(path) as file:
            arrays = dict(file)
        damage(arrays)
        np.savez(path, **arrays)
        with pytest.raises(BadInput, match="no checkpoint of"):
            train(run, tmp_path, task=quadratic())

    def test_nothing_late_is_a_training_as_ever(self) -> None:
        usual = train(settings(late=OnTime()), task=quadratic())
        never = train(settings(late=Late(share=0.0)), task=quadratic())
        np.testing.assert_array_equal(usual.model, never.model)
        assert "age" not in usual.lines[0]
        assert (never.lines[0]["age"], never.lines[-1]["time"]) == ("0" * 9, 40)
        assert "time" not in usual.lines[0]

    def test_it_learns_beside_liars(self) -> None:
        errors = [train(settings(late=late), task=quadratic()).final["error"] for late in (OnTime(), Late(wait=6))]
        assert errors[1] < 2 * errors[0] + 0.05


class TestRecord:
    def test_older_records_have_none(self) -> None:
        assert "late" not in settings(late=OnTime()).record()
        run = settings()
        assert json.loads(run.text())["late"] == "Late(wait=6)"
        assert Run.read(run.text()) == run

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"late": 3}, "late = 3; it takes a delay"),
            ({"late": "Late(share=1.5)"}, "a part of the replies, from 0 to 1"),
            ({"late": "Lat()"}, "did you mean Late"),
            ({"late": Late(wait=10)}, "wait is at most 9"),
            ({"late": f"Late(most={2**70})"}, "it is at most 1e"),
            ({"late": "Late(fade=5000)"}, "it is at most 100"),
            ({"late": Late(wait=4)}, "PTM.* was given 4 workers; it needs at least 5"),
            ({"late": Late(), "rule": "MoNNA(f=2, pivot=0)"}, "may be absent, since late is given"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, fields: dict[str, Any], words: str) -> None:
        with pytest.raises(BadInput, match=words):
            settings(**fields)

    def test_an_attack_that_is_none_on_time_may_be_one_here(self) -> None:
        run = Run(rule="CWM()", attack="ALIE()", workers=8, byzantine=2, rounds=2, late=Late(wait=7))
        assert not train(run, task=quadratic(8)).remarks()
        assert train(run.changed(late=OnTime()), task=quadratic(8)).remarks()

    def test_a_rule_without_a_weighted_form_takes_no_fade(self) -> None:
        with pytest.raises(NoWeightedForm, match="fade=0"):
            train(settings(rule="DnC(f=2)"), task=quadratic())
        assert train(settings(rule="DnC(f=2)", late=Late(fade=0.0)), task=quadratic()).final["error"] < 1
