"""`videopro benchmarks`: list and check benchmarks, grade open answers, write submissions."""
