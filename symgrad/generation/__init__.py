"""What it takes to write a module: loop nests, kernels, drivers, doors.

Forms -> plan, emit -> Source
`nests` and `fuse` shape loops, `write_kernel` and `write_driver` are their text.
"""
