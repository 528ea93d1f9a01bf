"""``python -m labkit.cli`` is the ``labkit`` command, too."""

import sys

from labkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
