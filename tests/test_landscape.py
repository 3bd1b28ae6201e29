"""Heat maps of f against heterogeneity: the worst attack on each rule, parameters by validation, the best rule."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from holdfast import Run
from holdfast.experiments.store import Entry, key
from holdfast.report.grid import grids
from holdfast.report.landscape import landscapes
from holdfast.report.sheet import write
from holdfast.report.tables import markdown

SPLITS = ("Natural()", "Dirichlet(alpha=0.1)")


def entry(run: Run, accuracy: float, **more: float) -> Entry:
    return Entry(key(run), run, "done", [{"round": 10, "accuracy": accuracy, **more}])


def store(*, validation: bool = True) -> list[Entry]:
    """Two rules, two attacks, two splits, f of 1 and 2, two learning rates; the larger flatters on test images."""
    out = []
    for rule, attack, split, f, lr in product(("CWTM", "Krum"), ("SignFlip()", "ALIE()"), SPLITS, (1, 2), (0.1, 0.5)):
        run = Run(rule=f"{rule}(f={f})", attack=attack, split=split, byzantine=f, workers=6 + f, lr=lr)
        base = (
            0.9 - 0.1 * f - 0.2 * (split != SPLITS[0]) - 0.05 * (attack == "ALIE()") - 0.1 * (rule == "Krum") * (f == 1)
        )
        base += 0.1 * (rule == "Krum") * (f == 2)
        held = {"validation": base - 0.3 * (lr == 0.5)} if validation else {}
        out.append(entry(run, base + 0.02 * (lr == 0.5), loss=2 * (1 - base), **held))
    return out


def test_a_cell_is_the_worst_attack_with_parameters_chosen_by_validation() -> None:
    maps = {grid.title: grid for grid in landscapes(store())}
    found = maps["CWTM: accuracy under the worst attack"]
    assert (found.columns, found.corner) == (["f = 1", "f = 2"], "split")
    assert round(found["Natural", "f = 1"].mean or 0, 6) == 0.75
    assert "by validation images" in found.caption
    assert "Natural, f = 1: lr = 0.1" in found.caption
    assert round(maps["CWTM: largest loss over the attacks"]["Natural", "f = 1"].mean or 0, 6) == 0.5


def test_without_validation_the_caption_says_that_test_images_chose() -> None:
    found = landscapes(store(validation=False))[0]
    assert "by test images, which flatters the result" in found.caption
    assert "lr = 0.5" in found.caption
    assert round(found["Natural", "f = 1"].mean or 0, 6) == 0.77


def test_the_last_map_has_the_best_rule_of_each_cell_and_names_it() -> None:
    best = landscapes(store())[-1]
    assert best.title == "The best rule of each cell"
    assert [round(best["Natural", f"f = {f}"].mean or 0, 6) for f in (1, 2)] == [0.75, 0.75]
    assert "Natural, f = 1: CWTM" in best.caption
    assert "Natural, f = 2: Krum" in best.caption


def test_maps_are_there_only_if_both_vary_and_without_what_belongs_to_rules_and_attacks(tmp_path: Path) -> None:
    entries = store()
    assert landscapes([one for one in entries if one.run.byzantine == 1]) == []
    assert landscapes([one for one in entries if one.run.split == entries[0].run.split]) == []
    text = markdown(landscapes(entries)[0])
    assert "Worst" not in text
    assert "bold" not in text
    write(entries, [], tmp_path / "report.html")
    assert "CWTM: accuracy under the worst attack" in (tmp_path / "report.html").read_text()


def test_a_missing_run_leaves_the_cell_open_instead_of_letting_its_rule_win() -> None:
    entries = store()
    gone = next(one for one in entries if repr(one.run.attack) == "ALIE()" and one.run.lr == 0.1 and one.run.f == 1)
    maps = {grid.title: grid for grid in landscapes([one for one in entries if one is not gone])}
    found = maps["CWTM: accuracy under the worst attack"]
    assert "Natural, f = 1: lr = 0.5" in found.caption
    both = [one for one in entries if not (one.run == gone.run or one.run == gone.run.changed(lr=0.5))]
    maps = {grid.title: grid for grid in landscapes(both)}
    assert maps["CWTM: accuracy under the worst attack"]["Natural", "f = 1"].mean is None
    assert "Natural, f = 1: Krum" in maps["The best rule of each cell"].caption


def test_rules_of_different_tolerance_have_maps_of_their_own() -> None:
    runs = [
        Run(rule=f"CWTM(f={t})", attack="SignFlip()", split=split, byzantine=b, workers=9)
        for t, b, split in product((1, 2), (1, 2), SPLITS)
    ]
    titles = [grid.title for grid in landscapes([entry(run, 0.9 if run.f == run.byzantine else 0.1) for run in runs])]
    assert [title.partition(":")[0] for title in titles[::2]] == [
        "CWTM",
        "CWTM(f=1)",
        "CWTM(f=2)",
        "The best rule of each cell",
    ]


def test_runs_that_differ_in_a_later_field_stand_in_grids_of_their_own() -> None:
    run = Run(rule="CWM()", attack="SignFlip()", byzantine=2)
    found = grids(
        [entry(run, 0.5), entry(run.changed(holders="honest"), 0.9), entry(run.changed(weights="samples"), 0.7)]
    )
    assert sorted(grid["CWM", "SignFlip"].mean or 0 for grid in found) == [0.5, 0.7, 0.9]
