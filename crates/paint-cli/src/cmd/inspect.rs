//! `paint inspect`: what a file of weights is, before anything is run with it.

mod look;
mod parts;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use paint_nn::checkpoint::{
    self, Architecture, Checkpoint, ModelConfig, Preprocess, PreprocessFlags, Traits,
};
use paint_run::model::network::{self, About};
use paint_tensor::Device;
use serde::Serialize;

use crate::output::{Output, told};
use look::Look;
use text::text;

/// Show format, architecture, arrays, checksum and preprocessing of a file of weights
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The weights: safetensors, PyTorch .pt/.pth/.th/.bin, NumPy .npz/.npy, ONNX, an index of several files, or
    /// the folder of a model
    file: PathBuf,
    /// Also predict a few images of this folder, to see whether classes and preprocessing are right
    #[arg(long, value_name = "FOLDER")]
    images: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint inspect model.safetensors
  paint inspect model.pth --json
  paint inspect vit-base-patch16-224/ --images photographs/";

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
    /// The row of `paint list backbones` that runs these weights; none for a transformer of other sizes.
    backbone: Option<&'static str>,
    layer_norm_eps: Option<f32>,
    /// What sets the network apart from a plain ViT, and what was assumed.
    unusual: Vec<String>,
    /// A command that runs these weights.
    command: Option<String>,
    /// What the network says of some images.
    look: Option<Look>,
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
    let mut report = report(&args.file)?;
    if let Some(folder) = args.images.as_ref().filter(|_| report.problems.is_empty()) {
        report.look = Some(look::look(&args.file, folder)?);
    }
    args.output.print(&report, text)?;
    match report.problems.len() {
        0 => Ok(()),
        1 => bail!("these weights cannot be used as they are: see the problem above"),
        count => bail!("these weights cannot be used as they are: see the {count} problems above"),
    }
}

fn report(file: &Path) -> anyhow::Result<Report> {
    let found = checkpoint::read(file)?;
    let located = checkpoint::locate(file)?;
    let mut problems = Vec::new();
    let mut note = |error: checkpoint::Error| problems.push(error.to_string());
    let config = checkpoint::read_model_config(file).map_err(&mut note).unwrap_or_default();
    let preprocess =
        checkpoint::read_preprocess(file, &PreprocessFlags::default()).map_err(&mut note).ok();
    let mut report = Report {
        file: file.to_owned(),
        bytes: std::fs::metadata(located)?.len(),
        sha256: checkpoint::sha256(file)?,
        format: found.format.to_string(),
        naming: None,
        architecture: None,
        architecture_name: config.architecture.clone(),
        backbone: None,
        layer_norm_eps: config.layer_norm_eps,
        unusual: Vec::new(),
        command: None,
        look: None,
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
    if let Err(error) = recognise(found, &config, &mut report) {
        problems.push(told(&error.into()));
    }
    report.problems = problems;
    report.problems.dedup();
    Ok(report)
}

/// Names the network and builds it, as every command that runs these weights would.
fn recognise(
    found: Checkpoint,
    config: &ModelConfig,
    report: &mut Report,
) -> paint_run::Result<()> {
    let (convention, weights) = checkpoint::to_timm(found)?;
    report.naming = Some(convention.to_string());
    let dropped = weights.skipped.iter().skip(report.skipped.len());
    let dropped = dropped.map(|(name, what)| SkippedRow { name: name.clone(), what: what.clone() });
    report.skipped.extend(dropped.collect::<Vec<_>>());
    let architecture = Architecture::detect(&weights, config)?;
    let preprocess = report.preprocess.clone().unwrap_or_else(|| stand_in(&architecture));
    report.architecture = Some(architecture);
    let about = About {
        path: &report.file,
        backbone: None,
        num_heads: None,
        traits: Traits::default(),
        beside: config,
        preprocess: &preprocess,
    };
    let network = network::build(weights, &about, &Device::cpu())?;
    report.backbone = network.row.map(|row| row.name);
    if let Some(vit) = network.model.vit_config() {
        report.layer_norm_eps = Some(vit.variant.norm_eps);
        report.unusual = parts::unusual(vit, report.architecture.as_ref());
    }
    let path = report.file.display();
    report.command =
        Some(format!("paint adapt --weights {path} --images FOLDER > predictions.csv"));
    Ok(())
}

/// Preprocessing that any weights of this network could have: its absence is a problem of its own, and must not hide
/// others.
fn stand_in(architecture: &Architecture) -> Preprocess {
    let input_size = match architecture {
        Architecture::Vit(sizes) => {
            sizes.patch_size.map(|side| sizes.grid_side.unwrap_or(1) * side)
        }
        _ => [224, 224],
    };
    Preprocess::usual(input_size)
}

fn is_statistic(name: &str) -> bool {
    [".running_mean", ".running_var", ".num_batches_tracked"].iter().any(|end| name.ends_with(end))
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
    fn what_is_unusual_is_told_and_a_command_runs_it() {
        let report = fixture("huggingface/model.safetensors");
        let text = text(&report);
        assert!(text.contains("to run it       paint adapt --weights "), "{text}");
        assert!(report.unusual.is_empty(), "{:?}", report.unusual);
        let report = fixture("google.npz");
        assert!(report.command.is_some());
    }

    #[test]
    fn a_graph_is_recognised_and_its_epsilon_told() {
        let onnx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/onnx");
        let folder = tempfile::tempdir().expect("a folder");
        for (from, to) in [
            ("timm_vit_dynamo.onnx", "model.onnx"),
            ("timm_vit_dynamo.onnx.data", "timm_vit_dynamo.onnx.data"),
        ] {
            std::fs::copy(onnx.join(from), folder.path().join(to)).expect(from);
        }
        let config =
            r#"{"num_heads": 2, "mean": [0, 0, 0], "std": [1, 1, 1], "input_size": [3, 8, 12]}"#;
        std::fs::write(folder.path().join("config.json"), config).expect("config.json");
        let report = report(&folder.path().join("model.onnx")).expect("a report");
        assert_eq!(report.problems, [""; 0]);
        let text = text(&report);
        for start in [
            "format          ONNX, 27158 bytes",
            "names           timm",
            "architecture    ViT, patch 4x4, width 16, depth 2, 2 heads",
            "layer norm eps  1e-3",
            "arrays          32 (32 F32)",
            "to run it       paint adapt --weights ",
            "says of itself  producer: pytorch 2.15.0",
            "blocks.1.attn.qkv.weight   F32   [48, 16]",
        ] {
            assert!(text.lines().any(|line| line.starts_with(start)), "no {start:?} in:\n{text}");
        }
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
