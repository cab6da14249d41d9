"""The library's machines, as text that `parse_machine` reads.

Rules for what a run on a proper input never meets lead to a halting state as well, because a machine has a
rule for everything.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    "unary-increment": """
# One stroke more.
machine: unary-increment
alphabet: _ 1
start: right
halt: done
right 1 -> right R
right _ -> done 1 S
""",
    "binary-increment": """
# The most significant digit comes first, so go to the end and carry back.
machine: binary-increment
alphabet: _ 0 1
start: right
halt: done
right 0 1 -> right R
right _ -> carry L
carry 1 -> carry 0 L
carry 0 _ -> done 1 S
""",
    "parity": """
# Is the number of ones even or odd?
machine: parity
alphabet: _ 0 1
start: p0
halt: even odd
p0 0 -> p0 R
p0 1 -> p1 R
p0 _ -> even S
p1 0 -> p1 R
p1 1 -> p0 R
p1 _ -> odd S
""",
    "palindrome": """
# Erase the first symbol, carry it to the other end, compare and erase there, come back.
machine: palindrome
alphabet: _ 0 1
start: first
halt: yes no
first 0 -> carry0 _ R
first 1 -> carry1 _ R
first _ -> yes S
carry0 0 1 -> carry0 R
carry0 _ -> last0 L
carry1 0 1 -> carry1 R
carry1 _ -> last1 L
last0 0 -> back _ L
last0 1 -> no S
last0 _ -> yes S
last1 1 -> back _ L
last1 0 -> no S
last1 _ -> yes S
back 0 1 -> back L
back _ -> first R
""",
    "balanced-brackets": """
# Cross out each closing bracket with the nearest opening one to its left; at the end none may be left.
machine: balanced-brackets
alphabet: _ ( ) x
start: scan
halt: yes no
scan ( x -> scan R
scan ) -> match x L
scan _ -> sweep L
match x -> match L
match ( -> scan x R
match any -> no S
sweep x -> sweep L
sweep _ -> yes S
sweep any -> no S
""",
    "binary-multiplication": """
# a*b becomes sum+a*b. While b has a last digit, erase it; if it was 1 add a to the sum; then double a by
# moving what is left of *b one cell to the right. O and I are the digits that the addition is done with.
machine: binary-multiplication
alphabet: _ 0 1 * + O I
start: begin
halt: done
begin any -> plus L
plus any -> end + R
end 0 1 * -> end R
end any -> digit L
digit 0 -> take _ L
digit 1 -> find _ L
digit * -> clear _ L
digit any -> done S
find 0 1 -> find L
find any -> add L
add O I -> add L
add 0 -> zero O L
add 1 -> one I L
add any -> clean L
zero 0 1 -> zero L
zero any -> zero-sum L
zero-sum O I -> zero-sum L
zero-sum 1 -> back I R
zero-sum any -> back O R
one 0 1 -> one L
one any -> one-sum L
one-sum O I -> one-sum L
one-sum 1 -> ripple O L
one-sum any -> back I R
ripple 1 -> ripple 0 L
ripple any -> back 1 R
back 0 1 + O I -> back R
back any -> add L
clean O -> clean 0 L
clean I -> clean 1 L
clean any -> restore R
restore O -> restore 0 R
restore I -> restore 1 R
restore 0 1 + -> restore R
restore any -> hole R
hole 0 1 -> hole R
hole any -> take L
take 0 -> put0 _ R
take 1 -> put1 _ R
take any -> put* 0 R
put0 any -> hole 0 L
put1 any -> hole 1 L
put* any -> end * R
clear 0 1 -> clear _ L
clear any -> done _ S
""",
    "busy-beaver-2": """
# Two states: six steps, four ones.
machine: busy-beaver-2
alphabet: 0 1
blank: 0
start: A
halt: H
A 0 -> B 1 R
A 1 -> B 1 L
B 0 -> A 1 L
B 1 -> H 1 R
""",
    "busy-beaver-3": """
# Three states: six ones, the most there can be, after fourteen steps. (Others run for 21 and leave five.)
machine: busy-beaver-3
alphabet: 0 1
blank: 0
start: A
halt: H
A 0 -> B 1 R
A 1 -> H 1 R
B 0 -> C 0 R
B 1 -> B 1 R
C 0 -> C 1 L
C 1 -> A 1 L
""",
    "busy-beaver-4": """
# Four states: 107 steps, thirteen ones.
machine: busy-beaver-4
alphabet: 0 1
blank: 0
start: A
halt: H
A 0 -> B 1 R
A 1 -> B 1 L
B 0 -> A 1 L
B 1 -> C 0 L
C 0 -> H 1 R
C 1 -> D 1 L
D 0 -> D 1 R
D 1 -> A 0 R
""",
}
