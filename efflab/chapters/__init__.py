"""One folder a chapter: checks.py, mistakes.py, figures.py."""
