"""What the server makes of an aggregate: its optimiser, as in Reddi et al. 2021. `Run(server=...)` takes one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from holdfast.errors import BadInput, BrokenRule
from holdfast.values import NonNegative, Positive, Value, value

__all__ = ["SERVERS", "SGD", "Adam", "Momentum", "ServerOptimiser", "Yogi"]

LEAST_EPS = 1e-18  # its square has a place in single precision
Memory = np.ndarray | None  # of shape (k, d), one row for each moment; None: the optimiser remembers nothing


@dataclass(frozen=True, repr=False)
class ServerOptimiser(Value):
    """Maps an aggregate and the memory to the direction of the step and the new memory.

    Raises
    ------
    BadInput
        If a field whose name begins with `beta` is 1 or more.

    Notes
    -----
    An optimiser is a pure function: it changes neither of its arguments. The server can therefore try two candidates
    from one memory and keep the memory of the candidate that won.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training.server import ServerOptimiser
    >>> from holdfast.values import value
    >>> @value
    ... class Sign(ServerOptimiser):
    ...     def __call__(self, aggregate, memory):
    ...         return np.sign(aggregate), memory
    >>> Sign()(np.array([3.0, -0.5]), None)[0]
    array([ 1., -1.])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (one.name for one in fields(self) if one.name.startswith("beta")):
            if (given := getattr(self, name)) >= 1:
                raise BadInput(f"{type(self).__name__} was given {name} = {given!r}; {name} is at least 0 and below 1.")
        eps = getattr(self, "eps", 1.0)
        if isinstance(eps, float) and not LEAST_EPS <= eps <= 1 / LEAST_EPS:
            raise BadInput(
                f"{type(self).__name__} was given eps = {eps!r}, whose square has no place in single precision; eps is "
                f"from {LEAST_EPS:g} to {1 / LEAST_EPS:g}."
            )

    def begin(self, model: np.ndarray) -> Memory:
        """Return the memory before the first round.

        Parameters
        ----------
        model : numpy.ndarray
            The first model, a flat vector.

        Returns
        -------
        numpy.ndarray or None
            One row for each moment, in the model's dtype. None: nothing is remembered.
        """
        return None

    def __call__(self, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        """Return the direction of the step, and the memory after it.

        Parameters
        ----------
        aggregate : numpy.ndarray
            The rule's answer, times `shrink`.
        memory : numpy.ndarray or None
            What the last step left.

        Returns
        -------
        direction : numpy.ndarray
            The server subtracts it from the model, times the learning rate.
        memory : numpy.ndarray or None
            A new array.
        """
        raise TypeError(f"{type(self).__name__} does not say its direction")


@value
class SGD(ServerOptimiser):
    r"""The step goes along the aggregate, as in the paper.

    Notes
    -----
    .. math:: u_t = g_t

    Here and below, :math:`g_t` is `shrink` times the aggregate of round t. The server takes the step
    :math:`x_{t+1} = x_t - \eta_t (u_t + \text{weight\_decay} \cdot x_t)` with :math:`\eta_t` = lr · schedule(t).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training.server import SGD
    >>> SGD()(np.array([1.0, 2.0]), None)
    (array([1., 2.]), None)
    """

    def __call__(self, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        return aggregate, None


@value
class Momentum(ServerOptimiser):
    r"""Heavy ball at the server: the step goes along a sum of all aggregates in which old ones fade.

    Parameters
    ----------
    beta : float
        The part of the sum that stays from one round to the next; at least 0 and below 1.

    Notes
    -----
    .. math:: u_t = m_t = \beta m_{t-1} + g_t, \quad m_{-1} = 0

    If all aggregates are alike, the step grows to :math:`1 / (1 - \beta)` times a step of SGD. A lie that passes the
    rule stays in the sum, and fades by :math:`\beta` per round.

    References
    ----------
    .. [1] Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
       Classification" (FedAvgM).
    .. [2] Reddi et al. 2021, "Adaptive Federated Optimization".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training.server import Momentum
    >>> direction, memory = Momentum(beta=0.5)(np.array([1.0]), np.array([[4.0]]))
    >>> direction, memory
    (array([3.]), array([[3.]]))
    """

    beta: NonNegative = 0.9

    def begin(self, model: np.ndarray) -> Memory:
        return np.zeros((1, len(model)), model.dtype)

    def __call__(self, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        assert memory is not None
        new = (self.beta * memory + aggregate).astype(memory.dtype, copy=False)
        return new[0], new


@value
class Adam(ServerOptimiser):
    r"""FedAdam: each coordinate is divided by the root of a running mean of its squares.

    Parameters
    ----------
    beta1 : float
        The part of the mean that stays from one round to the next; at least 0 and below 1.
    beta2 : float
        Likewise for the mean of squares.
    eps : float
        Added to the root, above 0; the paper's τ. A larger number adapts less.

    Notes
    -----
    .. math:: m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
              v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2, \quad
              u_t = \frac{m_t}{\sqrt{v_t} + \epsilon}

    with :math:`m_{-1} = 0` and :math:`v_{-1} = \epsilon^2`, as in Algorithm 2 of [1]_. There is no correction of the
    bias. In [1]_, :math:`g_t` is the difference of models, which is lr times smaller than the aggregate here. So its
    τ corresponds to `eps` = τ / lr here. A coordinate of the step is at most about 2 lr in length where the
    aggregate is far above `eps`, and shorter where it is not, so `lr` is smaller than for SGD.

    References
    ----------
    .. [1] Reddi et al. 2021, "Adaptive Federated Optimization", arXiv 2003.00295.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training.server import Adam
    >>> adam = Adam(beta1=0.0, beta2=0.0)
    >>> adam(np.array([100.0, -0.1]), adam.begin(np.zeros(2)))[0].round(2)
    array([ 1.  , -0.99])
    """

    beta1: NonNegative = 0.9
    beta2: NonNegative = 0.99
    eps: Positive = 1e-3

    def begin(self, model: np.ndarray) -> Memory:
        return _two_moments(model, self.eps)

    def __call__(self, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        assert memory is not None
        new = np.empty_like(memory)
        new[0] = self.beta1 * memory[0] + (1 - self.beta1) * aggregate
        new[1] = self.beta2 * memory[1] + (1 - self.beta2) * np.square(aggregate)
        return new[0] / (np.sqrt(new[1]) + self.eps), new


@value
class Yogi(ServerOptimiser):
    r"""FedYogi: as `Adam`, but a sudden small aggregate lowers the mean of squares slowly.

    Parameters
    ----------
    beta1, beta2, eps
        As for `Adam`.

    Notes
    -----
    .. math:: m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
              v_t = v_{t-1} - (1 - \beta_2) g_t^2 \operatorname{sign}(v_{t-1} - g_t^2), \quad
              u_t = \frac{m_t}{\sqrt{v_t} + \epsilon}

    with :math:`m_{-1} = 0` and :math:`v_{-1} = \epsilon^2`. The change of :math:`v_t` depends on :math:`g_t` alone, and
    not on how large :math:`v_{t-1}` is.

    References
    ----------
    .. [1] Reddi et al. 2021, "Adaptive Federated Optimization", arXiv 2003.00295.
    .. [2] Zaheer et al. 2018, "Adaptive Methods for Nonconvex Optimization".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training.server import Yogi
    >>> Yogi(beta2=0.5)(np.array([1.0]), np.array([[0.0], [4.0]]))[1]
    array([[0.1],
           [3.5]])
    """

    beta1: NonNegative = 0.9
    beta2: NonNegative = 0.99
    eps: Positive = 1e-3

    def begin(self, model: np.ndarray) -> Memory:
        return _two_moments(model, self.eps)

    def __call__(self, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
        assert memory is not None
        new, square = np.empty_like(memory), np.square(aggregate)
        new[0] = self.beta1 * memory[0] + (1 - self.beta1) * aggregate
        new[1] = memory[1] - (1 - self.beta2) * square * np.sign(memory[1] - square)
        return new[0] / (np.sqrt(new[1]) + self.eps), new


def _two_moments(model: np.ndarray, eps: float) -> np.ndarray:
    """The mean, which is 0, and the mean of squares, which is eps²."""
    memory = np.zeros((2, len(model)), model.dtype)
    memory[1] = eps**2
    return memory


def _shape(memory: Memory) -> tuple[int, ...] | None:
    return None if memory is None else np.shape(memory)


def directed(server: ServerOptimiser, aggregate: np.ndarray, memory: Memory) -> tuple[np.ndarray, Memory]:
    """The direction and the memory that an optimiser answers with; one of your own may answer with anything."""
    answer = server(aggregate, memory)
    sound = isinstance(answer, tuple) and len(answer) == 2 and np.shape(answer[0]) == aggregate.shape
    if not sound or _shape(answer[1]) != _shape(memory):
        raise BrokenRule(
            f"{server!r} answered an aggregate of {len(aggregate)} numbers with something else than a direction of "
            "that shape and its memory, in the shape that it had."
        )
    return answer


SERVERS: dict[str, type[Any]] = {s.__name__: s for s in (SGD, Momentum, Adam, Yogi)}
