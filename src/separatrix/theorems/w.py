"""The results of W, arXiv 2402.18510: what a chain of thought, a search, or one attention layer adds.

Here n is the size of the problem, numbers have p = Θ(log n) bits, and constant size means that neither the
number of parameters nor the dimension of the state depends on n.
"""

from __future__ import annotations

from separatrix.theorems.kinds import Slip, Source, Theorem, bound, witness

__all__ = ["RESULTS"]

_RETRIEVAL = ("index-lookup", "associative-recall", "c-gram", "counting")
_LOG_BITS = "numbers have p = Θ(log n) bits"
_FIXED_EMBEDDINGS = "word and position embeddings are fixed and not counted as parameters"
_STREAM = (
    "the state has o(n) bits; update and readout may be arbitrary functions",
    "any chain of thought is allowed, since what is written depends on the state after the input alone",
)
_REGEX = (
    "a search takes the tokens of the last search span as a pattern and the text before it; the first group "
    "of the first match comes back, or a token that says there is none"
)
_PRINTED_PATTERNS = Slip(
    place="search patterns",
    printed=(
        "Some of the regular expressions skip letters where tokens are meant, or stop at the first blank, or "
        "find a cell's oldest write where its newest counts; and where matching backtracks, two of them can "
        "take exponential time."
    ),
    right="Patterns over whole tokens, each followed by one space, do it, in an engine without backtracking.",
)


def _at(place: str) -> Source:
    return Source(work="W", place=place)


RESULTS = (
    Theorem(
        id="W-4.1",
        statement=(
            "A linear RNN of constant size with a chain of thought runs every Turing machine of space "
            "O(log n) on a tape it keeps in its state, within polynomially many tokens; without a chain of "
            "thought no regular recurrent model of constant size decides all such problems, if "
            "PSPACE ⊄ P/poly."
        ),
        source=_at("Theorem 4.1 and its proof"),
        length="n input tokens; the tape has O(log n) cells",
        assumptions=(_LOG_BITS, "recurrent models are regular: a step is a circuit of poly(log n) gates"),
        owes=(
            witness(
                "O(log n) state bits, poly(n) tokens of chain of thought",
                tasks=("turing",),
                families=("linear-rnn-cot",),
            ),
            bound(
                "more than O(log n) state bits with poly(log n) gates a step",
                tasks=("turing",),
                families=("rnn",),
                via="circuit size",
                status="conditional",
                condition="PSPACE ⊄ P/poly",
            ),
        ),
    ),
    Theorem(
        id="W-4.6",
        statement=(
            "Index, associative recall, c-gram retrieval and counting are done by Transformers of constant "
            "size; no recurrent model with o(n) bits of state does any of them at size n, whatever chain of "
            "thought it writes, once n is large enough."
        ),
        source=_at("Theorem 4.6 and its proof"),
        length="n tokens, then the query",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS, *_STREAM),
        owes=(
            witness("O(1) parameters, p = O(log n)", tasks=_RETRIEVAL, families=("transformer",)),
            bound("state bits = Ω(n)", tasks=_RETRIEVAL, families=("rnn", "linear-rnn-cot"), via="INDEX"),
        ),
        partners=("UP-RNN",),
        slips=(
            Slip(
                place="Lemma C.1",
                printed="The product gadget computes |x₁|·x₂.",
                right="Use W1 = [x₁, −x₁] and W2 = [x₂, −x₂] and add the two: ReLU(x₁)x₂ + ReLU(−x₁)(−x₂).",
            ),
            Slip(
                place="Lemma C.5",
                printed="The threshold's output weights do not reach the step's height.",
                right="W3 = (2/ε)[1, −1].",
            ),
            Slip(
                place="COUNT",
                printed="The keys and queries do not give the stated logits.",
                right="K = n[1 − 1[k′=1], X, X²] and Q = [−X², 2X, −1].",
            ),
        ),
    ),
    Theorem(
        id="W-4.7",
        statement=(
            "A Transformer of constant size, nine layers deep, decides whether a graph of n vertices is a "
            "tree by a chain of thought of 2n − 1 tokens, the depth-first tour; no recurrent model with o(n) "
            "bits of state decides it, whatever chain of thought it writes."
        ),
        source=_at("Theorem 4.7 and its proof"),
        length="n vertices and n − 1 edges",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS, *_STREAM),
        owes=(
            witness(
                "L = 9, O(1) parameters, 2n − 1 tokens", tasks=("is-tree",), families=("transformer-cot",)
            ),
            witness(
                "L = 9, O(1) parameters, 2n − 1 tokens, the same weights up to a limit",
                tasks=("is-tree",),
                families=("transformer-cot",),
                variant="every n",
            ),
            bound("state bits = Ω(n)", tasks=("is-tree",), families=("rnn", "linear-rnn-cot"), via="INDEX"),
        ),
        slips=(
            Slip(
                place="MATCHNEXT",
                printed=(
                    "The head that looks for the next edge takes the match nearest to the next count, which "
                    "needs the counts among its keys to be consecutive."
                ),
                right=(
                    "They are not, since each head sees a vertex on one side of an edge only, and valid "
                    "trees are rejected: n = 6 with edges (3,4), (3,5), (1,3), (2,3), (3,6) in that order. A "
                    "head that looks for exactly the successor of the count, 1/m → 1/(m+1), repairs it."
                ),
            ),
            Slip(
                place="word embeddings",
                printed="Number i embeds as i·w₁, and v is emitted as n[−v, 1, −1, …] with tied embeddings.",
                right=(
                    "Of the numbers, only the two extreme ones can then win the argmax. Embed i as "
                    "i·w₁ + i²·w₂ and emit c(2v·w₁ − w₂): the logit of i is c(v² − (i − v)²)."
                ),
            ),
            Slip(
                place="Lemma C.3",
                printed="The indicator's output weights are wrong.",
                right="W3 = 10[1, −1, 1, −1].",
            ),
            Slip(
                place="public code",
                printed="Some graphs are labelled by connectivity, and padding is read as the answer.",
                right="The label is whether the graph is a tree, and an unanswered sample is scored apart.",
            ),
        ),
    ),
    Theorem(
        id="W-4.8",
        statement=(
            "If a step of an RNN is a circuit of C gates, a Transformer with O(C) parameters gives the same "
            "final answer by writing C + 1 tokens for every step: the value of each gate, then the RNN's "
            "token."
        ),
        source=_at("Theorem 4.8 and its proof"),
        length="n input tokens",
        assumptions=(
            _LOG_BITS,
            _FIXED_EMBEDDINGS,
            "the RNN answers within polynomially many tokens of chain of thought",
        ),
        owes=(witness("O(C) parameters, C + 1 tokens a step", families=("transformer-cot",)),),
    ),
    Theorem(
        id="W-5.1",
        statement=(
            "A recurrent model with o(n) bits of state that may ask an associative-recall oracle about its "
            "context still cannot do Index, whatever chain of thought it writes."
        ),
        source=_at("5.1, before the definition of retrieval by regular expression"),
        length="n tokens, then the query",
        assumptions=_STREAM,
        owes=(
            bound(
                "state bits = Ω(n)",
                tasks=("index-lookup",),
                families=("rnn",),
                via="INDEX",
                variant="with an associative-recall oracle",
            ),
        ),
    ),
    Theorem(
        id="W-5.2",
        statement=(
            "Linear RNNs of constant size that may search their context by a regular expression do Index, "
            "associative recall, c-gram retrieval and counting with O(1) searches."
        ),
        source=_at("Theorem 5.2 and its proof"),
        length="n tokens, then the query",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS, _REGEX),
        owes=(
            witness(
                "O(log n) state bits, O(1) searches", tasks=_RETRIEVAL, families=("linear-rnn+retrieval",)
            ),
        ),
        slips=(
            _PRINTED_PATTERNS,
            Slip(
                place="IsTree",
                printed="It also says IsTree takes O(n log n) steps, where Theorem 5.3 says O(n).",
                right="O(n) searches are enough, as in W-5.3.",
            ),
        ),
    ),
    Theorem(
        id="W-5.3",
        statement=(
            "Linear RNNs of constant size that may search their context by a regular expression decide "
            "whether a graph of n vertices is a tree with O(n) searches."
        ),
        source=_at("Theorem 5.3 and its proof"),
        length="n vertices and n − 1 edges",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS, _REGEX),
        owes=(
            witness(
                "O(log n) state bits, O(n) searches", tasks=("is-tree",), families=("linear-rnn+retrieval",)
            ),
        ),
        slips=(
            _PRINTED_PATTERNS,
            Slip(
                place="algorithm 2",
                printed="The root has no parent pair, so it can be pushed twice.",
                right="Write the pair `0 - 1` first.",
            ),
            Slip(
                place="public code",
                printed="Traces of searches are generated and trained on, and no search is ever executed.",
                right="Run the search while decoding, and keep FAILED apart from a search that was cut off.",
            ),
        ),
    ),
    Theorem(
        id="W-5.4",
        statement=(
            "For every Turing machine of polynomial time there are linear RNNs with O(log n) bits of "
            "precision and state that give its result by a chain of thought of polynomial length with "
            "searches by regular expression."
        ),
        source=_at("Theorem 5.4 and its proof"),
        length="n cells of input",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS, _REGEX),
        owes=(
            witness(
                "O(log n) state bits, poly(n) tokens", tasks=("turing",), families=("linear-rnn+retrieval",)
            ),
        ),
        slips=(_PRINTED_PATTERNS,),
    ),
    Theorem(
        id="W-5.6",
        statement=(
            "Linear RNNs of constant size with one Transformer block on top do Index, associative recall, "
            "c-gram retrieval and counting without a chain of thought."
        ),
        source=_at("Theorem 5.6"),
        length="n tokens, then the query",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS),
        owes=(
            witness("O(1) parameters, one attention block, no token", tasks=_RETRIEVAL, families=("hybrid",)),
        ),
    ),
    Theorem(
        id="W-5.7",
        statement=(
            "Linear RNNs of constant size with one Transformer block on top decide whether a graph of n "
            "vertices is a tree by a chain of thought of O(n log n) tokens."
        ),
        source=_at("Theorem 5.7 and its proof"),
        length="n vertices and n − 1 edges",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS),
        owes=(witness("O(1) parameters, O(n log n) tokens", tasks=("is-tree",), families=("hybrid-cot",)),),
        slips=(
            Slip(
                place="proof of Theorem 5.7",
                printed="The next edge is sought by doubling the distance, with a head for each side.",
                right=(
                    "That picks a wrong edge about one time in three. One head over all endpoints, aimed a "
                    "quarter past the target so that ties go to the later, picks the right one."
                ),
            ),
        ),
    ),
    Theorem(
        id="W-5.8",
        statement=(
            "For every Turing machine of polynomial time there is a linear RNN with one Transformer block on "
            "top, with O(log n) bits of precision and state, that gives its result by a chain of thought of "
            "polynomial length."
        ),
        source=_at("Theorem 5.8"),
        length="n cells of input",
        assumptions=(_LOG_BITS, _FIXED_EMBEDDINGS),
        owes=(
            witness(
                "O(log n) bits of recurrent state, poly(n) tokens",
                tasks=("turing",),
                families=("hybrid-cot",),
            ),
        ),
    ),
)
