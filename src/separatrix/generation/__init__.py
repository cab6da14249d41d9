"""Models that write: greedy decoding, searches by regular expression, and records of what happened.

The parts are imported from their own files, so that a search needs no torch and decoding needs no RE2.
"""

from __future__ import annotations
