"""What runs on the far side of the sandbox's wall: the zygote, its locked children, and the wire between.

Imported by the zygote as a package of its own, with nothing but the standard library: it must not know
`videopro`. The host imports `agreed`, `allowed`, `filter`, `plain` and `wire` only.
"""
