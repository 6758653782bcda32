"""`python -m streamhalf`, and the command `streamhalf`."""

import sys


def main() -> int:
    """Run one command; an interrupt while modules are imported is one line too."""
    try:
        from streamhalf.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("streamhalf: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
