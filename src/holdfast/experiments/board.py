"""The board: a pinned, versioned set of trainings by which rules are compared; what each rule still has to run.

A rule runs through three stages in every scene. `tune`: the learning rate and the momentum are chosen on validation
images, against three attacks. `attack`: every attack with one seed. `repeat`: no attack and the three worst, with two
more seeds. All seeds share one division of the images, so test images have no part in the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean
from typing import Any

from holdfast.attacks import (
    ALIE,
    PGA,
    Canvass,
    Empire,
    Mimic,
    MinMax,
    NoAttack,
    ScaledVariance,
    SignFlip,
    Spread,
    list_paper_attacks,
)
from holdfast.contract import Stage
from holdfast.data import ByWriter, Dirichlet, Natural
from holdfast.errors import BadInput
from holdfast.experiments.peers import PeerRule
from holdfast.kinds import has_weighted_form
from holdfast.spec import parse
from holdfast.training import Run
from holdfast.twophase import AGGREGATORS, TwoPhase, claimed

VERSION = "v1"
ROWS: dict[str, str] = {
    "Average": "Average()",
    "CWM": "CWM()",
    "CWTM": "CWTM(f={f})",
    "MeaMed": "MeaMed(f={f})",
    "GeometricMedian": "GeometricMedian()",
    "Krum": "Krum(f={f})",
    "MultiKrum": "MultiKrum(f={f})",
    "MDA": "MDA(f={f})",
    "CAF": "CAF(f={f})",
    "DnC": "DnC(f={f})",
    "CenteredClipping": "CenteredClipping(tau=1.0)",
    "NNM >> Krum": "NNM(f={f}) >> Krum(f={f})",
    "NNM >> CWTM": "NNM(f={f}) >> CWTM(f={f})",
    "CenterwO": "CenterwO(f={f})",
    "MeanwO": "MeanwO(f={f})",
    "MedianwO": "MedianwO(f={f})",
    "MeanExact": "MeanExact(f={f})",
    "PTM": "PTM(f={f})",
    "Mean2P": "Mean2P(f={f})",
    "Mean2P+": "TwoPhase(inner=MeanExact(f={f}), outer=OuterMean(f={f}), election=Numeric())",
    "ByzFL Krum": "byzfl:Krum",
    "ByzFL CAF": "byzfl:CAF",
    "Flower FedTrimmedAvg": "flower:FedTrimmedAvg",
    "Flower MultiKrum": "flower:MultiKrum",
}
"""The rows of the board: rules by their text, in which {f} is the number of Byzantine workers, and peers."""
PEERS = ("byzfl:", "flower:", "krum:")
NONE = "none"
COUNT = "lied count"
ATTACKS: dict[str, Any] = {
    NONE: NoAttack(),
    **list_paper_attacks(),
    "ALIE": ALIE(),
    "OptALIE": PGA(along="std"),
    "OptIPM": PGA(along="mean"),
    "MinMax": MinMax(),
    "Mimic": Mimic(),
    "Empire~": Spread(Empire(scale=0.1)),
    "SV~": Spread(ScaledVariance(z=-20.0)),
    "PGA~": PGA(spread=True),
    "Canvass": Canvass(),
    COUNT: SignFlip(),
}
DIVISION = 0  # the seed by which the images of a scene are dealt, the same in all stages
DECLARED = 10**9  # samples that a liar says it has
TUNED_AGAINST = ("ALIE", "MinMax", "Empire~")
POINTS = tuple(product((0.05, 0.2, 0.5), (0.0, 0.9)))  # learning rates and momenta
SEEDS, TUNING_SEED, REPEATED = (0, 1, 2), 100, 3
STAGES = ("tune", "attack", "repeat")


@dataclass(frozen=True)
class Scene:
    """Data, their split, and how many workers are Byzantine."""

    data: str
    split: Any
    byzantine: int
    workers: int = 20
    validation: int = 20
    changes: Mapping[str, Any] = field(default_factory=dict)

    def run(self, rule: Any, attack: str, seed: int, lr: float, momentum: float) -> Run:
        """One training. Byzantine workers hold no data of their own."""
        fields: dict[str, Any] = {"rounds": 100, "every": 100, "batch": 16, "probe": 0, "holders": "honest"}
        fields["draw"] = DIVISION
        if attack == COUNT:
            fields |= {"weights": "samples", "declared": DECLARED}
        fields |= {"validation": self.validation, **self.changes}
        return Run(
            rule=rule,
            attack=ATTACKS[attack],
            data=self.data,
            split=self.split,
            workers=self.workers,
            byzantine=self.byzantine,
            seed=seed,
            lr=lr,
            momentum=momentum,
            **fields,
        )


SCENES: dict[str, Scene] = {
    "digits, 40 %": Scene("digits", Natural(), 8),
    "digits, uneven, 20 %": Scene("digits", Dirichlet(alpha=1.0), 4),
    "digits, uneven, 40 %": Scene("digits", Dirichlet(alpha=1.0), 8),
    "MNIST-5k, uneven, 10 %": Scene("mnist-5k", Dirichlet(alpha=1.0), 2, validation=40, changes={"batch": 8}),
}
"""What everybody can run: these data come with the package's extras."""
LARGE: dict[str, Scene] = {
    "FEMNIST by writer, 20 %": Scene(
        "femnist", ByWriter(), 7, workers=35, validation=40, changes={"rounds": 300, "every": 300, "batch": 3}
    ),
    "CIFAR-10, uneven, 20 %": Scene(
        "cifar10", Dirichlet(alpha=1.0), 7, workers=35, validation=40, changes={"rounds": 300, "every": 300, "batch": 3}
    ),
}
"""What runs where these data are present."""


@dataclass(frozen=True)
class Job:
    """One training of the board, by what tells it from the others."""

    scene: str
    row: str
    stage: str
    attack: str
    seed: int
    lr: float
    momentum: float

    @property
    def point(self) -> tuple[float, float]:
        """The learning rate and the momentum."""
        return self.lr, self.momentum

    def record(self) -> dict[str, Any]:
        """Return the fields in plain values."""
        return dict(vars(self))


Reader = Callable[[str], Any]
"""Reads a rule from its text."""
Scores = Mapping[Job, Mapping[str, Any]]
"""What was measured, by job."""


def read_catalogue(text: str) -> Any:
    """A rule of the catalogue."""
    return parse(text, AGGREGATORS, "rule")


def rule_of(text: str, f: int, read: Reader = read_catalogue) -> Any:
    """The rule of a row for f Byzantine workers; refuses one that tolerates fewer."""
    if text.startswith(PEERS):
        return PeerRule(name=text, f=f)
    rule = read(text.replace("{f}", str(f)))
    if (tolerated := claimed(rule)) is not None and tolerated < f:
        raise BadInput(f"the row {text!r} tolerates {tolerated}, and {f} workers are Byzantine; write {{f}} for f.")
    return rule


def attacks_of(rule: Any) -> list[str]:
    """The attacks that a rule meets: Canvass where there is an election, a lied count where counts are capped.

    Counts are capped by the rule's f. A rule without an f has no cap, so nobody should let it count samples.
    """
    two_phase = isinstance(rule, TwoPhase)
    weighs = isinstance(rule, Stage) and rule.tolerance() is not None and has_weighted_form(rule)
    return [name for name in ATTACKS if (name != "Canvass" or two_phase) and (name != COUNT or weighs)]


def run_of(job: Job, rule: Any, scenes: Mapping[str, Scene]) -> Run:
    """The record of a job."""
    return scenes[job.scene].run(rule, job.attack, job.seed, *job.point)


@dataclass(frozen=True)
class Plan:
    """What a row still has to run, or ran: its stage, and the jobs of the stages so far."""

    stage: str
    tuning: list[Job]
    first: list[Job] = field(default_factory=list)
    again: list[Job] = field(default_factory=list)

    def jobs(self) -> list[Job]:
        """Return the jobs of its stage; none at the end."""
        return {"tune": self.tuning, "attack": self.first, "repeat": self.again}.get(self.stage, [])


def plan_of(scene: str, row: str, rule: Any, scores: Scores) -> Plan:
    """The plan of a row in a scene; its stage is "done" at the end."""

    def job(stage: str, attack: str, seed: int, point: tuple[float, float]) -> Job:
        return Job(scene, row, stage, attack, seed, *point)

    tuning = [job("tune", attack, TUNING_SEED, point) for point in POINTS for attack in TUNED_AGAINST]
    if not set(tuning) <= set(scores):
        return Plan("tune", tuning)
    point = chosen_point(tuning, scores)
    first = [job("attack", attack, SEEDS[0], point) for attack in attacks_of(rule)]
    if not set(first) <= set(scores):
        return Plan("attack", tuning, first)
    again = [job("repeat", attack, seed, point) for attack in (NONE, *worst_of(first, scores)) for seed in SEEDS[1:]]
    return Plan("done" if set(again) <= set(scores) else "repeat", tuning, first, again)


def chosen_point(tuning: Iterable[Job], scores: Scores) -> tuple[float, float]:
    """The learning rate and momentum with the best worst accuracy on validation images; of equals, the first."""
    worst: dict[tuple[float, float], float] = {}
    for job in tuning:
        worst[job.point] = min(worst.get(job.point, 1.0), scores[job].get("validation") or 0.0)
    return max(POINTS, key=worst.__getitem__)


def worst_of(first: Iterable[Job], scores: Scores) -> list[str]:
    """The three attacks under which the accuracy of the first seed is lowest."""
    attacked = [job for job in first if job.attack != NONE]
    return [job.attack for job in sorted(attacked, key=lambda job: scores[job].get("honest") or 0.0)[:REPEATED]]


def count_all(rows: Mapping[str, str], scenes: Mapping[str, Scene], read: Reader = read_catalogue) -> int:
    """How many trainings a board has in all."""
    fixed = len(POINTS) * len(TUNED_AGAINST) + (len(SEEDS) - 1) * (1 + REPEATED)
    return sum(fixed + len(attacks_of(rule)) for scene in scenes.values() for _, rule in rows_in(rows, scene, read))


def summarise(plan: Plan, scores: Scores) -> dict[str, Any] | None:
    """What the board shows of a row in one scene; None until its stages are done."""
    if plan.stage != "done":
        return None
    by_attack: dict[str, list[float]] = {}
    for job in (*plan.first, *plan.again):
        by_attack.setdefault(job.attack, []).append(scores[job].get("honest") or 0.0)
    clean = by_attack.pop(NONE)
    full = {attack: values for attack, values in by_attack.items() if len(values) == len(SEEDS)}
    worst = min(full, key=lambda attack: fmean(full[attack]))
    lines = [scores[job] for job in (*plan.tuning, *plan.first, *plan.again)]
    return {
        "row": plan.first[0].row,
        "lr": plan.first[0].lr,
        "momentum": plan.first[0].momentum,
        "clean": fmean(clean),
        "worst": fmean(full[worst]),
        "low": min(full[worst]),
        "high": max(full[worst]),
        "attack": worst,
        "failed": tuple(str(line["failed"]) for line in lines if "failed" in line),
    }


def rows_in(rows: Mapping[str, str], scene: Scene, read: Reader = read_catalogue) -> Iterator[tuple[str, Any]]:
    """The rows whose rule fits the numbers of workers and of Byzantine workers, with their rules."""
    for name, text in rows.items():
        with suppress(BadInput):
            yield name, fitting(text, scene, read)


def fitting(text: str, scene: Scene, read: Reader = read_catalogue) -> Any:
    """The rule of a row in a scene; refuses what cannot be trained with there."""
    rule = rule_of(text, scene.byzantine, read)
    scene.run(rule, NONE, 0, *POINTS[0])
    return rule


def require_fit(text: str, scenes: Mapping[str, Scene], read: Reader = read_catalogue) -> None:
    """Refuse a row that fits no scene, with the reason of the last."""
    last: BadInput | None = None
    for scene in scenes.values():
        try:
            fitting(text, scene, read)
        except BadInput as error:
            last = error
        else:
            return
    if last is not None:
        raise last
