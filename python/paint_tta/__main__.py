"""The command `paint`."""

import signal
import sys

from . import _paint


def main() -> None:
    # Python would only note Ctrl-C and look at it when the command is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_paint.main(["paint", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
