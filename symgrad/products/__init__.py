"""Products with Jacobians: every form is a contraction over the terms of one or two Jacobians.

Blocks -> Side -> Product -> array
"""
