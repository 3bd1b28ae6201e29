"""More rows dropped than f: the round is refused, in the core, in training, in Flower and in torch.distributed."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from holdfast import (
    CWM,
    CWTM,
    NNM,
    Average,
    BadInput,
    Bucketing,
    GeometricMedian,
    Krum,
    Mean2P,
    MeanwO,
    Medoid,
    StreamCenterwO,
)
from holdfast.attacks import NaN
from holdfast.driver import decide
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, make_record, read_model
from holdfast.errors import TooManyFaults
from holdfast.journal import read_journal
from holdfast.reading import read
from holdfast.rules.base import Stage
from holdfast.training import train
from tests.shelves import LIBRARIES, given, numbers
from tests.test_flower import Silent, honest, reply
from tests.test_sharded import job, results
from tests.test_training import TARGETS, quadratic, settings

EVERYWHERE = pytest.mark.parametrize("library", LIBRARIES, indirect=True)
WITH_F: list[Stage] = [MeanwO(2), CWTM(2), Krum(2), NNM(2) >> CWTM(2), StreamCenterwO(2)]
REFUSAL = (
    "MeanwO(f=2) was given n = 6 vectors, of which 4 were dropped "
    "(2 is not finite, 3 is not finite, 4 is not finite and 5 is not finite), "
    "and it tolerates 2; mend the workers, raise f, or pass on_excess='lower'."
)


def rows(n: int, bad: int = 0) -> np.ndarray:
    """n vectors, of which the last `bad` are not finite."""
    X = np.random.default_rng(0).normal(size=(n, 4))
    X[n - bad :, 2] = np.nan
    return X


def silenced(X: np.ndarray, silent: int) -> list[np.ndarray | None]:
    """The rows as a list, with so many silent workers behind them."""
    return [*X, *[None] * silent]


class TestCore:
    def test_four_of_six_rows_are_refused_in_one_sentence_that_names_them(self) -> None:
        with pytest.raises(TooManyFaults) as refused:
            MeanwO(f=2)(rows(6, bad=4))
        assert str(refused.value) == REFUSAL

    @pytest.mark.parametrize("rule", [MeanwO(2), StreamCenterwO(2)], ids=repr)
    def test_workers_are_named_as_the_caller_names_them(self, rule: Stage) -> None:
        names = ["ann", "bea", "cem", "dov", "eva", "fay"]
        with pytest.raises(TooManyFaults, match=r"\(cem is not finite, dov is not finite, eva is"):
            rule(rows(6, bad=4), names=names)
        with pytest.raises(TooManyFaults, match=r"\(cem is not finite, dov is not finite, eva is"):
            rule(list(rows(6, bad=4)), names=names)
        with pytest.raises(BadInput, match=r"was given 5 names for 6 updates; give one name each"):
            MeanwO(2)(rows(6), names=names[:5])

    def test_the_error_survives_another_process(self) -> None:
        with pytest.raises(TooManyFaults) as refused:
            MeanwO(f=2)(rows(6, bad=4))
        assert str(pickle.loads(pickle.dumps(refused.value))) == REFUSAL

    def test_a_refusal_for_faults_is_a_refusal_of_input(self) -> None:
        assert issubclass(TooManyFaults, BadInput)

    @EVERYWHERE
    @pytest.mark.parametrize("rule", WITH_F, ids=repr)
    def test_more_than_f_are_refused_and_f_are_answered_in_every_library(self, rule: Stage, library: str) -> None:
        with pytest.raises(TooManyFaults, match=r"of which 3 were dropped \(6 is not finite, 7 is"):
            rule(given(rows(9, bad=3), library))
        decision = rule.decide(given(rows(9, bad=2), library))
        assert decision.dropped == {7: "not finite", 8: "not finite"}
        assert np.isfinite(numbers(decision.value)).all()

    @pytest.mark.parametrize("rule", WITH_F, ids=repr)
    @pytest.mark.parametrize("bad", range(7))
    def test_f_is_lowered_only_while_the_dropped_can_all_be_among_the_f(self, rule: Stage, bad: int) -> None:
        X = rows(6, bad)
        if bad > 2:
            with pytest.raises(TooManyFaults):
                rule(X)
            return
        if rule.lowered(bad).least() > 6 - bad:  # Krum needs 2f + 3 vectors
            with pytest.raises(BadInput, match=f"n = {6 - bad} vectors") as few:
                rule(X)
            assert not isinstance(few.value, TooManyFaults)
            return
        decision = rule.decide(X)
        f = decision.rule.tolerance()
        assert f is not None
        assert 2 - bad <= f <= 2
        assert decision.lowered == (f < 2) == bool(decision.note)
        assert decision.lowered == (rule.least() > 6 - bad)

    def test_lists_and_dicts_count_rows_of_another_structure_as_dropped(self) -> None:
        X = rows(6)
        named = [{"a": x} for x in X[:2]] + [{"b": x} for x in X[2:]]
        with pytest.raises(TooManyFaults, match=r"of which 4 were dropped \(2 is no entry 'a', 3 is"):
            MeanwO(f=2)(named, like={"a": X[0]})
        lists = [[x] for x in X[:3]] + [[x[:2]] for x in X[3:]]
        with pytest.raises(TooManyFaults, match=r"of which 3 were dropped \(3 is shape \(2,\) instead of \(4,\)"):
            MeanwO(f=2)(lists, like=[X[0]])
        assert MeanwO(f=2).decide(lists[:5], like=[X[0]]).dropped.keys() == {3, 4}

    def test_many_reasons_are_listed_together_and_not_all_of_them(self) -> None:
        with pytest.raises(TooManyFaults, match=r"of which 30 were dropped \(10 is not finite, .* and 24 more\)"):
            MeanwO(f=2)(rows(40, bad=30))

    def test_a_refused_round_reads_no_distances(self, monkeypatch: pytest.MonkeyPatch) -> None:
        updates = read(rows(6, bad=4), "test")
        updates.look()
        monkeypatch.setattr("holdfast.mix.distances", None)
        with pytest.raises(TooManyFaults):
            decide(MeanwO(f=2), updates)
        assert updates.measured == {}


class TestOptOut:
    def test_lower_goes_on_by_name_and_the_note_records_it(self, caplog: pytest.LogCaptureFixture) -> None:
        X = rows(6, bad=4)
        decision = MeanwO(f=2).decide(X, on_excess="lower")
        assert decision.rule == MeanwO(f=0)
        np.testing.assert_allclose(decision.value, X[:2].mean(axis=0))
        assert decision.note == (
            "f was lowered from MeanwO(f=2) to MeanwO(f=0): 2 vectors remained after dropping 4, and 5 are needed; "
            "4 dropped are more than MeanwO(f=2) tolerates, and on_excess='lower' goes on"
        )
        assert decision.note in str(decision)
        assert caplog.records[-1].levelno == logging.WARNING

    def test_the_note_records_it_also_where_f_need_not_be_lowered(self) -> None:
        decision = MeanwO(f=2).decide(rows(12, bad=4), on_excess="lower")
        assert decision.rule == MeanwO(f=2)
        assert decision.note == "4 dropped are more than MeanwO(f=2) tolerates, and on_excess='lower' goes on"
        assert not MeanwO(f=2).decide(rows(12, bad=2), on_excess="lower").note

    def test_lower_counts_for_updates_that_were_read_before(self) -> None:
        updates = read(rows(6, bad=4), "test")
        assert MeanwO(f=2).decide(updates, on_excess="lower").rule == MeanwO(f=0)
        with pytest.raises(TooManyFaults):
            MeanwO(f=2).decide(updates)
        lenient = read(rows(6, bad=4), "test", on_excess="lower")
        assert MeanwO(f=2).decide(lenient).rule == MeanwO(f=0)
        with pytest.raises(TooManyFaults):
            MeanwO(f=2).decide(lenient, on_excess="refuse")

    @pytest.mark.parametrize("rule", [MeanwO(2), StreamCenterwO(2)], ids=repr)
    def test_another_word_gets_one_sentence(self, rule: Stage) -> None:
        wrong: Any = "ignore"
        for X in (rows(6), list(rows(6)), read(rows(6), "test")):
            with pytest.raises(BadInput, match=r"f=2\) was given on_excess = 'ignore'; it is 'refuse' or 'lower'\."):
                rule(X, on_excess=wrong)

    def test_no_vectors_are_no_answer_even_so(self) -> None:
        with pytest.raises(BadInput, match="n = 0 vectors"):
            MeanwO(f=2)(rows(6, bad=6), on_excess="lower")


class TestRulesWithoutF:
    @EVERYWHERE
    @pytest.mark.parametrize("rule", [CWM(), GeometricMedian(), Medoid()], ids=repr)
    def test_medians_refuse_when_half_or_more_are_dropped(self, rule: Stage, library: str) -> None:
        assert np.isfinite(numbers(rule(given(rows(6, bad=2), library)))).all()
        assert np.isfinite(numbers(rule(given(rows(7, bad=3), library)))).all()
        for n, bad in ((6, 3), (6, 5), (7, 4), (2, 1)):
            with pytest.raises(TooManyFaults) as refused:
                rule(given(rows(n, bad), library))
            assert f"{rule!r} was given n = {n} vectors, of which {bad} w" in str(refused.value)
            assert str(refused.value).endswith("; mend the workers, or pass on_excess='lower'."), (
                "there is no f to raise"
            )

    @pytest.mark.parametrize("rule", [CWM(), GeometricMedian(), Medoid()], ids=repr)
    def test_half_of_the_vectors_that_came_is_counted_without_silent_workers(self, rule: Stage) -> None:
        like = np.zeros(4)
        assert rule.decide(silenced(rows(5, bad=2), 4), like=like).dropped.keys() == {3, 4, 5, 6, 7, 8}
        with pytest.raises(TooManyFaults, match=r"n = 4 vectors, of which 2 were dropped \(2 is .* 3 is not finite\),"):
            rule(silenced(rows(4, bad=2), 4), like=like)

    @pytest.mark.parametrize("rule", [CWM(), GeometricMedian(), Medoid()], ids=repr)
    def test_lower_goes_on_and_is_recorded(self, rule: Stage) -> None:
        decision = rule.decide(rows(6, bad=5), on_excess="lower")
        np.testing.assert_allclose(decision.value, rows(6)[0])
        assert decision.note == f"5 dropped are more than {rule!r} tolerates, and on_excess='lower' goes on"

    def test_the_average_answers_and_reports(self) -> None:
        decision = Average().decide(rows(6, bad=5))
        np.testing.assert_allclose(decision.value, rows(6)[0])
        assert decision.dropped == dict.fromkeys(range(1, 6), "not finite")
        assert "5 dropped" in decision.summary()


class TestChains:
    def test_a_chain_tolerates_as_many_as_its_weakest_stage(self) -> None:
        chain = NNM(3) >> Krum(2)
        assert chain.decide(rows(15, bad=2)).dropped.keys() == {13, 14}
        with pytest.raises(TooManyFaults, match=r"NNM\(f=3\) >> Krum\(f=2\) .* of which 3 were .* tolerates 2;"):
            chain(rows(15, bad=3))

    def test_behind_buckets_half_of_the_buckets_must_be_sound(self) -> None:
        chain = Bucketing(2) >> CWM()  # ten vectors in five buckets: two of them may be spoiled
        assert chain.decide(rows(10, bad=2), rng=np.random.default_rng(0)).dropped.keys() == {8, 9}
        with pytest.raises(TooManyFaults, match=r"of which 3 were dropped .* it tolerates 2;"):
            chain(rows(10, bad=3), rng=np.random.default_rng(0))

    def test_a_chain_of_rules_without_f_that_assume_nothing_answers(self) -> None:
        chain = Bucketing(2) >> Average()
        assert len(chain.decide(rows(6, bad=5), rng=np.random.default_rng(0)).dropped) == 5


class TestSilentWorkers:
    @pytest.mark.parametrize("rule", [*WITH_F, CWM(), GeometricMedian(), Medoid()], ids=repr)
    @pytest.mark.parametrize("silent", range(1, 6))
    def test_they_are_not_dropped_rows(self, rule: Stage, silent: int) -> None:
        X, like = silenced(rows(9 - silent), silent), np.zeros(4)
        if 9 - silent < rule.lowered(silent if silent <= 2 else 0).least():
            with pytest.raises(BadInput, match=f"n = {9 - silent} vectors") as few:
                rule(X, like=like)
            assert not isinstance(few.value, TooManyFaults)
        else:
            assert rule.decide(X, like=like).dropped == dict.fromkeys(range(9 - silent, 9), "nothing")

    def test_f_is_lowered_for_them_only_while_they_can_be_among_the_f(self) -> None:
        like = np.zeros(4)
        assert MeanwO(2).decide(silenced(rows(5), 1), like=like).rule == MeanwO(2)
        assert MeanwO(2).decide(silenced(rows(4), 2), like=like).rule == MeanwO(1)
        with pytest.raises(BadInput, match=r"n = 3 vectors .*3 more were dropped: 3 is nothing") as few:
            MeanwO(2)(silenced(rows(3), 3), like=like)
        assert not isinstance(few.value, TooManyFaults)

    def test_f_is_lowered_while_they_and_the_dropped_can_be_among_the_f_together(self) -> None:
        like = np.zeros(4)
        assert MeanwO(2).decide(silenced(rows(5, bad=1), 1), like=like).rule == MeanwO(1)
        with pytest.raises(BadInput, match="n = 3 vectors") as few:
            MeanwO(2)(silenced(rows(5, bad=2), 1), like=like)
        assert not isinstance(few.value, TooManyFaults)
        with pytest.raises(TooManyFaults, match=r"n = 9 vectors, of which 3 were dropped \(6 is .* 8 is not finite\),"):
            MeanwO(2)(silenced(rows(9, bad=3), 2), like=like)


class TestRefusedBefore:
    def test_updates_that_were_refused_before_they_were_read_count_as_dropped(self) -> None:
        assert decide(MeanwO(2), replace(read(rows(5), "test"), refused=2)).rule == MeanwO(2)
        assert decide(MeanwO(2), replace(read(rows(4), "test"), refused=2)).rule == MeanwO(1)
        with pytest.raises(TooManyFaults, match=r"n = 9 vectors, of which 3 were dropped \(3 refused before\),"):
            decide(MeanwO(2), replace(read(rows(6), "test"), refused=3))
        with pytest.raises(TooManyFaults, match=r"\(5 is not finite and 2 refused before\),"):
            decide(MeanwO(2), replace(read(rows(6, bad=1), "test"), refused=2))

    def test_a_stream_counts_them_too(self) -> None:
        with pytest.raises(TooManyFaults, match=r"n = 9 vectors, of which 3 were dropped \(3 refused before\),"):
            decide(StreamCenterwO(2), replace(read(rows(6), "test"), refused=3))


class TestStreams:
    @pytest.mark.parametrize("like", [None, np.zeros(4)], ids=["without like", "with like"])
    def test_a_stream_is_refused_at_its_end(self, like: np.ndarray | None) -> None:
        X = rows(9, bad=3)
        stream = StreamCenterwO(2).open(like)
        for x in X:
            stream.add(x)
        with pytest.raises(TooManyFaults, match=r"n = 9 vectors, of which 3 were dropped \(6 is not finite"):
            stream.result()
        with pytest.raises(TooManyFaults):
            StreamCenterwO(2)((x for x in X), like=like)

    def test_a_stream_can_opt_out_by_name(self, caplog: pytest.LogCaptureFixture) -> None:
        decision = StreamCenterwO(2).decide(list(rows(9, bad=3)), on_excess="lower")
        assert decision.note == "3 dropped are more than StreamCenterwO(f=2) tolerates, and on_excess='lower' goes on"
        assert caplog.records[-1].levelno == logging.WARNING


class TestTwoPhases:
    def test_no_candidate_is_proposed(self) -> None:
        with pytest.raises(TooManyFaults, match="of which 4 were dropped"):
            Mean2P(2).propose(rows(6, bad=4))
        both = Mean2P(2).propose(rows(6, bad=2))
        assert both.voters == (0, 1, 2, 3)
        assert both.f == 1

    def test_lower_goes_on_and_both_candidates_record_it(self) -> None:
        both = Mean2P(2).propose(rows(6, bad=4), on_excess="lower")
        assert "on_excess='lower'" in both.inner.note
        assert "on_excess='lower'" in both.outer.note


class TestTraining:
    @pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2)], ids=repr)
    def test_a_round_is_skipped_and_told_and_the_model_stays(self, rule: Any, caplog: pytest.LogCaptureFixture) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            return np.full(2, np.nan) if t == 3 and i > 1 else model - TARGETS[i]

        models: list[np.ndarray] = []

        def evaluation(model: np.ndarray) -> dict[str, float]:
            models.append(model)
            return {}

        task = quadratic(update=update, evaluation=evaluation)
        result = train(settings(rule=rule, rounds=6, every=1), task=task)
        skipped = {t: event for t, event in result.events() if event.startswith("skipped: ")}
        assert skipped == {3: f"skipped: {REFUSAL}"}
        assert [bool(line["kept"]) for line in result.lines] == [t != 3 for t in range(6)]
        assert np.array_equal(models[2], models[3]), "the model after round 3 is the one before it"
        assert not np.array_equal(models[3], models[4])
        assert result.skipped == 1
        assert f"round 3 is skipped: {REFUSAL}" in caplog.messages

    @pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2)], ids=repr)
    def test_workers_are_named_by_their_numbers_while_some_are_absent(self, rule: Any) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            return np.full(2, np.nan) if i >= len(TARGETS) - 3 else model - TARGETS[i]

        run = settings(rule=rule, rounds=30, byzantine=0, workers=len(TARGETS), present=len(TARGETS) - 1)
        events = [event for _, event in train(run, task=quadratic(update=update)).events()]
        last = len(TARGETS) - 1
        assert any(f"{last} is not finite" in event for event in events)  # a place in the round is at most last - 1

    @pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2), CWM()], ids=repr)
    def test_a_training_of_skipped_rounds_says_so(self, rule: Any) -> None:
        result = train(settings(rule=rule, attack=NaN(), byzantine=4), task=quadratic())
        assert [t for t, _ in result.events()] == list(range(20))
        assert all("of which 4 were dropped" in event for _, event in result.events())
        assert (result.model == 0).all()
        assert result.skipped == 20
        assert "20 rounds, 20 of them skipped" in repr(result)

    def test_workers_that_fail_are_silent_and_do_not_refuse_a_round(self) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            if i > 2:
                raise ConnectionError
            return model - TARGETS[i]

        result = train(settings(rule=MeanwO(f=1)), task=quadratic(update=update))
        assert result.skipped == 0
        assert {line["kept"].count(".") for line in result.lines} == {3}

    def test_the_average_goes_on_and_reports(self) -> None:
        result = train(settings(attack=NaN(), byzantine=4), task=quadratic())
        assert result.skipped == 0
        assert {event for _, event in result.events()} == {"dropped: 2, 3, 4 and 5 (not finite)"}


def clients(bad: int) -> ClientApp:
    """Six clients, of which the last `bad` reply with NaN."""
    app = ClientApp()

    @app.train()
    def update(message: Message, context: Context) -> Message:
        if int(context.node_config["partition-id"]) >= 6 - bad:
            model = read_model(message.content.array_records["arrays"])
            return reply(message, make_record(model | {"w": np.full(6, np.nan, np.float32)}))
        return honest(message, context)

    return app


def first() -> dict[str, np.ndarray]:
    return {"w": np.ones(6, np.float32), "steps": np.array(0)}


QUIET: dict[str, Any] = {"fraction_evaluate": 0.0, "patience": 0.0}


class TestFlower:
    @pytest.mark.parametrize("strategy", [RobustStrategy, TwoPhaseStrategy])
    def test_a_round_is_skipped_with_its_reason_and_the_model_stays(
        self, strategy: type[RobustStrategy], tmp_path: Path
    ) -> None:
        rule = MeanwO(f=2) if strategy is RobustStrategy else Mean2P(f=2)
        server = strategy(rule, folder=tmp_path, **QUIET)
        result = server.start(LocalGrid(clients(bad=4), 6), make_record(first()), num_rounds=2)
        lines = read_journal(tmp_path / "rounds.jsonl")
        assert len(lines) == 2
        for line in lines:
            assert line["skipped"] == (
                "MeanwO(f=2) was given n = 6 vectors, of which 4 were dropped (4 refused before), "
                "and it tolerates 2; repair nodes 3, 4, 5 and 6, or raise f."
            )
            assert line["refused"] == {str(i): "sent array w with numbers that are not finite" for i in (3, 4, 5, 6)}
        for name, values in read_model(result.arrays).items():
            assert np.array_equal(values, first()[name])

    def test_as_many_as_f_are_refused_and_the_round_is_answered(self, tmp_path: Path) -> None:
        server = RobustStrategy(MeanwO(f=2), folder=tmp_path, **QUIET)
        result = server.start(LocalGrid(clients(bad=2), 6), make_record(first()), num_rounds=1)
        (line,) = read_journal(tmp_path / "rounds.jsonl")
        assert "skipped" not in line
        assert len(line["refused"]) == 2
        assert not np.array_equal(read_model(result.arrays)["w"], first()["w"])

    @pytest.mark.parametrize("rule", [MeanwO(f=1), CWM()], ids=repr)
    def test_silent_nodes_do_not_count(self, rule: Stage, tmp_path: Path) -> None:
        class Quiet(Silent):
            quiet = (1, 2, 3)

        server = RobustStrategy(rule, folder=tmp_path, **QUIET)
        server.start(Quiet(clients(bad=0), 6), make_record(first()), num_rounds=1)
        (line,) = read_journal(tmp_path / "rounds.jsonl")
        assert line["silent"] == ["1", "2", "3"]
        assert "skipped" not in line


def test_ranks_refuse_alike_and_steps_are_skipped(tmp_path: Path) -> None:
    said = job("refusing", 6, tmp_path)
    for told in results(tmp_path, 6):
        assert told["reduce"] == REFUSAL
        assert told["tensor"], "the tensors stay as they are"
        assert told["two phases"] == REFUSAL
        assert told["two phases model"]
        assert told["hook"]
        assert told["hook model"]
    for name in ("two phases", "hook"):
        (line,) = map(json.loads, (tmp_path / f"{name}.jsonl").read_text().splitlines())
        assert line["skipped"] == REFUSAL
    assert f"step 0 is skipped: {REFUSAL}" in said
