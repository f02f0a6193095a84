"""The miniature: what a researcher has before `videopro reproduce` runs, made small enough for two cores.

Videos with speech, signs, subtitles and cuts, in the files that the manifest lists for five benchmarks; a
hub's cache with every class of model; a teacher behind HTTP. Nothing in the package knows of it: the road on
it is that of the config `paper`, with the differences that tests/launch/test_miniature.py lists.
"""
