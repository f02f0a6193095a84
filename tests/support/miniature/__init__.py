"""The miniature: what a researcher has before `videopro reproduce` runs, made small enough for two cores.

Videos with speech, signs, subtitles and cuts, in the official formats of five benchmarks; a hub's cache with
every class of model; a teacher behind HTTP. Nothing in the package knows of it: the road that is walked on it
is that of the config `paper`, with other numbers (configs/reproduce/miniature.yaml).
"""
