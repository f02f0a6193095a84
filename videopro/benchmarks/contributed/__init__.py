"""Benchmarks in one file each, written like your own would be: copy the most similar one.

They import only from `videopro.benchmarks`, and are found by their file names.
"""
