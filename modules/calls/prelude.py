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
    """Crops itself, as a picture does."""

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


class Answer(Handle):
    """Unpacks as (answer, confidence), indexes as a mapping, compares with texts (and numbers, if it counts),
    and reads as its answer."""

    def __iter__(self):
        return iter((self.answer, self.confidence))

    def __len__(self):
        return 2

    def __getitem__(self, key):
        if not isinstance(key, str):
            return (self.answer, self.confidence)[key]
        if key not in ("answer", "confidence", "raw_output", "metadata"):
            raise KeyError(key)
        return {
            "answer": self.answer,
            "confidence": self.confidence,
            "raw_output": self.raw_output,
            "metadata": self.metadata,
        }[key]

    def keys(self):
        return ["answer", "confidence", "raw_output", "metadata"]

    def values(self):
        return [self[key] for key in self.keys()]

    def items(self):
        return [(key, self[key]) for key in self.keys()]

    def get(self, key, default=None):
        return self[key] if key in self.keys() else default

    def copy(self):
        return dict(self.items())

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
        if self.mode == "count" and self.answer:
            return format(int(self.answer), form)
        return format(self.answer, form)

    def __int__(self):
        return int(self.answer)

    def __float__(self):
        return float(self.answer)

    def __index__(self):
        if self.mode != "count":
            raise TypeError("an answer is no number; only query_count gives one")
        return int(self.answer)

    def _number(self, other):
        if self.mode != "count" or not isinstance(other, (int, float, Answer)):
            return None
        if self.answer == "":
            raise ValueError("query_count gave no number: the reply could not be read")
        return int(self.answer), other if isinstance(other, (int, float)) else int(other)

    def __lt__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] < pair[1]

    def __le__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] <= pair[1]

    def __gt__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] > pair[1]

    def __ge__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] >= pair[1]

    def __add__(self, other):
        if isinstance(other, str):
            return self.answer + other
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] + pair[1]

    def __radd__(self, other):
        if isinstance(other, str):
            return other + self.answer
        pair = self._number(other)
        return NotImplemented if pair is None else pair[1] + pair[0]

    def __sub__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[0] - pair[1]

    def __rsub__(self, other):
        pair = self._number(other)
        return NotImplemented if pair is None else pair[1] - pair[0]

    # As a text, for programs that treat a reply as one.
    def lower(self):
        return self.answer.lower()

    def upper(self):
        return self.answer.upper()

    def strip(self, characters=None):
        return self.answer.strip(characters)

    def split(self, separator=None, most=-1):
        return self.answer.split(separator, most)

    def startswith(self, start):
        return self.answer.startswith(start)

    def endswith(self, end):
        return self.answer.endswith(end)

    def replace(self, old, new):
        return self.answer.replace(old, new)
'''
