"""The frozen record of everything that determines a training's result. Same record, same numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import FunctionType
from typing import Any, Literal

import numpy as np

from holdfast.arguments import explain_arguments
from holdfast.attacks import NAMED, Attack, NoAttack
from holdfast.attacks.voters import VOTERS, Voter, WorseLoss
from holdfast.checks import check_whole
from holdfast.data import SPLITS, Natural
from holdfast.errors import BadInput, article
from holdfast.rules import FLTrust, MoNNA
from holdfast.rules.base import Stage
from holdfast.spec import parse
from holdfast.training.late import LATE, Late, OnTime
from holdfast.training.schedule import SCHEDULES, Constant, Schedule
from holdfast.training.server import SERVERS, SGD, ServerOptimiser
from holdfast.twophase import AGGREGATORS, TwoPhase
from holdfast.values import Value

TEXTS: dict[str, tuple[Mapping[str, Any], Any, str]] = {
    "rule": (AGGREGATORS, object, "rule"),
    "attack": (NAMED, Attack, "attack"),
    "voter": (VOTERS, Voter, "voter"),
    "split": (SPLITS, Value, "split"),
    "schedule": (SCHEDULES, Schedule, "schedule"),
    "server": (SERVERS, ServerOptimiser, "server optimiser"),
    "late": (LATE, OnTime | Late, "delay"),
}
COUNTS = {
    "workers": 1,
    "byzantine": 0,
    "rounds": 1,
    "batch": 1,
    "steps": 1,
    "every": 1,
    "seed": 0,
    "probe": 0,
    "threads": 1,
}
OPTIONAL = {"draw": 0, "train": 1, "test": 1, "present": 1, "vote_batch": 1, "declared": 1, "validation": 1, "root": 1}
LATER = ("weights", "declared", "holders", "validation", "server", "root", "late")
"""Fields that older records do not have; at their defaults they stay out of a record."""
CHOICES = {"weights": ("equal", "samples"), "holders": ("all", "honest")}
BASES = {"rule": "DistanceRule or CoordinateRule of holdfast.rules.base", "attack": "Attack of holdfast.attacks"}
SYNONYMS = {
    **dict.fromkeys(("liars", "f", "b", "n_byzantine", "nb_byz", "nb_byzantine", "num_byzantine"), "byzantine"),
    **dict.fromkeys(("n", "clients", "nodes", "n_workers", "nb_workers", "num_workers", "num_clients"), "workers"),
    **dict.fromkeys(("epochs", "iterations", "n_rounds", "nb_steps", "num_rounds"), "rounds"),
    **{"aggregator": "rule", "dataset": "data", "learning_rate": "lr", "step_size": "lr", "local_steps": "steps"},
    **dict.fromkeys(("optimizer", "optimiser", "server_optimizer", "server_optimiser"), "server"),
}
"""Other words for fields of `Run`, which people try."""
MAX_COUNT, HUGE = 2**31 - 1, 1e100
NUMBERS = {"lr": True, "momentum": False, "weight_decay": False, "shrink": True}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The record of everything that determines the result of one training.

    Parameters
    ----------
    rule : Stage, TwoPhase or str
        What the server does. The rule's f is the tolerance that it assumes.
    attack : Attack or str
        What the Byzantine workers send.
    voter : Voter or str
        How the Byzantine workers vote in two-phase rounds.
    data : str
        The name of the data set, as for `holdfast.data.load`.
    split : Split or str
        How the data are dealt among the workers.
    draw : int or None
        The seed of the split. None: the run's seed.
    train : int or None
        Training images for each worker. None: all there are.
    test : int or None
        Test images for each worker. None: all there are.
    standardise : bool
        Whether each pixel is standardised.
    model : str
        "linear", "mlp", "cnn", "lenet" or "resnet". "auto" is the cnn for images of at least 16 x 16, else the mlp.
    workers : int
        How many workers there are.
    byzantine : int
        How many of them lie in fact: the last ones.
    present : int or None
        How many workers, drawn anew, take part in a round. None: all. In a round without an honest
        worker, the Byzantine workers send honest updates.
    rounds : int
        How many rounds are run.
    batch : int
        Images in a worker's batch.
    lr : float
        The learning rate.
    schedule : Schedule or str
        The factor of the learning rate in each round.
    momentum : float
        m = momentum · m + (1 - momentum) · g at each worker; at least 0 and below 1.
    weight_decay : float
        Applied at the server: model -= lr · schedule(t) · (u + weight_decay · model), where u is what `server` makes
        of shrink · R. With SGD, u is shrink · R.
    clip : float or None
        The norm to which a worker's g is shortened. None: it is not.
    steps : int
        Local SGD steps in a round. A worker sends (model - its model) / rate; with one step this is the gradient.
    vote_batch : int or None
        Images on which a worker compares both candidates. None: all its training data. A small batch loses elections:
        with the 3 of the paper's text, 14 Byzantine workers of 35 win about 6 in 10 where the better candidate's lead
        is half a standard deviation of one image's loss.
    shrink : float
        A factor of every aggregate. The authors' program divides the sums of its own rules by n instead of n - f, so
        its factor is (n - f) / n; the text's is 1.
    reject : float or None
        A step of this length or longer is not taken. None: every finite one is. The program's is 1e5. The length is
        that of the whole step, after `server` and `weight_decay`.
    every : int
        Rounds between evaluations.
    probe : int
        Training images for each worker, for the gradient norm.
    seed : int
        The seed of all draws.
    device : str
        The torch device.
    threads : int
        Threads of torch. Sums in another order have other bits, so it belongs to the record.
    weights : "equal" or "samples"
        How much a worker counts: all alike, or by the number of its training images. With a rule that has an f, the
        largest numbers are capped, as `holdfast.cap` does.
    declared : int or None
        How many training images each Byzantine worker says that it has. None: the truth.
    holders : "all" or "honest"
        Among whom the data are dealt. "honest": Byzantine workers hold no data of their own, as in ByzFL. They train
        on the images of honest workers, and have no test images.
    validation : int or None
        How many of its training images each worker sets aside. Evaluations then tell the accuracy on these images. Use
        it to choose parameters, since a choice by the test images would flatter the result.
    server : ServerOptimiser or str
        The server's optimiser: "SGD()", "Momentum(beta=0.9)", "Adam()" or "Yogi()" of `holdfast.training.server`.
    root : int or None
        How many training images the server has of its own. They are drawn from the workers' images, and no worker
        trains on them. Rules with a start, such as `FLTrust()`, start from the server's gradient on these images, with
        the workers' momentum.
    late : Late or str
        "OnTime()", or which replies come late and what a round does then: "Late(share=0.4, wait=14)" of
        `holdfast.training.late`.

    Raises
    ------
    BadInput
        If a field holds something else, or the rule needs more workers.

    Notes
    -----
    Rules, attacks, voters, splits, schedules and server optimisers may be given as text. The same record gives the
    same numbers.

    Examples
    --------
    >>> from holdfast import Run
    >>> run = Run(rule="Mean2P(f=2)", attack="Empire(scale=0.1)", workers=7, byzantine=2)
    >>> run.attack
    Empire()
    >>> Run.read(run.text()) == run
    True
    """

    rule: Any
    attack: Any = field(default_factory=NoAttack)
    voter: Any = field(default_factory=WorseLoss)
    data: str = "digits"
    split: Any = field(default_factory=Natural)
    draw: int | None = None
    train: int | None = None
    test: int | None = None
    standardise: bool = True
    model: str = "auto"
    workers: int = 20
    byzantine: int = 0
    present: int | None = None
    rounds: int = 200
    batch: int = 16
    lr: float = 0.1
    schedule: Any = field(default_factory=Constant)
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip: float | None = None
    steps: int = 1
    vote_batch: int | None = None
    shrink: float = 1.0
    reject: float | None = None
    every: int = 10
    probe: int = 16
    seed: int = 0
    device: str = "cpu"
    threads: int = 1
    weights: Literal["equal", "samples"] = "equal"
    declared: int | None = None
    holders: Literal["all", "honest"] = "all"
    validation: int | None = None
    server: Any = field(default=SGD())
    root: int | None = None
    late: Any = field(default=OnTime())

    def __post_init__(self) -> None:
        for name, (catalogue, kind, noun) in TEXTS.items():
            given = getattr(self, name)
            if isinstance(given, str):
                given = parse(given, catalogue, noun)
                object.__setattr__(self, name, given)
            if not isinstance(given, kind) or (name == "rule" and not _rules(given)):
                raise BadInput(f"Run was given {name} = {given!r}; {_advice(noun, given)}.")
        for name, least in (COUNTS | OPTIONAL).items():
            given = getattr(self, name)
            if name in OPTIONAL and given is None:
                continue
            object.__setattr__(self, name, check_whole(given, name, least=least, most=MAX_COUNT, who="Run"))
        for name in ("data", "model", "device"):
            if not isinstance(given := getattr(self, name), str):
                raise BadInput(f"Run was given {name} = {given!r}; it is a text.")
        if not isinstance(self.standardise, bool):
            raise BadInput(f"Run was given standardise = {self.standardise!r}; it is True or False.")
        for name, (usual, other) in CHOICES.items():
            if (given := getattr(self, name)) not in (usual, other):
                raise BadInput(f"Run was given {name} = {given!r}; it is {usual!r} or {other!r}.")
        for name, positive in NUMBERS.items():
            self._number(name, positive=positive)
        for name in ("clip", "reject"):
            if getattr(self, name) is not None:
                self._number(name, positive=True)
        if self.momentum >= 1:
            raise BadInput(f"Run was given momentum = {self.momentum!r}; it is below 1.")
        self._possible()

    def _number(self, name: str, *, positive: bool) -> None:
        given = getattr(self, name)
        given = given.item() if isinstance(given, np.number) else given
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not abs(given) < HUGE:
            raise BadInput(f"Run was given {name} = {given!r}; it is a finite number.")
        if given < 0 or (positive and given == 0):
            raise BadInput(f"Run was given {name} = {given!r}; it is {'above' if positive else 'at least'} 0.")
        object.__setattr__(self, name, float(given) + 0.0)  # no -0.0, which has another text

    def _possible(self) -> None:
        if self.byzantine >= self.workers:
            raise BadInput(f"Run was given {self.byzantine} liars of {self.workers} workers; leave one honest.")
        if (self.present or 0) > self.workers:
            raise BadInput(
                f"Run was given present = {self.present} of {self.workers} workers; it is at most {self.workers}."
            )
        rules = (self.rule.inner, self.rule.outer) if isinstance(self.rule, TwoPhase) else (self.rule,)
        stages = [stage for rule in rules for stage in rule.stages()]
        for pivot in (stage.pivot for stage in stages if isinstance(stage, FLTrust | MoNNA)):
            absent = "present" if self.present else "late" if self.late != OnTime() else ""
            if pivot is not None and (pivot >= self.workers or absent):
                why = f"it may be absent, since {absent} is given" if absent else f"there are {self.workers} workers"
                raise BadInput(f"Run was given {self.rule!r}, which trusts worker {pivot}; {why}.")
        if FLTrust() in stages and self.root is None:
            raise BadInput(
                f"Run was given {self.rule!r}, and the server has no update of its own; give it images, as in "
                "root=100, or name a worker that you trust, as in FLTrust(pivot=0)."
            )
        if self.root is not None and not any("start" in stage.anchors for stage in stages):
            raise BadInput(
                f"Run was given root = {self.root} and {self.rule!r}, which starts from nothing; leave root out, or "
                "take a rule with a start, such as FLTrust()."
            )
        if self.root is not None and self.steps > 1:
            raise BadInput(
                f"Run was given root = {self.root} and steps = {self.steps}; the server computes one gradient, so "
                "leave steps at 1."
            )
        n, least = self.present or self.workers, self.rule.least()
        if isinstance(self.late, Late) and self.late.wait > n:
            raise BadInput(f"Run was given {self.late!r} and {n} workers in a round; wait is at most {n}.")
        if isinstance(self.late, Late) and self.late.wait:
            n = self.late.wait
        if n < least:
            raise BadInput(f"{self.rule!r} was given {n} workers; it needs at least {least}.")

    @property
    def honest(self) -> int:
        """How many workers are honest: the first ones."""
        return self.workers - self.byzantine

    @property
    def f(self) -> int:
        """The tolerance that the rule assumes."""
        return self.rule.tolerance() or 0

    @property
    def two_phase(self) -> bool:
        """Whether the workers vote."""
        return isinstance(self.rule, TwoPhase)

    def changed(self, **words: Any) -> Run:
        """Return the same run with other fields.

        Parameters
        ----------
        **words
            The fields to change, by name.

        Returns
        -------
        Run
            A new record.

        Examples
        --------
        >>> from holdfast import Run
        >>> Run(rule="MeanwO(f=2)").changed(rounds=5).rounds
        5
        """
        return replace(self, **words)

    def record(self) -> dict[str, Any]:
        """Return all fields in plain values; rules and attacks as their text."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        written = {name: repr(v) if name in TEXTS else v for name, v in plain.items()}
        usual = usual_later()
        return {name: v for name, v in written.items() if name not in LATER or v != usual[name]}

    def text(self) -> str:
        """Return the record as JSON."""
        return json.dumps(self.record(), indent=1)

    @staticmethod
    def read(text: str) -> Run:
        """Return the run whose record this text is.

        Parameters
        ----------
        text : str
            JSON, as `text` writes it.

        Returns
        -------
        Run
            The run.

        Raises
        ------
        BadInput
            If the text is no JSON, or no record.
        """
        try:
            given = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadInput(f"the record of a run is no JSON: {error}; write it with Run.text().") from None
        return Run.of(given)

    @staticmethod
    def of(given: Any) -> Run:
        """Return the run of a record in plain values.

        Parameters
        ----------
        given : dict
            Fields by name, as `record` returns them.

        Returns
        -------
        Run
            The run.

        Raises
        ------
        BadInput
            If a field is unknown, or the rule is missing.

        Examples
        --------
        >>> from holdfast import Run
        >>> Run.of({"rule": "MeanwO(f=2)"}).rule
        MeanwO(f=2)
        """
        known = {one.name for one in fields(Run)}
        if not isinstance(given, dict) or "rule" not in given or not set(given) <= known:
            strange = sorted(set(given) - known) if isinstance(given, dict) else type(given).__name__
            raise BadInput(f"the record of a run was given {strange}; it has {', '.join(sorted(known))}.")
        return Run(**given)


explain_arguments(Run, SYNONYMS)


def usual_later() -> dict[str, Any]:
    """What a record that lacks one of the later fields means, in plain values."""
    usual = {one.name: one.default for one in fields(Run) if one.name in LATER}
    return {name: repr(v) if name in TEXTS else v for name, v in usual.items()}


def _rules(given: Any) -> bool:
    return isinstance(given, TwoPhase) or (isinstance(given, Stage) and bool(given.answers))


def _advice(noun: str, given: Any) -> str:
    """What to give instead of this."""
    if isinstance(given, Stage):
        return f"it gives back many vectors, so put a rule behind it, as in {given!r} >> Average()"
    if isinstance(given, FunctionType) and noun in BASES:
        return f"a run takes no function; write {article(noun)} as a class that inherits from {BASES[noun]}"
    return f"it takes {article(noun)}, as a value or as text"
