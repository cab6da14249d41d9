"""What can go wrong through a user's doing, as few kinds as serve.

Every message is one sentence or two: what was expected, what came, what to do. The command line
prints it and exits with code 2; a library caller may catch `SeparatrixError`, or `ValueError` as usual.
"""

from __future__ import annotations

__all__ = ["InvalidFile", "InvalidInput", "NewerFile", "SeparatrixError", "TooLarge", "UnknownName"]


class SeparatrixError(ValueError):
    """The root of everything this package raises on purpose."""


class InvalidInput(SeparatrixError):
    """A parameter, a text or a tensor that does not describe what it should."""


class InvalidFile(SeparatrixError):
    """A file that is missing, truncated, hostile or of another kind."""


class NewerFile(InvalidFile):
    """A file of a version that is not known here yet: of use to whoever upgrades, so it is left alone."""


class UnknownName(SeparatrixError):
    """A name that no registry knows; the message lists the near ones."""


class TooLarge(SeparatrixError):
    """A request whose answer would not fit in memory or in a lifetime."""
