"""What the pocket models are trained on, in which order, and what is kept of it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from videopro.backbones import read_model_record
from videopro.pocket import drawing
from videopro.pocket.vocabulary import COLORS
from videopro.train.pocket import architecture as checkpoint
from videopro.train.pocket import qa_pairs as drills
from videopro.train.pocket.batches import BatchEncoder
from videopro.train.pocket.frames import plan_scene
from videopro.train.pocket.language import STAGES, average
from videopro.train.pocket.qa_pairs import PocketExample, pick_count
from videopro.train.pocket.vision import (
    CODES,
    GRID,
    KNOTS,
    VOCABULARY,
    CodeTable,
    encode_pictures,
    encode_sized_pictures,
    groups_of,
    scene_symbols,
    symbols,
    translate,
    whiten,
)
from videopro.train.retrieval import training as pocket_runs

FACT = {
    "place": "beach",
    "weather": "sunny",
    "actor": {"color": "red", "shape": "ring"},
    "sign": "TAXI",
    "sign_box": (0, 0, 64, 32),
}


@pytest.fixture(scope="module")
def visual() -> torch.nn.Module:
    return checkpoint.build_model(checkpoint.build_tokenizer(), 0).model.visual.eval()


def named(cells: np.ndarray, row: int, column: int) -> set[str]:
    return {VOCABULARY[i] for i in np.nonzero(cells[row, column, : len(VOCABULARY)])[0]}


def edges(cell: np.ndarray) -> np.ndarray:
    """Where the actor's edges lie, each between two knots."""
    knots = cell[len(VOCABULARY) :].reshape(4, KNOTS).astype(float)
    np.testing.assert_allclose(knots.sum(1), 1, atol=1e-3)
    return knots @ np.linspace(0, 1, KNOTS)


def test_a_cell_names_what_stands_on_it_and_where_its_edges_lie() -> None:
    """The frame is 320x192 in cells of 64x64: the actor fills the cell in row 1, column 2."""
    cells = symbols(FACT, (128, 64, 192, 128))
    assert cells.shape == (*GRID, CODES)
    assert named(cells, 0, 0) == {"beach", "sunny", "TAXI"}
    assert named(cells, 1, 2) == {"beach", "sunny", "red", "ring"}
    others = {(row, column) for row in range(3) for column in range(5)} - {(0, 0), (1, 2)}
    assert all(named(cells, *cell) == {"beach", "sunny"} for cell in others)
    np.testing.assert_allclose(edges(cells[1, 2]), [0.4, 1 / 3, 0.6, 2 / 3], atol=1e-3)


def test_a_crop_has_its_own_cells_and_leaves_out_what_it_cuts_off() -> None:
    window = (96, 32, 224, 160)
    cells = symbols(FACT, (128, 64, 192, 128), window, (4, 4))
    np.testing.assert_allclose(edges(cells[1, 1]), [0.25, 0.25, 0.75, 0.75], atol=1e-3)
    assert not any("TAXI" in named(cells, r, c) for r in range(4) for c in range(4))
    beside = symbols(FACT, (128, 64, 192, 128), (0, 0, 140, 192), GRID)
    assert not any("red" in named(beside, r, c) for r in range(3) for c in range(5))


def test_symbols_say_what_was_drawn() -> None:
    """In every frame of a few scenes, the cells that name the actor's colour hold pixels of that colour."""
    checked = 0
    for seed in range(12):
        plan = plan_scene(seed)
        if plan.annotation["actor"] is None:
            continue
        color = plan.annotation["actor"]["color"]  # type: ignore[index]
        view, frames = drawing.SceneView(*plan.view), scene_symbols(plan.annotation)
        for time, cells in list(zip(plan.times, frames, strict=True))[::5]:
            picture = view.draw(time, plan.clock + time).astype(int)
            close = np.abs(picture - np.array(COLORS[color])).max(-1) < 60
            on = cells[..., VOCABULARY.index(color)] > 0
            area = np.kron(on, np.ones((64, 64), bool))
            assert on.any()
            # Most of what looks like the actor, and is not scenery, lies in the cells that name it.
            assert close[area].mean() > 0.02
            checked += 1
    assert checked >= 20


def test_many_frames_in_one_batch_give_the_same_features(visual: torch.nn.Module) -> None:
    """Expected features come from transformers' own forward pass."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (3, 2, *checkpoint.FRAME_SIZE, 3), dtype=np.uint8)
    pixels = torch.from_numpy(groups_of(frames)).float() / 127.5 - 1
    with torch.no_grad():
        merged, levels = encode_pictures(visual, pixels)
        expected = visual(pixels.flatten(0, 2), grid_thw=torch.tensor([[3, 6, 10]]))
    torch.testing.assert_close(merged, expected.pooler_output, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(levels[0], expected.deepstack_features[0], atol=1e-5, rtol=1e-4)


def test_pictures_of_several_sizes_keep_their_order(visual: torch.nn.Module) -> None:
    grid = torch.tensor([[1, 6, 10], [2, 4, 8], [1, 6, 10], [1, 10, 6]])
    pixels = torch.rand(int(grid.prod(1).sum()), 1536) * 2 - 1
    with torch.no_grad():
        merged, levels = encode_sized_pictures(visual, pixels, grid)
        expected = visual(pixels, grid_thw=grid)
    torch.testing.assert_close(merged, expected.pooler_output, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(levels[0], expected.deepstack_features[0], atol=1e-5, rtol=1e-4)


def test_sums_of_words_become_sums_of_other_words() -> None:
    table = CodeTable(256, checkpoint.build_tokenizer())
    generator = torch.Generator().manual_seed(0)
    before, after = (table.of(torch.randn(3000, 256, generator=generator)) for _ in range(2))
    codes, layer = torch.rand(40, CODES), torch.nn.Linear(CODES, 256)
    with torch.no_grad():
        layer.weight.copy_(before.T)
        layer.bias.copy_(before[3])
        translate(layer, before, after)
        torch.testing.assert_close(layer(codes), (codes @ after) + after[3], atol=2e-3, rtol=1e-3)


def test_whitened_filters_give_faint_outlines_their_share() -> None:
    """Patches of one strong and one faint pattern: both come out within a few times of each other."""
    visual = checkpoint.build_model(checkpoint.build_tokenizer(), 0).model.visual
    rng = torch.Generator().manual_seed(0)
    strong, faint = torch.nn.functional.normalize(torch.randn(2, 1536, generator=rng), dim=1)
    shares = torch.randn(500, 2, generator=rng) * torch.tensor([10.0, 0.3])
    samples = 0.2 + shares @ torch.stack([strong, faint]) + 0.01 * torch.randn(500, 1536, generator=rng)
    whiten(visual, samples)
    patch = visual.patch_embed.proj
    with torch.no_grad():
        out = samples @ patch.weight.flatten(1).T + patch.bias
    assert out.mean(0).abs().max() < 0.01
    spread = out.std(0)
    assert 0.3 < float(spread[1] / spread[0]) <= 1.0


def test_every_stage_starts_from_an_earlier_one() -> None:
    names = [stage.name for stage in STAGES]
    for number, stage in enumerate(STAGES):
        assert {stage.state, stage.model} - {""} <= {*names[:number]}


def test_training_resumes_from_its_last_state(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    assert pocket_runs.resume(tmp_path, model, optimizer) == (0, 0.0)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    pocket_runs.save_state(tmp_path, model, optimizer, 7, 1.5)
    other = torch.nn.Linear(3, 2)
    again = torch.optim.AdamW(other.parameters(), lr=0.1)
    assert pocket_runs.resume(tmp_path, other, again) == (7, 1.5)
    assert torch.equal(other.weight, model.weight)
    assert again.state_dict()["state"][0]["step"] == optimizer.state_dict()["state"][0]["step"]
    assert list(tmp_path.iterdir()) == [tmp_path / "state.pt"]


def test_an_average_lies_between_two_weights(tmp_path: Path) -> None:
    processor = checkpoint.build_processor()
    for seed, name in ((0, "first"), (1, "second")):
        model = checkpoint.build_model(processor.tokenizer, seed).bfloat16()
        checkpoint.save(model, processor, tmp_path / name)
    average(tmp_path / "first", tmp_path / "second", 0.25, tmp_path / "mean")
    files = (tmp_path / name / "model.safetensors" for name in ("first", "second", "mean"))
    first, second, mean = map(load_file, files)
    assert mean.keys() == first.keys()
    record = read_model_record(tmp_path / "mean")
    assert (record.frames, record.pixels, record.planner) == (16, 15_360, None)
    for name, weight in mean.items():
        expected = 0.75 * first[name].double() + 0.25 * second[name].double()
        torch.testing.assert_close(weight.double(), expected, rtol=2**-7, atol=1e-6)  # bf16 has 8 bits


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_words_are_repeated_unchanged(rng: np.random.Generator) -> None:
    request, reply = drills.repeat_line(rng, 9)
    assert request == f"Write it again: {reply}"
    assert len(reply.split()) == 9
    request, reply = drills.repeat_code(rng)
    assert request == f"Write it again:\n{reply}"


def test_the_two_words_after_one_are_those(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = drills.name_item(rng)
        line, _, question = request.partition("\n")
        words = line.split()
        after = question.removeprefix("Write the two words after ").removesuffix(".")
        assert words.count(after) == 1
        at = words.index(after)
        assert reply.split() == words[at + 1 : at + 3]


def test_a_line_is_filled_in_with_the_given_values(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = drills.fill_template(rng)
        *lines, task = request.split("\n")
        values = dict(line.split(": ", 1) for line in lines)
        shown = task.removeprefix("Fill in: ")
        assert set(re.findall(r"<(\w+)>", shown)) == set(values)
        for name, value in values.items():
            shown = shown.replace(f"<{name}>", value)
        assert shown == reply


def test_rows_of_words_need_no_padding(rng: np.random.Generator) -> None:
    encoder = BatchEncoder(checkpoint.build_tokenizer())
    batch = encoder.batch(drills.copying_rows(rng, 6, mixed=0.0))
    # Every word of the drills is one token, or few; rows differ by no more than words of several tokens.
    assert int((batch.exchange >= 0).sum()) > 0.8 * batch.exchange.numel()
    asked = [row.exchanges[0][0] for row in drills.copying_rows(rng, 60, mixed=1.0)]
    kinds = {text.split(":")[0].split("\n")[0] for text in asked}
    assert len(kinds) > 10  # lines to look in and lists to fill from, besides code to write again


def test_a_row_keeps_what_it_sees_and_gets_two_exchanges_more(rng: np.random.Generator) -> None:
    picture = np.zeros((4, 4, 3), dtype=np.uint8)
    row = drills.with_copying(rng, PocketExample([("What is it?", " red")], picture=picture))
    assert row.picture is picture
    assert row.exchanges[0] == ("What is it?", " red")
    assert len(row.exchanges) == 3
    request, reply = row.exchanges[1]
    assert request.endswith(reply)


def test_a_number_is_picked_by_its_letter(rng: np.random.Generator) -> None:
    for _ in range(50):
        request, reply = pick_count(rng)
        if not request.startswith("Pick"):
            continue
        number = re.match(r"Pick (\d)\.", request)
        assert f"\n{reply}. {number[1]}\n" in request
