"""Random layers, their oracles, and how a failing one is made small."""
