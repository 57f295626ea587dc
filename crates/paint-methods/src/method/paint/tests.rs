//! What the golden steps of `tests/golden_paint.rs` do not show.
