"""The tables of reports, of accuracies and of costs, against values worked out by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex

from tests.support.report_world import (
    DATABASE,
    FALLBACK,
    INDEX,
    agent_run,
    agent_trace,
    answers,
    direct_round,
    planned_run,
    program,
    reply,
    trace,
    unparsed,
    unreadable,
    write_run,
)
from videopro.errors import ConfigError, RunError
from videopro.report.confidence import sweep
from videopro.report.figures import EXTRA_COLOURS, METHODS
from videopro.report.main_results import bin_of
from videopro.report.reading import read_runs
from videopro.report.runs import natives_for
from videopro.report.sections import build
from videopro.report.table import Estimate, MissingRuns, Section, Table, cell_text
from videopro.traces import Cost, Preparation, Trace

A, B = "A", "B"


def section(name: str, *words: Path | str) -> Section:
    ((found,), _) = build(read_runs([str(word) for word in words]), (name,))
    return found


def table(name: str, *words: Path | str) -> Table:
    return section(name, *words).tables[0]


def column(found: Table, head: str) -> list[str]:
    place = found.heads.index(head)
    return [cell_text(row[place]).partition(" (")[0] for row in found.rows]


# ---- Table 1 ---------------------------------------------------------------------------------------------

RULES = ("", ", native fallback", ", last answer", ", last answer, native fallback")
"""What a table calls a run with refinement by each rule of the final answer; the paper's goes without."""

MLVU = {"name": "videopro", "metrics": [{"name": "M-Avg", "kind": "macro", "over": "task"}]}
VIDEOPRO = {"name": "videopro"}


def test_main_results_over_two_benchmarks(tmp_path: Path) -> None:
    """LVBench: native 2 of 4, VideoPro 3 of 4. MLVU counts tasks alike: native 1/1 and 1/3, mean 2/3;
    VideoPro 1/1 and 3/3. Means 58.3 and 87.5, gain 29.2."""
    tasks = [{"task": "needle"}, *[{"task": "count"}] * 3]

    def mlvu(letters: str) -> list[Trace]:
        return [trace(i, [direct_round(letter, 0.8)], groups=tasks[i]) for i, letter in enumerate(letters)]

    for name, method, lvbench, other in (("n", "native", "AABB", "AABB"), ("v", "videopro", "AAAB", "AAAA")):
        write_run(tmp_path / name / "mlvu", mlvu(other), method=method, benchmark="mlvu", protocol=MLVU)
        write_run(
            tmp_path / name / "lv", answers(lvbench), method=method, benchmark="lvbench", protocol=VIDEOPRO
        )
    found = table("main", tmp_path / "n", tmp_path / "v")
    # The paper's order, whatever the order of the folders.
    assert found.heads == ("", "LVBench test", "MLVU test, M-Avg", "mean", "gain over native")
    assert [row[0] for row in found.rows] == ["tiny", *(f"tiny + VideoPro{rule}" for rule in RULES)]
    assert column(found, "LVBench test") == ["50.0", *["75.0"] * 4]
    assert column(found, "MLVU test, M-Avg") == ["66.7", *["100.0"] * 4]
    assert column(found, "mean") == ["58.3", *["87.5"] * 4]
    assert column(found, "gain over native") == ["", *["+29.2"] * 4]
    # Two videos each, and four together: too few for an interval.
    assert [cell_text(cell) for cell in found.rows[1][1:4]] == ["75.0 (-)", "100.0 (-)", "87.5 (-)"]
    # A mean needs every benchmark.
    half = table("main", tmp_path / "n", tmp_path / "v" / "lv")
    assert [cell_text(row[3]) != "" for row in half.rows] == [True, *[False] * 4]
    metrics = table("metrics", tmp_path / "n", tmp_path / "v")
    assert [row[:3] for row in metrics.rows] == [
        ("MLVU test", "tiny", "M-Avg"),
        ("MLVU test", "tiny + VideoPro", "M-Avg"),
    ]
    assert column(metrics, "robust") == ["66.7", "100.0"]


def lost_run(folder: Path, **settings: Any) -> Path:
    """Four questions, A right: an unsure right answer that its refinement loses; a failure fixed correctly; a
    failure that no refinement fixes; a confident wrong one."""
    return write_run(
        folder,
        [
            trace(0, [program("A", 0.5), program(None, kind="program_refinement")], selected=1),
            trace(1, [program(None), program("A", 0.9, kind="bug_fix")]),
            trace(2, [program(None), program(None, kind="bug_fix")]),
            trace(3, [program("B", 0.9)]),
        ],
        method="videopro",
        **settings,
    )


def test_each_rule_of_the_final_answer_is_a_row(tmp_path: Path) -> None:
    """Direct answers are right for questions 0 and 2. The last programs are right for 1 alone; with the
    fallback for 0, 1 and 2. The latest answers are right for 0 and 1, with the fallback for 2 too."""
    native = write_run(tmp_path / "native", answers("ABAB"))
    lost = lost_run(tmp_path / "v")
    found = table("main", native, lost)
    assert [row[0] for row in found.rows] == ["Native VideoLLM", *(f"VideoPro{rule}" for rule in RULES)]
    assert column(found, "pocket test") == ["50.0", "25.0", "75.0", "50.0", "75.0"]
    assert column(found, "gain over native") == ["", "-25.0", "+25.0", "+0.0", "+25.0"]
    assert any("the paper's rule" in note for note in found.notes)
    # A fallback costs what it took in the run of method native: 1.25 s for one question in four, or two.
    took = table("efficiency", native, lost)
    assert column(took, "runtime, s")[3:] == ["2.88", "3.50", "2.88", "3.19"]
    # Without direct answers there is no row for the fallback, and the reason is given.
    alone = table("main", lost)
    assert [row[0] for row in alone.rows] == ["VideoPro", "VideoPro, last answer"]
    assert any("method native" in note for note in alone.notes)
    # Direct answers that also had subtitles are not what a fallback would give.
    other = write_run(tmp_path / "subtitles", answers("AAAA"), subtitles="all")
    assert len(table("main", other, lost).rows) == 3


def test_refinement_is_judged_with_the_fallback_on_both_sides(tmp_path: Path) -> None:
    """First answers: 1 of 4 right, with the direct answers 2 of 4 (question 2); last programs 1 and 2."""
    native = write_run(tmp_path / "native", answers("BBAB"))
    (row,) = table("training", native, lost_run(tmp_path / "v")).rows
    cells = [cell_text(cell).partition(" (")[0] for cell in row[2:]]
    assert cells == ["25.0", "50.0", "25.0", "50.0", "50.0", "75.0", "+0.0", "+0.0"]


# ---- Table 2 ---------------------------------------------------------------------------------------------


def test_efficiency(tmp_path: Path) -> None:
    """The run with refinement gives the row without it: 1 of 4 right, 100 tokens, 1.75 s; with it 3 of 4, six
    rounds over four questions: 150 tokens, 6 * 1.5 / 4 + 0.25 = 2.5 s. Native: a second and its quarter."""
    native = write_run(tmp_path / "native", answers("AABB"))
    found = table("efficiency", native, planned_run(tmp_path / "v"))
    assert [row[1] for row in found.rows] == [
        "Native VideoLLM",
        *("VideoPro, before refinement", "VideoPro, before refinement, native fallback"),
        *(f"VideoPro{rule}" for rule in RULES),
    ]
    # Before refinement one question in four has no answer: B's direct one, with its 1.25 s and two calls.
    assert column(found, "accuracy, %") == ["50.0", "25.0", "25.0", *["75.0"] * 4]
    assert column(found, "planner tokens out") == ["0", "100", "100", *["150"] * 4]
    assert column(found, "characters written") == ["1", "10", "10", *["15"] * 4]
    assert column(found, "runtime, s") == ["1.25", "1.75", "2.06", *["2.50"] * 4]
    assert column(found, "model calls") == ["2.0", "3.0", "3.5", *["4.5"] * 4]


def test_efficiency_leaves_stored_refinements_out(tmp_path: Path) -> None:
    rounds = [program("A", 0.8), program("B", 0.85, kind="program_refinement")]
    stored = [trace(0, rounds, selected=0, refined=0), trace(1, rounds, selected=0, refined=0)]
    path = write_run(tmp_path / "v", stored, method="videopro", refine_below=0.9)
    found = table("efficiency", path)
    # Twice before refinement and four times after, since no question is without an answer.
    for head, value in (("planner tokens out", "100"), ("runtime, s", "1.75"), ("accuracy, %", "100.0")):
        assert column(found, head) == [value] * 6
    # A planner that counts no tokens has no length.
    teacher = [trace(0, [program("A", 0.9, tokens=0.0)])]
    path = write_run(tmp_path / "p", teacher, method="program", planner="pocket-teacher")
    assert column(table("efficiency", path), "planner tokens out") == ["", ""]


# ---- Tables 3, 4 and 5 -----------------------------------------------------------------------------------


def test_module_ablation(tmp_path: Path) -> None:
    """First answers count: 1 of 4 with all modules (from the run with refinement), 0 of 4 without retrieval:
    -25.0 points. Groups come in the order of the paper's Table 3."""

    def cut(name: str, letters: str) -> Path:
        traces = [trace(i, [program(letter, 0.9)]) for i, letter in enumerate(letters)]
        return write_run(tmp_path / name, traces, method="adaptive", without=[name])

    full = planned_run(tmp_path / "v")
    found = table("modules", cut("context", "ABBB"), cut("retrieval", "BBBB"), full)
    labels = ["all modules", "without multimodal retrieval", "without global context"]
    assert [row[1] for row in found.rows] == labels
    assert column(found, "accuracy, %") == ["25.0", "0.0", "25.0"]
    assert column(found, "difference") == ["", "-25.0", "+0.0"]
    # Runs without a group are in no other table's rows.
    assert len(table("main", full, tmp_path / "context").rows) == len(RULES)
    # Without the whole there is no table, and another planner's run is not a reference.
    other = planned_run(tmp_path / "other", planner="pocket-teacher")
    for given in ([tmp_path / "context"], [tmp_path / "context", other]):
        with pytest.raises(MissingRuns, match="has the same planner and all modules"):
            section("modules", *given)
    with pytest.raises(MissingRuns, match="--without retrieval"):
        section("modules", other)


def test_training_strategies(tmp_path: Path) -> None:
    """The planner's adapter names the strategy, or the user: 1 of 4 right at first, 3 of 4 after."""
    planned_run(tmp_path / "a", adapter="models/sft")
    planned_run(tmp_path / "b", adapter="models/grpo")
    found = table("training", tmp_path / "a", f"SFT + GRPO={tmp_path / 'b'}")
    assert [row[:2] for row in found.rows] == [("tiny", "sft"), ("tiny", "SFT + GRPO")]
    assert column(found, "reasoning, %") == ["25.0", "25.0"]
    assert column(found, "+ refinement, %") == ["75.0", "75.0"]
    assert column(found, "gain") == ["+50.0", "+50.0"]
    with pytest.raises(MissingRuns, match="are both tiny, not fine-tuned"):
        section("training", planned_run(tmp_path / "c"), planned_run(tmp_path / "d", tau=0.5))


def test_modes(tmp_path: Path) -> None:
    """One of four native, two of four refined; one of two answered directly after all."""
    rounds = [program(None), program(None, kind="bug_fix"), direct_round("A", 0.4, kind=FALLBACK)]
    fallen = [trace(0, rounds, selected=2, refined=1), trace(1, [program("A", 0.9)])]
    path = write_run(tmp_path / "f", fallen, method="videopro", tau=0.7)
    found = table("modes", f"one={planned_run(tmp_path / 'v')}", f"two={path}")
    assert column(found, "native, %") == ["25.0", "0.0"]
    assert column(found, "program, %") == ["75.0", "100.0"]
    assert column(found, "refined, %") == ["50.0", "50.0"]
    assert column(found, "direct answer after all, %") == ["0.0", "50.0"]
    with pytest.raises(MissingRuns, match="no run wrote programs"):
        section("modes", write_run(tmp_path / "n", answers("A")))


# ---- Figures 2, 4 and 5 ----------------------------------------------------------------------------------


def test_confidence(tmp_path: Path) -> None:
    """Right 0.95 and 0.65, wrong 0.95 and 0.25. ECE: (2 * |0.5 - 0.95| + 0.35 + 0.25) / 4 = 0.375. AUROC: of
    four pairs of a right and a wrong one a tie, two won and one lost: 0.625."""
    given = [("A", 0.95), ("B", 0.95), ("B", 0.25), ("A", 0.65)]
    path = write_run(tmp_path / "n", [trace(i, [direct_round(*answer)]) for i, answer in enumerate(given)])
    overall, bins, risk = section("confidence", path).tables
    (row,) = [[cell_text(cell) for cell in row] for row in overall.rows]
    assert row[:5] == ["pocket test", "Native VideoLLM", "4", "0.375", "0.625"]
    # The two of 0.95 in either order: (1/2 + 1/2 + 1/3 + 2/4) / 4.
    assert row[5:] == ["0.458", ""]
    assert column(risk, "answered")[:6] == ["4", "4", "4", "3", "3", "2"]
    assert column(risk, "wrong, %")[0] == "50.0"
    counts = {row[2]: row[3:5] for row in bins.rows if row[3:5] != (0, 0)}
    assert counts == {"0.9 to 1.0": (1, 1), "0.2 to 0.3": (0, 1), "0.6 to 0.7": (1, 0)}


def test_accuracy_over_tau(tmp_path: Path) -> None:
    """Stored up to 0.9. Question 0: B at 0.45, refined to A; question 1: A at 0.7, refined to B; question 2:
    A at 0.95. Up to 0.45 nothing is refined (2 of 3 right, 100 tokens); to 0.7 the first (3 of 3); then both
    (2 of 3)."""
    first = [program("B", 0.45), program("A", 0.8)]
    second = [program("A", 0.7), program("B", 0.8)]
    traces = [trace(0, first), trace(1, second), trace(2, [program("A", 0.95)])]
    path = write_run(tmp_path / "v", traces, method="videopro", refine_below=0.9)
    found = table("tau", path)
    assert column(found, "tau") == [f"{0.4 + 0.05 * i:.2f}" for i in range(11)]
    assert column(found, "last program, %") == ["66.7"] * 2 + ["100.0"] * 5 + ["66.7"] * 4
    assert column(found, "last answer, %") == column(found, "last program, %")
    assert column(found, "refined, %") == ["0.0"] * 2 + ["33.3"] * 5 + ["66.7"] * 4
    assert column(found, "planner tokens out") == ["100"] * 2 + ["133"] * 5 + ["167"] * 4
    assert column(found, "runtime, s") == ["1.75"] * 2 + ["2.25"] * 5 + ["2.75"] * 4


def test_a_sweep_by_each_rule(tmp_path: Path) -> None:
    """A at 0.5, whose refinement fails: above 0.5 it is lost by the paper's rule, and the fallback, B,
    takes its place; the latest answer stays."""
    lost = [trace(0, [program("A", 0.5), program(None, kind="program_refinement")], selected=1)]
    path = write_run(tmp_path / "v", lost, method="videopro", refine_below=0.9)
    native = write_run(tmp_path / "n", answers("B"))
    found = table("tau", path, native)
    assert column(found, "last program, %") == ["100.0"] * 3 + ["0.0"] * 8
    assert column(found, "+ native fallback, %") == column(found, "last program, %")
    assert column(found, "last answer, %") == ["100.0"] * 11
    assert column(table("tau", path), "+ native fallback, %") == [""] * 11


def test_a_sweep_beyond_what_was_stored_is_refused(tmp_path: Path) -> None:
    path, native = planned_run(tmp_path / "v"), write_run(tmp_path / "n", answers("A"))
    none = planned_run(tmp_path / "none", max_rounds=0)
    refused = (
        (path, r"only for answers below 0\.75.*--refine-below 0\.9"),
        (native, "refine-below"),
        (none, "does not refine"),
    )
    for given, why in refused:
        with pytest.raises(MissingRuns, match=why):
            section("tau", given)
    (run,) = read_runs([str(path)])
    assert [point[0] for point in sweep(run, (0.4, 0.75))] == [0.4, 0.75]


def test_accuracy_by_duration(tmp_path: Path) -> None:
    """The edges, 2 and 15 minutes, belong to the middle; a length that was never seen is left out."""
    assert [bin_of(60 * m) for m in (1.99, 2, 15, 15.01)] == ["< 2 min", "2-15 min", "2-15 min", "> 15 min"]
    given = answers("ABAABBA", minutes=(1.0, 1.9, 2.0, 15.0, 15.1, 60.0, 0.0))
    lvb = write_run(tmp_path / "l", given, benchmark="longvideobench", split="val")
    mme = write_run(tmp_path / "m", answers("AA", minutes=(40.0, 50.0)), benchmark="videomme", split="long")
    made = section("durations", mme, lvb)
    (found,) = made.tables
    assert [row[0] for row in found.rows] == ["Video-MME long", "LongVideoBench val"]
    assert column(found, "n, < 2 min") == ["0", "2"]
    assert column(found, "< 2 min, %") == ["", "50.0"]
    assert column(found, "2-15 min, %") == ["", "100.0"]
    assert column(found, "> 15 min, %") == ["100.0", "0.0"]
    assert any(note.startswith("1 answers") for note in found.notes)


def test_other_lengths_are_in_the_figure_of_lengths_alone(tmp_path: Path) -> None:
    """The paper's tables have Video-MME's long group, and its Figure 5 all three."""
    runs = {
        split: write_run(
            tmp_path / split,
            [replace(trace, question_id=f"{split}-{trace.question_id}") for trace in given],
            benchmark="videomme",
            split=split,
        )
        for split, given in {
            "long": answers("AB", minutes=(40.0, 50.0)),
            "medium": answers("AAA", minutes=(5.0, 6.0, 7.0)),
            "short": answers("B", minutes=(1.0,)),
        }.items()
    }
    others = [f"x={runs['short']}", f"x={runs['medium']}"]
    made, _ = build(read_runs([f"x={runs['long']}"], others), ("durations", "main"))
    lengths, main = (section.tables[0] for section in made)
    assert [lengths.rows[0][0], *column(lengths, "n, < 2 min"), *column(lengths, "n, 2-15 min")] == [
        "Video-MME", "1", "3",
    ]  # fmt: skip
    assert column(lengths, "> 15 min, %") == ["50.0"]
    (row,) = main.rows
    assert "50.0" in str(row[1])
    assert "Video-MME long" in main.heads


# ---- pairs, protocols, questions -------------------------------------------------------------------------


def test_pairs_and_the_questions_that_changed_sides(tmp_path: Path) -> None:
    """Questions 1 and 2 gained, 3 lost: +25.0 points over four questions."""
    first = write_run(tmp_path / "n", answers("ABBA"))
    second = write_run(tmp_path / "v", answers("AAAB"), method="videopro")
    found, changed = section("pairs", second, first).tables
    (row,) = found.rows
    # The direct answers are what others are compared with.
    assert (row[1:4], row[5:]) == (("VideoPro", "Native VideoLLM", 4), (2, 1))
    assert column(found, "difference") == ["+25.0"]
    assert [row[3:] for row in changed.rows] == [
        ("gained", "q1", "What is 1?", "A", "A", "B"),
        ("gained", "q2", "What is 2?", "A", "A", "B"),
        ("lost", "q3", "What is 3?", "A", "B", "A"),
    ]


def test_other_protocols_are_other_datasets(tmp_path: Path) -> None:
    without, everything = (
        {"name": "no_subtitles", "subtitles": "none"},
        {"name": "subtitles", "subtitles": "all"},
    )
    plain = write_run(tmp_path / "a", answers("AB"), protocol=without)
    shown_ = write_run(tmp_path / "b", answers("AA"), method="videopro", protocol=everything)
    found = section("main", plain, shown_)
    assert found.tables[0].heads[1:3] == ("pocket test (no_subtitles)", "pocket test (subtitles)")
    assert column(found.tables[0], "gain over native") == [""] * 5, "not across protocols"
    (note,) = found.notes
    assert note.endswith("because their protocols differ in name, subtitles.")
    with pytest.raises(MissingRuns, match="no two runs share benchmark, split and protocol"):
        section("pairs", plain, shown_)
    # Same name, other content: the hash tells them apart.
    other = write_run(tmp_path / "c", answers("AB"), protocol={"name": "subtitles", "subtitles": "frames"})
    heads = table("main", shown_, other).heads[1:3]
    assert len(set(heads)) == 2
    assert all(head.startswith("pocket test (") and "subtitles" not in head for head in heads)


def test_other_questions_are_reported(tmp_path: Path) -> None:
    first = write_run(tmp_path / "n", answers("AB"))
    second = write_run(tmp_path / "v", [*answers("ABAA")[1:], unreadable(9)], method="videopro")
    (note,) = section("main", first, second).notes
    assert "the runs answered different questions (Native VideoLLM 2, VideoPro 4)" in note
    assert table("pairs", first, second).rows[0][3] == 1
    runs = table("runs", first, second)
    assert column(runs, "questions") == ["2", "3"]
    assert column(runs, "frames") == ["16", "16"]
    assert column(runs, "coverage, %") == ["100.0", "66.7"]
    assert column(runs, "errors") == ["0", "1"]


def test_a_run_that_several_versions_answered_is_told(tmp_path: Path) -> None:
    old, new = {"torch": "2.11.0", "av": "18.1.0"}, {"torch": "2.14.1", "av": "18.1.0"}
    mixed = [*answers("AB", versions=old), *answers("ABAA", versions=new)[2:]]
    runs = [write_run(tmp_path / "m", mixed), write_run(tmp_path / "p", answers("AB"), method="videopro")]
    (note,) = section("runs", runs[0]).notes
    assert note.endswith("Native VideoLLM torch 2.11.0 (2), 2.14.1 (2).")
    assert not section("runs", runs[1]).notes


# ---- which runs, by which names --------------------------------------------------------------------------


def test_runs_are_named_apart_or_refused(tmp_path: Path) -> None:
    def names(*words: Path | str) -> list[str]:
        return [run.name for run in read_runs([str(word) for word in words])]

    first, second = planned_run(tmp_path / "x" / "one"), planned_run(tmp_path / "x" / "two", tau=0.5)
    assert names(tmp_path / "x") == ["VideoPro [one]", "VideoPro [two]"]
    assert names(f"first={first}", second) == ["first", "VideoPro"]
    taught = planned_run(tmp_path / "taught", planner="pocket-teacher")
    assert names(first, taught) == ["VideoPro (not fine-tuned)", "VideoPro (pocket-teacher)"]
    (tmp_path / "a=b").mkdir()
    assert names(write_run(tmp_path / "a=b" / "run", answers("A"))) == ["Native VideoLLM"]
    empty = write_run(tmp_path / "empty", [])
    for error, words, why in (
        (ConfigError, [f"same={first}", f"same={second}"], "have the same name 'same'"),
        (ConfigError, [first, first], "is given twice"),
        (RunError, [tmp_path / "nowhere"], "no such folder"),
        (RunError, [empty], "no question is answered"),
        (ConfigError, [f"={empty}"], "NAME=FOLDER"),
    ):
        with pytest.raises(error, match=why):
            names(*words)


# ---- costs -------------------------------------------------------------------------------------------------


def costs(*words: Path | str) -> Section:
    return section("costs", *words)


def rows_of(table: Table, place: int) -> dict[str, dict[str, str]]:
    """The cells of each row by heading, by what stands in one place."""
    found = {}
    for row in table.rows:
        found[str(row[place])] = dict(zip(table.heads, map(cell_text, row), strict=True))
    return found


def only_row(section: Section) -> dict[str, str]:
    (row,) = rows_of(section.tables[0], 1).values()
    return row


def test_what_was_prepared_stands_beside_what_questions_cost(tmp_path: Path) -> None:
    """A transcript of 90 s of sound took 6 s, whichever run made it: 3 s more for each of two questions."""
    heard = Preparation("transcript", "v0", Cost(seconds=6.0), audio_seconds=90.0)
    run = write_run(tmp_path / "v", agent_run("AB", prepared=(heard, INDEX)), method="vca")
    section = costs(run)
    row, rows = only_row(section), rows_of(section.tables[2], 2)
    assert (row["seconds"], row["seconds, amortised"], row["seconds, raw"]) == ("0.75", "7.75", "14.75")
    assert (row["frames seen"], row["videos"], row["tokens in"], row["tokens out"]) == ("4.0", "1", "10", "2")
    transcript = rows["transcript"]
    assert (transcript["how many"], transcript["questions that use one"]) == ("1", "2")
    assert (transcript["seconds"], transcript["minutes of sound"]) == ("6.0", "1.5")
    assert (rows["index"]["seconds"], rows["index"]["minutes of sound"]) == ("8.0", "")
    # A run without any preparation has no such table.
    assert len(costs(write_run(tmp_path / "n", answers("AB"))).tables) == 2


def test_the_picture_of_accuracy_against_cost(tmp_path: Path) -> None:
    """VCA at 8 and at 32 frames a call is a line, from the smaller budget; 12 tokens a question, and a
    fortieth of 1,100 for the database. VideoPro's planner saw 16 frames. Replies that nobody could read are
    no point, nor are direct answers that note neither frames nor tokens."""

    def run(letters: str, frames: int, **settings: Any) -> Path:
        seen = [reply(times=range(frames))]
        traces = [agent_trace(n, letter, seen, prepared=(DATABASE,)) for n, letter in enumerate(letters)]
        return write_run(tmp_path / str(frames), traces, method="vca", frames=frames, **settings)

    lost = write_run(tmp_path / "d", [agent_trace(0, "A", [unparsed(times=(1,))])], method="dvd")
    runs = run("AAAB" * 10, 32, preset="equal"), run("AABB" * 10, 8, preset="equal")
    own = f"mine={run('A' * 40, 16, preset='equal')}"
    other = write_run(tmp_path / "n", answers("AB"), benchmark="other")
    found = costs(*runs, own, planned_run(tmp_path / "v"), lost, other)
    figure = found.figure.draw()
    frames, tokens, *of_other = figure.axes
    assert {axes.get_xscale() for axes in figure.axes} == {"log"}
    assert (frames.get_title(), of_other[0].get_title()) == ("pocket test", "other test")
    assert [axes.containers for axes in of_other] == [[], []]
    drawn = {
        (axes, bars.get_label()): bars.lines[0].get_xydata().tolist()
        for axes in (frames, tokens)
        for bars in axes.containers
    }
    planned, agent, named = "tiny + VideoPro", "tiny + VCA (equal)", "mine"
    assert drawn == {
        (frames, planned): [[16, 0.75]],
        (frames, agent): [[8, 0.5], [32, 0.75]],
        (frames, named): [[16, 1]],
        (tokens, planned): [[150, 0.75]],
        (tokens, agent): [[39.5, 0.5], [39.5, 0.75]],
        (tokens, named): [[39.5, 1]],
    }
    bars = next(bars for bars in frames.containers if bars.get_label() == agent)
    intervals = [part[:, 1] for part in bars.lines[2][0].get_segments()]
    rows = [row for row in found.tables[0].rows if "VCA" in str(row[1])]
    assert [100 * ends for ends in intervals] == [
        pytest.approx((cell.low, cell.high)) for row in rows for cell in row if isinstance(cell, Estimate)
    ]
    (legend,) = figure.legends
    told = zip(legend.get_texts(), legend.legend_handles, strict=True)
    colours = {text.get_text(): to_hex(handle.get_color()[0]) for text, handle in told}
    assert colours == {planned: METHODS["videopro"], agent: METHODS["vca"], named: EXTRA_COLOURS[0]}
    for axes in (frames, tokens):
        lines = {part.get_label(): part.lines[0] for part in axes.containers}
        assert {name: line.get_color() for name, line in lines.items()} == colours
        assert len({line.get_marker() for line in lines.values()}) == 3
    # Less than a decade has marks of its own.
    assert [list(axes.get_xticks()) for axes in (frames, tokens)] == [[8, 32], [40, 150]]


def test_accuracy_against_the_budget_says_where_it_does_not_rise(tmp_path: Path) -> None:
    """Two calls a question. A right in every second question, then in all; two questions a video."""
    runs = [
        write_run(tmp_path / "free", answers("A" * 16)),
        write_run(tmp_path / "few", answers("AB" * 8), calls=2, seconds=None),
        write_run(tmp_path / "more", answers("A" * 16), calls=4, seconds=9.5),
    ]
    table = next(
        table for table in costs(*runs).tables if table.title.startswith("Accuracy against the budget")
    )
    rows = rows_of(table, table.heads.index("budget"))
    assert list(rows) == ["2 calls", "4 calls, 9.5 s", "no limit"]
    assert {row["run"] for row in rows.values()} == {"Native VideoLLM"}
    assert [(row["calls"], row["most calls"]) for row in rows.values()] == [("2.0", "2")] * 3
    gains = [row["points more than the row above"].partition(" ")[0] for row in rows.values()]
    assert gains == ["", "+50.0", "+0.0"]
    assert [row["rises"] for row in rows.values()] == ["", "yes", "no"]


def test_a_fallback_is_taken_from_the_same_budget(tmp_path: Path) -> None:
    """Answers of another number of frames are not what this model would have said."""
    planned = planned_run(tmp_path / "v")
    assert only_row(costs(planned))["planner frames"] == "16", "its own look counts as frames shown"
    for frames, is_taken in ((16, True), (8, False)):
        native = write_run(tmp_path / str(frames), answers("AAAA"), frames=frames)
        run, direct = read_runs([str(planned), str(native)])
        assert bool(natives_for(run, [run, direct])) is is_taken


def test_an_accuracy_that_says_nothing_is_in_no_other_table(tmp_path: Path) -> None:
    """A letter of an agent whose every reply was unreadable is no gain, pair or bar; "runs" says why."""
    native = write_run(tmp_path / "n", answers("AABB"))
    forced = [agent_trace(number, "A", [unparsed()]) for number in range(4)]
    lost = write_run(tmp_path / "d", forced, method="dvd")
    said = "needs a language model: 4 of 4 replies could not be parsed"
    made, _ = build(read_runs([str(native), str(lost)]), ("main", "durations", "runs"))
    named = {section.name: [str(row[0]) for row in section.tables[0].rows] for section in made}
    assert "Deep Video Discovery" not in named["main"]
    assert f"Left out: Deep Video Discovery, which {said}." in made[0].notes
    (row,) = [row for row in made[-1].tables[0].rows if row[0] == "Deep Video Discovery"]
    own = dict(zip(made[-1].tables[0].heads, row, strict=True))
    assert (own["accuracy, %"], own["official, %"]) == (said, None)
    with pytest.raises(MissingRuns, match="pairs: no two runs"):
        build(read_runs([str(native), str(lost)]), ("pairs",))
