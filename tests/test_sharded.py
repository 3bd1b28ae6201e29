"""torch.distributed on loopback: real ranks, Gloo, what they answer and how they fail."""

from __future__ import annotations

import difflib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import CWTM, BadInput, Mean2P, MeanwO, parse
from holdfast.testing.laws import close
from tests import ranks
from tests.children import run
from tests.rules_under_test import calls

ROOT = Path(__file__).parent.parent
COARSE = {torch.float32: np.float32, torch.float64: np.float64, torch.bfloat16: np.float16}


def job(scenario: str, n: int, folder: Path, failed: int = 0) -> str:
    """What the ranks print; so many of them fail."""
    words = [sys.executable, "-W", "ignore", "-m", "tests.ranks", scenario, str(n), str(folder)]
    done = run(words, cwd=ROOT)
    assert done.returncode == failed, done.stdout[-2000:] + done.stderr[-4000:]
    assert "still lives" not in done.stdout
    return done.stdout + done.stderr


def results(folder: Path, n: int) -> list[Any]:
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(n)]


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8])
def test_ranks_answer_as_one_process_does_and_with_the_same_bits(n: int, tmp_path: Path) -> None:
    job("every_rule", n, tmp_path)
    found = results(tmp_path, n)
    assert len(found[0]) > 100
    for at, (text, dtype, d, kind) in enumerate(ranks.cases(n)):
        rule = parse(text)
        mine, told = found[0][at]
        for other, others in (one[at] for one in found[1:]):
            if isinstance(told, str):
                assert isinstance(others, str)
            else:
                assert torch.equal(mine, other), (text, dtype, d, kind)
                assert others == told
        X = torch.from_numpy(ranks.cloud(n, d, kind)).to(dtype)
        words = calls(rule, d, start=torch.full((d,), 0.25, dtype=dtype))
        if isinstance(told, str):
            with pytest.raises(BadInput) as refused:
                rule.decide(X, **words)
            assert told == str(refused.value)
            continue
        wanted = rule.decide(X, **words)
        assert told == (wanted.kept, wanted.dropped), (text, dtype, kind)
        value = wanted.value.double().numpy()
        assert close(mine.double().numpy(), value, COARSE[dtype], size=10.0), (text, dtype, d, kind)


def test_what_a_hostile_tester_found(tmp_path: Path) -> None:
    job("found", 4, tmp_path)
    for one in results(tmp_path, 4):
        assert one["clipped"] == [True] * 3, "a start in many buckets of several types"
        assert one["ledger"] == 2, "a ledger on one rank only, with a rule that has to explain"
        assert one["bfloat16"], "a model of bfloat16"
        assert one["masked"], "a buffer that holds -inf and never moves"
        assert one["frozen"], "a module in evaluation mode stays so"
        assert one["raising"] == ("", 3), "a loss that raises on one rank, in both phases"
        assert one["optimizer"], "the optimizer's state comes back"
        assert one["older"] == ["step-000000003", "step-000000009"]
        assert one["damaged"] == "cannot be loaded"


def test_a_flipped_bit_loaded_silently_and_a_hostile_checkpoint_ran_code(tmp_path: Path) -> None:
    job("strangers", 2, tmp_path)
    for told, owned in results(tmp_path, 2):
        assert not owned, "code of the checkpoint ran"
        assert told.pop("sound") == told.pop("old") == "1"
        assert "__0_0.distcp is missing or was changed" in told["flipped"]
        assert "__1_0.distcp is missing or was changed" in told["gone"]
        assert "asks for" in told["hostile"]
        assert "asks for" in told["signed"]
        for refusal in told.values():
            assert "cannot be loaded (" in refusal
            assert refusal.endswith("remove it to go on from the one before.")
            assert len(refusal.splitlines()) == 1


def test_an_index_error_in_one_loss_ended_the_job_and_spoilt_momentum_stayed(tmp_path: Path) -> None:
    job("dropped", 4, tmp_path)
    for told in results(tmp_path, 4):
        assert "is frozen" in told.pop("frozen")
        assert "DTensors, as FSDP2 makes them" in told.pop("FSDP2")
        assert told.pop("momentum") == [[], [1], []], "left out once, then back"
        assert len(told) == 5
        assert set(map(tuple, told.values())) == {(1,)}, told


def test_a_rank_that_came_a_second_too_late_was_not_named(tmp_path: Path) -> None:
    said = job("late", 4, tmp_path, failed=4)
    assert "rank 2 came too late (it was computing, after step 2)" in said, said


def test_a_rank_that_skipped_a_call_was_not_named(tmp_path: Path) -> None:
    said = job("skipping", 4, tmp_path, failed=4)
    assert "rank 2 made other calls (it is waiting for the others to end, after step 3" in said, said


def test_a_job_can_begin_again(tmp_path: Path) -> None:
    job("again", 3, tmp_path)
    assert results(tmp_path, 3) == [[1.0, 1.0]] * 3


def test_some_rules_need_more_ranks_than_there_are() -> None:
    assert ranks.largest(parse("Bulyan(f=2)"), 2) is None
    assert ranks.largest(MeanwO(2), 8) == MeanwO(3)


def test_types_and_counters_together_a_part_for_each_rank_and_ranks_that_disagree(tmp_path: Path) -> None:
    n = 5
    job("mixed", n, tmp_path)
    found = results(tmp_path, n)
    tensors, kept, _, told = found[0]
    rows = [np.random.default_rng(rank) for rank in range(n)]
    sent = [(rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=4)) for rng in rows]
    wholes = np.array([rng.normal(size=6 * n) for rng in rows], np.float32)
    wanted = MeanwO(f=1).decide([list(pair) for pair in sent])
    assert kept == wanted.kept
    for mine, theirs in zip(tensors[:2], wanted.value, strict=True):  # the first two
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-5, atol=1e-6)
    assert tensors[2].tolist() == [sorted(kept)[(len(kept) - 1) // 2], 7]
    np.testing.assert_allclose(tensors[3].numpy(), 1e6 * np.mean(kept), rtol=1e-6)
    parts = torch.cat([part for _, _, part, _ in found])
    np.testing.assert_allclose(parts.numpy(), CWTM(f=1)(wholes), rtol=1e-5, atol=1e-6)
    assert all(one[3] == told for one in found)
    came = "came with other tensors, weights, another rule or rng than most; all ranks pass the same."
    assert told == [f"rank {rank} {came}" for rank in (2, 4)]


@pytest.mark.parametrize("n", [5, 8])
def test_weighted_ranks_answer_as_one_process_does(n: int, tmp_path: Path) -> None:
    job("weighted", n, tmp_path)
    found = results(tmp_path, n)
    for at, (text, dtype, kind, weights) in enumerate(ranks.weighted_cases(n)):
        X = torch.from_numpy(ranks.cloud(n, 303, kind)).to(dtype)
        wanted = parse(text).decide(X, weights=weights)
        mine, shares, dropped = found[0]["cases"][at]
        assert all(torch.equal(mine, one["cases"][at][0]) for one in found), text
        assert all(np.array_equal(shares, one["cases"][at][1]) for one in found), text
        assert dropped == wanted.dropped == {}, "the last one counts nothing where it is not finite"
        np.testing.assert_allclose(shares, wanted.weights, atol=1e-6)
        if text.startswith(("CW", "MeaMed", "NNM", "Medoid")):
            assert torch.equal(mine, wanted.value), (text, dtype, kind)
        assert close(mine.double().numpy(), wanted.value.double().numpy(), COARSE[dtype], size=10.0), (text, dtype)
        equal = parse(text).decide(X, weights=np.sign(weights))
        assert "Medoid" in text or not torch.equal(mine, equal.value), f"{text} did not look at the weights"
    rows = np.array([np.random.default_rng(rank).normal(size=6 * n) for rank in range(n)], np.float32)
    counts = [1 + at % 3 for at in range(n)]
    parts = torch.cat([one["part"] for one in found])
    np.testing.assert_array_equal(parts.numpy(), CWTM(f=1)(rows, weights=counts))
    assert [one["votes"] for one in found] == [n] * n, "one vote each"
    assert [one["hook"] for one in found] == [0.0] * n
    first = found[0]["model"]
    assert all(torch.equal(first[name], one["model"][name]) for one in found for name in first)
    (line,) = (json.loads(text) for text in (tmp_path / "ranks.jsonl").read_text().splitlines())
    assert line["capped"][str(n - 1)] == 1e9
    assert max(line["masses"].values()) < 10
    assert all(one["refused"] == found[0]["refused"] for one in found)
    other = "came with other tensors, weights, another rule or rng than most; all ranks pass the same."
    assert found[0]["refused"][:3] == [f"rank {rank} {other}" for rank in (2, 1, 0)]
    for said, why in zip(
        found[0]["refused"][3:],
        (f"2 weights for {n} updates", "weight nan for worker 0", "MDA(f=1) has no weighted form", "less than half"),
        strict=True,
    ):
        assert why in said


def test_two_phase_steps_leave_one_model_on_all_ranks(tmp_path: Path) -> None:
    job("two_phases", 5, tmp_path)
    models, steps, right = zip(*results(tmp_path, 5), strict=True)
    assert all(torch.equal(models[0][name], one[name]) for one in models for name in models[0])
    assert all(one == steps[0] for one in steps)
    assert "running_mean" in " ".join(models[0])
    assert [bool(skipped) for _, _, skipped in steps[0]] == [t == 7 for t in range(12)]
    assert [votes for _, votes, _ in steps[0]] == [0 if t == 7 else 4 if t % 4 == 1 else 5 for t in range(12)]
    assert right[0] > 0.7
    from holdfast.journal import read_journal
    from holdfast.report.nodes import nodes

    found = nodes(read_journal(tmp_path / "ranks.jsonl"))
    assert [node.name for node in found[:2]] == ["4", "0"]
    assert found[0].why.endswith("not finite")
    assert found[1].letters.count("-") + found[1].letters.count("f") > 6


def test_the_hook_is_the_rule_on_whole_gradients_whatever_the_buckets(tmp_path: Path) -> None:
    job("hooked", 4, tmp_path)
    found = results(tmp_path, 4)
    assert len(found[0]) == len(ranks.HOOKED) * 9 + 2
    for one in found:
        assert {name: off for name, off in one.items() if name != "scaled" and off != 0} == {}
        assert one["scaled"] == [(True, 1024.0, ()), (True, 1024.0, (1,)), (False, 512.0, ()), (True, 512.0, ())]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    folder = tmp_path_factory.mktemp("undisturbed")
    job("training", 4, folder)
    return results(folder, 4)[0][0]


def test_a_killed_rank_is_named_on_all_ranks_and_the_rest_is_done_to_the_bit(
    undisturbed: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    said = job("killed", 4, tmp_path, failed=4)
    for rank in (0, 2, 3):
        assert f"rank {rank}: rank 1 is gone (last seen " in said, said
    job("training", 4, tmp_path)
    for model, done in results(tmp_path, 4):
        assert done == 4
        assert all(torch.equal(undisturbed[name], model[name]) for name in undisturbed)


def test_another_number_of_ranks_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    job("killed", 4, tmp_path, failed=4)
    job("training", 5, tmp_path)
    found = results(tmp_path, 5)
    assert [done for _, done in found] == [4] * 5
    assert all(torch.equal(found[0][0][name], model[name]) for model, _ in found for name in model)


def test_a_hanging_rank_is_named_and_ended_within_the_timeout(tmp_path: Path) -> None:
    said = job("hanging", 4, tmp_path, failed=4)
    for rank in (0, 1, 3):
        assert f"rank {rank}: rank 2 does not come (it is computing, after step 2)" in said, said
    assert "rank 2 is ended: rank 2 does not come" in said


def test_no_process_outlives_the_rank_that_holds_the_store(tmp_path: Path) -> None:
    job("orphaned", 4, tmp_path, failed=4)


def test_an_exception_on_one_rank_is_told_to_all(tmp_path: Path) -> None:
    said = job("failing", 4, tmp_path, failed=4)
    assert "rank 0 failed, after step 1 (ZeroDivisionError('no data left'))" in said


def test_what_cannot_be_is_refused_before_anything_is_sent() -> None:
    from holdfast.engines.ddp import Robust
    from holdfast.engines.sharded import Ledger, Momentum, begin, propose_candidates, robust_all_reduce
    from holdfast.engines.sharded.reduce import check

    bad: list[tuple[Any, str]] = [
        (lambda: check("MeanwO", [torch.zeros(2)], 0, None), "'MeanwO' was given"),
        (lambda: check(parse("StreamCenterwO(f=1)"), [torch.zeros(2)], 0, None), "sees all vectors at once"),
        (lambda: check(parse("NNM(f=1)"), [torch.zeros(2)], 0, None), "ranks take a rule"),
        (lambda: check(parse("MeanwO(f=1, candidates=2)"), [torch.zeros(2)], 0, None), "draws at random"),
        (lambda: check(MeanwO(1), [torch.zeros(2, dtype=torch.int64)], 0, None), "without a real number"),
        (lambda: check(MeanwO(1), [], 0, None), "without a real number"),
        (
            lambda: check(MeanwO(1), [torch.zeros(2), torch.zeros(2, dtype=torch.bool)], 0, None),
            "a tensor of torch.bool",
        ),
        (lambda: check(MeanwO(1), [torch.zeros(2)], 1, None), "without a real number"),
        (lambda: check(MeanwO(1), [torch.zeros(2), torch.zeros(2, dtype=torch.int16)], 0, None), "of torch.int16"),
        (lambda: robust_all_reduce(torch.zeros(2), Mean2P(1)), "use two_phase_step"),  # type: ignore[arg-type]
        (lambda: Robust(Mean2P(1)), "use two_phase_step"),  # type: ignore[arg-type]
        (lambda: propose_candidates([torch.zeros(2)], MeanwO(1)), "a two-phase rule"),  # type: ignore[arg-type]
        (lambda: robust_all_reduce(torch.zeros(2), MeanwO(1)), "not initialised"),
        (lambda: Momentum(1.0), "below 1"),
        (lambda: Ledger("nowhere/ranks.jsonl"), "in a folder that is there"),
        (lambda: Ledger("/dev/null"), "name a file"),
        (lambda: begin(timeout=0), "above 0"),
        (lambda: begin(), "start the program by torchrun"),
    ]
    for ask, words in bad:
        with pytest.raises(BadInput) as refused:
            ask()
        assert words in str(refused.value)


def test_the_example_is_plain_ddp_and_at_most_five_lines() -> None:
    plain, robust = ((ROOT / "examples" / "ddp" / name).read_text().splitlines() for name in ("plain.py", "robust.py"))
    changed = [line for line in difflib.ndiff(plain[5:], robust[5:]) if line[0] in "+-"]  # after the docstrings
    assert 0 < len(changed) <= 5
    assert all(line[0] == "+" for line in changed)


@pytest.mark.parametrize("program", ["documented", "robust"])
def test_torchrun_starts_it(program: str, tmp_path: Path) -> None:
    """The program of the documents, and the example with a rank that flips bits."""
    words, place = [], ROOT / "examples" / "ddp" / "robust.py"
    if program == "documented":
        text = (ROOT / "docs" / "distributed.md").read_text()
        (code,) = [code for code in re.findall(r"```py\n(.*?)```", text, re.S) if "begin(" in code]
        place = tmp_path / "train.py"
        place.write_text(code + "assert loss(model, batch(9, 99)) < 0.5\n")
    else:
        words = ["--fault", "bits", "--steps", "25"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "5", str(place), *words]
    done = run(torchrun, cwd=tmp_path, env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "ranks.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(20 if program == "documented" else 25))
    if program == "robust":
        assert any("4" in line["far"] for line in lines)
        assert not any(set(line["far"]) - {"4"} for line in lines)


def test_a_ledger_is_read_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.test_guarantees import said

    lines = [{"round": 0, "kept": ["0"], "excluded": {"1": "far"}, "dropped": {}}, {"round": 1, "skipped": "none"}]
    (tmp_path / "ranks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "far" in said(capsys, "ranks", str(tmp_path / "ranks.jsonl"), "--out", str(tmp_path / "ranks.html"))
    assert "Ranks" in (tmp_path / "ranks.html").read_text()


def test_far_is_as_far_as_the_reader_says(tmp_path: Path) -> None:
    from holdfast.report.nodes import History, nodes

    lines = [{"round": t, "kept": ["0", "1"], "far": {"0": 7.0, "1": 1e30 if t == 3 else 6.0}} for t in range(5)]
    assert [node.letters for node in nodes(History.of(lines))] == ["fffff"] * 2
    worst, other = nodes(History.of(lines, far=100))
    assert (worst.name, worst.letters, worst.why) == ("1", "kkkfk", "round 3: 1e+30 times as far as the middle")
    assert other.letters == "kkkkk"


def test_odd_journals_are_read_as_far_as_they_can_be(tmp_path: Path) -> None:
    from holdfast.engines.lines import add
    from holdfast.journal import read_journal
    from holdfast.report.nodes import nodes

    path = tmp_path / "ranks.jsonl"
    odd = [
        '{"round": 0, "kept": 5}',
        '{"round": 1, "excluded": []}',
        "[" * 9999,
        '{"round": 2, "far": {"1": "x"}}',
        "null",
    ]
    path.write_text("\n".join([*odd, '{"round": 3, "kept": ["\\u001b[31m"]}', '{"round": 4, "ke']))
    add(path, {"round": 5, "kept": ["2"]})
    assert [line["round"] for line in read_journal(path)] == [3, 5]
    assert nodes(read_journal(path))[0].row()[0] in ("2", "?[31m")
    path.write_bytes(b"\xff\xfe\x00round")
    with pytest.raises(BadInput, match="is no journal"):
        read_journal(path)
