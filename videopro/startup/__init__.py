"""What happens before anything else is imported: Ctrl-C has its line, caches have folders, and messages of
other libraries that mean nothing to a user are hidden. Standard library only."""

from videopro.startup.starting import importing, working  # First: Ctrl-C has its line from here on.

# isort: split
from videopro.startup import library_messages as library_messages
from videopro.startup.parent import exit_with_parent
from videopro.startup.user_folders import private_temporary_folder, provide_folders

__all__ = ["exit_with_parent", "importing", "private_temporary_folder", "provide_folders", "working"]
