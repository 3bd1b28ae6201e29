"""What a field of a value may hold, as its annotation says it."""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from types import ModuleType
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pytest

from holdfast import BadInput, Krum, MeanwO, MultiKrum, parse
from holdfast.attacks import NAMED, Attack, View
from holdfast.attacks.voters import VOTERS
from holdfast.checks import check_fields, field_checks
from holdfast.data import SPLITS
from holdfast.elections import Ballot, Numeric
from holdfast.rules.base import DistanceRule, Stage, Tolerance, value
from holdfast.rules.clipping import Pull
from holdfast.rules.clustering import even
from holdfast.training.schedule import SCHEDULES, Schedule
from holdfast.training.server import SERVERS
from holdfast.twophase import AGGREGATORS
from holdfast.values import Above, AtLeast, Count, NonNegative, Positive, Value, WorkerIndex


class Rank(IntEnum):
    SECOND = 2


@value
class Own(DistanceRule):
    """A rule of one's own with a field of each kind."""

    f: Tolerance
    plain: int = -3
    count: Count = 1
    worker: WorkerIndex = 0
    number: float = -0.5
    length: Positive = 1.0
    margin: NonNegative = 0.0
    flag: bool = False
    word: Literal["first", "all", "none"] = "first"
    step: Literal[1, 2] = 1
    single: Literal["only"] = "only"
    share: Annotated[float, Above(0.25), AtLeast(0.5)] = 0.5
    maybe_count: Count | None = None
    maybe_number: Optional[float] = None  # noqa: UP045 - as older code has it
    maybe_bounded: Annotated[int | None, AtLeast(2)] = None
    maybe_flag: bool | None = None
    maybe_word: Literal["yes", "no"] | None = None
    anything: Any = None
    either: int | str = "x"
    text: str = ""
    many: tuple[int, ...] = ()

    def weights(self, D: np.ndarray, rng: Any = None) -> np.ndarray:
        return even(np.arange(len(D)), len(D))


def built(name: str, given: Any) -> object:
    """What the field holds after it was given this."""
    words: dict[str, Any] = {"f": 1, name: given}
    return getattr(Own(**words), name)


@pytest.mark.parametrize(
    ("name", "given", "held"),
    [
        ("f", np.int64(3), 3),
        ("f", np.uint8(3), 3),
        ("f", np.array(3), 3),
        ("f", Rank.SECOND, 2),
        ("f", 10**400, 10**400),
        ("plain", -(10**30), -(10**30)),
        ("plain", np.int8(-7), -7),
        ("number", 3, 3.0),
        ("number", -0.0, -0.0),
        ("number", np.float32(0.5), 0.5),
        ("number", np.int64(-2), -2.0),
        ("number", sys.float_info.max, sys.float_info.max),
        ("length", 5e-324, 5e-324),
        ("margin", 0, 0.0),
        ("flag", True, True),
        ("word", "all", "all"),
        ("word", np.str_("all"), "all"),
        ("step", 2, 2),
        ("share", 1, 1.0),
        ("maybe_count", np.int64(4), 4),
        ("maybe_count", None, None),
        ("maybe_number", 4, 4.0),
        ("maybe_number", None, None),
        ("maybe_bounded", 2, 2),
        ("maybe_bounded", None, None),
        ("maybe_flag", None, None),
        ("maybe_word", None, None),
        ("maybe_word", "no", "no"),
    ],
)
def test_what_is_allowed_becomes_a_plain_value(name: str, given: object, held: object) -> None:
    assert built(name, given) == held
    assert type(built(name, given)) is type(held)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("f", -1, "f = -1; f is a whole number, at least 0."),
        ("f", True, "f = True; f is a whole number, at least 0."),
        ("f", np.True_, "f = np.True_; f is a whole number, at least 0."),
        ("f", 1.0, "f = 1.0; f is a whole number, at least 0."),
        ("f", np.float64(1), "f = np.float64(1.0); f is a whole number, at least 0."),
        ("f", np.array([1, 2]), "f = array([1, 2]); f is a whole number, at least 0."),
        ("f", np.array(1.5), "f = array(1.5); f is a whole number, at least 0."),
        ("f", "1", "f = '1'; f is a whole number, at least 0."),
        ("f", None, "f = None; f is a whole number, at least 0."),
        ("plain", False, "plain = False; plain is a whole number."),
        ("plain", 0.5, "plain = 0.5; plain is a whole number."),
        ("plain", math.inf, "plain = inf; plain is a whole number."),
        ("count", 0, "count = 0; count is a whole number, at least 1."),
        ("worker", -1, "worker = -1; worker is a whole number, at least 0."),
        ("number", math.nan, "number = nan; number is a finite number."),
        ("number", -math.inf, "number = -inf; number is a finite number."),
        ("number", np.float32(np.inf), "number = np.float32(inf); number is a finite number."),
        ("number", True, "number = True; number is a finite number."),
        ("number", "0.5", "number = '0.5'; number is a finite number."),
        ("number", 1j, "number = 1j; number is a finite number."),
        ("number", np.complex128(1), "number = np.complex128(1+0j); number is a finite number."),
        ("number", np.array([0.5]), "number = array([0.5]); number is a finite number."),
        ("number", None, "number = None; number is a finite number."),
        ("length", 0, "length = 0; length is a finite number above 0."),
        ("length", -0.0, "length = -0.0; length is a finite number above 0."),
        ("length", math.nan, "length = nan; length is a finite number above 0."),
        ("length", math.inf, "length = inf; length is a finite number above 0."),
        ("margin", -1e-300, "margin = -1e-300; margin is a finite number, at least 0."),
        ("flag", 1, "flag = 1; it is True or False."),
        ("flag", np.True_, "flag = np.True_; it is True or False."),
        ("flag", None, "flag = None; it is True or False."),
        ("word", "last", "word = 'last'; it is 'first', 'all' or 'none'."),
        ("word", ["all"], "word = ['all']; it is 'first', 'all' or 'none'."),
        ("word", np.array(["all"]), "word = array(['all'], dtype='<U3'); it is 'first', 'all' or 'none'."),
        ("word", None, "word = None; it is 'first', 'all' or 'none'."),
        ("step", 3, "step = 3; it is 1 or 2."),
        ("step", "1", "step = '1'; it is 1 or 2."),
        ("single", "other", "single = 'other'; it is 'only'."),
        ("share", 0.3, "share = 0.3; share is a finite number above 0.25, at least 0.5."),
        ("maybe_count", 0, "maybe_count = 0; maybe_count is a whole number, at least 1."),
        ("maybe_number", math.nan, "maybe_number = nan; maybe_number is a finite number."),
        ("maybe_bounded", 1, "maybe_bounded = 1; maybe_bounded is a whole number, at least 2."),
        ("maybe_flag", "no", "maybe_flag = 'no'; it is True or False."),
        ("maybe_word", "maybe", "maybe_word = 'maybe'; it is 'yes' or 'no'."),
    ],
)
def test_what_is_not_allowed_gets_one_sentence(name: str, given: object, said: str) -> None:
    with pytest.raises(BadInput) as error:
        built(name, given)
    assert str(error.value) == f"Own was given {said}"
    assert error.value.__cause__ is None


def test_a_huge_int_is_no_finite_number() -> None:
    with pytest.raises(BadInput, match=f"number = 1{'0' * 400}; number is a finite number"):
        built("number", 10**400)


@pytest.mark.parametrize("given", [None, -1, math.nan, "x", (1, -2), [Krum(1)]])
@pytest.mark.parametrize("name", ["anything", "either", "text", "many"])
def test_other_annotations_are_left_to_the_class(name: str, given: object) -> None:
    assert built(name, given) is given


def test_a_value_stays_its_text_and_its_pickle() -> None:
    own = Own(np.int64(2), length=3, word="all", maybe_count=5)  # type: ignore[arg-type]
    assert repr(own) == "Own(f=2, length=3.0, word='all', maybe_count=5)"
    assert parse(repr(own), {"Own": Own}) == own
    assert pickle.loads(pickle.dumps(own)) == own
    assert hash(pickle.loads(pickle.dumps(own))) == hash(own)
    assert own.written().startswith("Own(f=2, plain=-3, count=1, worker=0, number=-0.5, length=3.0, ")
    with pytest.raises(BadInput, match="count = 0"):
        replace(own, count=0)


def test_a_rule_that_says_int_still_has_a_tolerance() -> None:
    @value
    class Plain(DistanceRule):
        f: int
        other: int = 0

    @value
    class Odd(DistanceRule):
        f: float | None = None

    assert Plain(np.int64(2), other=-2) == Plain(2, -2)  # type: ignore[arg-type]
    for given in (-1, 0.5, True):
        with pytest.raises(BadInput) as error:
            Plain(given)  # type: ignore[arg-type]
        assert str(error.value) == f"Plain was given f = {given}; f is a whole number, at least 0."
    assert Odd().f is None
    with pytest.raises(BadInput, match=r"Odd was given f = 0\.5; f is a whole number, at least 0"):
        Odd(0.5)


def test_own_attacks_schedules_and_elections_are_checked_alike() -> None:
    @value
    class Drift(Attack):
        scale: NonNegative = 2.0

        def __call__(self, seen: View) -> Any:
            return seen.own

    @value
    class Halves(Schedule):
        every: Count
        start: Literal["warm", "cold"] = "cold"

    @value
    class Vote(Value):
        margin: NonNegative = 0.0
        secret: bool = True

    refusals: dict[str, Callable[[], Value]] = {
        "Drift was given scale = -1; scale is a finite number, at least 0.": lambda: Drift(-1),
        "Halves was given every = 0; every is a whole number, at least 1.": lambda: Halves(0),
        "Halves was given start = 'hot'; it is 'warm' or 'cold'.": lambda: Halves(1, "hot"),  # type: ignore[arg-type]
        "Vote was given margin = nan; margin is a finite number, at least 0.": lambda: Vote(math.nan),
        "Vote was given secret = 0; it is True or False.": lambda: Vote(0.0, 0),  # type: ignore[arg-type]
    }
    for said, make in refusals.items():
        with pytest.raises(BadInput) as error:
            make()
        assert str(error.value) == said


def test_a_field_whose_annotation_cannot_be_resolved_is_left_alone() -> None:
    Local = Annotated[int, AtLeast(7)]

    @value
    class Half(Value):
        known: Count
        local: Local = 7
        unknown: Nowhere = 0  # type: ignore[name-defined]  # noqa: F821
        late: Count | Nowhere = 1  # type: ignore[name-defined]  # noqa: F821

    assert Half(1, -1, "x", None).local == -1
    with pytest.raises(BadInput, match="known = 0; known is a whole number, at least 1"):
        Half(0)
    assert [check.name for check in field_checks(Half)] == ["known"]


def test_annotations_are_resolved_where_they_were_written() -> None:
    elsewhere = ModuleType("elsewhere")
    sys.modules["elsewhere"] = elsewhere
    try:
        code = (
            "from __future__ import annotations\n"
            "from typing import Annotated, Literal\n"
            "from holdfast.values import AtLeast, Value, value\n"
            "Count = Annotated[int, AtLeast(100)]\n"  # another Count than here
            "from dataclasses import dataclass\n"
            "@dataclass(frozen=True, repr=False)\n"
            "class Far(Value):\n"
            "    Mode = Literal['a', 'b']\n"
            "    far: Count\n"
            "    mode: Mode = 'a'\n"
        )
        exec(code, vars(elsewhere))

        @value
        class Near(elsewhere.Far):  # type: ignore[name-defined, misc]
            near: Count = 1

        assert repr(Near(100, "b", 1)) == "Near(far=100, mode='b')"
        with pytest.raises(BadInput, match="mode = 'c'; it is 'a' or 'b'"):
            Near(100, "c")
        with pytest.raises(BadInput, match="far is a whole number, at least 100"):
            Near(1)
        with pytest.raises(BadInput, match="near is a whole number, at least 1"):
            Near(100, near=0)
    finally:
        del sys.modules["elsewhere"]
    type("Gone", (elsewhere.Far,), {})(1)  # nobody can say what its annotations mean any more


def test_annotations_that_are_no_text_are_read_as_they_are() -> None:
    @dataclass
    class Plain:
        n: int

    fields(Plain)[0].type = Annotated[int, AtLeast(3)]
    with pytest.raises(BadInput, match="Plain was given n = 2; n is a whole number, at least 3"):
        check_fields(Plain(2))


def test_every_field_of_the_package_says_what_it_holds() -> None:
    left = {"parts", "rule", "attack", "inner", "outer", "election", "pairs"}  # their classes check these
    for catalogue in (AGGREGATORS, NAMED, VOTERS, SPLITS, SCHEDULES, SERVERS):
        for cls in catalogue.values():
            if isinstance(cls, type):
                assert {check.name for check in field_checks(cls)} == {field.name for field in fields(cls)} - left, cls


def test_no_table_of_names_is_left() -> None:
    for name in ("values", "checks"):
        module = sys.modules[f"holdfast.{name}"]
        assert not [held for held in vars(module) if held.isupper() and len(held) > 1 and held != "TYPE_CHECKING"]
    assert not hasattr(Value, "choices")
    assert not hasattr(Stage, "choices")


def test_the_same_name_holds_what_each_class_says() -> None:
    @value
    class Signed(Value):
        scale: float
        f: int
        tau: Literal["auto"] | None = None

    assert Signed(-2, -3) == Signed(-2.0, -3)
    with pytest.raises(BadInput, match=r"tau = 1\.0; it is 'auto'"):
        Signed(1.0, 1, 1.0)  # type: ignore[arg-type]


def test_the_package_s_own_words_are_as_they_were() -> None:
    sayings = {
        "Krum(f=1, others='n')": "Krum was given others = 'n'; the forms are n-f-2 and n-f-1.",
        "MultiKrum(f=1, others=3)": "MultiKrum was given others = 3; the forms are n-f-2 and n-f-1.",
        "MultiKrum(f=1, m=0)": "MultiKrum was given m = 0; m is a whole number, at least 1.",
        "CWM(lower=1)": "CWM was given lower = 1; it is True or False.",
        "MeanwO(f=1, refine=-1)": "MeanwO was given refine = -1; refine is a whole number, at least 0.",
        "MeanwO(f=1, ties='some')": "MeanwO was given ties = 'some'; it is 'first' or 'all'.",
        "DnC(f=1, filter=0)": "DnC was given filter = 0; filter is a finite number above 0.",
        "Ballot(ties='x')": "Ballot was given ties = 'x'; it is 'inner' or 'outer'.",
        "Numeric(margin=-1)": "Numeric was given margin = -1; margin is a finite number, at least 0.",
    }
    for text, said in sayings.items():
        with pytest.raises(BadInput) as error:
            parse(text, AGGREGATORS)
        assert str(error.value) == said
    assert (Ballot("outer"), Numeric(1)) == (Ballot(ties="outer"), Numeric(margin=1.0))
    assert MultiKrum(1, None) == MultiKrum(1)
    assert MeanwO(1, candidates=None) == MeanwO(1)


def test_a_part_of_a_rule_may_have_no_limit() -> None:
    assert Pull("origin", math.inf).length == math.inf
