"""What one part of the package hands another: claims, certificates, counterexamples, bounds, transcripts.

Each is a frozen value that checks itself when it is made, prints itself, and goes to JSON and back exactly.
Numbers that matter carry their unit and their source, and exact numbers stay exact.
"""

from __future__ import annotations

from separatrix.evidence.bounds import EXCHANGED_BITS, ONE_WAY_BITS, Bound, Via
from separatrix.evidence.breaking import Attempt, Breaking
from separatrix.evidence.certificates import Certificate, Claim, Counterexample, Relation, Verdict
from separatrix.evidence.coverage import Case, Coverage
from separatrix.evidence.decoding import Decoded
from separatrix.evidence.exact import Interval
from separatrix.evidence.specs import InputsCovered, TaskSpec
from separatrix.evidence.transcripts import Comparison, Message, Party, Transcript

__all__ = [
    "EXCHANGED_BITS",
    "ONE_WAY_BITS",
    "Attempt",
    "Bound",
    "Breaking",
    "Case",
    "Certificate",
    "Claim",
    "Comparison",
    "Counterexample",
    "Coverage",
    "Decoded",
    "InputsCovered",
    "Interval",
    "Message",
    "Party",
    "Relation",
    "TaskSpec",
    "Transcript",
    "Verdict",
    "Via",
]
