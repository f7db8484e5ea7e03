"""Replaces this process by the program: the entry point `plimsoll`, and `python -m plimsoll_train`."""

from __future__ import annotations

import os
import sys

from ._program import program_path


def main() -> None:
    """Runs the program with the arguments of this process. Does not return."""
    program = program_path()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
