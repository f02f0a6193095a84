"""Draws the pocket world's frames: places, weather, actors that move, signs.

Everything is made of numpy arrays and Pillow drawing; no picture is loaded.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from videopro.pocket.vocabulary import COLORS

WIDTH, HEIGHT = 320, 192
FPS = 4
HORIZON = 116
# Incremented with every change to the look of frames; part of the world's fingerprint.
LOOKS = 2

Color = tuple[int, int, int]
Pen = ImageDraw.ImageDraw
Draws = np.random.Generator

# place: (sky, ground, kind of scenery, its colour, how many of it)
_PLACES: dict[str, tuple[Color, Color, str, Color, int]] = {
    "beach": ((168, 206, 226), (226, 208, 160), "waves", (96, 150, 178), 3),
    "forest": ((188, 208, 188), (92, 120, 84), "trees", (58, 88, 56), 13),
    "desert": ((232, 212, 176), (206, 172, 118), "dunes", (188, 150, 98), 3),
    "harbor": ((180, 196, 208), (84, 118, 140), "boats", (112, 84, 70), 4),
    "market": ((214, 200, 186), (164, 146, 128), "awnings", (176, 108, 98), 6),
    "kitchen": ((222, 222, 214), (170, 164, 156), "tiles", (192, 196, 198), 12),
    "garden": ((196, 216, 206), (122, 156, 98), "flowers", (196, 140, 168), 26),
    "station": ((176, 178, 186), (110, 108, 112), "rails", (70, 66, 66), 7),
    "castle": ((178, 184, 204), (120, 138, 104), "battlements", (132, 128, 126), 4),
    "bridge": ((186, 206, 214), (104, 138, 152), "arches", (152, 136, 122), 4),
    "cave": ((70, 64, 66), (92, 82, 78), "stalactites", (48, 44, 46), 11),
    "farm": ((196, 210, 220), (166, 158, 92), "furrows", (128, 112, 62), 9),
    "school": ((206, 204, 190), (138, 140, 136), "windows", (148, 96, 84), 5),
    "library": ((156, 132, 108), (112, 88, 70), "shelves", (92, 66, 50), 5),
    "temple": ((224, 216, 204), (186, 176, 158), "columns", (206, 198, 184), 6),
    "stadium": ((176, 190, 206), (150, 92, 76), "lanes", (214, 206, 196), 5),
    "mountain": ((184, 200, 222), (124, 128, 132), "peaks", (146, 148, 158), 3),
    "lake": ((170, 198, 204), (76, 126, 142), "ripples", (128, 172, 182), 8),
    "factory": ((164, 160, 158), (104, 102, 100), "chimneys", (128, 100, 92), 4),
    "street": ((190, 190, 196), (98, 98, 102), "houses", (150, 130, 120), 5),
}


def background(place: str, seed: int) -> np.ndarray:
    """The scenery of one scene: (HEIGHT, WIDTH, 3) uint8. The same place looks slightly different for each
    seed."""
    sky, ground, kind, color, many = _PLACES[place]
    rng = np.random.default_rng(seed)
    shift = rng.integers(-8, 9, 3)
    picture = Image.new("RGB", (WIDTH, HEIGHT), _moved(sky, shift))
    pen = ImageDraw.Draw(picture)
    horizon = HORIZON + int(rng.integers(-6, 7))
    pen.rectangle((0, horizon, WIDTH, HEIGHT), fill=_moved(ground, shift))
    _SCENERY[kind](pen, rng, horizon, _moved(color, shift), many)
    return np.asarray(picture)


def _moved(color: Color, shift: np.ndarray) -> Color:
    red, green, blue = (int(np.clip(c + s, 0, 255)) for c, s in zip(color, shift, strict=True))
    return red, green, blue


def _spread(rng: np.random.Generator, many: int) -> list[float]:
    """`many` positions from left to right, unevenly spaced."""
    step = WIDTH / many
    return [(i + 0.5 + float(rng.uniform(-0.25, 0.25))) * step for i in range(many)]


def _waves(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    phase = float(rng.uniform(0, 6))
    pen.rectangle((0, horizon - 18, WIDTH, horizon + 12), fill=color)
    for row in range(many):
        points = [
            (x, horizon + 12 + 3 * row + 5 * math.sin(x / 22 + phase + row)) for x in range(0, WIDTH + 8, 8)
        ]
        pen.line(points, fill=(236, 240, 240), width=2)


def _trees(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for x in _spread(rng, many):
        top = horizon - float(rng.uniform(46, 92))
        pen.polygon([(x - 17, horizon + 8), (x + 17, horizon + 8), (x, top)], fill=color)


def _dunes(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for row in range(many):
        phase = float(rng.uniform(0, 6))
        points = [(x, horizon + 22 * row + 14 * math.sin(x / 44 + phase)) for x in range(0, WIDTH + 8, 8)]
        shade = _moved(color, np.full(3, -14 * row))
        pen.polygon([*points, (WIDTH, horizon + 22 * row + 20), (0, horizon + 22 * row + 20)], fill=shade)


def _boats(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for x in _spread(rng, many):
        y = horizon + float(rng.uniform(2, 14))
        pen.polygon([(x - 26, y), (x + 26, y), (x + 16, y + 12), (x - 16, y + 12)], fill=color)
        pen.line([(x, y), (x, y - 48)], fill=color, width=3)


def _awnings(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    step = WIDTH / many
    for i in range(many):
        fill = color if i % 2 else (222, 214, 204)
        pen.polygon(
            [(i * step, 30), ((i + 1) * step, 30), ((i + 1) * step + 6, 58), (i * step - 6, 58)], fill=fill
        )
    pen.rectangle((0, horizon - 14, WIDTH, horizon), fill=(136, 108, 84))


def _tiles(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    step = WIDTH / many
    for i in range(many + 1):
        pen.line([(i * step, 0), (i * step, horizon)], fill=color, width=3)
    for y in range(0, horizon, int(step)):
        pen.line([(0, y), (WIDTH, y)], fill=color, width=3)
    pen.rectangle((0, horizon - 6, WIDTH, horizon + 8), fill=(120, 104, 92))


def _flowers(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for _ in range(many):
        x, y = float(rng.uniform(0, WIDTH)), float(rng.uniform(horizon + 6, HEIGHT))
        pen.ellipse((x - 5, y - 5, x + 5, y + 5), fill=color)
    pen.rectangle((0, horizon - 16, WIDTH, horizon), fill=(104, 140, 92))


def _rails(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, 0, WIDTH, 34), fill=(92, 94, 102))
    for y in (horizon + 22, horizon + 50):
        pen.line([(0, y), (WIDTH, y)], fill=color, width=5)
    for x in _spread(rng, many):
        pen.line([(x, horizon + 16), (x - 8, horizon + 58)], fill=color, width=5)


def _battlements(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, horizon - 40, WIDTH, horizon), fill=color)
    for left in range(0, WIDTH, 20):
        pen.rectangle((left, horizon - 52, left + 10, horizon - 40), fill=color)
    for x in _spread(rng, many)[:: many - 1]:
        pen.rectangle((x - 18, horizon - 90, x + 18, horizon), fill=_moved(color, np.full(3, -18)))


def _arches(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, horizon - 44, WIDTH, horizon + 10), fill=color)
    for x in _spread(rng, many):
        pen.ellipse((x - 28, horizon - 28, x + 28, horizon + 48), fill=(118, 150, 162))


def _stalactites(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for x in _spread(rng, many):
        pen.polygon([(x - 16, 0), (x + 16, 0), (x, float(rng.uniform(34, 84)))], fill=color)


def _furrows(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for i in range(many):
        pen.line(
            [(WIDTH * (i + 0.5) / many, horizon), (WIDTH * (3 * i / many - 1), HEIGHT)], fill=color, width=5
        )
    x = float(rng.uniform(40, 280))
    pen.rectangle((x - 26, horizon - 42, x + 26, horizon), fill=(150, 84, 74))
    pen.polygon([(x - 32, horizon - 42), (x + 32, horizon - 42), (x, horizon - 66)], fill=(110, 62, 56))


def _windows(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, 26, WIDTH, horizon), fill=color)
    for x in _spread(rng, many):
        for y in (38, 76):
            pen.rectangle((x - 16, y, x + 16, y + 26), fill=(206, 216, 220))


def _shelves(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    step = (horizon + 10) / many
    for row in range(many):
        y = row * step
        for x in range(0, WIDTH, 9):
            shade = _moved((146, 118, 96), rng.integers(-26, 27, 3))
            pen.rectangle((x, y + 4, x + 7, y + step - 4), fill=shade)
        pen.rectangle((0, y + step - 4, WIDTH, y + step), fill=color)


def _columns(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.polygon([(0, 36), (WIDTH, 36), (WIDTH / 2, 2)], fill=_moved(color, np.full(3, -26)))
    for x in _spread(rng, many):
        pen.rectangle((x - 11, 36, x + 11, horizon + 6), fill=_moved(color, np.full(3, -40)))
        pen.rectangle((x - 7, 36, x + 1, horizon + 6), fill=color)


def _lanes(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, horizon - 34, WIDTH, horizon), fill=(118, 126, 142))
    for _ in range(90):
        x, y = float(rng.uniform(0, WIDTH)), float(rng.uniform(horizon - 32, horizon - 4))
        pen.ellipse((x - 2, y - 2, x + 2, y + 2), fill=_moved((160, 150, 146), rng.integers(-40, 41, 3)))
    for i in range(many):
        y = horizon + (HEIGHT - horizon) * i / many
        pen.line([(0, y), (WIDTH, y)], fill=color, width=3)


def _peaks(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    for x in _spread(rng, many):
        top = horizon - float(rng.uniform(70, 104))
        pen.polygon([(x - 78, horizon), (x + 78, horizon), (x, top)], fill=color)
        pen.polygon([(x - 18, top + 22), (x + 18, top + 22), (x, top)], fill=(236, 238, 242))


def _ripples(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, horizon - 12, WIDTH, horizon), fill=(88, 116, 96))
    for _ in range(many * 4):
        x, y = float(rng.uniform(0, WIDTH)), float(rng.uniform(horizon + 6, HEIGHT))
        pen.line([(x - 16, y), (x + 16, y)], fill=color, width=2)


def _chimneys(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    pen.rectangle((0, horizon - 30, WIDTH, horizon), fill=color)
    for x in _spread(rng, many):
        pen.rectangle((x - 8, horizon - 92, x + 8, horizon), fill=_moved(color, np.full(3, -20)))
        pen.ellipse((x - 16, horizon - 112, x + 20, horizon - 90), fill=(188, 186, 186))


def _houses(pen: Pen, rng: Draws, horizon: int, color: Color, many: int) -> None:
    step = WIDTH / many
    for i in range(many):
        top = horizon - float(rng.uniform(44, 84))
        shade = _moved(color, rng.integers(-24, 25, 3))
        pen.rectangle((i * step + 2, top, (i + 1) * step - 2, horizon), fill=shade)
        pen.polygon(
            [(i * step, top), ((i + 1) * step, top), ((i + 0.5) * step, top - 18)], fill=(112, 76, 68)
        )
    for x in range(0, WIDTH, 48):
        pen.rectangle((x, horizon + 36, x + 26, horizon + 40), fill=(206, 204, 190))


_SCENERY = {
    "waves": _waves, "trees": _trees, "dunes": _dunes, "boats": _boats, "awnings": _awnings, "tiles": _tiles,
    "flowers": _flowers, "rails": _rails, "battlements": _battlements, "arches": _arches,
    "stalactites": _stalactites, "furrows": _furrows, "windows": _windows, "shelves": _shelves,
    "columns": _columns, "lanes": _lanes, "peaks": _peaks, "ripples": _ripples, "chimneys": _chimneys,
    "houses": _houses,
}  # fmt: skip


@lru_cache(maxsize=512)
def sprite(shape: str, color: str, size: int) -> np.ndarray:
    """An actor, (size, size, 4) uint8 RGBA: filled, with a dark (or, on black, light) outline."""
    # Drawn four times as large and averaged down: Pillow's own outlines are not smoothed.
    big = 4 * size
    picture = Image.new("RGBA", (big, big), (0, 0, 0, 0))
    pen = ImageDraw.Draw(picture)
    fill = COLORS[color]
    edge = (210, 210, 210) if color == "black" else (20, 20, 20)
    width = max(4, big // 22)
    low, high = width, big - 1 - width
    if shape == "ball":
        pen.ellipse((low, low, high, high), fill=fill, outline=edge, width=width)
    elif shape == "box":
        inset = big * 0.07
        pen.rectangle(
            (low + inset, low + inset, high - inset, high - inset), fill=fill, outline=edge, width=width
        )
    elif shape == "ring":
        pen.ellipse((low, low, high, high), fill=fill, outline=edge, width=width)
        hole = big * 0.27
        pen.ellipse((hole, hole, big - hole, big - hole), fill=(0, 0, 0, 0), outline=edge, width=width)
    else:
        points = [(low + x * (high - low), low + y * (high - low)) for x, y in _outline(shape)]
        pen.polygon(points, fill=fill)
        pen.line([*points, points[0], points[1]], fill=edge, width=width, joint="curve")
    return np.asarray(picture.resize((size, size), Image.Resampling.BOX))


def _outline(shape: str) -> list[tuple[float, float]]:
    """The corners of a shape in a unit square."""
    if shape == "triangle":
        return [(0.5, 0.02), (1.0, 0.95), (0.0, 0.95)]
    if shape == "diamond":
        return [(0.5, 0.0), (0.86, 0.5), (0.5, 1.0), (0.14, 0.5)]
    if shape == "cross":
        a, b = 0.33, 0.67
        return [
            (a, 0),
            (b, 0),
            (b, a),
            (1, a),
            (1, b),
            (b, b),
            (b, 1),
            (a, 1),
            (a, b),
            (0, b),
            (0, a),
            (a, a),
        ]
    if shape == "star":
        radii = [0.52 if i % 2 == 0 else 0.22 for i in range(10)]
        return [
            (0.5 + r * math.sin(math.pi * i / 5), 0.53 - r * math.cos(math.pi * i / 5))
            for i, r in enumerate(radii)
        ]
    if shape == "heart":
        points = []
        for i in range(40):
            t = 2 * math.pi * i / 40
            x = 16 * math.sin(t) ** 3
            y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
            points.append((0.5 + x / 34, 0.46 - y / 32))
        return points
    raise ValueError(f"no such shape: {shape}")


@lru_cache(maxsize=64)
def sign_board(word: str) -> np.ndarray:
    """A small white board with a word, (h, w, 3) uint8, about 24 pixels high; letters stand apart for OCR."""
    font = ImageFont.load_default(size=17)
    widths = [font.getlength(letter) + 1.5 for letter in word]
    _, top, _, bottom = font.getbbox(word)
    board = Image.new("RGB", (round(sum(widths)) + 12, int(bottom - top) + 12), (244, 244, 236))
    pen = ImageDraw.Draw(board)
    pen.rectangle((0, 0, board.width - 1, board.height - 1), outline=(60, 60, 60), width=1)
    for number, letter in enumerate(word):
        pen.text((6 + sum(widths[:number]), 6 - top), letter, fill=(10, 10, 10), font=font)
    return np.asarray(board)


@dataclass(frozen=True)
class Actor:
    """The actor of a scene: centre and path in pixels, size in pixels, phase and pace of the movement."""

    shape: str
    color: str
    move: str
    size: int
    x: float
    y: float
    phase: float
    pace: float  # cycles a second

    def at(self, time: float) -> tuple[float, float, int]:
        """Centre (x, y) and size in pixels, `time` seconds into the scene."""
        turn = 2 * math.pi * (self.pace * time + self.phase)
        if self.move == "slides":
            return self.x + 92 * math.asin(math.sin(turn)) * 2 / math.pi, self.y, self.size
        if self.move == "jumps":
            return self.x, self.y + 16 - 62 * abs(math.sin(turn)), self.size
        if self.move == "circles":
            return self.x + 40 * math.cos(turn), self.y + 40 * math.sin(turn), self.size
        if self.move == "pulses":
            return self.x, self.y, round(self.size * (1.0 + 0.4 * math.sin(turn)))
        return self.x, self.y, self.size

    def box(self, time: float) -> tuple[float, float, float, float]:
        """Its bounding box (x0, y0, x1, y1) in pixels at `time`, clipped to the frame."""
        x, y, size = self.at(time)
        left, top = round(x - size / 2), round(y - size / 2)
        columns, rows = (
            np.nonzero(sprite(self.shape, self.color, size)[..., 3].max(0) > 127)[0],
            np.nonzero(sprite(self.shape, self.color, size)[..., 3].max(1) > 127)[0],
        )
        return (
            max(0, left + int(columns[0])),
            max(0, top + int(rows[0])),
            min(WIDTH, left + int(columns[-1]) + 1),
            min(HEIGHT, top + int(rows[-1]) + 1),
        )


@dataclass(frozen=True)
class Sign:
    """A board with a word; x, y are its upper left corner in pixels."""

    word: str
    x: int
    y: int

    def box(self) -> tuple[float, float, float, float]:
        height, width = sign_board(self.word).shape[:2]
        return self.x, self.y, self.x + width, self.y + height


@lru_cache(maxsize=64)
def _drops(weather: str, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels covered by rain or snow, at one of the 16 steps of a loop."""
    # Always the same drops: only their fall tells one step from the next.
    rng = np.random.default_rng(7)
    many, length, lean = (70, 12, -0.35) if weather == "rainy" else (95, 4, 0.0)
    columns, rows, paces = rng.uniform(0, WIDTH, many), rng.uniform(0, HEIGHT, many), rng.integers(1, 4, many)
    fall = rows + paces * step * HEIGHT / 16
    reach = np.arange(length)
    if weather == "rainy":
        y = fall[:, None] + reach
        x = columns[:, None] + lean * (paces[:, None] * step * HEIGHT / 16 % HEIGHT) + lean * reach
    else:
        y = fall[:, None] + (reach // 2)[None]
        x = columns[:, None] + (reach % 2)[None]
    return y.astype(int).ravel() % HEIGHT, x.astype(int).ravel() % WIDTH


@lru_cache(maxsize=8)
def _sky(weather: str) -> tuple[np.ndarray, np.ndarray]:
    """The static part of a weather: colour (H, W, 3) and weight (H, W, 1) of a layer over the scenery."""
    picture = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    pen = ImageDraw.Draw(picture)
    if weather == "sunny":
        for i in range(12):
            angle = math.pi * i / 6
            end = (284 + 40 * math.cos(angle), 30 + 40 * math.sin(angle))
            pen.line([(284, 30), end], fill=(255, 236, 120, 230), width=4)
        pen.ellipse((264, 10, 304, 50), fill=(255, 228, 84, 255))
    elif weather in ("cloudy", "rainy", "snowy"):
        shade = (232, 234, 238, 240) if weather == "cloudy" else (150, 154, 164, 240)
        for x in (20, 96, 176, 252):
            for dx, dy, r in ((0, 4, 16), (22, 0, 20), (46, 5, 15)):
                if weather == "cloudy":
                    pen.ellipse((x + dx - r, 16 + dy - r, x + dx + r, 16 + dy + r), fill=shade)
        if weather != "cloudy":
            pen.rectangle((0, 0, WIDTH, 10), fill=shade)
    elif weather == "foggy":
        for y in range(0, HEIGHT, 26):
            pen.rectangle((0, y, WIDTH, y + 13), fill=(236, 238, 240, 105))
    layer = np.asarray(picture).astype(np.float32)
    return layer[..., :3], layer[..., 3:] / 255


class SceneView:
    """One scene, ready to be drawn at any time within it."""

    def __init__(self, place: str, weather: str, actor: Actor | None, sign: Sign | None, seed: int) -> None:
        self.weather, self.actor = weather, actor
        ground = background(place, seed).astype(np.float32)
        color, weight = _sky(weather)
        # Fog covers everything; other weather is behind the actors.
        self._over = (color, weight) if weather == "foggy" else None
        if self._over is None:
            ground = ground * (1 - weight) + color * weight
        self._ground = ground.astype(np.uint8)
        if sign is not None:
            board = sign_board(sign.word)
            self._ground[sign.y : sign.y + board.shape[0], sign.x : sign.x + board.shape[1]] = board

    def draw(self, time: float, clock: float) -> np.ndarray:
        """The frame `time` seconds into the scene; `clock` (s into the video) moves the weather."""
        frame = self._ground.copy()
        if self.actor is not None:
            x, y, size = self.actor.at(time)
            _paste(
                frame,
                sprite(self.actor.shape, self.actor.color, size),
                round(x - size / 2),
                round(y - size / 2),
            )
        if self.weather in ("rainy", "snowy"):
            rows, columns = _drops(self.weather, round(clock * FPS) % 16)
            frame[rows, columns] = (120, 150, 200) if self.weather == "rainy" else (250, 250, 252)
        if self._over is not None:
            color, weight = self._over
            frame = (frame * (1 - weight) + color * weight).astype(np.uint8)
        return frame


def _paste(frame: np.ndarray, picture: np.ndarray, left: int, top: int) -> None:
    """Paste an RGBA picture onto a frame, clipped to it."""
    x0, y0 = max(0, left), max(0, top)
    x1, y1 = min(WIDTH, left + picture.shape[1]), min(HEIGHT, top + picture.shape[0])
    if x0 >= x1 or y0 >= y1:
        return
    part = picture[y0 - top : y1 - top, x0 - left : x1 - left].astype(np.uint16)
    weight = part[..., 3:]
    under = frame[y0:y1, x0:x1]
    frame[y0:y1, x0:x1] = (part[..., :3] * weight + under * (255 - weight)) // 255
