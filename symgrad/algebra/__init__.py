"""Our own index algebra: deltas spent by substitution, partial derivatives of one definition.

Definition, Term -> derive, forms -> Term
`contract` makes terms small, `partials` differentiates one definition.
"""
