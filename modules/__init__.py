"""The video modules that programs call."""

# The folder stands at the top of the checkout, and is the package videopro.modules: one name for each module.
if __name__ != "videopro.modules":
    raise ImportError(f"{__name__!r} is not importable: import 'videopro.modules'")
