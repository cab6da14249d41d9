"""What proofs share: steps from tensors to enclosures, each a file of its own.

`coded` and `signwise` follow vectors that are affine in the words of a code, `feed_forward` a map of ReLUs,
`recurrent` a step of a recurrent model; `bit_memory` and its neighbours argue in exact integers.
"""
