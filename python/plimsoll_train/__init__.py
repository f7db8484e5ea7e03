"""Plimsoll from Python: the program and its path."""

from ._program import __version__, program_path

__all__ = ["__version__", "program_path"]
