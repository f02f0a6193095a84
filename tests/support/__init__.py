"""What the tests share: small worlds, fakes, references. No test file imports another."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
