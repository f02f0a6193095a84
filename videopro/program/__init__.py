"""Parsing of generated programs: mode, canonical form and format faults."""

from videopro.program.parsing import ENTRY, MAX_CHARS, Program, parse_program, planning_text

__all__ = ["ENTRY", "MAX_CHARS", "Program", "parse_program", "planning_text"]
