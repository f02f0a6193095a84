"""Whether a program could tell a replay from its run: what may be written in one that cannot.

A replay gives a program the same values as its run, so a program that computes with these alone cannot know
which of the two it is in. One that could know, by a clock, by chance or by what lies outside it, might answer
a constant in its run and, in a replay, let its letter depend on its calls. So only programs of plain syntax,
plain builtins and the attributes and modules below are replayed; the letter of any other one is a guess. It
is a list of what may be written, since there is always another way to what may not.
"""

from __future__ import annotations

import ast
import builtins
import collections
import re
from collections.abc import Iterator

from videopro.executor import REPLY, parse_python
from videopro.modules.calls import AnswerHandle, BoxHandle, FrameHandle, LineHandle, TrackHandle, VideoHandle

# Without classes, `with`, anything asynchronous, and class patterns, which read attributes by any name.
_SYNTAX = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Lambda, ast.Return, ast.Yield, ast.YieldFrom),
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Delete, ast.Global, ast.Nonlocal),
    *(ast.Expr, ast.If, ast.For, ast.While, ast.Break, ast.Continue, ast.Pass, ast.Assert, ast.Raise),
    *(ast.Try, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.alias, ast.Match, ast.match_case),
    *(ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping, ast.MatchStar, ast.MatchAs),
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Starred, ast.Call, ast.keyword),
    *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue),
    *(ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.MatchOr, ast.comprehension, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
# Without `id` and `hash`, which give addresses, and what reaches names that are not written down.
_BUILTINS = frozenset(
    (
        *("abs", "all", "any", "ascii", "bin", "bool", "callable", "chr", "dict", "divmod", "enumerate"),
        *("filter", "float", "format", "frozenset", "hex", "int", "isinstance", "iter", "len", "list", "map"),
        *("max", "min", "next", "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set"),
        *("slice", "sorted", "str", "sum", "tuple", "zip"),
        *(name for name, value in vars(builtins).items() if Exception in getattr(value, "__mro__", ())),
    )
)
_BY_NAME = ("getattr", "hasattr")
_MODULES = {
    "__future__": "annotations",
    "bisect": "bisect bisect_left bisect_right insort",
    "collections": "Counter OrderedDict defaultdict deque",
    "collections.abc": "Callable Iterable Iterator Mapping Sequence",
    "copy": "copy deepcopy",
    "datetime": "timedelta",
    "decimal": "Decimal",
    "difflib": "SequenceMatcher get_close_matches",
    "fractions": "Fraction",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush nlargest nsmallest",
    "itertools": "accumulate chain combinations count cycle dropwhile from_iterable groupby islice pairwise "
    "permutations product repeat starmap takewhile zip_longest",
    "json": "dumps loads",
    "math": "ceil dist exp fabs floor fmod fsum gcd hypot inf isclose isfinite isinf isnan log log10 log2 "
    "nan pi pow prod sqrt trunc",
    "operator": "itemgetter",
    "re": "I IGNORECASE M MULTILINE S DOTALL compile escape findall finditer fullmatch match search sub",
    "statistics": "fmean mean median median_high median_low mode multimode pstdev pvariance stdev variance",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits punctuation whitespace",
    "typing": "Any Callable Dict Iterable Iterator List Mapping Optional Sequence Set Tuple Union",
    "unicodedata": "normalize",
}
"""What may be imported, and what of it may be used."""
_VALUES = (str, list, dict, set, int, float, collections.Counter, collections.deque, re.Match)
_HANDLES = (AnswerHandle, BoxHandle, FrameHandle, LineHandle, TrackHandle, VideoHandle)
_ATTRIBUTES = frozenset(
    (
        *(name for kind in _VALUES for name in dir(kind) if name[0] != "_" and not name.startswith("format")),
        *(name for handle in _HANDLES for name in handle.__program_fields__),
        *(name for names in _MODULES.values() for name in names.split()),
        *("crop", "args", "ratio", "total_seconds"),  # Of frames, exceptions, `difflib` and `datetime`.
    )
)
# "{0.attribute}": a field that reads an attribute.
_READING_FIELD = re.compile(r"\{[^{}:!]*\.")


def tells_replays(code: str) -> str:
    """What in a program could tell a replay from its run; "" if nothing. `code`: a program that ran."""
    try:
        nodes = list(_nodes(parse_python(code, REPLY)))
    except (SyntaxError, ValueError, MemoryError, RecursionError, SystemError):
        # It compiled in its own process, and its tree is still too deep for this one: nothing is known of it.
        return "syntax that cannot be read"
    # getattr(clip, "start", 0) names what it reads.
    plain = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _names_its_attribute(node)}
    return next((found for node in nodes if id(node) not in plain and (found := _telling(node))), "")


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree without annotations, which stay text (`videopro.executor.inside.child`)."""
    yield tree
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                yield from _nodes(child)


def _telling(node: ast.AST) -> str:
    """What of one node may not be written in a program that is replayed."""
    if isinstance(node, ast.Import):
        return next((alias.name for alias in node.names if alias.name not in _MODULES), "")
    if isinstance(node, ast.ImportFrom):
        names = _MODULES.get(node.module or "", "").split()
        return next((f"{node.module}.{alias.name}" for alias in node.names if alias.name not in names), "")
    if isinstance(node, ast.Name):
        is_plain = node.id in _BUILTINS or not (hasattr(builtins, node.id) or node.id.startswith("__"))
        return "" if is_plain else node.id
    if isinstance(node, ast.Attribute):
        return "" if node.attr in _ATTRIBUTES or _is_plain_format(node) else f".{node.attr}"
    return "" if isinstance(node, _SYNTAX) else type(node).__name__


def _is_plain_format(node: ast.Attribute) -> bool:
    """Whether it is the `format` of a text that is written down and whose fields read no attributes."""
    text = node.value.value if isinstance(node.value, ast.Constant) else None
    return node.attr == "format" and isinstance(text, str) and not _READING_FIELD.search(text)


def _names_its_attribute(call: ast.Call) -> bool:
    if not (isinstance(call.func, ast.Name) and call.func.id in _BY_NAME and len(call.args) > 1):
        return False
    name = call.args[1]
    return isinstance(name, ast.Constant) and name.value in _ATTRIBUTES
