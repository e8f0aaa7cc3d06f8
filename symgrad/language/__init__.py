"""What it takes to read a layer: characters, expressions, scopes, one-liners.

str -> parse -> Layer
`characters` maps the text for Python's parser, `expressions` and `statements` read the tree.
"""
