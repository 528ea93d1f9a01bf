"""``python -m labkit`` is the ``labkit`` command."""

import sys

from labkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
