"""The command-line program of the package: `ember`, or `python -m ember`."""

import os
import pathlib
import signal
import subprocess
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the program beside this file."""
    program = pathlib.Path(__file__).resolve().parent / ("ember.exe" if sys.platform == "win32" else "ember")
    if not program.exists():
        sys.exit(f"this package was built without the command-line program: there is no {program}")
    command = [str(program), *sys.argv[1:]]
    if sys.platform != "win32":
        os.execv(program, command)
    # Windows has no exec. Ctrl-C goes to both, and the program decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
