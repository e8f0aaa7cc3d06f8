"""What it takes to prove a module right: an interpreter, differences, test points.

Program, arrays -> validate -> Report
`interpret` evaluates definitions independently of generated code, in doubles or in many digits.
"""
