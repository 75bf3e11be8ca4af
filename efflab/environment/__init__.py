"""Make the course's environment in .venv: the work behind ./run setup.

It runs before anything is installed, so it uses the standard library alone and imports nothing else of efflab:

    python3 efflab/environment/__main__.py ready lab|test     exit status 0 when .venv is whole and up to date
    python3 efflab/environment/__main__.py make  lab|test     make it so, showing each step
"""
