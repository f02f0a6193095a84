"""The video modules that programs call."""

# The folder is at the top of the checkout and is imported as videopro.modules: each module has one name.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")
