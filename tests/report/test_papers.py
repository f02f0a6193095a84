"""The other papers' tables: our runs in the right rows, and the settings of those rows."""

from collections.abc import Callable, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any

import pytest

from tests.support.report_world import DATABASE, agent_run, agent_trace, answers, reply, unparsed, write_run
from videopro.errors import ConfigError
from videopro.methods import METHODS
from videopro.report.papers import BUILDERS
from videopro.report.papers.agents import LVAGENT, PAPERS
from videopro.report.papers.tables import AnyOf, PaperTable
from videopro.report.reading import read_runs
from videopro.report.sections import build
from videopro.report.table import MissingRuns, Number, Section, Table, cell_text
from videopro.traces import Preparation, Segment, Step, Trace

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes runs: of agents that said these letters, or of these traces."""
    numbers = count()

    def made(given: str | Sequence[Trace], method: str = "vca", **settings: Any) -> Path:
        traces = agent_run(given) if isinstance(given, str) else given
        return write_run(tmp_path / str(next(numbers)), traces, method=method, **settings)

    return made


def section(name: str, *folders: Path) -> Section:
    return BUILDERS[name](read_runs(list(map(str, folders))))


def table_of(name: str, *folders: Path) -> Table:
    (table,) = section(name, *folders).tables
    return table


def cells(table: Table, label: str) -> dict[str, str]:
    """The row of a label, by heading; empty cells are left out."""
    (row,) = [row for row in table.rows if row[1] == label]
    return {head: cell_text(cell) for head, cell in zip(table.heads, row, strict=True) if cell is not None}


def accuracies(table: Table, *labels: str) -> list[str]:
    return [cells(table, label)["accuracy, %"].partition(" (")[0] for label in labels]


def by_label(table: Table) -> dict[str, list[str]]:
    """What stands after the first three columns, by the third."""
    return {str(row[2]): [cell_text(cell) for cell in row[3:]] for row in table.rows}


@pytest.fixture
def ablation(made: Made) -> list[Path]:
    """VCA, without reward, without tree search, with a buffer of four; direct answers at 8 frames."""
    changed = [made("AABB", reward="none"), made("ABBB", tree_search=False), made("AAAA", buffer=4)]
    return [made("AAAB", preset="equal"), *changed, made(answers("ABBB"), "native", frames=8)]


# ---- which row -------------------------------------------------------------------------------------------


def test_other_values_get_rows_of_their_own(ablation: list[Path]) -> None:
    three = table_of("vca-3", *ablation)
    labels = ("VCA", "without reward", "without tree search")
    assert accuracies(three, *labels) == ["75.0", "50.0", "25.0"]
    assert len(three.rows) == 3
    table = table_of("vca-4", *ablation)
    assert accuracies(table, "buffer 4", "buffer unset") == ["100.0", "75.0"]
    assert set(cells(table, "32 frames")) == {"benchmark", "system", "LVBench, published"}
    assert any("--options buffer=16" in note for note in table.notes)


def test_other_methods_stand_beside_the_papers_systems(ablation: list[Path]) -> None:
    table = table_of("vca-2", *ablation)
    assert cells(table, "Native VideoLLM")["questions"] == "4"
    assert "frames, published" not in cells(table, "Native VideoLLM")
    assert cells(table, "GPT-4o, 8 frames")["subset, published"] == "69.0"


def test_notes_are_about_the_runs_of_the_table(ablation: list[Path], made: Made) -> None:
    """A run of another method on other questions is in no row of Table 3."""
    other = made("AA", "lvagent", agents=["a", "b"])
    (own, beside), _ = build(read_runs(list(map(str, (*ablation, other)))), ("vca-3", "vca-2"))
    assert own.notes == ()
    assert "answered different questions" in beside.notes[0]


def test_settings_that_come_to_the_same_share_a_row(made: Made) -> None:
    """The options in docs/results/methods for VCA's Table 10 and for VideoAgent's uniform baselines."""
    table = table_of("vca-10", made("AAAB", buffer=None), made("AABB", buffer=16))
    assert sum(str(row[1]).startswith("VCA, ours: ") for row in table.rows) == 2
    uniform = made("AAAB", "videoagent", first_frames=7, max_rounds=1, self_evaluation=False)
    table = table_of("videoagent-4", uniform, made("AAAA", "videoagent"))
    assert accuracies(table, "7 uniform frames") == ["75.0"]
    assert cells(table, "7 uniform frames")["frames, published"] == "7"


def test_transcripts_are_those_that_questions_had(made: Made) -> None:
    """DVD's Table 2: a run that asked for subtitles and found none is one without transcripts."""
    own = {"method": "dvd", "subtitles": "listed"}
    deaf = made(agent_run("AAAB", notes=("no subtitles",)), **own, segmentation="uniform")
    guided = made("AABB", **own, segmentation="transcript")
    plain, heard = "Deep Video Discovery", "with transcripts"
    table = table_of("dvd-2", deaf, guided, made("ABBB", **own, segmentation="uniform"))
    assert accuracies(table, plain, heard, f"{heard}, uniform clips") == ["75.0", "50.0", "25.0"]
    assert accuracies(table_of("dvd-3", deaf, guided), plain) == ["75.0"]
    # Transcribed, though no listed subtitles were asked for.
    speech = {"segmentation": "transcript", "speech": "whisper:openai/whisper-large-v3-turbo"}
    only_heard = made("AABB", "dvd", subtitles="none", **speech)
    assert accuracies(table_of("dvd-2", deaf, only_heard), heard) == ["50.0"]
    with pytest.raises(MissingRuns, match=r"dvd-3: .*--options subtitles=none"):
        section("dvd-3", guided)


def test_atp_hard_is_a_half_of_nextqas_table(made: Made) -> None:
    """Two causal questions of the subset, one right; one temporal, right; and one that is not in it."""
    kinds = [("CW", "A"), ("CH", "B"), ("TN", "A")]
    traces = [
        agent_trace(number, letter, [reply()], groups={"type": kind, "atp_hard": kind})
        for number, (kind, letter) in enumerate(kinds)
    ]
    traces.append(agent_trace(3, "B", [reply()], groups={"type": "DO"}))
    own = cells(table_of("videoagent-3", made(traces, "videoagent", benchmark="nextqa")), "VideoAgent")
    found = {head: own[f"ATP-hard {head}"].partition(" (")[0] for head in ("C", "T", "all")}
    assert found == {"C": "50.0", "T": "100.0", "all": "66.7"}
    assert own["ATP-hard all, published"] == "58.4"


def test_models_in_roles_name_their_rows(made: Made) -> None:
    first, second = made("AB", "videoagent", llm="self"), made("AA", "videoagent", llm="api:gpt")
    table = table_of("videoagent-6", first, second, made("AA", "videoagent", llm="api:x", max_rounds=1))
    assert accuracies(table, "llm tiny", "llm api:gpt") == ["50.0", "100.0"]
    assert "llm api:x" not in [row[1] for row in table.rows], "an ablation is not the paper's system"


# ---- which table -----------------------------------------------------------------------------------------


def test_a_missing_run_is_named_with_its_command(ablation: list[Path], made: Made) -> None:
    # Runs on different questions compare nothing, so all of the table's runs are asked for.
    apart = [made("AAAB"), made("AABB", split="other", reward="none")]
    for name, runs, command in (
        ("vca-3", apart, r"--method vca \.\.\.`.*reward=none"),
        ("vca-3", ablation[:1], "--method vca --options reward=none"),
        # The default buffer is the paper's there, so it is not asked for.
        ("vca-6", ablation, r"--method vca --options reward=evidence \.\.\."),
        ("dvd-5", ablation, r"--options tools=\[clip_search,frame_inspect\] \.\.\."),
        ("videoagent-6", ablation, "--options llm=LLM"),
        *((name, ablation[-1:], "") for name in ("lvagent-times", "lvagent-agents", "dvd-fig3")),
        *((name, ablation[-1:], "") for name in ("vca-fig5", "videoagent-fig3")),
    ):
        with pytest.raises(MissingRuns, match=f"{name}: .*{command}"):
            section(name, *runs)


def test_a_familys_name_makes_what_the_runs_allow(ablation: list[Path]) -> None:
    runs = read_runs(list(map(str, ablation)))
    made, lacking = build(runs, ("vca",))
    numbers = [section.name.removeprefix("vca-") for section in made]
    assert numbers == ["1", "2", "3", "4", "9", "10", "11"]
    assert [reason.partition(":")[0] for reason in lacking] == ["vca-5", "vca-6", "vca-fig5"]
    # Without names: the tables of the methods that were given, and no reasons about others.
    made, lacking = build(runs)
    assert {"costs", "vca-3"} <= {section.name for section in made}
    for named in (*(section.name for section in made), *lacking):
        assert not named.startswith(("dvd", "lvagent", "videoagent"))
    with pytest.raises(ConfigError, match="'vca-33'"):
        build(runs, ("vca-33",))


def test_no_number_is_made_up(made: Made) -> None:
    """A model whose replies cannot be read has no accuracy, whatever letters were forced."""
    path = made([agent_trace(number, "A", [unparsed()]) for number in range(4)], "videoagent")
    said = "needs a language model: {} replies could not be parsed"
    table = table_of("videoagent-1", path)
    assert cells(table, "VideoAgent")["accuracy, %"] == said.format("4 of 4")
    # Two of three requests for an action brought no call, so the forced letter says nothing about DVD.
    steps = [reply("act"), Step("clip_search"), unparsed(kind="act"), unparsed(kind="act")]
    behaviours = section("dvd-fig3", made([agent_trace(0, "A", steps)], "dvd"))
    assert cell_text(behaviours.tables[0].rows[0][-1]) == said.format("2 of 3")


# ---- figures ---------------------------------------------------------------------------------------------


def test_frames_of_each_type_of_question(made: Made) -> None:
    """NExT-QA's codes are the paper's three types."""
    steps = {"CW": (1, 2), "CH": (1, 2, 3, 4), "TN": tuple(range(8)), "DO": (1,)}
    traces = [
        agent_trace(number, "A", [reply(times=times)], groups={"type": kind})
        for number, (kind, times) in enumerate(steps.items())
    ]
    path = made(traces, "videoagent", benchmark="nextqa", protocol={"groups": ["type"]})
    rows = by_label(section("videoagent-fig3", path).tables[1])
    assert rows["causal"] == ["2", "2", "3.0", "4", "7.1"]
    assert rows["temporal"] == ["1", "8", "8.0", "8", "7.8"]


def choice(chosen: int, best: int) -> list[Step]:
    """Four parts of a minute, of which one is chosen and one has the best score."""
    parts = tuple(
        Segment(15.0 * place, 15.0 * place + 15, str(place), score=90.0 if place == best else 10.0)
        for place in range(4)
    )
    return [reply("reward", segments=parts), reply("explore", segments=(parts[chosen],))]


def test_distances_of_segments(made: Made) -> None:
    """The evidence is in the second part: chosen at once and one too late; the best score one and two off."""
    evidence = ((16.0, 20.0),)
    traces = [
        agent_trace(0, "A", choice(1, 0), evidence=evidence),
        agent_trace(1, "B", choice(2, 3), evidence=evidence),
        agent_trace(2, "B", choice(2, 3)),
    ]
    rows = by_label(section("vca-fig5", made(traces)).tables[0])
    assert rows["the agent's choice"] == ["2", "2", "0.50", "0.50", "50.0"]
    assert rows["the highest score"] == ["2", "2", "1.50", "0.50", "0.0"]


def test_behaviours(made: Made) -> None:
    """A browse and an answer; two searches and an inspection."""
    traces = [
        agent_trace(number, letter, [step for name in names for step in (reply("act"), Step(name))])
        for number, (letter, names) in enumerate(
            [
                ("A", ("global_browse", "answer")),
                ("A", ("clip_search", "clip_search", "frame_inspect", "answer")),
                ("B", ("clip_search", "answer")),
            ]
        )
    ]
    rows = by_label(section("dvd-fig3", made(traces, "dvd")).tables[0])
    assert rows["Global Browse only"] == ["1", "33.3", "2.0", "100.0"]
    assert rows["simple action"] == ["2", "66.7", "3.0", "50.0"]


def test_numbers_of_agents_and_times(made: Made) -> None:
    """Two of three questions begin with different letters; half an hour of preselection."""

    def said(*letters: str | None) -> list[Step]:
        return [reply("answer", parsed={"letter": letter, "confidence": 0.5}) for letter in letters]

    selected = Preparation("selection", "pocket/all/3 agents", DATABASE.cost.share(1), is_known=False)
    replies = (("A", said("A", "A")), ("A", said("A", "B")), ("B", said("B", None)))
    traces = [
        agent_trace(number, letter, steps, prepared=(selected,))
        for number, (letter, steps) in enumerate(replies)
    ]
    runs = (made(traces, "lvagent", agents=["pocket", "pocket+x"]), made(answers("AAA"), "native"))
    (table, given) = section("lvagent-agents", *runs).tables
    (row,) = [[cell_text(cell) for cell in row] for row in table.rows]
    assert (row[2:4], row[6]) == (["2", "3"], "66.7")
    assert [cell_text(cell) for cell in given.rows[1]][:3] == ["4", "83.0", "80.1"]
    assert cell_text(given.rows[0][6]) == "33.6"
    (times, said_there) = section("lvagent-times", *runs).tables
    # As the supplement prints them.
    printed = [[cell_text(cell) for cell in row[1:]] for row in said_there.rows]
    assert (printed[0], printed[1][0], printed[4]) == (["350.5", "90.5"], "3", ["139.71", "36.07"])
    found = {str(row[1]): row[2:] for row in times.rows}
    # A quarter of a second besides two steps of half a second: 3.75 s for the videos 0 and 1.
    assert cell_text(found["LVAgent: evaluation"][2]) == "1.88"
    assert cell_text(found["LVAgent: total, at least"][2]) == "3.38"
    assert "Native VideoLLM alone" in found


# ---- the tables themselves -----------------------------------------------------------------------------

TABLES: dict[str, PaperTable] = {table.name: table for _, tables in PAPERS.values() for table in tables}


def test_no_row_has_more_values_than_the_table_has_columns() -> None:
    for table in TABLES.values():
        assert all(len(row.published) <= len(table.columns) for row in table.rows), table.name
        assert len({row.label for row in table.rows}) == len(table.rows), table.name


def test_lvagents_times_add_up() -> None:
    """Hours of the parts, and seconds per video: 13,943 videos, of which 750 in the preselection."""
    times = [[getattr(cell, "value", cell) for cell in row] for row in LVAGENT["times"].rows]
    hours = {part: value for part, value, _ in times}
    each = {part: value for part, _, value in times}
    parts = ("fine-tuning of ASP-CLIP", "preselection, 750 videos", "evaluation")
    assert sum(hours[part] for part in parts) == pytest.approx(hours["LVAgent total"])
    for part, videos in (
        *((name, 13943) for name in ("Qwen2-VL-72B alone", "evaluation", "LVAgent total")),
        ("preselection, 750 videos", 750),
    ):
        assert 3600 * hours[part] / videos == pytest.approx(each[part], abs=0.06)
    three, four = (row[-1] for row in LVAGENT["agents"].rows)
    assert isinstance(three, Number)
    assert isinstance(four, Number)
    assert three.value == each["evaluation"]
    assert four.value - three.value == pytest.approx(5.1)


def test_ablations_are_settings_with_the_papers_defaults() -> None:
    """The selectors name settings that the methods have, and their defaults are the paper's values."""
    for paper, _ in PAPERS.values():
        if paper.method not in METHODS:
            continue
        defaults = METHODS[paper.method].Settings()
        for name, value in paper.ablated.items():
            assert getattr(defaults, name) == value, f"{paper.method}: {name}"
        for table in (table for table in TABLES.values() if table.paper is paper):
            for row in table.own_rows:
                asked = {
                    name: value.values if isinstance(value, AnyOf) else (value,)
                    for name, value in (row.settings or {}).items()
                }
                for values in product(*asked.values()):
                    METHODS[paper.method].Settings(**dict(zip(asked, values, strict=True)))
            assert all(hasattr(defaults, name) for name in table.varied), table.name
