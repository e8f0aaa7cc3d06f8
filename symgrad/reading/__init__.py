"""What it takes to read a derivation: closed forms in textbook shape, in text and LaTeX.

Derivation -> simplify, explain -> Unicode text, LaTeX, pages
`products` is the algebra, `write` the printer, `hands` the two notations, `matrix` matrix style.
"""
