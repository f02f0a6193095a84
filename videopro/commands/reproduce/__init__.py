"""videopro reproduce: reproduce the paper's training and tables, from files to a report."""
