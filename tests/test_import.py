"""ByzFL's benchmark file as a sweep: translated, run on digits, and ending in the three kinds of heat maps."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import BadInput
from holdfast.experiments.byzfl import ATTACKS, RULES, SPLITS, to_toml, translate
from holdfast.experiments.sweep import read, runs
from tests import children

CONFIG: dict[str, Any] = {  # the form of ByzFL 0.0.11's own default, smaller
    "benchmark_config": {
        "training_algorithm": {"name": "DSGD", "parameters": {}},
        "nb_steps": 6,
        "training_seed": 3,
        "nb_training_seeds": 1,
        "nb_honest_clients": 6,
        "f": [1, 2],
        "data_distribution": [{"name": "gamma_similarity_niid", "distribution_parameter": [1.0, 0.0]}],
    },
    "model": {"name": "cnn_mnist", "dataset_name": "mnist", "learning_rate": [0.1, 0.3], "milestones": []},
    "aggregator": [
        {"name": "GeometricMedian", "parameters": {"nu": 0.1, "T": 3}},
        {"name": "TrMean", "parameters": {}},
    ],
    "pre_aggregators": [{"name": "Clipping", "parameters": {}}, {"name": "NNM", "parameters": {}}],
    "honest_clients": {"momentum": 0.9, "weight_decay": 0.0001, "batch_size": 8},
    "attack": [{"name": "SignFlipping", "parameters": {}}, {"name": "ALittleIsEnough", "parameters": {"tau": 1.5}}],
    "evaluation_and_results": {"evaluation_delta": 3, "data_folder": "./data"},
}


def changed(part: str, **fields: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    if isinstance(config[part], dict):
        config[part] |= fields
    return config


def test_every_name_of_theirs_is_one_of_ours() -> None:
    config = copy.deepcopy(CONFIG)
    stages = ("NNM", "ARC", "Clipping", "Bucketing")
    config["aggregator"] = [{"name": name} for name in RULES if name not in stages]
    config["pre_aggregators"] = [[{"name": name}] for name in stages]
    config["attack"] = [{"name": name} for name in ATTACKS]
    config["benchmark_config"]["data_distribution"] = [{"name": name, "distribution_parameter": 0.5} for name in SPLITS]
    config["benchmark_config"]["f"] = 1
    grid, _ = translate(config, "digits")
    lines = [len(grid[name]) for name in ("rules", "attacks", "splits")]
    assert lines == [4 * (len(RULES) - 4), len(ATTACKS), len(SPLITS)]
    assert len(runs(grid | {"lr": 0.1})) == lines[0] * lines[1] * lines[2]


def test_numbers_go_over() -> None:
    grid, remarks = translate(CONFIG)
    assert grid["rules"][1] == "Clip(tau=2.0) >> NNM(f={f}) >> CWTM(f={f})"
    assert grid["attacks"] == ["Empire(scale=1.0)", f"ALIE(z={-1.5 * (6 / 5) ** 0.5})"]
    assert (grid["honest"], grid["byzantine"], grid["seeds"], grid["rounds"]) == (6, [1, 2], [3], 6)
    assert (grid["data"], grid["model"], grid["holders"], grid["weight_decay"]) == ("mnist", "cnn", "honest", [0.0001])
    assert len(remarks) == 1


def test_what_differs_is_said() -> None:
    _, remarks = translate(changed("model", milestones=[10, 50], learning_rate_decay=0.5))
    assert "a learning rate that falls at 10 and 50 has no equal here; it is constant" in remarks
    grid, _ = translate(changed("model", milestones=[10, 20], learning_rate_decay=0.5))
    assert grid["schedule"] == "Steps(every=10, scale=0.5)"
    _, remarks = translate(changed("honest_clients", colour="red"))
    assert "honest_clients.colour is not taken over" in remarks
    grid, _ = translate(changed("benchmark_config", tolerated_f=[2, 3]))
    assert len(grid["rules"]) == 4
    assert grid["rules"][0].endswith("GeometricMedian(iterations=3, floor=0.1, begin='origin')")
    assert grid["rules"][2].endswith("CWTM(f=2)")
    grid, remarks = translate(
        CONFIG | {"aggregator": {"name": "TrMean", "parameters": {"f": 3}}, "pre_aggregators": {"name": "NNM"}}
    )
    assert grid["rules"] == ["NNM(f={f}) >> CWTM(f={f})"]
    assert "f of TrMean is not taken over" in remarks


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ([], "without benchmark_config"),
        (CONFIG | {"model": [1]}, r"model was \[1\]; in its files it has names"),
        (changed("benchmark_config", training_algorithm="DSGD"), "training_algorithm was 'DSGD'"),
        (changed("model", milestones=["x"], learning_rate_decay=0.5), "they are rounds, whole numbers"),
        (changed("model", dataset_name="imagenet"), "'imagenet' is not here; name another by --data"),
        (changed("benchmark_config", nb_training_seeds=0), "nb_training_seeds were 3 and 0"),
        (changed("benchmark_config", training_algorithm={"name": "Gossip"}), "'Gossip' has no equal here"),
        (changed("benchmark_config", data_distribution=[{"name": "odd"}]), "'odd' is no split with an equal here"),
        (CONFIG | {"aggregator": [{"name": "Zeno"}]}, "'Zeno' is no rule with an equal here"),
        (CONFIG | {"attack": [7]}, "7 is no attack with an equal here"),
    ],
)
def test_what_has_no_equal_is_one_sentence(config: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        translate(config)


def test_from_their_file_to_heat_maps(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    def run(*words: str) -> str:
        done = children.run(children.holdfast(*words), cwd=tmp_path, env=children.WIDE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = run("import", "byzfl", "config.json", "--data", "digits", "--out", "sweep.toml")
    assert "32 runs in sweep.toml" in told
    assert len(read(tmp_path / "sweep.toml")) == 32
    run("sweep", "sweep.toml", "--store", "runs", "--jobs", "1")
    run("report", "runs", "--out", "report.html")
    page = (tmp_path / "report.html").read_text()
    for kind in ("accuracy under the worst attack", "largest loss over the attacks"):
        assert f"Clip(tau=2.0) &gt;&gt; NNM &gt;&gt; CWTM: {kind}" in page
    assert "The best rule of each cell" in page


def test_a_file_that_is_no_json_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    done = children.run(children.holdfast("import", "byzfl", "config.json"), cwd=tmp_path, env=children.WIDE)
    assert done.returncode == 2
    assert "config.json is no JSON" in done.stderr
    assert to_toml({"lr": [0.1]}, []) == "lr = [0.1]\n"
