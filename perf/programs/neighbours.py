"""Hostile programs that look for each other, that wear the host out with small messages, or that end in every
way there is."""

from __future__ import annotations

import random

from perf.programs.families import WAYS, family, program
from perf.programs.forgeries import _FORGE

FOUND = "a channel is open"
"""What a program prints that found what another one left. Its source says it otherwise."""
_TELL = "print('a channel', 'is open')"
_REACH = "import enum\nm = enum.sys.modules\nos = m['os']\n"


@family("channels between programs")
def _channels(chance: random.Random) -> str:
    """Look for the mark, then leave it: a later or concurrent program may find it."""
    act = chance.choice(
        (
            "import math\nif hasattr(math, 'mark'): {}\nmath.mark = 1",
            "if 'MARK' in os.environ: {}\nos.environ['MARK'] = '1'",
            "if 'mark' in m: {}\nm['mark'] = 1",
            "b = m['builtins']\nif hasattr(b, 'mark'): {}\nb.mark = 1",
            "c = m['inside.child']\nif getattr(c, 'ENTRY', '') == 'mark': {}\nc.ENTRY = 'mark'",
            "import random\nif random.random() != 0.8444218515250481: {}\nrandom.seed(7)",
            "import re\nif re.purge is None: {}\nre.purge = None",
            "import collections\nif 'mark' in vars(collections): {}\ncollections.mark = 1",
            "import decimal\nif decimal.getcontext().prec == 3: {}\ndecimal.getcontext().prec = 3",
            "import json\nif json.dumps(1) != '1': {}\njson.dumps = str.upper",
            "import logging\nif logging.root.handlers: {}\nlogging.basicConfig()",
            "import warnings as w\nif 'mark' in str(w.filters): {}\nw.filterwarnings('ignore', 'mark')",
            "for o in m['gc'].get_objects():\n    for x in m['gc'].get_referents(o):\n"
            "        try: v = memoryview(x).cast('B')\n        except (TypeError, ValueError): continue\n"
            "        if v.readonly or len(v) < 4: continue\n"
            "        if bytes(v[:4]) == b'mark': {}; break\n        v[:4] = b'mark'",
            "c = m['ctypes'].CDLL(None)\nif c.shmget(47, 4096, 0o666) >= 0: {}\nc.shmget(47, 4096, 0o1666)",
            "f = '/tmp/mark'\ntry:\n    os.open(f, 66, 0o666); {}\nexcept OSError: pass",
            "s = m['signal']\ns.pthread_sigmask(0, range(34, 65))\n"
            "for n in range(99):\n    try: s.raise_signal(40); {}\n    except OSError: pass",
            "x = m['mmap']\nfor k in list(vars(m['inside.child']).values()):\n    if type(k) is x.mmap: {}",
            "try: m['mmap'].mmap(-1, 4096); {}\nexcept PermissionError: pass",
            "try: os.write(chr and 4, b'mark'); {}\nexcept OSError: pass",
        )
    )
    return program(*act.format(_TELL).split("\n"), head=_REACH)


@family("floods of small frames")
def _floods(chance: random.Random) -> str:
    kind = chance.choice("ocdeywvsrx")
    body = chance.choice((b"", b'""', b'"x"', b"0", b"[]", b"null", b"{}"))
    message = kind.encode() + len(body).to_bytes(4, "big") + body
    act = chance.choice(
        (
            f"while True: _os.write(3, {message!r})",
            f"data = {message!r} * {chance.choice((10, 1000, 8000))}\nwhile True: _os.write(3, data)",
            f"for n in range(300): _os.write(3, {message!r})",
            f"_os.write(3, b'd' + bytes([0, 9, 0, 0]))\nwhile True: _os.write(3, {body or b' '!r})",
            f"import time\nwhile True: _os.write(3, {message!r}); time.sleep(0.01)",
            f"try:\n    while True: query_mc([], '', [])\nexcept BaseException:\n"
            f"    while True: _os.write(3, {message!r})",
            "print('x' * 70000)" if chance.random() < 0.3 else "while True: _os.write(3, b'S')",
        )
    )
    return program(*act.split("\n"), head=_FORGE)


@family("signals of every number")
def _signals(chance: random.Random) -> str:
    number = chance.randint(1, 64)
    way = chance.choice(
        (
            f"s.raise_signal({number})",
            f"s.pthread_kill(m['_thread'].get_ident(), {number})",
            f"m['ctypes'].CDLL(None).syscall(234, os.getpid(), os.getpid(), {number})",
            f"s.signal({number}, s.SIG_DFL); s.raise_signal({number})",
            f"s.signal({number}, lambda *a: 1 / 0); s.raise_signal({number})",
            f"s.pthread_sigmask(0, range(1, 65)); s.raise_signal({number})",
            f"os._exit({chance.randrange(256)})",
        )
    )
    after = chance.choice(("pass", "while True: pass", "run_ocr(1)"))
    return program("s = m['signal']", way, after, head=_REACH)


@family("breaches that are swallowed")
def _breaches(chance: random.Random) -> str:
    act = chance.choice(
        (
            "while True: pass",
            "print('x' * 10 ** 6)",
            "for n in range(999): query_native(video, question, [])",
            "extract_frames(video, 10 ** 6)",
        )
    )
    way = chance.choice(
        (
            "try: {}\nexcept: pass",
            "import contextlib\nwith contextlib.suppress(BaseException):\n    {}",
            "def f():\n    try:\n        {}\n    finally: return 1\nf()",
            "try: {}\nexcept BaseException: raise ValueError('mine')",
        )
    )
    text = act if "\n    {}" in way or "        {}" in way else f"\n    {act}"
    return program(*way.replace("{}", text).split("\n"), head=chance.choice(WAYS[:2]))
