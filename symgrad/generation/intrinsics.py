"""What kernels say to the processor that numba has no words for.

What is used -> text of a module
`INTRINSICS = False` in a module does without all of it; plain Python has twins.
"""

from __future__ import annotations

HEAD = """
INTRINSICS = True  # False: kernels do without what follows, large results go through the caches
"""

IMPORTS = """
if _COMPILED and INTRINSICS:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic
"""

WIDE = '''
    @intrinsic
    def wide(typing):
        """Let the function that this stands in use the widest vectors that the processor has."""

        def generate(context, builder, signature, given):
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return context.get_dummy_value()

        return types.void(), generate
'''

WIDE_PLAIN = '''
    @inline
    def wide():
        """Leave the width of vectors to the compiler."""
'''

PAST = '''
_CACHED = 2**23  # bytes up to which results are written through the caches


def _past(array, run, kernel, streaming):
    """Return the kernel for a result: `streaming` if no cache holds it and rows can be streamed.

    `run` is how many elements it streams at a time, 0 if it only clears.
    """
    if not (INTRINSICS and _COMPILED) or array.nbytes < _CACHED or array.dtype.kind != "f":
        return kernel
    if run and (run % 4 or array.ctypes.data % 16):
        return kernel
    return streaming
'''

STREAMS = '''
    def _store(context, builder, kind, array, at, values, align):
        """Store values next to each other, from element `at` on, past the caches."""
        scalar = context.get_value_type(kind.dtype)
        line = ir.Constant(ir.VectorType(scalar, len(values)), ir.Undefined)
        for lane, value in enumerate(values):
            line = builder.insert_element(line, value, ir.Constant(ir.IntType(32), lane))
        place = builder.gep(context.make_array(kind)(context, builder, array).data, [at])
        stored = builder.store(line, builder.bitcast(place, line.type.as_pointer()), align=align)
        once = ir.Constant(ir.IntType(32), 1)
        stored.set_metadata("nontemporal", builder.module.add_metadata([once]))
        return context.get_dummy_value()

    @intrinsic
    def stream(typing, array, at, a, b, c, d):
        """Write four elements of a contiguous array, from element `at` on, past the caches."""

        def generate(context, builder, signature, given):
            kinds = signature.args
            values = [
                context.cast(builder, value, kind, array.dtype)
                for value, kind in zip(given[2:], kinds[2:])
            ]
            return _store(context, builder, kinds[0], given[0], given[1], values, 16)

        return types.void(array, types.intp, a, b, c, d), generate

    @intrinsic
    def _zero(typing, flat, at):
        """Write a cache line of zeros, from `at` on, past the caches."""

        def generate(context, builder, signature, given):
            count = 512 // flat.dtype.bitwidth
            zeros = [ir.Constant(context.get_value_type(flat.dtype), 0.0)] * count
            return _store(context, builder, signature.args[0], *given, zeros, 64)

        return types.void(flat, types.intp), generate

    @loops
    def clear(part):
        """Set contiguous elements to zero, whole cache lines past the caches."""
        flat = part.reshape(-1)
        count = 64 // flat.itemsize
        first = min(-flat.ctypes.data % 64 // flat.itemsize, flat.size)
        last = first + (flat.size - first) // count * count
        for k in range(first):
            flat[k] = 0.0
        for k in range(first, last, count):
            _zero(flat, k)
        for k in range(last, flat.size):
            flat[k] = 0.0
'''

STREAMS_PLAIN = '''
    def stream(array, at, *values):
        """Write four elements of a contiguous array, from element `at` on."""
        array.reshape(-1)[at : at + 4] = values

    def clear(part):
        """Set elements to zero."""
        part[...] = 0.0
'''


def intrinsics(*, wide: bool, streams: bool) -> str:
    """Return the text that defines `wide`, and `_past`, `stream` and `clear`, as far as used.

    It needs `loops`, `inline` and `_COMPILED`.
    """
    parts = [HEAD.rstrip()]
    if not wide and not streams:
        return parts[0].strip("\n")
    parts += [PAST.lstrip("\n")] if streams else [""]
    imports = IMPORTS if streams else IMPORTS.replace("    from llvmlite import ir\n", "")
    parts += [imports.strip("\n"), *([WIDE] if wide else []), *([STREAMS] if streams else [])]
    parts += ["else:", *([WIDE_PLAIN] if wide else []), *([STREAMS_PLAIN] if streams else [])]
    text = "\n".join(part.rstrip("\n") for part in parts)
    return text.replace("\nelse:", "\n\nelse:").strip("\n")


__all__ = ["intrinsics"]
