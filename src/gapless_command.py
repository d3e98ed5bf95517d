"""Where the ``gapless`` command begins, outside of the package: from here on Ctrl-C ends it with one line, while PyTorch is
being imported (seconds) too."""

import os
import signal
import sys


def main() -> int:
    """Run the command line; its exit status."""
    interruptible = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # as in a shell's background
    if interruptible:
        signal.signal(signal.SIGINT, _stop)
    from gapless.commands import cli

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


def _stop(number, frame):
    # No exception: what is being imported may catch it.
    os.write(2, b"stopped\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
