//! The embedded orders of the fifteen corruptions.

use crate::{Error, Result};

const TABLE: &str = include_str!("../../data/gradual_sequences.csv");

/// Name and corruptions of every order.
fn orders() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    TABLE.lines().skip(1).map(|line| {
        let mut fields = line.split(',');
        (fields.next().unwrap_or_default(), fields.collect())
    })
}

/// The corruptions of the order of this name.
pub(super) fn by_name(name: &str) -> Result<Vec<&'static str>> {
    orders().find(|order| order.0 == name).map(|order| order.1).ok_or_else(|| {
        let known: Vec<&str> = orders().map(|order| order.0).collect();
        Error::Argument {
            what: "order",
            expected: format!("one of {}", known.join(", ")),
            got: name.into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_holds_the_fifteen_corruptions_once() {
        let mut standard = by_name("paint_0").unwrap();
        assert_eq!(
            (standard.len(), standard[0], standard[14]),
            (15, "gaussian_noise", "jpeg_compression")
        );
        standard.sort_unstable();
        assert_eq!(orders().count(), 11);
        for (name, mut order) in orders() {
            order.sort_unstable();
            assert_eq!(order, standard, "{name}");
        }
    }
}
