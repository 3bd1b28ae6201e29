"""A benchmark file of ByzFL (config.json) as a sweep: what means the same here, and what has no equal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import product
from typing import Any

from holdfast.errors import BadInput, listing

Grid = dict[str, Any]
Words = Mapping[str, Any]
Known = Mapping[str, tuple[str, Words]]  # the text here, and ByzFL's defaults of what stands in it
RULES: Known = {
    "Average": ("Average()", {}),
    "Median": ("CWM()", {}),
    "TrMean": ("CWTM(f={f})", {}),
    "GeometricMedian": ("GeometricMedian(iterations={T}, floor={nu}, begin='origin')", {"T": 3, "nu": 0.1}),
    "Krum": ("Krum(f={f}, others='n-f-1')", {}),
    "MultiKrum": ("MultiKrum(f={f}, others='n-f-1')", {}),
    "CenteredClipping": ("CenteredClipping(tau={tau}, iterations={L})", {"tau": 100.0, "L": 1}),
    "MDA": ("MDA(f={f})", {}),
    "MoNNA": ("MoNNA(f={f}, pivot={idx})", {"idx": 0}),
    "Meamed": ("MeaMed(f={f})", {}),
    "CAF": ("CAF(f={f}, over='all')", {}),
    "SMEA": ("SMEA(f={f})", {}),
    "NNM": ("NNM(f={f})", {}),
    "ARC": ("ARC(f={f})", {}),
    "Clipping": ("Clip(tau={c})", {"c": 2.0}),
    "Bucketing": ("Bucketing(s={s})", {"s": 1}),
}
ATTACKS: Known = {
    "SignFlipping": ("Empire(scale=1.0)", {}),
    "InnerProductManipulation": ("Empire(scale={tau})", {"tau": 2.0}),
    "ALittleIsEnough": ("ALIE(z={z})", {"tau": 1.5}),
    "Optimal_InnerProductManipulation": ("PGA(along='mean', thorough=True)", {}),
    "Optimal_ALittleIsEnough": ("PGA(along='std', thorough=True)", {}),
    "Mimic": ("Mimic(worker={epsilon})", {"epsilon": 0}),
    "Inf": ("Inf()", {}),
    "Gaussian": ("Gauss(sigma={sigma}, mu={mu})", {"sigma": 1.0, "mu": 0.0}),
    "LabelFlipping": ("LabelFlip()", {}),
    "NoAttack": ("NoAttack()", {}),
}
SPLITS: Known = {
    "iid": ("Natural()", {}),
    "gamma_similarity_niid": ("Similarity(gamma={parameter})", {"parameter": 1.0}),
    "extreme_niid": ("Similarity(gamma=0.0)", {}),
    "dirichlet_niid": ("Dirichlet(alpha={parameter}, over='workers')", {"parameter": 1.0}),
}
MODELS = {"cnn_mnist": "cnn", "fc_mnist": "mlp", "logreg_mnist": "linear"}
DATA = {"mnist": "mnist", "fashionmnist": "fashion-mnist", "cifar10": "cifar10", "emnist": "emnist"}
READ = {
    "benchmark_config": (
        *("nb_steps", "training_seed", "nb_training_seeds", "nb_honest_clients", "f", "tolerated_f", "device"),
        *("data_distribution_seed", "nb_data_distribution_seeds", "data_distribution", "training_algorithm"),
    ),
    "model": ("name", "dataset_name", "learning_rate", "nb_labels", "loss", "learning_rate_decay", "milestones"),
    "honest_clients": ("momentum", "weight_decay", "batch_size"),
    "evaluation_and_results": ("evaluation_delta",),
}
FILES = (
    "batch_size_evaluation",
    "evaluate_on_test",
    "data_folder",
    "results_directory",
    "store_models",
    "store_per_client_metrics",
)


def translate(config: Any, data: str = "") -> tuple[Grid, list[str]]:
    """The sweep that a benchmark file describes, and remarks on what differs.

    Parameters
    ----------
    config : mapping
        What ByzFL's config.json holds.
    data : name of another data set to take, such as "digits"

    Raises
    ------
    BadInput
        If the file is of another form, or names something that has no equal here.
    """
    if not isinstance(config, Mapping) or not isinstance(config.get("benchmark_config"), Mapping):
        raise BadInput("a benchmark file of ByzFL was given without benchmark_config; name its config.json.")
    if strange := [name for name in READ if not isinstance(config.get(name) or {}, Mapping)]:
        raise BadInput(f"ByzFL's {strange[0]} was {config[strange[0]]!r}; in its files it has names and values.")
    parts = {name: dict(config.get(name) or {}) for name in READ}
    bench, model, client = parts["benchmark_config"], parts["model"], parts["honest_clients"]
    honest = bench.get("nb_honest_clients", 10)
    remarks: list[str] = []
    grid: Grid = {
        "rules": _rules(config, bench, remarks),
        "attacks": [_attack(one, honest) for one in _listed(config.get("attack"))],
        "splits": [text for one in _listed(bench.get("data_distribution")) for text in _splits(one)],
        "honest": honest,
        "byzantine": _listed(bench.get("f", 0)),
        "seeds": _seeds(bench, "training"),
        "draw": _seeds(bench, "data_distribution"),
        "data": data or _data(model, remarks),
        "model": "auto" if data else MODELS.get(str(model.get("name")), "auto"),
        "holders": "honest",
        "rounds": bench.get("nb_steps", 800),
        "batch": _listed(client.get("batch_size", 25)),
        "lr": _listed(model.get("learning_rate", 0.1)),
        "momentum": _listed(client.get("momentum", 0.9)),
        "weight_decay": _listed(client.get("weight_decay", 0.0)),
        "every": parts["evaluation_and_results"].get("evaluation_delta", 50),
    }
    _schedule(model, grid, remarks)
    _algorithm(bench, grid, remarks)
    for name, part in parts.items():
        if strange := [f"{name}.{key}" for key in part if key not in (*READ[name], *FILES)]:
            remarks.append(f"{listing(strange)} {'is' if len(strange) == 1 else 'are'} not taken over")
    remarks.append("the evaluation is on the workers' test images; add validation = 20 to choose parameters by others")
    return {name: value for name, value in grid.items() if value != []}, remarks


def to_toml(grid: Mapping[str, Any], remarks: list[str]) -> str:
    """The sweep file, with the remarks as its first lines.

    >>> print(to_toml({"rules": ["CWM()"], "rounds": 5}, ["a remark"]))
    # a remark
    rules = ["CWM()"]
    rounds = 5
    <BLANKLINE>
    """
    lines = [f"# {text}" for text in remarks]
    return "\n".join([*lines, *(f"{name} = {json.dumps(value)}" for name, value in grid.items())]) + "\n"


def _rules(config: Mapping[str, Any], bench: Mapping[str, Any], remarks: list[str]) -> list[str]:
    """Every aggregator behind every list of pre-aggregators, for every tolerance."""
    tolerated = _listed(bench.get("tolerated_f")) or ["{f}"]
    before, last = _listed(config.get("pre_aggregators")), _listed(config.get("aggregator"))
    lists = before if before and isinstance(before[0], list) else [before]
    for one in (*last, *(one for some in lists for one in some)):
        lost = [word for word in _words(one) if word not in _fields(RULES, one)]
        remarks += [f"{word} of {one['name']} is not taken over" for word in lost]
    return [
        " >> ".join(_written(RULES, one, "rule", {**_words(one), "f": f}) for one in (*first, one_rule))
        for first, one_rule, f in product(lists, last, tolerated)
    ]


def _attack(given: Any, honest: Any) -> str:
    words = dict(_words(given))
    tau = words.get("tau", ATTACKS["ALittleIsEnough"][1]["tau"])
    if isinstance(tau, (int, float)) and type(honest) is int and honest > 1:
        words["z"] = -tau * math.sqrt(honest / (honest - 1))  # theirs has the deviation of n - 1, and the other sign
    return _written(ATTACKS, given, "attack", words)


def _splits(given: Any) -> list[str]:
    parameters = _listed(given.get("distribution_parameter")) if isinstance(given, Mapping) else []
    found = [_written(SPLITS, given, "split", {"parameter": one}) for one in parameters]
    return list(dict.fromkeys(found)) or [_written(SPLITS, given, "split", {})]


def _written(known: Known, given: Any, what: str, words: Words) -> str:
    """The text here of something of theirs."""
    name = given.get("name") if isinstance(given, Mapping) else given
    if not isinstance(name, str) or name not in known:
        raise BadInput(f"ByzFL's {name!r} is no {what} with an equal here; known are {', '.join(known)}.")
    text, usual = known[name]
    try:
        return text.format(**{**usual, **words})
    except KeyError as missing:
        raise BadInput(f"ByzFL's {name!r} was given no {missing.args[0]}; it has no equal here then.") from None


def _fields(known: Known, given: Any) -> Words:
    """The parameters that a text of ours takes over."""
    name = given.get("name") if isinstance(given, Mapping) else given
    return known[name][1] if isinstance(name, str) and name in known else {}


def _words(given: Any) -> Words:
    words = given.get("parameters") if isinstance(given, Mapping) else None
    return words if isinstance(words, Mapping) else {}


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, list) else [given]


def _seeds(bench: Mapping[str, Any], what: str) -> list[int]:
    first, many = bench.get(f"{what}_seed", 0), bench.get(f"nb_{what}_seeds", 1)
    if type(first) is not int or type(many) is not int or not 0 < many <= 1000:
        raise BadInput(f"ByzFL's {what}_seed and nb_{what}_seeds were {first!r} and {many!r}; they are whole numbers.")
    return list(range(first, first + many))


def _data(model: Mapping[str, Any], remarks: list[str]) -> str:
    name = str(model.get("dataset_name", "mnist")).lower()
    if name not in DATA:
        raise BadInput(f"ByzFL's data set {name!r} is not here; name another by --data, such as digits.")
    if name in ("cifar10", "fashionmnist"):
        remarks.append("ByzFL crops and mirrors its images; here they stay as they are")
    return DATA[name]


def _schedule(model: Mapping[str, Any], grid: Grid, remarks: list[str]) -> None:
    """A decay at even milestones is Steps; another has no equal."""
    milestones, decay = _listed(model.get("milestones")), model.get("learning_rate_decay", 1.0)
    if not milestones or decay == 1.0:
        return
    if not all(type(one) is int and one > 0 for one in milestones):
        raise BadInput(f"ByzFL's milestones were {model['milestones']!r}; they are rounds, whole numbers from 1.")
    if milestones == [milestones[0] * (at + 1) for at in range(len(milestones))]:
        grid["schedule"] = f"Steps(every={milestones[0]}, scale={decay})"
        remarks.append(f"the rate goes on falling every {milestones[0]} rounds after the last milestone")
    else:
        remarks.append(f"a learning rate that falls at {listing(milestones)} has no equal here; it is constant")


def _algorithm(bench: Mapping[str, Any], grid: Grid, remarks: list[str]) -> None:
    """DSGD is the usual way here; FedAvg has several local steps."""
    given = bench.get("training_algorithm") or {"name": "DSGD"}
    if not isinstance(given, Mapping):
        raise BadInput(f"ByzFL's training_algorithm was {given!r}; it has a name and parameters.")
    if given.get("name") == "FedAvg":
        words = _words(given)
        grid["steps"] = words.get("local_steps_per_client", 1)
        if words.get("proportion_selected_clients", 1.0) != 1.0:
            remarks.append("ByzFL draws some honest clients in each round; here all take part")
    elif given.get("name") != "DSGD":
        raise BadInput(
            f"ByzFL's training algorithm {given.get('name')!r} has no equal here; known are DSGD and FedAvg."
        )
