"""Two phases: the server proposes two candidates, the workers elect one (Yi et al. 2024, Algorithm 3).

Inner resists a siege and is fooled by a sneak; Outer the other way round. Both functions are pure.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Unpack

import numpy as np

from holdfast.arguments import explained
from holdfast.choice import unscaled
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.elections import BALLOT, ELECTIONS, Ballot, Numeric
from holdfast.errors import BadInput
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.reading import Reading, read
from holdfast.rules import CATALOGUE, CenterwO, MeanwO, OuterCenter, OuterMean
from holdfast.rules.base import Rng, Stage
from holdfast.values import Value, value

log = logging.getLogger("holdfast")
WINNERS = ("inner", "outer")
_LOGGED: set[Stage] = set()  # what was logged once


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the server proposes: two decisions, each with its aggregate as `value`."""

    inner: Decision
    outer: Decision

    @property
    def voters(self) -> tuple[int, ...]:
        """The workers that were not dropped in phase one."""
        return tuple(int(i) for i in self.inner.rows)

    @property
    def f(self) -> int:
        """The tolerance with which phase one ended: the larger of both rules'."""
        return max(self.inner.rule.tolerance() or 0, self.outer.rule.tolerance() or 0)


@dataclass(frozen=True)
class Winner:
    """The outcome: which candidate, by what lead of Outer, how many reports counted, and why if it was not a vote.

    `certain` says that every possible set of m - f honest voters prefers Outer on average, of the m that reported.
    """

    name: str
    lead: float
    reports: int
    why: str = ""
    certain: bool = False


@value
class TwoPhase(Value):
    r"""An Inner rule, an Outer rule and the election between their answers.

    Parameters
    ----------
    inner : Stage
        The rule that resists a siege, such as `MeanwO(f=3)`.
    outer : Stage
        The rule that resists a sneak, such as `OuterMean(f=3)`.
    election : Ballot or Numeric
        How the workers' losses decide.

    Raises
    ------
    BadInput
        If inner or outer is no rule, or the election is none.

    Notes
    -----
    .. math:: F(X) = \begin{cases} \text{Outer}(X) & \text{if the workers elect it} \\
              \text{Inner}(X) & \text{else} \end{cases}

    Call `propose` with the updates. Let the workers report their losses at both candidates. Then call `elect`. The
    guarantee is Inner's, while Inner is elected.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO, OuterMean, TwoPhase
    >>> rule = TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2))
    >>> both = rule.propose(np.array([[0.0], [1.0], [1.0], [2.0], [60.0]]))
    >>> losses = [(worker, (0.1, 0.9)) for worker in range(5)]  # at Inner and at Outer
    >>> rule.elect(both, losses).name
    'inner'
    """

    inner: Stage
    outer: Stage
    election: Ballot | Numeric = BALLOT
    formula = "Inner's answer or Outer's, whichever the workers elect"

    def __post_init__(self) -> None:
        for name in WINNERS:
            if not isinstance(rule := getattr(self, name), Stage) or not rule.answers:
                raise BadInput(f"TwoPhase was given {name} = {rule!r}; it is a rule, such as MeanwO(f=3).")
        if not isinstance(self.election, Ballot | Numeric):
            raise BadInput(f"TwoPhase was given election = {self.election!r}; it is Ballot() or Numeric(margin=0.0).")

    @property
    def random(self) -> bool:
        """Whether either rule draws and needs `rng`."""
        return bool(self.inner.random or self.outer.random)

    @property
    def f(self) -> int:
        """The larger tolerance of both rules."""
        return self.tolerance()

    def tolerance(self) -> int:
        """Return the larger f of both rules: as many Byzantine workers as either of them expects may vote."""
        return max(self.inner.tolerance() or 0, self.outer.tolerance() or 0)

    def least(self) -> int:
        """Return the smallest n that both rules accept."""
        return max(self.inner.least(), self.outer.least())

    def propose(
        self, X: object, *, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]
    ) -> Candidates:
        """Propose both candidates of a round.

        Parameters
        ----------
        X, rng, start, like, measure, on_excess, names, weights
            As for the `decide` of a rule.

        Returns
        -------
        Candidates
            Two decisions, `inner` and `outer`, each with its aggregate as `value`.

        Raises
        ------
        BadInput
            If either rule refuses the round.
        """
        return propose(X, self.inner, self.outer, rng=rng, start=start, **reading)

    def __call__(self, X: object, **_: object) -> NoReturn:
        """Explain that the workers decide: a rule of two phases has no answer of its own.

        Parameters
        ----------
        X : updates
            They are not looked at.

        Raises
        ------
        BadInput
            Always. The sentence says how to call `propose` and `elect`.
        """
        raise BadInput(
            f"{self!r} has no answer before the workers vote; call candidates = rule.propose(X), let the workers "
            "report their losses at both candidates, then call rule.elect(candidates, reports)."
        )

    aggregate = decide = apply = __call__

    def elect(self, candidates: Candidates, reports: Iterable[Any], *, step: float | None = None) -> Winner:
        """Return the winner by the reports of the voters.

        Parameters
        ----------
        candidates : Candidates
            What `propose` returned.
        reports : iterable
            One pair (voter, (loss at Inner, loss at Outer)) for each voter.
        step : float, optional
            The length γ of a step: the models are θ - γ · value. An election with a proximal margin needs it.

        Returns
        -------
        Winner
            Its `name` is "inner" or "outer".
        """
        margin = proximal_margin(self.election, candidates.inner.value, candidates.outer.value, step=step)
        return elect(candidates, reports, self.election, margin=margin)


def claimed(rule: Stage | TwoPhase) -> int | None:
    """How many Byzantine workers a rule claims to tolerate; None if it has no f.

    >>> claimed(Mean2P(f=2)), claimed(MeanwO(f=1)), claimed(TwoPhase(CATALOGUE["CWM"](), CATALOGUE["CWM"]()))
    (2, 1, None)
    """
    if not isinstance(rule, TwoPhase):
        return rule.tolerance()
    without = rule.inner.tolerance() is None and rule.outer.tolerance() is None
    return None if without else rule.tolerance()


@explained
def Cent2P(f: int) -> TwoPhase:  # noqa: N802 - the paper's name
    r"""The paper's Cent2P: CenterwO against OuterCenter, by ballot.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Returns
    -------
    TwoPhase
        `TwoPhase(CenterwO(f), OuterCenter(f))`.

    Notes
    -----
    .. math:: F(X) = \begin{cases}
              \text{OuterCenter}(X) & \text{if its model has the smaller loss for most voters} \\
              \text{CenterwO}(X) & \text{else} \end{cases}

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 3.

    Examples
    --------
    >>> from holdfast import Cent2P
    >>> Cent2P(f=2).inner, Cent2P(f=2).outer
    (CenterwO(f=2), OuterCenter(f=2))
    """
    return TwoPhase(CenterwO(f=f), OuterCenter(f=f))


@explained
def Mean2P(f: int) -> TwoPhase:  # noqa: N802 - the paper's name
    r"""The paper's Mean2P: MeanwO against OuterMean, by ballot.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Returns
    -------
    TwoPhase
        `TwoPhase(MeanwO(f), OuterMean(f))`.

    Notes
    -----
    .. math:: F(X) = \begin{cases}
              \text{OuterMean}(X) & \text{if its model has the smaller loss for most voters} \\
              \text{MeanwO}(X) & \text{else} \end{cases}

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 3.

    Examples
    --------
    >>> from holdfast import Mean2P
    >>> Mean2P(f=2).inner, Mean2P(f=2).outer
    (MeanwO(f=2), OuterMean(f=2))
    """
    return TwoPhase(MeanwO(f=f), OuterMean(f=f))


AGGREGATORS: dict[str, Any] = {**CATALOGUE, "Cent2P": Cent2P, "Mean2P": Mean2P, "TwoPhase": TwoPhase, **ELECTIONS}
"""What a text can name where two phases are possible: parse("Mean2P(f=3)", AGGREGATORS)."""


def propose(
    X: object,
    inner: Stage,
    outer: Stage,
    *more: Stage,
    rng: Rng | None = None,
    start: object = None,
    **reading: Unpack[Reading],
) -> Candidates:
    """Propose the two candidates of a round; an update that cannot be used is dropped from both.

    Parameters
    ----------
    X : array of shape (n, ...), or sequence of n updates
        As for the `decide` of a rule.
    inner, outer : Stage
        The two rules. Distances that both ask for are measured once.
    *more : Stage
        None: more than two candidates are refused.
    rng, start
        For rules that use them; others ignore them.
    like, measure, on_excess, names, weights
        As for the `decide` of a rule.

    Returns
    -------
    Candidates
        Two decisions, `inner` and `outer`, each with its aggregate as `value`.

    Raises
    ------
    BadInput
        If either rule refuses the round, or if more than two rules were given.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO, OuterMean
    >>> from holdfast.twophase import propose
    >>> both = propose(np.array([[0.0], [1.0], [1.0], [2.0], [60.0]]), MeanwO(f=2), OuterMean(f=2))
    >>> both.inner.value, both.outer.value
    (array([0.66666667]), array([20.66666667]))
    """
    if more:
        raise BadInput(
            f"propose was given {2 + len(more)} candidates; with more than two, votes split between the good ones "
            "and f liars can win, so propose two."
        )
    updates = read(X, repr(inner), **reading)
    candidates = Candidates(*(decide(rule, updates, rng=rng, start=start) for rule in (inner, outer)))
    for stage in candidates.outer.rule.stages():
        if isinstance(stage, OuterCenter | OuterMean) and stage.f == 1 and outer not in _LOGGED:
            _LOGGED.add(outer)
            log.warning("%r excludes a cluster of one vector, which is an arbitrary worker", stage)
    return candidates


def check_step(election: Ballot | Numeric, step: object, what: str) -> float:
    """The length of a step, 1 if the election has no proximal margin; refuses what is no finite number above 0."""
    if election.proximal == 0:
        return 1.0
    if not isinstance(step, (int, float, np.integer, np.floating)) or isinstance(step, bool) or not 0 < step < math.inf:
        raise BadInput(f"{election!r} was given step = {step!r}; its margin needs step=, {what}, such as 0.1.")
    return float(step)


def proximal_margin(election: Ballot | Numeric, inner: object, outer: object, *, step: float | None) -> float:
    """Return what Outer must gain: c γ ‖R - Q‖², which is (c/γ) ‖θ_O - θ_I‖² for steps θ - γR and θ - γQ.

    Parameters
    ----------
    election : Ballot or Numeric
        Its `proximal` is c. The margin is 0 if that is 0.
    inner, outer : updates
        The values R and Q of the two candidates.
    step : float or None
        The length γ of a step.

    Returns
    -------
    float
        The margin, in units of the loss; infinite if a candidate is not finite.

    Raises
    ------
    BadInput
        If there is a proximal margin and no step, or one that is not a finite number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Numeric
    >>> from holdfast.twophase import proximal_margin
    >>> proximal_margin(Numeric(proximal=0.25), np.zeros(2), np.array([3.0, 4.0]), step=0.1)
    0.625
    """
    if election.proximal == 0:
        return 0.0
    length = check_step(election, step, "the length of a step")
    updates = read([inner, outer], "an election")
    updates.look()
    if updates.dropped():
        return math.inf
    seen = distances(Points.rows(updates, np.arange(2)), wide=True)
    return float(election.proximal * length * unscaled(seen.D[0, 1], seen.scale, 2))


def elect(
    candidates: Candidates, reports: Iterable[Any], election: Ballot | Numeric = BALLOT, *, margin: float | None = None
) -> Winner:
    """Count the reports and return the winner.

    Parameters
    ----------
    candidates : Candidates
        What `propose` returned.
    reports : iterable
        One pair (voter, (loss at Inner, loss at Outer)) for each voter.
    election : Ballot or Numeric
        How the losses decide.
    margin : float, optional
        What Outer must gain, as `proximal_margin` returns it. An election with a proximal margin needs it.

    Returns
    -------
    Winner
        Its `name` is "inner" or "outer".

    Notes
    -----
    A voter who was dropped in phase one, reports twice, or sends anything else than two numbers does not count. A loss
    that is not finite is the worst one; two of them abstain. A candidate that is not finite loses without a vote. With
    fewer than 2f + 1 reports Inner wins.
    """
    if election.proximal and margin is None:
        raise BadInput(f"{election!r} was given no margin; pass margin=proximal_margin(...), or call rule.elect.")
    sound = [_finite(getattr(candidates, name).value) for name in WINNERS]
    if not all(sound):
        why = "the other candidate is not finite" if any(sound) else "no candidate is finite"
        return Winner("outer" if sound[1] else "inner", 0.0, 0, why)
    gains = np.array(list(gains_of(reports, candidates.voters).values()))
    f = candidates.f
    if len(gains) < 2 * f + 1:
        return Winner("inner", 0.0, len(gains), why=f"{len(gains)} reports, fewer than {2 * f + 1}")
    name, lead = election.count(gains, f, margin=margin or 0.0)
    least = np.sort(gains)[: len(gains) - f]
    certain = bool(np.isfinite(gains).all()) and math.fsum(least * 2.0**-40) > 0  # exact, and 1e308 is a report
    return Winner(name, lead, len(gains), certain=certain)


def gains_of(reports: Iterable[Any], voters: Sequence[int]) -> dict[int, float]:
    """What each voter gains by Outer, over those whose report counts.

    >>> gains_of([(0, (2.0, 1.5)), (1, (1.0, 9.0)), (1, (9.0, 1.0)), (2, "me"), (7, (1.0, 2.0))], voters=range(4))
    {0: 0.5}
    """
    known = set(voters)
    heard: list[tuple[int, Any]] = []
    for report in reports:
        try:
            if isinstance(report, (tuple, list)) and len(report) == 2:
                who = report[0]
                if (type(who) is int or isinstance(who, np.integer)) and int(who) in known:
                    heard.append((int(who), report[1]))
        except Exception:  # whatever a hostile message says when it is looked at
            continue
    times = Counter(who for who, _ in heard)
    gains = {who: _gain(losses) for who, losses in heard if times[who] == 1}
    return {who: gain for who, gain in gains.items() if gain is not None}


def _gain(losses: Any) -> float | None:
    try:
        pair = losses.tolist() if isinstance(losses, np.ndarray) and losses.shape == (2,) else losses
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(map(_is_number, pair)):
            return None
        inner, outer = map(float, pair)
    except Exception:
        return None
    if not math.isfinite(inner):
        return None if not math.isfinite(outer) else math.inf
    return inner - outer if math.isfinite(outer) else -math.inf


def _is_number(loss: Any) -> bool:
    plain = isinstance(loss, (int, float, np.floating, np.integer)) and not isinstance(loss, bool)
    return plain or (type(loss).__module__ == "torch" and loss.ndim == 0 and loss.dtype.is_floating_point)


def _finite(update: object) -> bool:
    """Whether a candidate holds finite numbers only."""
    try:
        updates = read([update], "a candidate")
    except BadInput:
        return False
    updates.look()
    return not updates.dropped()
