"""What to say of an index's precision, which is part of what the index is known by."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from videopro.modules.models.encoders import AUTO_DTYPE, resolve_dtype


def tell_precision(encoder: Mapping[str, object]) -> None:
    """Say on stderr how runs read indexes of an encoder with this identity, if runs on this machine would
    not read them by themselves."""
    dtype = encoder["dtype"]
    if dtype == resolve_dtype(AUTO_DTYPE):
        return
    print(
        f"runs read indexes in {dtype} with encoder_dtype={dtype} only (videopro infer "
        f"--options encoder_dtype={dtype}, videopro synthesize --encoder-dtype {dtype})",
        file=sys.stderr,
    )
