//! Lists whose items must differ.

/// The first item that is the same as an earlier one.
pub(crate) fn repeated<T>(items: &[T], is_same: impl Fn(&T, &T) -> bool) -> Option<&T> {
    let is_repeated = |&at: &usize| items[..at].iter().any(|earlier| is_same(earlier, &items[at]));
    (1..items.len()).find(is_repeated).map(|at| &items[at])
}
