"""FSDP2 on loopback: real ranks, replicas of several ranks of which one lies, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from holdfast import parse
from holdfast.combine import add_rows
from holdfast.journal import read_journal
from holdfast.report.nodes import nodes
from tests import replicas
from tests.test_sharded import job, results


def whole(parts: list[torch.Tensor]) -> torch.Tensor:
    """A parameter's gradient from the parts of a replica's ranks."""
    return torch.cat(parts).reshape(-1)


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where eight ranks, four replicas by two shards, left what they did."""
    folder = tmp_path_factory.mktemp("eight")
    job("replicas", 8, folder)
    return folder


def test_the_bits_of_one_process_on_every_rank_of_four_replicas_by_two_shards(eight: Path) -> None:
    found = results(eight, 8)
    assert len(found[0]) == len(replicas.RULES) * replicas.STEPS
    for at, (text, step, first, _, (kept, dropped, weights)) in enumerate(found[0]):
        case = (text, step)
        pairs = [(found[2 * r][at], found[2 * r + 1][at]) for r in range(4)]
        rows, answers = (
            torch.stack([torch.cat([whole([a[key][p], b[key][p]]) for p in range(len(first))]) for a, b in pairs])
            for key in (2, 3)
        )
        assert all(torch.equal(answers[0], answer) for answer in answers), case
        assert all(one[at][4][:2] == (kept, dropped) for one in found), case
        assert (list(dropped) == [3]) == (step == 1), case
        if "Clipping" in text:
            continue  # it starts where its last step ended
        single = parse(text).decide(rows)
        assert single.dropped == dropped, case
        torch.testing.assert_close(answers[0], single.value, rtol=1e-5, atol=1e-7)
        if "CWTM" in text:  # of which a column's bits are the rule's own
            assert text != "CWTM(f=1)" or torch.equal(answers[0], single.value), case
            continue
        assert kept == single.kept, case
        assert 3 not in kept
        assert (single.weights == weights).all()
        plain = add_rows(torch.tensor(weights[:3], dtype=torch.float32), rows[:3])  # columns by plain sums
        assert torch.equal(answers[0], torch.as_tensor(plain)), case


def test_a_lying_replica_is_named_by_its_ranks(eight: Path) -> None:
    lines = read_journal(eight / "ranks.jsonl")
    assert [list(line["dropped"]) for line in lines] == [[], ["replica 3 (ranks 6 and 7)"], []]
    assert all("replica 3 (ranks 6 and 7)" in line["far"] for line in (lines[0], lines[2]))
    worst, *others = nodes(lines)
    assert worst.name == "replica 3 (ranks 6 and 7)"
    assert not any("f" in other.letters or "x" in other.letters for other in others)


def test_replicas_of_one_rank_are_as_all_reduce_whatever_the_type(tmp_path: Path) -> None:
    job("shapes", 4, tmp_path)
    for told in results(tmp_path, 4):
        assert told.pop("skipped") == (None, 0.0)
        assert set(told.values()) == {True}, told
    (line, _) = map(json.loads, (tmp_path / "ranks.jsonl").read_text().splitlines())
    assert "dropped (replica 0 (rank 0) is not finite and replica 1 (rank 1) is not finite)" in line["skipped"]


def test_a_checkpoint_brings_shards_and_momenta_back(tmp_path: Path) -> None:
    job("resumed", 4, tmp_path)
    for rank, (((begun, whole_run), (done, resumed)), tiny) in enumerate(results(tmp_path, 4)):
        assert torch.cat([part.reshape(-1) for part in tiny]).tolist() == ([] if rank % 2 else [2.5, 1.0])
        assert (begun, done) == (0, 2)
        assert all(map(torch.equal, whole_run, resumed))


def test_what_cannot_be_is_one_sentence_on_all_ranks(tmp_path: Path) -> None:
    job("refusals", 4, tmp_path)
    told, *others = results(tmp_path, 4)
    assert all(other == told for other in others)
    for name, words in {
        "native": "sharded over a mesh of 2 dimensions, whose replicas FSDP2 averages before a rule sees them; call",
        "plain": "share 4 ranks with the shards, over which FSDP2 averages the gradients; make a mesh of two",
        "mixed": "a model on 2 meshes (second.weight, second.bias, last.weight and last.bias are on another)",
        "partly": "of which second.weight, second.bias, last.weight and last.bias are not sharded; shard it whole",
        "whole": "of which no parameter is sharded; call fully_shard(model",
        "frozen": "a model that is frozen",
        "both": 'a mesh of 2 dimensions as replicas; pass one dimension, as in mesh["replicate"].',
        "group": "was given a ProcessGroup as replicas; pass one dimension",
        "few": "MeanwO(f=1) and 2 replicas, and this rule needs at least 3; lower f, or make more and smaller",
        "vote": "which lets workers vote; take MeanwO(f=0).",
        "unused": "found no gradient of last.bias; call it after backward()",
        "unequal": "rank 1 came with other tensors",
    }.items():
        assert words in told[name], (name, told[name])
        assert len(told[name].splitlines()) == 1
        assert told[name].endswith(".")
    assert len(told) == 12
