"""A layer evaluated by other tools, compared with ours and timed beside it.

Everything here is imported by `symgrad bench --against` alone; nothing else may need a framework.
"""
