//! The paper's tables and figures as benchmarks: which protocol, which rows.
//!
//! With the user's data a target runs its full protocol; without, the same rows over the embedded images, small but
//! complete.

use std::fmt::Display;

use paint_methods::{METHODS, Networks, SourceNeed};
use paint_nn::backbone::Family;
use paint_run::probe;
use paint_run::{Error, Result};
use toml::Value;

use crate::grid::Variant;
use crate::protocol::Protocol;

/// A table or figure that can be built.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// The protocol for the user's data.
    pub full: &'static str,
    /// The protocol of the small version.
    pub small: &'static str,
    /// Images per visit in the small version.
    pub small_limit: usize,
    /// The paper's tables and figures it is compared with.
    pub references: &'static [&'static str],
    /// Its rows.
    pub variants: fn(&Protocol) -> Vec<Variant>,
    adjust: fn(&mut Protocol),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "table1",
        what: "every method on CIFAR-10-C",
        full: "cifar10-c",
        small: "embedded",
        small_limit: 50,
        references: &["table1"],
        variants: every_method,
        adjust: |_| {},
    },
    Target {
        name: "table2",
        what: "every method on ImageNet-C",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 50,
        references: &["table2"],
        variants: every_method,
        adjust: |_| {},
    },
    Target {
        name: "table3",
        what: "every method on ImageNet-R",
        full: "imagenet-r",
        small: "embedded",
        small_limit: 50,
        references: &["table3"],
        variants: every_method,
        adjust: |_| {},
    },
    Target {
        name: "gradual",
        what: "the paper's seven methods where severities rise and fall",
        full: "cifar10-c-gradual",
        small: "embedded-gradual",
        small_limit: 20,
        references: &["gradual"],
        variants: gradual,
        adjust: |_| {},
    },
    Target {
        name: "ablation",
        what: "PAINT without some of its parts",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 50,
        references: &["ablation"],
        variants: |_| {
            vec![
                paint("L_ent + P_s + F_blocks", [("diversity_weight", 0.0), ("beta", 0.0)]),
                paint("L_mi + P_s + F_blocks", [("beta", 0.0)]),
                paint("L_mi + L_ic + F_blocks", [("prompt_length", 0)]),
                paint("L_mi + L_ic + P_s", [("blocks", 0)]),
                paint("L_mi + L_ic + P_s + F_blocks", WHOLE),
            ]
        },
        adjust: |_| {},
    },
    Target {
        name: "beta",
        what: "the weight of the consistency loss",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 50,
        references: &["beta"],
        variants: |_| sweep("beta", [0.01, 0.1, 1.0, 10.0, 100.0]),
        adjust: |_| {},
    },
    Target {
        name: "matching",
        what: "prompts found by likeness against the true domains",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 100,
        references: &["matching"],
        variants: |_| vec![paint("PAINT-Query", WHOLE), paint("PAINT-Oracle", [("oracle", true)])],
        adjust: |_| {},
    },
    Target {
        name: "invariant-prompt",
        what: "no prompt, one for all domains, and one for each",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 100,
        references: &[],
        variants: |_| {
            vec![
                paint("no prompt", [("prompt_length", 0)]),
                // No similarity lies below -1, so the first prompt stays the only one.
                paint("domain-invariant prompt", [("eta", -1.0)]),
                paint("domain-specific prompts", WHOLE),
            ]
        },
        adjust: |_| {},
    },
    Target {
        name: "prompt-length",
        what: "tokens in a prompt",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 50,
        references: &["prompt-length"],
        variants: |_| sweep("prompt_length", [0, 2, 4, 8, 16, 32, 64]),
        adjust: |_| {},
    },
    Target {
        name: "thresholds",
        what: "the thresholds of allocation and confidence",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 50,
        references: &["thresholds"],
        variants: |_| [sweep("eta", TENTHS), sweep("phi", TENTHS)].concat(),
        adjust: |_| {},
    },
    Target {
        name: "antiforget",
        what: "clean accuracy, and that of the domains so far, after each domain",
        full: "cifar10-c",
        small: "embedded",
        small_limit: 100,
        references: &["antiforget", "antiforget-previous"],
        variants: forgetful,
        adjust: |protocol| look_back(protocol, true),
    },
    Target {
        name: "antiforget-imagenet-c",
        what: "clean accuracy after each domain of ImageNet-C (--clean-data)",
        full: "imagenet-c-5k",
        small: "embedded",
        small_limit: 100,
        references: &["antiforget-imagenet-c"],
        variants: forgetful,
        adjust: |protocol| look_back(protocol, false),
    },
    Target {
        name: "antiforget-imagenet-r",
        what: "clean accuracy after each domain of ImageNet-R (--clean-data)",
        full: "imagenet-r",
        small: "embedded",
        small_limit: 100,
        references: &["antiforget-imagenet-r"],
        variants: forgetful,
        adjust: |protocol| look_back(protocol, false),
    },
    Target {
        name: "antiforget-interleaved",
        what: "clean images after each domain as visits of their own, adaptation left on",
        full: "cifar10-c",
        small: "embedded",
        small_limit: 100,
        references: &[],
        variants: forgetful,
        adjust: Protocol::interleave_clean,
    },
];

/// The rows of the figures of forgetting.
fn forgetful(_: &Protocol) -> Vec<Variant> {
    ["source", "tent", "cotta", "paint"].map(Variant::plain).into()
}

/// Looks at clean images after each domain, and at those of the domains so far if wanted.
fn look_back(protocol: &mut Protocol, domains: bool) {
    let images = protocol.scenario.limit.unwrap_or(1000).min(1000);
    let previous = if domains { images } else { 0 };
    let given = protocol.probe.take().unwrap_or_default();
    protocol.probe = Some(probe::Config { clean: images, previous, ..given });
}

const TENTHS: [f64; 10] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Every method that a protocol can serve: those that look at source images only where it has some, and those for
/// convolutional networks only where it names one.
pub fn every_method(protocol: &Protocol) -> Vec<Variant> {
    let served = |need: SourceNeed| !need.reads_images() || protocol.source.is_some();
    let convolutional = protocol.family() == Some(Family::Convolutional);
    let fits = |networks: Networks| networks != Networks::Convolutional || convolutional;
    let rows = METHODS.iter().filter(|entry| served(entry.needs_source) && fits(entry.runs_on));
    rows.map(|entry| Variant::plain(entry.name)).collect()
}

/// The rows of the paper's gradual table that a protocol can serve: RMT needs source images.
fn gradual(protocol: &Protocol) -> Vec<Variant> {
    let served = every_method(protocol);
    let is_served = |name: &&str| served.iter().any(|variant| variant.method == *name);
    let rows = ["source", "cotta", "eta", "cpl", "rmt", "sar", "paint"].into_iter();
    rows.filter(is_served).map(Variant::plain).collect()
}

/// PAINT as the protocol has it.
const WHOLE: [(&str, bool); 0] = [];

/// PAINT with some settings changed.
fn paint<T: Into<Value>>(
    label: &str,
    settings: impl IntoIterator<Item = (&'static str, T)>,
) -> Variant {
    let setting = |(key, value): (&str, T)| (key.to_owned(), value.into());
    Variant::with(label, "paint", settings.into_iter().map(setting).collect())
}

/// PAINT with one setting at several values, in rows called as the paper's.
fn sweep<T: Into<Value> + Display + Copy, const N: usize>(
    key: &'static str,
    values: [T; N],
) -> Vec<Variant> {
    values.map(|value| paint(&format!("{key}={value}"), [(key, value)])).into()
}

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Result<&'static Self> {
        TARGETS.iter().find(|target| target.name == name).ok_or_else(|| {
            let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            let known = known.join(", ");
            Error::config(format!("reproduce: expected one of {known}, got {name:?}"))
        })
    }

    /// What the target asks of a protocol whose number of images is settled.
    pub fn adjust(&self, protocol: &mut Protocol) {
        (self.adjust)(protocol);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::reference;

    #[test]
    fn every_target_has_its_protocols_and_rows_that_build() {
        for target in TARGETS {
            let built_in = |name| Protocol::built_in(name).is_some();
            assert!(built_in(target.full) && built_in(target.small));
            let protocol = Protocol::find(target.small).unwrap();
            for variant in (target.variants)(&protocol) {
                let entry = paint_methods::by_name(&variant.method).unwrap();
                entry.resolve(&variant.settings).unwrap();
            }
        }
    }

    #[test]
    fn the_gradual_table_has_the_papers_rows_and_rmt_only_with_source_images() {
        let mut protocol = Protocol::find("embedded-gradual").unwrap();
        let mut rows = |source: Option<_>| {
            protocol.source = source;
            let mut rows: Vec<String> = gradual(&protocol).into_iter().map(|v| v.label).collect();
            rows.sort();
            rows
        };
        let mut theirs: Vec<String> =
            reference("gradual").unwrap().rows.into_iter().map(|row| row.label).collect();
        theirs.sort();
        let source = Protocol::find("embedded").unwrap().source;
        assert!(source.is_some());
        assert_eq!(rows(source), theirs);
        theirs.retain(|label| label != "rmt");
        assert_eq!(rows(None), theirs);
    }

    #[test]
    fn a_method_for_convolutional_networks_has_a_row_where_the_network_is_one() {
        let mut protocol = Protocol::find("embedded").unwrap();
        for (backbone, expected) in
            [(None, false), (Some("vit_tiny_patch4_32"), false), (Some("cifar_resnet56"), true)]
        {
            protocol.model.backbone = backbone.map(str::to_owned);
            let rows = every_method(&protocol);
            assert!(rows.iter().any(|row| row.method == "rmt"));
            assert_eq!(rows.iter().any(|row| row.method == "ecotta"), expected);
        }
    }

    #[test]
    fn rows_are_called_as_the_papers() {
        for name in ["ablation", "beta", "matching", "prompt-length", "thresholds"] {
            let target = Target::find(name).unwrap();
            let protocol = Protocol::find(target.small).unwrap();
            let ours = (target.variants)(&protocol).into_iter();
            let mut ours: Vec<String> = ours.map(|v| v.label).collect();
            let mut theirs: Vec<String> =
                reference(name).unwrap().rows.into_iter().map(|row| row.label).collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
