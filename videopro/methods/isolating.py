"""Questions that end in an exception which nobody foresaw cost themselves alone."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from videopro.benchmarks import Item
from videopro.errors import NativeError, UnexpectedError, VideoProError
from videopro.methods.base import Method, MethodContext
from videopro.traces import Result, failed_result
from videopro.unexpected import as_unexpected, is_machines


def answer_each(
    method: Method, items: Sequence[Item], new_context: Callable[[], MethodContext]
) -> Iterator[tuple[Item, Result]]:
    """As `Method.run_video`, with a result for every question: after an exception that nobody foresaw the
    questions that are left are asked one by one, and those that end in one have it in their result.

    `new_context`: makes a context of the questions' video. Raises VideoProError for what concerns the whole
    run, and the machine's errors.
    """
    left, context = list(items), new_context()
    try:
        for item, result in method.run_video(items, context):
            left.remove(item)
            yield item, result
        return
    except VideoProError:
        raise
    except Exception as error:
        if is_machines(error):
            raise
        # One that met several questions together, or came after the last answer, is in no question's record.
        print(f"an unexpected exception; questions without an answer yet: {len(left)}", file=sys.stderr)
        traceback.print_exc()
        if len(left) == 1:
            kind = UnexpectedError if method.makes_requests else NativeError
            result = failed_result(as_unexpected(error, kind))
            yield left[0], replace(result, cost=context.meter.take())
            return
    for item in left:
        yield from answer_each(method, [item], new_context)
