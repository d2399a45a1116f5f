"""The command line: `wardgate check | compile | serve | schema | explain`."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from sidecar.arguments import build_parser
from sidecar.failure import CommandFailed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; reasons go to standard error, one a line."""
    if arguments is None:
        # The kernel keeps SIGTERM from a container's first process while it has no handler: it must be there before the
        # seconds of imports. `serve` puts its own in place of this one.
        signal.signal(signal.SIGTERM, _leave)
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except CommandFailed as failure:
        print(failure, file=sys.stderr)
        return failure.code
    except BrokenPipeError:  # the reader has seen enough, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
