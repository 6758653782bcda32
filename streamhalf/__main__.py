"""`python -m streamhalf`."""

import sys

from streamhalf.cli import main

if __name__ == "__main__":
    sys.exit(main())
