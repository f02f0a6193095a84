"""How handles behave inside a program: source that the executor runs in the sandboxed process before the
program.

`Handle` is the executor's class for handles; their fields are attributes. Each class here is used for the
handles whose `__program_kind__` is its name. Plain Python without imports.
"""

PRELUDE = '''
class Clip(Handle):
    """Unpacks as (start, end)."""

    def __iter__(self):
        return iter((self.start, self.end))

    def __getitem__(self, index):
        return (self.start, self.end)[index]

    def __len__(self):
        return 2


class Line(Clip):
    """Unpacks as (start, end), reads as its text."""

    def __str__(self):
        return self.text

    def __format__(self, form):
        return format(self.text, form)


class Frame(Handle):
    """Crops itself, as a picture does: `frame.crop(box)`."""

    def crop(self, box):
        return crop(self, box)


class Box(Handle):
    """Unpacks as x0, y0, x1, y1."""

    def __iter__(self):
        return iter((self.x0, self.y0, self.x1, self.y1))

    def __getitem__(self, index):
        if isinstance(index, str):
            return {"box": list(self), "score": self.score, "label": self.label}[index]
        return (self.x0, self.y0, self.x1, self.y1)[index]

    def __len__(self):
        return 4


def _counting(operate):
    """An operation of answers that count, with numbers and with each other."""

    def method(self, other):
        if self.mode != "count" or not isinstance(other, (int, float, Answer)):
            return NotImplemented
        if self.answer == "":
            raise ValueError("query_count gave no number: the reply could not be read")
        return operate(int(self.answer), other if isinstance(other, (int, float)) else int(other))

    return method


class Answer(Handle):
    """Unpacks as (answer, confidence), indexes as a mapping (with `keys`, `values`, `items`, `get` and
    `copy`), compares with texts (and numbers, if it counts), and reads as its answer (with `lower`, `upper`,
    `strip`, `split`, `startswith`, `endswith` and `replace`)."""

    def __iter__(self):
        return iter((self.answer, self.confidence))

    def __len__(self):
        return 2

    def copy(self):
        return {name: getattr(self, name) for name in ("answer", "confidence", "raw_output", "metadata")}

    def __getitem__(self, key):
        return self.copy()[key] if isinstance(key, str) else (self.answer, self.confidence)[key]

    def keys(self):
        return list(self.copy())

    def values(self):
        return list(self.copy().values())

    def items(self):
        return list(self.copy().items())

    def get(self, key, default=None):
        return self.copy().get(key, default)

    def __setitem__(self, key, value):
        raise TypeError("an answer is read-only; change a copy of it: answer.copy()")

    def __contains__(self, item):
        if item in self.keys() or item == self.confidence:
            return True
        # In words one looks for a part, among letters for the whole.
        if isinstance(item, str) and self.mode == "frames":
            return item.lower() in self.answer.lower()
        return self == item

    def __eq__(self, other):
        if isinstance(other, Answer):
            return self.answer == other.answer
        if isinstance(other, str):
            return self.answer.strip().lower() == other.strip().lower()
        if isinstance(other, bool) and self.mode == "yes_no":
            return bool(self) == other
        if isinstance(other, (int, float)) and self.mode == "count":
            return self.answer != "" and int(self.answer) == other
        return NotImplemented

    def __hash__(self):
        return hash(self.answer)

    def __bool__(self):
        if self.mode == "yes_no":
            return self.answer == "Yes"
        return self.answer not in (("", "0") if self.mode == "count" else ("",))

    def __str__(self):
        return self.answer

    def __format__(self, form):
        return format(int(self) if self.mode == "count" and self.answer else self.answer, form)

    def __int__(self):
        return int(self.answer)

    def __float__(self):
        return float(self.answer)

    def __index__(self):
        if self.mode != "count":
            raise TypeError("an answer is no number; only query_count gives one")
        return int(self.answer)

    __lt__ = _counting(lambda own, other: own < other)
    __le__ = _counting(lambda own, other: own <= other)
    __gt__ = _counting(lambda own, other: own > other)
    __ge__ = _counting(lambda own, other: own >= other)
    __sub__ = _counting(lambda own, other: own - other)
    __rsub__ = _counting(lambda own, other: other - own)
    _plus = _counting(lambda own, other: own + other)

    def __add__(self, other):
        return self.answer + other if isinstance(other, str) else self._plus(other)

    def __radd__(self, other):
        return other + self.answer if isinstance(other, str) else self._plus(other)

    def __getattr__(self, name):
        # Programs treat a reply as the text that it is.
        if name in ("lower", "upper", "strip", "split", "startswith", "endswith", "replace"):
            return getattr(self.answer, name)
        return super().__getattr__(name)
'''
