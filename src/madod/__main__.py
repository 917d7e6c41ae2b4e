"""`python -m madod VERB ...` is `madod VERB ...`, for where the command is not on the path."""

import sys

from madod.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
