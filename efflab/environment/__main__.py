"""Entry of ./run: makes this folder importable by itself, without efflab and what efflab needs."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # At the end of the path: efflab's other modules must not stand in for those of the standard library.
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from environment.command import main  # type: ignore[import-not-found]

    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[2]))
