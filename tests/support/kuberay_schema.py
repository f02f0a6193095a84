"""Cuts KubeRay's schemas of RayJob and RayCluster down to what `launch/ray/*.yaml` use.

    python -m tests.support.kuberay_schema CHECKOUT_OF_KUBERAY

Where our files have a field, all names, types, enumerations and required fields beside it are kept, so that
a misspelt one is found; what is below fields that we do not use is left out. Writes kuberay.json.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT

TARGET = Path(__file__).with_name("kuberay.json")
_KINDS = {"RayJob": "rayjobs", "RayCluster": "rayclusters"}
_PATH = "ray-operator/config/crd/bases/ray.io_{}.yaml"
_PLAIN = ("type", "enum", "pattern", "minimum", "maximum")


def documents() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Our manifests."""
    for path in sorted((ROOT / "launch" / "ray").glob("*.yaml")):
        yield path, yaml.safe_load(path.read_text())


def cut(schema: dict[str, Any], used: Sequence[Any]) -> dict[str, Any]:
    """The schema for these values, and for siblings of their fields."""
    kept = {name: schema[name] for name in _PLAIN if name in schema}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if not used:
        return {name: kept[name] for name in ("type",) if name in kept}
    if "properties" in schema:
        kept["required"] = schema.get("required", [])
        kept["properties"] = {
            name: cut(sub, [value[name] for value in used if name in value])
            for name, sub in schema["properties"].items()
        }
        kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        below = [inner for value in used for inner in value.values()]
        kept["additionalProperties"] = cut(schema["additionalProperties"], below)
    elif "items" in schema:
        kept["items"] = cut(schema["items"], [inner for value in used for inner in value])
    return kept


def main(checkout: str) -> None:
    """Write the file."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", checkout, *words], check=True, capture_output=True, text=True
        ).stdout

    ours = [content for _, content in documents()]
    found: dict[str, Any] = {
        "source": {
            "repository": "ray-project/kuberay",
            "license": "Apache-2.0",
            "commit": git("rev-parse", "HEAD").strip(),
            "files": [_PATH.format(name) for name in _KINDS.values()],
            "cut by": "python -m tests.support.kuberay_schema",
        }
    }
    for kind, name in _KINDS.items():
        crd = yaml.safe_load(git("show", f"HEAD:{_PATH.format(name)}"))
        (version,) = [each for each in crd["spec"]["versions"] if each["name"] == "v1"]
        schema = version["schema"]["openAPIV3Schema"]
        # Names and labels: Kubernetes' own.
        schema["properties"]["metadata"] = {"type": "object"}
        found[kind] = cut(schema, [content for content in ours if content["kind"] == kind])
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
