"""What a server does with the replies of a round, in every engine: decide, or skip the round and say why."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import numpy as np

from holdfast.buffer import Buffer
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.engines.arguments import check_buffered
from holdfast.engines.arrivals import ON_TIME, Arrivals
from holdfast.engines.counts import Counts
from holdfast.engines.differences import Model, stepped
from holdfast.engines.journal import Journal, State
from holdfast.engines.lines import named
from holdfast.engines.metrics import middles
from holdfast.engines.replies import Gathered, Name
from holdfast.errors import BadInput, TooManyFaults, listing, plural
from holdfast.guarantees.certificate import certificate
from holdfast.reading import read
from holdfast.rules.base import Stage
from holdfast.updates import Updates

MAX_LOGGED = 3  # refused replies per round that the log names one by one; the journal has all
FIGURES = ("kept", "excluded", "refused", "silent", "late", "capped")  # fields of the journal that are counted


class Rounds(Generic[Name]):
    """The server's rounds: a rule, the model that is sent, the last answer, and the journal.

    Parameters
    ----------
    rule : Stage
        The rule that sees the differences to the model.
    counts : Counts
        How much each client counts.
    folder : path or None
        Where the journal and the state are written.
    certify : bool
        Whether rounds get a certificate.
    measure : callable or None
        Says by name which arrays count in distances.
    buffer : Buffer or None
        When a round closes without waiting for everybody, and how late replies count. None: they are lost.
    seed : int
        For rules that draw.
    log : logging.Logger
        The engine's own.
    """

    noun = "node"  # what the engine calls a client
    first = "initial_arrays"  # what it calls the first model

    def __init__(
        self,
        rule: Any,
        counts: Counts,
        *,
        folder: Path | str | None,
        certify: bool,
        measure: Callable[[str], bool] | None,
        buffer: Buffer | None = None,
        seed: int,
        log: logging.Logger,
    ) -> None:
        self.rule, self.counts, self.seed, self.log = rule, counts, seed, log
        self.counts.check(self._rules())
        self.certify, self.measure = certify, measure
        self.journal = Journal(folder, log)
        self.offset = 0  # rounds that an earlier server has done
        self.model: Model = {}
        self.last: Model | None = None
        self.buffer = check_buffered(buffer, self._rules(), self._least(), type(self).__name__.strip("_"))
        self.arrivals: Arrivals[Name] = Arrivals(self.buffer or ON_TIME, seed)
        self.asked: list[Name] = []
        self.began, self.few = 0.0, ""

    def _rules(self) -> tuple[Stage, ...]:
        """The rules that see the updates of a round."""
        return (self.rule,)

    def _least(self) -> int:
        return int(self.rule.least())

    def _f(self) -> int:
        return self.rule.tolerance() or 0

    def _resume(self, model: Model, num_rounds: int, *, remark: str = "") -> Model:
        """The model to begin with: that of the folder's state, if there is one, else the given one."""
        self.offset, self.last, held = 0, None, self.journal.state()
        self.arrivals.remember({} if held is None else held[1].memory)
        if held is None:
            return model
        self.offset, state = held
        if _forms(state.model) != _forms(model):
            where = self.journal.folder
            raise BadInput(f"{where} holds the state of another model than {self.first}; name another folder.")
        self.last = state.last
        self._remember(state.memory)
        if self.offset < num_rounds:
            self.log.info("going on after round %d of %d%s", self.offset, num_rounds, remark)
        else:
            done = "%s holds %d rounds, and %d were asked for, so none is run; name another folder or ask for more"
            self.log.warning(done, self.journal.folder, self.offset, num_rounds)
        if state.who != self._who():
            self.log.warning("the rounds before were by %s, these are by %s", state.who, self._who())
        return {name: state.model[name] for name in model}

    def _settle(self, turn: int, came: Gathered[Name]) -> tuple[Model | None, dict[str, float]]:
        """Let the rule decide and commit the model, or skip the round; the model and figures of the round."""
        line = self._begin_line(turn, came)
        try:
            decision, facts = self._decide(turn, came)
        except BadInput as refusal:
            self.arrivals.put_back()
            line["skipped"] = self._explain_skip(refusal, came)
            self.log.warning("round %d is skipped: %s", turn, line["skipped"])
            return self._skip(turn, line)
        for what in ("seconds", "bytes"):
            line[what] |= facts.pop(what, {})
        last = {name: self.arrivals.rows.without(np.asarray(decision.value[name])) for name in self.model}
        moved = self._step(turn, stepped(self.model, last))
        if moved is None:
            self.arrivals.put_back()
            line["skipped"] = "the step leaves the range of floats"
            return self._skip(turn, line)
        line |= facts | named(decision, list(map(str, came.nodes)))
        if self.buffer:
            line["age"] = {str(node): age for node, age in zip(came.nodes, came.ages, strict=True) if age}
        if decision.note:
            self.log.warning("round %d: %s", turn, decision.note)
        if excluded := [str(came.nodes[at]) for at in decision.excluded]:
            what = plural(len(excluded), self.noun)
            self.log.info("round %d: excluded %s %s (%s)", turn, what, listing(excluded), decision.why)
        self.model, self.last = moved, last
        self._done(turn, line)
        return moved, self._figures(line, came)

    def _begin_line(self, turn: int, came: Gathered[Name]) -> dict[str, Any]:
        line: dict[str, Any] = {"round": turn, "asked": len(self.asked), "seconds": {}, "bytes": {"train": came.bytes}}
        line["seconds"]["train"] = round(time.monotonic() - self.began, 3)
        line["refused"] = {str(node): why for node, why in came.refused.items()}
        line["silent"] = [str(node) for node in came.silent]
        if self.buffer:
            line["late"] = [str(node) for node in self.arrivals.owing if node not in came.silent]
        for node, why in list(came.refused.items())[:MAX_LOGGED]:
            self.log.warning("round %d: %s %s %s", turn, self.noun, node, why)
        if len(came.refused) > MAX_LOGGED or came.silent:
            self.log.warning("round %d: %d refused, %d silent", turn, len(came.refused), len(came.silent))
        return line

    def _skip(self, turn: int, line: dict[str, Any]) -> tuple[None, dict[str, float]]:
        self._done(turn, line)
        return None, {"skipped": 1.0}

    def _explain_skip(self, refusal: BadInput, came: Gathered[Name]) -> str:
        """Why a round has no answer, and what an operator can do about it."""
        if self.few:
            return self.few
        whom = f"these {self.noun}s"
        if came.refused:
            whom = f"{plural(len(came.refused), self.noun)} {listing(map(str, came.refused))}"
        if came.refused and not came.nodes:
            first = next(iter(came.refused.values()))
            return f"all {len(came.refused)} replies were refused ({first}); repair {whom}."
        if not isinstance(refusal, TooManyFaults):
            return str(refusal)
        return f"{refusal.what}; repair {whom}{', or raise f' if self._f() else ''}."

    def _explain_few(self, connected: int) -> str:
        """Why a round with so few clients has no answer."""
        fits = (connected - 1) // 2
        return f"{connected} {self.noun}s are connected, and {self.rule!r} needs {self._least()}; connect more" + (
            f" {self.noun}s" + (f", or lower f to {fits} at most" if self._f() > fits > 0 else "")
        )

    def _step(self, turn: int, moved: Model) -> Model | None:
        """The model to commit, given that which the rule leads to; None if it is not finite."""
        return moved if all(np.isfinite(values).all() for values in moved.values()) else None

    def _decide(self, turn: int, came: Gathered[Name]) -> tuple[Decision, dict[str, Any]]:
        decision = decide(self.rule, self._updates(came), rng=self._rng(turn), start=self.last)
        return decision, self._certified(decision, came.updates)

    def _rng(self, turn: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, turn, 1))

    def _updates(self, came: Gathered[Name]) -> Updates:
        """The sound replies; the refused ones of clients that were asked count as dropped, silent clients do not."""
        fades = self.arrivals.buffer.weights(np.array(came.ages))
        masses = self.counts.masses(came.counts, self._rules(), fades)
        updates = read(came.updates, repr(self.rule), measure=self.measure, weights=masses)
        return replace(updates, refused=len(came.faulty))

    def _certified(self, decision: Decision, updates: Sequence[Model]) -> dict[str, Any]:
        """κ of the round, where it costs nothing or was asked for."""
        if not self.certify or not self._f():
            return {}
        try:
            kappa = certificate(decision, updates, measure=self.measure).kappa
        except BadInput:
            return {}
        return {"kappa": kappa} if math.isfinite(kappa) else {}

    def _figures(self, line: dict[str, Any], came: Gathered[Name]) -> dict[str, float]:
        """The round in numbers, and the middle one of each of the clients' own metrics."""
        out = {f"client-{name}": value for name, value in middles(came.metrics, self._f()).items()}
        out |= {name: float(len(line[name])) for name in FIGURES if name in line}
        return out | ({"kappa": float(line["kappa"])} if "kappa" in line else {})

    def _done(self, turn: int, line: dict[str, Any]) -> None:
        self.arrivals.forget(turn)
        try:
            self.journal.add(line)
        except OSError as error:  # a full disk ends no training
            self.log.error("round %d is not in the journal: %s", turn, error)
        self._save(turn)

    def _save(self, turn: int) -> None:
        memory = self._memory() | (self.arrivals.memory(self.model) if self.buffer else {})
        try:
            self.journal.save(turn, State(self.model, self.last, memory, self._who()))
        except OSError as error:
            self.log.error("the state after round %d is not saved: %s", turn, error)

    def _who(self) -> str:
        return f"{self.rule!r}, seed {self.seed}{self.counts}"

    def _memory(self) -> dict[str, Model]:
        """What a server's optimiser keeps between rounds; the plain step keeps nothing."""
        return {}

    def _remember(self, memory: dict[str, Model]) -> None:
        """Put it back after a restart."""


def _forms(model: Model) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and kind of number of each array."""
    return {name: (values.shape, values.dtype) for name, values in model.items()}
