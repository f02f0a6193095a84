"""Benchmarks that are one file each, written as one's own would be: copy the one that is most like yours.

They import from `videopro.benchmarks` alone, and are found by the names of their files.
"""
