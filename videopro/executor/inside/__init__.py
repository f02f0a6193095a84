"""The inner side of the sandbox: the zygote, its locked children, and the wire to the host.

The zygote imports it as a top-level package with only the standard library: it must not import `videopro`.
The host imports only `allowed`, `confinement` (for the names of machines) and `wire`.
"""
