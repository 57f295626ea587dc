//! What a protocol must not ask for, found before anything runs.

use std::fmt::Debug;

use paint_methods::Registry;
use paint_run::{Error, Result};

use super::document::Protocol;
use crate::reference::reference;

/// The most runs of one method on one order.
pub const MOST_SEEDS: usize = 10_000;

impl Protocol {
    /// Refuses seeds and orders that are given twice (the same run would count as two independent ones), and settings
    /// that their method does not have, whether or not it has a row, and a table of the paper that there is none of.
    pub fn check(&self, methods: &Registry) -> Result<()> {
        let count = self.seeds.len();
        if !(1..=MOST_SEEDS).contains(&count) {
            return Err(Error::config(format!("seeds: expected 1 to {MOST_SEEDS}, got {count}")));
        }
        distinct("seeds", &self.seeds)?;
        distinct("orders", &self.orders)?;
        // Found out only when the report is written, a wrong name would cost the whole run.
        self.reference.as_deref().map(reference).transpose()?;
        for (method, settings) in &self.settings {
            methods.find(method)?.resolve(settings)?;
        }
        Ok(())
    }
}

fn distinct<T: Ord + Debug>(what: &str, values: &[T]) -> Result<()> {
    let mut sorted: Vec<&T> = values.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Error::config(format!("{what}: expected each once, got {:?} twice", pair[0])))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_twice_or_unknown_to_its_method_is_named() {
        let shipped = Protocol::find("embedded").unwrap();
        shipped.check(&Registry::default()).unwrap();
        let message = |change: fn(&mut Protocol)| {
            let mut protocol = shipped.clone();
            change(&mut protocol);
            let error = protocol.check(&Registry::default()).unwrap_err();
            assert!(error.is_usage());
            error.to_string()
        };
        assert!(message(|p| p.seeds = vec![4, 7, 4]).ends_with("each once, got 4 twice"));
        let orders = message(|p| p.orders = ["a", "b", "b"].map(String::from).into());
        assert!(orders.contains("orders") && orders.contains("\"b\" twice"), "{orders}");
        assert!(message(|p| p.seeds.clear()).contains("got 0"));
        assert!(message(|p| p.seeds = (0..10_001).collect()).contains("got 10001"));
        let table = message(|p| p.reference = Some("table9".into()));
        assert!(table.contains("table1") && table.contains("table9"), "{table}");
        let setting = message(|p| p.set("paint.etaa=1").unwrap());
        assert!(setting.contains("paint") && setting.contains("etaa"), "{setting}");
    }
}
