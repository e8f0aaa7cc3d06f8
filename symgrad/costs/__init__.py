"""What a form costs before it runs: operations and bytes as polynomials of the sizes.

Schedule -> Spent -> Cost
"""
