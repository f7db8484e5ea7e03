"""Finds the program `plimsoll`, which this package runs."""

from __future__ import annotations

import os
import shutil

__version__ = "0.1.0"


def program_path() -> str:
    """Returns the path of the program: that of PLIMSOLL_PROGRAM, the one in this package, or the one on PATH."""
    named = os.environ.get("PLIMSOLL_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"PLIMSOLL_PROGRAM={named}: this is no program that can be run; correct the variable")
        return named
    packaged = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "plimsoll")
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which("plimsoll")
    if found is None:
        raise FileNotFoundError(
            "the program plimsoll is neither in the package nor on PATH; install a wheel that contains it, or set "
            "PLIMSOLL_PROGRAM to its path")
    return found
