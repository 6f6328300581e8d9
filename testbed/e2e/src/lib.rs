//! What we promise, shown on real clusters: one file per promise in `tests/`.
