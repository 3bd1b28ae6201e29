r"""When does the better candidate win the vote of two phases?

All f liars are against it and ties are lost. Of the m voters whose reports came, h = m - f are honest; each reports the
mean of its batch of b loss differences, whose mean over all its data is the gap g > 0, and errs if that is not above
zero. The better candidate is Outer here, of which `Numeric` asks a margin; a better Inner wins at least as surely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast.checks import check_whole
from holdfast.elections import Ballot, Numeric
from holdfast.errors import BadInput
from holdfast.guarantees.rates import MAX_FLOAT, check_number

__all__ = ["Sample", "Voters", "batch_for", "fails"]

METHODS = {"hoeffding": "bound", "bernstein": "bound", "cantelli": "bound", "normal": "approximation"}
DRAWS = 20_000  # simulated elections
SEEN = 10  # failures among them that a rate must rest on
MAX_VOTERS, MAX_BATCH = 10_000, 2**60


@dataclass(frozen=True)
class Voters:
    """Who votes: n workers, f of them Byzantine, of whom some report, the Byzantine ones always.

    Parameters
    ----------
    n : int
        How many workers there are.
    f : int
        How many are Byzantine; below n/2.
    cast : int or None
        How many report, from 2f + 1 to n. None: all n.

    Raises
    ------
    BadInput
        If a number is out of range.

    Notes
    -----
    Of m reports, h = m - f are `honest`. A ballot is won with the votes `needed`, more than half of m, so it survives
    h - needed honest `errors`. `Numeric` cuts f reports on either side, and q = m - 2f are `kept`.

    Examples
    --------
    >>> from holdfast.guarantees.vote import Voters
    >>> voters = Voters(n=35, f=7)
    >>> voters.needed, voters.honest, voters.errors, voters.kept
    (18, 28, 10, 21)
    """

    n: int
    f: int
    cast: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("f", 0)):
            check_whole(getattr(self, name), name, least=least, who="Voters")
        if self.n > MAX_VOTERS or 2 * self.f >= self.n:
            raise BadInput(f"Voters was given n = {self.n} and f = {self.f}; it takes f < n/2, n up to {MAX_VOTERS:,}.")
        check_whole(self.reports, "cast", least=1, who="Voters")
        if not 2 * self.f + 1 <= self.reports <= self.n:
            raise BadInput(f"{self!r} was given; cast is from 2f + 1 = {2 * self.f + 1} to n, else Inner wins unasked.")

    @property
    def reports(self) -> int:
        """How many report: m."""
        return self.n if self.cast is None else self.cast

    @property
    def honest(self) -> int:
        """How many honest workers report: h = m - f."""
        return self.reports - self.f

    @property
    def needed(self) -> int:
        """With how many votes a ballot is won."""
        return self.reports // 2 + 1

    @property
    def errors(self) -> int:
        """How many honest errors a ballot survives."""
        return self.honest - self.needed

    @property
    def kept(self) -> int:
        """How many reports `Numeric` keeps: q = m - 2f."""
        return self.reports - 2 * self.f


@dataclass(frozen=True)
class Sample:
    """What an honest voter sees: loss differences, and what is known of their spread.

    Parameters
    ----------
    gap : float
        The mean of the differences, above 0.
    batch : int
        How many differences a voter draws.
    deviation : float or None
        Bounds the standard deviation s of one difference.
    range : float or None
        The length R of an interval that holds all differences.

    Raises
    ------
    BadInput
        If neither deviation nor range is given, or they contradict each other.

    Notes
    -----
    Where voters differ, take the smallest gap and the largest spread. Batches are drawn by each voter for itself, with
    replacement; without, all bounds but McDiarmid's hold too.

    Examples
    --------
    >>> from holdfast.guarantees.vote import Sample
    >>> Sample(gap=0.5, batch=24, range=2.0).methods
    ('hoeffding',)
    """

    gap: float
    batch: int
    deviation: float | None = None
    range: float | None = None

    def __post_init__(self) -> None:
        check_number("Sample", "gap", self.gap, above=True)
        check_whole(self.batch, "batch", least=1, most=int(MAX_FLOAT), who="Sample")
        for name in ("deviation", "range"):
            if getattr(self, name) is not None:
                check_number("Sample", name, getattr(self, name), above=True)
        if self.deviation is None and self.range is None:
            raise BadInput(f"{self!r} was given; say the deviation or the range of a loss difference, or both.")
        if (self.deviation or 0) > (self.range or math.inf) / 2 * (1 + 1e-9):
            raise BadInput(f"{self!r} was given; a deviation is at most half the range: lower it or raise the range.")

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods for which enough is known."""
        known = (self.range, self.range and self.deviation, self.deviation, self.deviation)
        return tuple(name for name, enough in zip(METHODS, known, strict=True) if enough is not None)

    def error(self, method: str) -> float:
        r"""Return the probability that this voter errs.

        Parameters
        ----------
        method : str
            "hoeffding", "bernstein" or "cantelli" bound it, "normal" approximates it.

        Returns
        -------
        float
            The probability.

        Raises
        ------
        BadInput
            If too little is known for the method.

        Notes
        -----
        .. math:: e^{-2 b g^2 / R^2}, \quad e^{-b g^2 / (2 s^2 + 2 R g / 3)}, \quad \frac{s^2}{s^2 + b g^2}, \quad
                  \approx \Phi(-g \sqrt b / s)

        bound it by Hoeffding, Bernstein and Cantelli, and approximate it by the central limit theorem.

        Examples
        --------
        >>> from holdfast.guarantees.vote import Sample
        >>> round(Sample(gap=0.5, batch=24, range=2.0).error("hoeffding"), 4)
        0.0498
        """
        if method not in self.methods:
            raise BadInput(f"{self!r} was asked for {method!r}; it knows enough for {', '.join(self.methods)}.")
        if method in ("hoeffding", "bernstein"):
            return math.exp(self.exponent(method))
        z = self.gap / (self.deviation or 1.0)
        return 1 / (1 + self.batch * z * z) if method == "cantelli" else math.erfc(z * math.sqrt(self.batch / 2)) / 2

    def exponent(self, method: str) -> float:
        """Return the logarithm of Hoeffding's or Bernstein's bound, which may be too small for a float.

        Parameters
        ----------
        method : str
            "hoeffding" or "bernstein".

        Returns
        -------
        float
            The logarithm.
        """
        g, b, s, R = self.gap, self.batch, self.deviation or 0.0, self.range or 1.0
        return -2 * b * (g / R) * (g / R) if method == "hoeffding" else -b * g / (2 * s * (s / g) + 2 * R / 3)


def failure(voters: Voters, errors: float | Sequence[float] | np.ndarray) -> float:
    """Return the exact probability that a ballot is lost, when honest voters err independently.

    Parameters
    ----------
    voters : Voters
        Who votes.
    errors : float or sequence of float
        The probability of an error: one for all honest voters, or one for each.

    Returns
    -------
    float
        The probability.

    Notes
    -----
    It is the tail :math:`P(W > w)` of the number W of errors, w = `voters.errors`: binomial for one number, Poisson
    binomial for one number each, by convolution, whose terms are all positive. It grows with every error, so bounds of
    the errors give a bound. O(h w) time.

    Examples
    --------
    >>> from holdfast.guarantees.vote import Voters, failure
    >>> failure(Voters(n=3, f=1), 0.25), failure(Voters(n=3, f=0), [0.5, 0.5, 0.0])
    (0.4375, 0.25)
    """
    p = _probabilities(voters, errors)
    if p.ndim == 0:
        return _tail(voters.honest, voters.errors, float(p))
    chance = np.zeros(voters.errors + 2)  # of 0, 1, ... errors; the last place keeps whatever is too many
    chance[0] = 1.0
    for error in p:
        more = chance[:-1] * error
        chance[:-1] *= 1 - error
        chance[1:] += more
    return min(1.0, float(chance[-1]))


def failure_bound(voters: Voters, errors: float | Sequence[float] | np.ndarray) -> float:
    r"""Hoeffding's bound of the same, which needs the mean error p alone.

    .. math:: P(W > w) \le e^{-2 h (\tau - p)^2}, \quad \tau = \frac{w + 1}{h} > p

    >>> round(failure_bound(Voters(n=35, f=7), 0.1), 4)
    0.0082
    """
    p, h = float(_probabilities(voters, errors).mean()), voters.honest
    return math.exp(-2 * h * max(0.0, (voters.errors + 1) / h - p) ** 2)


def largest_error(voters: Voters, target: float) -> float:
    """The largest error of every honest voter with which a ballot is lost with probability `target` at most.

    >>> round(largest_error(Voters(n=35, f=14), 0.01), 4)
    0.0414
    """
    _target(target)
    low, high = -745.0, 0.0  # logarithms, since an error may be 1e-300
    for _ in range(80):
        middle = (low + high) / 2
        enough = failure(voters, math.exp(middle)) <= target
        low, high = (middle, high) if enough else (low, middle)
    return math.exp(low)


def fails(election: Ballot | Numeric, voters: Voters, sample: Sample, method: str, seed: int = 0) -> float:
    r"""Return the probability that the better candidate loses: a bound, or an approximation.

    Parameters
    ----------
    election : Ballot or Numeric
        How the losses decide.
    voters : Voters
        Who votes.
    sample : Sample
        What an honest voter sees.
    method : str
        "hoeffding", "bernstein" and "cantelli" give bounds. "normal" gives an approximation; for `Numeric` it is
        simulated.
    seed : int
        The seed of the simulation.

    Returns
    -------
    float
        The probability.

    Raises
    ------
    BadInput
        If too little is known for the method.

    Notes
    -----
    A ballot is lost with the binomial tail of one voter's error. The f-trimmed mean T is at least the mean of the q
    lowest honest reports, and equal to it if the Byzantine workers report minus infinity. Its mean exceeds the margin
    by :math:`x = t - \sqrt{f/q} \, s / \sqrt b` or more, t = gap - margin, so :math:`P(T \le margin)` is at most

    .. math:: \min\left\{\binom{h}{q} e^{-2 q b t^2 / R^2}, \; e^{-2 (q^2/h) b x^2 / R^2}\right\}, \quad
              \binom{h}{q} e^{-q b t^2 / (2 s^2 + 2 R t / 3)}, \quad \frac{h s^2}{h s^2 + q^2 b x^2}

    by Hoeffding and McDiarmid (with :math:`s \le R/2`), Bernstein and Cantelli, the terms in x if x > 0. "normal" is
    the share of 20,000 simulated elections that are lost.

    Examples
    --------
    >>> from holdfast import Ballot
    >>> from holdfast.guarantees.vote import Sample, Voters, fails
    >>> sample = Sample(gap=0.25, batch=24, deviation=1.0, range=4.0)
    >>> [round(fails(Ballot(), Voters(n=35, f=7), sample, method), 4) for method in sample.methods]
    [1.0, 0.9809, 0.6014, 0.0001]
    """
    error = sample.error(method)
    return failure(voters, error) if isinstance(election, Ballot) else _numeric(election, voters, sample, method, seed)


def _numeric(election: Numeric, voters: Voters, sample: Sample, method: str, seed: int) -> float:
    h, q, b, t = voters.honest, voters.kept, sample.batch, sample.gap - election.margin
    R = math.inf if sample.range is None else sample.range
    s = min(R / 2, math.inf if sample.deviation is None else sample.deviation)
    if method == "normal":
        z = t / (sample.deviation or s) * math.sqrt(b)
        return float(np.searchsorted(_lowest(h, q, seed), -z, side="right")) / DRAWS
    x = max(0.0, t - enough(election, voters) * s / math.sqrt(b))
    if method == "cantelli":
        return 1 / (1 + q / h * q * b * (x / s) * (x / s))
    if t <= 0:
        return 1.0
    union = float(_log_ways(h)[q]) + replace(sample, gap=t, batch=q * b).exponent(method)
    martingale = -2 * q / h * q * b * (x / R) * (x / R) if method == "hoeffding" else 0.0
    return math.exp(min(0.0, union, martingale))


def batch_for(
    election: Ballot | Numeric, voters: Voters, sample: Sample, method: str, target: float, seed: int = 0
) -> int | None:
    """Return the smallest batch with which the better candidate loses with at most this probability.

    Parameters
    ----------
    election : Ballot or Numeric
        How the losses decide.
    voters : Voters
        Who votes.
    sample : Sample
        What an honest voter sees; its batch is not looked at.
    method : str
        As for `fails`.
    target : float
        The probability, above 0 and below 1.
    seed : int
        The seed of the simulation.

    Returns
    -------
    int or None
        None: there is none, or 20,000 simulated elections are too few to see the target.

    Raises
    ------
    BadInput
        If the target is out of range, or too little is known for the method.

    Examples
    --------
    >>> from holdfast import Ballot
    >>> from holdfast.guarantees.vote import Sample, Voters, batch_for
    >>> batch_for(Ballot(), Voters(n=35, f=7), Sample(gap=0.1, batch=1, deviation=1.0), "normal", 0.01)
    78
    """
    _target(target)
    if isinstance(election, Numeric) and method == "normal" and target * DRAWS < SEEN:
        return None
    low, high = 0, 1
    while fails(election, voters, replace(sample, batch=high), method, seed) > target:
        low, high = high, 2 * high
        if high > MAX_BATCH:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        lost = fails(election, voters, replace(sample, batch=middle), method, seed) > target
        low, high = (middle, high) if lost else (low, middle)
    return high


def enough(election: Ballot | Numeric, voters: Voters) -> float:
    r"""Return how many honest standard deviations the honest mean gap must exceed to win for certain.

    Parameters
    ----------
    election : Ballot or Numeric
        How the losses decide.
    voters : Voters
        Who votes.

    Returns
    -------
    float
        The number of standard deviations, beyond the margin.

    Notes
    -----
    For exact losses, whose honest gaps have mean g and standard deviation s: a share of at most :math:`s^2/(s^2+g^2)`
    of them is not positive (Cantelli), so a ballot needs
    :math:`g > s \sqrt{\lfloor m/2 \rfloor / (\lceil m/2 \rceil - f)}`, `Numeric`
    :math:`g > s \sqrt{f/(m-2f)} + margin`. Neither can be smaller. For reports of batches read the mean and the
    deviation of what the honest report.

    Examples
    --------
    >>> from holdfast import Ballot, Numeric
    >>> from holdfast.guarantees.vote import Voters, enough
    >>> round(enough(Ballot(), Voters(n=35, f=7)), 3), round(enough(Numeric(), Voters(n=35, f=7)), 3)
    (1.243, 0.577)
    """
    if isinstance(election, Ballot):
        return math.sqrt((voters.needed - 1) / (voters.errors + 1))
    return math.sqrt(voters.f / voters.kept)


def _tail(h: int, w: int, p: float) -> float:
    """P(W > w) for binomial W."""
    if p in (0.0, 1.0):
        return p
    k = np.arange(w + 1, h + 1)
    return min(1.0, float(np.exp(_log_ways(h)[w + 1 :] + k * math.log(p) + (h - k) * math.log1p(-p)).sum()))


@lru_cache
def _log_ways(h: int) -> np.ndarray:
    """The logarithms of the binomial coefficients of h."""
    k = np.arange(1, h + 1)
    return np.concatenate([[0.0], np.cumsum(np.log((h + 1 - k) / k))])


@lru_cache(maxsize=8)
def _lowest(h: int, q: int, seed: int) -> np.ndarray:
    """The means of the q lowest of h standard normal numbers, many times, sorted."""
    rng, held = np.random.default_rng(seed), max(1, 2**20 // h)
    sizes = (min(held, DRAWS - start) for start in range(0, DRAWS, held))
    rounds = (np.partition(rng.standard_normal((size, h)), q - 1, axis=1) for size in sizes)
    return np.sort(np.concatenate([drawn[:, :q].mean(1) for drawn in rounds]))


def _probabilities(voters: Voters, errors: Any) -> np.ndarray:
    try:
        p = np.asarray(errors, float)
    except (TypeError, ValueError):
        p = np.full(1, np.nan)
    if p.shape not in ((), (voters.honest,)) or not ((p >= 0) & (p <= 1)).all():
        shown = " ".join(str(errors)[:60].split())
        raise BadInput(f"{voters!r} was given errors = {shown}; give one probability, or {voters.honest} of them.")
    return p


def _target(target: float) -> None:
    if not isinstance(target, (float, np.floating)) or not 0 < target < 1:
        raise BadInput(f"target = {target!r} was given; it is a probability above 0 and below 1.")
