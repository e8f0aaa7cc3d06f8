"""Scalar kernels as source: every `@inline` function below this package is a helper."""
