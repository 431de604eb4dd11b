"""``python -m podtide``: the command line."""

from podtide.entrypoints.cli import main

if __name__ == "__main__":
    main()
