//! `paint inspect`: what a file of weights is, before anything is run with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use paint_nn::checkpoint::{
    self, Architecture, Checkpoint, HeadsFrom, ModelConfig, Preprocess, PreprocessFlags,
};
use serde::Serialize;

use crate::output::Output;

/// Show format, architecture, arrays, checksum and preprocessing of a file of weights
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The weights: safetensors, PyTorch .pt/.pth/.th, NumPy .npz/.npy
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Report {
    file: PathBuf,
    bytes: u64,
    sha256: String,
    format: String,
    naming: Option<String>,
    architecture: Option<Architecture>,
    /// The publisher's own name for it.
    architecture_name: Option<String>,
    layer_norm_eps: Option<f32>,
    /// Elements of all arrays but the running statistics of norms.
    parameters: usize,
    elements: usize,
    dtypes: BTreeMap<&'static str, usize>,
    preprocess: Option<Preprocess>,
    metadata: BTreeMap<String, String>,
    arrays: Vec<ArrayRow>,
    skipped: Vec<SkippedRow>,
    /// What stands in the way of using these weights, and what to do about it.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ArrayRow {
    name: String,
    shape: Vec<usize>,
    dtype: &'static str,
}

#[derive(Debug, Serialize)]
struct SkippedRow {
    name: String,
    what: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let report = report(&args.file)?;
    args.output.print(&report, text)
}

fn report(file: &Path) -> anyhow::Result<Report> {
    let found = checkpoint::read(file)?;
    let mut problems = Vec::new();
    let mut note = |error: checkpoint::Error| problems.push(error.to_string());
    let config = checkpoint::read_model_config(file).map_err(&mut note).unwrap_or_default();
    let preprocess =
        checkpoint::read_preprocess(file, &PreprocessFlags::default()).map_err(&mut note).ok();
    let mut report = Report {
        file: file.to_owned(),
        bytes: std::fs::metadata(file)?.len(),
        sha256: checkpoint::sha256(file)?,
        format: found.format.to_string(),
        naming: None,
        architecture: None,
        architecture_name: config.architecture.clone(),
        layer_norm_eps: config.layer_norm_eps,
        parameters: found
            .iter()
            .filter(|(name, _)| !is_statistic(name))
            .map(|(_, a)| a.data.len())
            .sum(),
        elements: found.element_count(),
        dtypes: BTreeMap::new(),
        preprocess,
        metadata: found.metadata.clone(),
        arrays: Vec::new(),
        skipped: found
            .skipped
            .iter()
            .map(|(name, what)| SkippedRow { name: name.clone(), what: what.clone() })
            .collect(),
        problems: Vec::new(),
    };
    for (name, array) in found.iter() {
        *report.dtypes.entry(array.dtype.name()).or_default() += 1;
        let (name, dtype) = (name.to_owned(), array.dtype.name());
        report.arrays.push(ArrayRow { name, shape: array.shape.clone(), dtype });
    }
    recognise(found, &config, &mut report).unwrap_or_else(note);
    report.problems = problems;
    report.problems.dedup();
    Ok(report)
}

fn recognise(
    found: Checkpoint,
    config: &ModelConfig,
    report: &mut Report,
) -> checkpoint::Result<()> {
    let (convention, weights) = checkpoint::to_timm(found)?;
    report.naming = Some(convention.to_string());
    let architecture = Architecture::detect(&weights, config)?;
    if matches!(architecture, Architecture::Vit(_)) {
        report.layer_norm_eps.get_or_insert(convention.layer_norm_eps());
    }
    report.architecture = Some(architecture);
    Ok(())
}

fn is_statistic(name: &str) -> bool {
    [".running_mean", ".running_var", ".num_batches_tracked"].iter().any(|end| name.ends_with(end))
}

fn text(report: &Report) -> String {
    let mut rows = vec![
        ("file", report.file.display().to_string()),
        ("format", format!("{}, {} bytes", report.format, report.bytes)),
        ("sha256", report.sha256.clone()),
        ("names", report.naming.clone().unwrap_or("not understood, see below".to_owned())),
        ("architecture", architecture(report)),
    ];
    if let Some(eps) = report.layer_norm_eps {
        rows.push(("layer norm eps", format!("{eps:e}")));
    }
    let dtypes: Vec<String> =
        report.dtypes.iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    rows.push(("arrays", format!("{} ({})", report.arrays.len(), dtypes.join(", "))));
    let statistics = report.elements - report.parameters;
    rows.push((
        "parameters",
        match statistics {
            0 => report.parameters.to_string(),
            _ => format!("{} (and {statistics} running statistics)", report.parameters),
        },
    ));
    rows.push((
        "preprocessing",
        report.preprocess.as_ref().map_or("unknown, see below".to_owned(), preprocessing),
    ));
    // Strangers' text must not reach the terminal with its control characters.
    for (key, value) in &report.metadata {
        rows.push(("says of itself", format!("{}: {}", key.escape_debug(), value.escape_debug())));
    }
    for row in &report.skipped {
        rows.push((
            "not read",
            format!("{}: {}", row.name.escape_debug(), row.what.escape_debug()),
        ));
    }

    let mut out = String::new();
    for (label, value) in rows {
        let _ = writeln!(out, "{label:<16}{value}");
    }
    for problem in &report.problems {
        let _ = writeln!(out, "\nproblem: {problem}");
    }
    let _ = writeln!(out);
    let names: Vec<String> =
        report.arrays.iter().map(|row| row.name.escape_debug().to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, row) in names.iter().zip(&report.arrays) {
        let _ = writeln!(out, "{name:width$}  {:<4}  {:?}", row.dtype, row.shape);
    }
    out
}

fn architecture(report: &Report) -> String {
    let name =
        report.architecture_name.as_deref().map_or(String::new(), |name| format!("{name}: "));
    let sizes = match &report.architecture {
        None => "see below".to_owned(),
        Some(Architecture::Unknown) => "not recognised".to_owned(),
        Some(Architecture::Resnet(sizes)) => {
            let norm = if sizes.running_statistics {
                "batch norm"
            } else {
                "no running statistics (group norm?)"
            };
            format!(
                "ResNet-{}, {norm}, width {}, {} classes",
                sizes.depth, sizes.width, sizes.num_classes
            )
        }
        Some(Architecture::Vit(sizes)) => {
            let heads = match sizes.num_heads_from {
                HeadsFrom::Config => "heads as config.json says",
                HeadsFrom::Weights => "heads as the arrays are laid out",
                HeadsFrom::Assumed => "heads assumed, one for 64 channels",
            };
            let classes =
                sizes.num_classes.map_or("no head".to_owned(), |n| format!("{n} classes"));
            format!(
                "ViT, patch {}x{}, width {}, depth {}, {} {heads}, MLP {}, {} tokens, {classes}",
                sizes.patch_size[0],
                sizes.patch_size[1],
                sizes.embed_dim,
                sizes.depth,
                sizes.num_heads,
                sizes.mlp_hidden,
                sizes.num_tokens,
            )
        }
    };
    format!("{name}{sizes}")
}

fn preprocessing(preprocess: &Preprocess) -> String {
    let Preprocess { mean, std, input_size: [height, width], crop_pct, crop_mode, interpolation } =
        preprocess;
    let filter = interpolation.name();
    format!(
        "mean {mean:?}, std {std:?}, {height}x{width}, crop {crop_pct} ({crop_mode:?}), {filter}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Report {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/checkpoints");
        report(&folder.join(name)).expect(name)
    }

    #[test]
    fn a_vit_with_its_config_has_no_problems() {
        let report = fixture("timm/model.safetensors");
        assert_eq!(report.problems, [""; 0]);
        let text = text(&report);
        for line in [
            "format          safetensors, 15876 bytes",
            "names           timm",
            "architecture    tiny_test_vit: ViT, patch 4x4, width 12, depth 2, 3 heads as config.json says, MLP 24, \
             5 tokens, 5 classes",
            "layer norm eps  1e-6",
            "arrays          32 (32 F32)",
            "parameters      3317",
            "preprocessing   mean [0.1, 0.2, 0.3], std [0.4, 0.5, 0.6], 8x8, crop 0.9 (Squash), bilinear",
            "blocks.1.attn.qkv.weight   F32   [36, 12]",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in:\n{text}");
        }
    }

    #[test]
    fn a_missing_config_is_a_problem_that_says_what_to_do() {
        let report = fixture("google.npz");
        assert_eq!(report.naming.as_deref(), Some("Google JAX"));
        assert!(report.preprocess.is_none());
        assert_eq!(report.problems.len(), 1);
        assert!(
            report.problems[0].contains(
                "--set 'model.mean=[R,G,B]' --set 'model.std=[R,G,B]' --set 'model.input_size=[H,W]'"
            ),
            "{:?}",
            report.problems
        );
        let json = serde_json::to_value(&report).expect("a report is plain data");
        assert_eq!(json["architecture"]["family"], "vit");
        assert_eq!(json["architecture"]["num_heads_from"], "weights");
    }

    #[test]
    fn control_characters_of_a_file_are_not_printed() {
        let mut report = fixture("timm/model.safetensors");
        report.metadata.insert("key\u{1b}[2J".to_owned(), "value\u{7}".to_owned());
        report.arrays[0].name = "a\u{1b}b".to_owned();
        let text = text(&report);
        assert!(
            text.contains("key\\u{1b}[2J: value\\u{7}") && text.contains("a\\u{1b}b "),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn the_checksum_is_that_of_sha256sum() {
        let expected = "b8818c66b1e59933cd175ee95fe219be9825d028efe4d1e31a61a2e253eee195";
        assert_eq!(fixture("array.npy").sha256, expected);
    }
}
