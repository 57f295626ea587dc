//! The numbers of the paper, as data: tables from its text, curves read off the authors' figures.

use paint_data::corruption::Group;
use paint_nn::backbone::Family;
use paint_run::{Error, Result};

/// What the numbers of a table or figure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Accuracy on the stream.
    Stream,
    /// Accuracy on clean images after each domain.
    Clean,
    /// Accuracy on the domains visited so far, after each.
    Previous,
}

/// One of the paper's tables or figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The name of its row in [`REFERENCES`].
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What its numbers are.
    pub measure: Measure,
    /// The built-in protocol that describes how the authors ran it.
    pub protocol: &'static str,
    /// Its domains, by our names; none where it has only means.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<ReferenceRow>,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceRow {
    /// As our variant of it is called.
    pub label: String,
    /// The backbone, where the table has several.
    pub backbone: Option<String>,
    /// What kind of network that is.
    pub family: Option<Family>,
    /// Mean accuracy in percent, as printed.
    pub accuracy: Option<f64>,
    /// Its standard deviation.
    pub std: Option<f64>,
    /// By column.
    pub cells: Vec<f64>,
    /// Mean accuracy by group of corruptions, where the paper gives it.
    pub by_group: Vec<(Group, f64)>,
    /// Prompts made and matching accuracy in percent, where the paper gives them.
    pub matching: Option<(f64, f64)>,
}

/// A row of [`REFERENCES`].
pub struct ReferenceEntry {
    /// The name.
    pub name: &'static str,
    what: &'static str,
    measure: Measure,
    protocol: &'static str,
    text: &'static str,
    row: fn(&Line<'_>) -> Option<Vec<ReferenceRow>>,
}

/// The names of the fifteen corruptions as the paper's tables shorten them.
const CORRUPTIONS: [(&str, &str); 15] = [
    ("Gauss", "gaussian_noise"),
    ("Shot", "shot_noise"),
    ("Impul", "impulse_noise"),
    ("Defoc", "defocus_blur"),
    ("Glass", "glass_blur"),
    ("Motion", "motion_blur"),
    ("Zoom", "zoom_blur"),
    ("Snow", "snow"),
    ("Frost", "frost"),
    ("Fog", "fog"),
    ("Brit", "brightness"),
    ("Contr", "contrast"),
    ("Elastic", "elastic_transform"),
    ("Pixel", "pixelate"),
    ("JPEG", "jpeg_compression"),
];
const RENDITIONS: [(&str, &str); 15] = [
    ("Art", "art"),
    ("Cart", "cartoon"),
    ("Dev", "deviantart"),
    ("Emb", "embroidery"),
    ("Graf", "graffiti"),
    ("Graphic", "graphic"),
    ("Misc", "misc"),
    ("Orig", "origami"),
    ("Paint", "painting"),
    ("Sculp", "sculpture"),
    ("Sketch", "sketch"),
    ("Stick", "sticker"),
    ("Tat", "tattoo"),
    ("Toy", "toy"),
    ("Video", "videogame"),
];

/// Every table and figure.
pub const REFERENCES: &[ReferenceEntry] = &[
    ReferenceEntry {
        name: "table1",
        what: "CIFAR-10-C, severity 5, continual",
        measure: Measure::Stream,
        protocol: "cifar10-c",
        text: include_str!("../data/cifar10c.csv"),
        row: domain_table,
    },
    ReferenceEntry {
        name: "table2",
        what: "ImageNet-C, severity 5, continual",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/imagenetc.csv"),
        row: domain_table,
    },
    ReferenceEntry {
        name: "table3",
        what: "ImageNet-R, continual",
        measure: Measure::Stream,
        protocol: "imagenet-r",
        text: include_str!("../data/imagenetr.csv"),
        row: domain_table,
    },
    ReferenceEntry {
        name: "gradual",
        what: "CIFAR-10-C, gradual, ten orders",
        measure: Measure::Stream,
        protocol: "cifar10-c-gradual",
        text: include_str!("../data/gradual.csv"),
        row: |line| {
            let std = line.number("std");
            Some(vec![ReferenceRow {
                std,
                ..mean_row(line.text("method")?.to_lowercase(), line.number("mean_acc"))
            }])
        },
    },
    ReferenceEntry {
        name: "ablation",
        what: "Contribution of the components, ImageNet-C",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/ablation.csv"),
        row: |line| {
            let on = |name| line.number(name) == Some(1.0);
            let parts = ["L_ent", "L_mi", "L_ic", "P_s", "F_blocks"];
            let label: Vec<&str> = parts.into_iter().filter(|part| on(part)).collect();
            Some(vec![mean_row(label.join(" + "), line.number("accuracy"))])
        },
    },
    ReferenceEntry {
        name: "beta",
        what: "The weight of the consistency loss, ImageNet-C",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/beta.csv"),
        row: |line| {
            Some(vec![mean_row(format!("beta={}", line.text("beta")?), line.number("accuracy"))])
        },
    },
    ReferenceEntry {
        name: "matching",
        what: "Prompts found by likeness against the true domains, ImageNet-C",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/matching.csv"),
        row: |line| {
            let matching = line.number("prompt_number").zip(line.number("matching_accuracy"));
            let row =
                mean_row(line.text("variant")?.into(), line.number("classification_accuracy"));
            Some(vec![ReferenceRow { matching, ..row }])
        },
    },
    ReferenceEntry {
        name: "prompt-length",
        what: "Tokens in a prompt, ImageNet-C (read off the figure)",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/fig_prompt_length_imagenetc.csv"),
        row: |line| {
            let label = format!("prompt_length={}", line.text("prompt_length")?);
            let by_group = Group::ALL.into_iter();
            let by_group = by_group.filter_map(|group| Some((group, line.number(group.name())?)));
            let row = mean_row(label, line.number("mean15"));
            Some(vec![ReferenceRow { by_group: by_group.collect(), ..row }])
        },
    },
    ReferenceEntry {
        name: "thresholds",
        what: "The thresholds of allocation and confidence, ImageNet-C (read off the figure)",
        measure: Measure::Stream,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/fig_threshold_imagenetc.csv"),
        row: |line| {
            let value = line.number("value")?;
            let row = |key: &str| {
                mean_row(format!("{key}={value}"), line.number(&format!("acc_when_varying_{key}")))
            };
            Some(vec![row("eta"), row("phi")])
        },
    },
    ReferenceEntry {
        name: "antiforget",
        what: "Clean accuracy after each domain, CIFAR-10-C (read off the figure)",
        measure: Measure::Clean,
        protocol: "cifar10-c",
        text: include_str!("../data/fig_antiforget_source_cifar10c.csv"),
        row: forgetting,
    },
    ReferenceEntry {
        name: "antiforget-previous",
        what: "Accuracy on the domains so far after each domain, CIFAR-10-C (read off the figure)",
        measure: Measure::Previous,
        protocol: "cifar10-c",
        text: include_str!("../data/fig_antiforget_previous_cifar10c.csv"),
        row: forgetting,
    },
    ReferenceEntry {
        name: "antiforget-imagenet-c",
        what: "Clean accuracy after each domain, ImageNet-C (read off the figure)",
        measure: Measure::Clean,
        protocol: "imagenet-c-5k",
        text: include_str!("../data/fig_antiforget_source_imagenetc.csv"),
        row: forgetting,
    },
    ReferenceEntry {
        name: "antiforget-imagenet-r",
        what: "Clean accuracy after each domain, ImageNet-R (read off the figure)",
        measure: Measure::Clean,
        protocol: "imagenet-r",
        text: include_str!("../data/fig_antiforget_source_imagenetr.csv"),
        row: forgetting,
    },
];

/// A line of a table with the names of its fields.
struct Line<'a> {
    head: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl Line<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let at = self.head.iter().position(|field| *field == name)?;
        self.fields.get(at).copied()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    fn domains(&self) -> Vec<f64> {
        let shorts = CORRUPTIONS.iter().chain(&RENDITIONS).map(|(short, _)| *short);
        shorts.filter_map(|short| self.number(short)).collect()
    }
}

fn mean_row(label: String, accuracy: Option<f64>) -> ReferenceRow {
    ReferenceRow {
        label,
        backbone: None,
        family: None,
        accuracy,
        std: None,
        cells: Vec::new(),
        by_group: Vec::new(),
        matching: None,
    }
}

fn domain_table(line: &Line<'_>) -> Option<Vec<ReferenceRow>> {
    let row = mean_row(line.text("method")?.to_lowercase(), line.number("Avg_reported"));
    let backbone = line.text("backbone").map(Into::into);
    let family = line.text("backbone").and_then(family);
    Some(vec![ReferenceRow { backbone, family, cells: line.domains(), ..row }])
}

/// The networks of the paper's tables.
const NETWORKS: [(&str, Family); 3] = [
    ("ViT-B/16", Family::Transformer),
    ("ResNet-50", Family::Convolutional),
    ("WideResNet-28", Family::Convolutional),
];

fn family(backbone: &str) -> Option<Family> {
    NETWORKS.iter().find(|(name, _)| *name == backbone).map(|(_, family)| *family)
}

/// Only the curves on what was known before; those of the stream itself are in the tables.
fn forgetting(line: &Line<'_>) -> Option<Vec<ReferenceRow>> {
    let (method, kind) = line.text("series")?.split_once('_')?;
    if kind == "online_target" {
        return None;
    }
    let row = mean_row(method.to_lowercase(), line.number("Avg"));
    Some(vec![ReferenceRow { cells: line.domains(), ..row }])
}

/// The table or figure of this name.
pub fn reference(name: &str) -> Result<Reference> {
    let Some(entry) = REFERENCES.iter().find(|entry| entry.name == name) else {
        let known: Vec<&str> = REFERENCES.iter().map(|entry| entry.name).collect();
        let known = known.join(", ");
        return Err(Error::config(format!("reference: expected one of {known}, got {name:?}")));
    };
    let mut lines = entry.text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let named = |short: &&str| {
        let mut all = CORRUPTIONS.iter().chain(&RENDITIONS);
        all.find(|(known, _)| known == short).map(|(_, name)| (*name).to_owned())
    };
    let rows = lines
        .filter_map(|line| (entry.row)(&Line { head: &head, fields: line.split(',').collect() }));
    Ok(Reference {
        name: entry.name,
        what: entry.what,
        measure: entry.measure,
        protocol: entry.protocol,
        columns: head.iter().filter_map(named).collect(),
        rows: rows.flatten().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_reads_whole() {
        for entry in REFERENCES {
            let table = reference(entry.name).unwrap();
            assert!(table.rows.len() >= 2, "{}", entry.name);
            assert!(crate::Protocol::built_in(table.protocol).is_some());
            for row in &table.rows {
                let complete = row.cells.len() == table.columns.len();
                assert!(complete && (row.accuracy.is_some() || !row.cells.is_empty()), "{row:?}");
                assert_eq!(row.family.is_some(), row.backbone.is_some(), "{row:?}");
            }
        }
    }

    #[test]
    fn numbers_are_those_printed() {
        let table = reference("table2").unwrap();
        let paint = table.rows.iter().find(|row| row.label == "paint").unwrap();
        assert_eq!((paint.accuracy, paint.backbone.as_deref()), (Some(60.31), Some("ViT-B/16")));
        let fog = table.columns.iter().position(|name| name == "fog").unwrap();
        assert_eq!(paint.cells[fog], 65.92);
        let table = reference("table3").unwrap();
        assert_eq!((table.columns[14].as_str(), table.rows[0].cells[14]), ("videogame", 53.38));
        let ablation = reference("ablation").unwrap();
        assert_eq!(ablation.rows[3].label, "L_mi + L_ic + F_blocks");
        let matching = reference("matching").unwrap();
        assert_eq!(matching.rows[0].matching, Some((11.0, 53.33)));
        let lengths = reference("prompt-length").unwrap();
        assert_eq!(lengths.rows[1].accuracy, Some(60.31));
        let groups: Vec<f64> = lengths.rows[1].by_group.iter().map(|(_, value)| *value).collect();
        assert_eq!(groups, [56.88, 53.50, 67.24, 62.77]);
        assert!(reference("table9").unwrap_err().to_string().contains("antiforget-previous"));
    }
}
