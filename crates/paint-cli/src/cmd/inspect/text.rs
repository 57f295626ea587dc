//! The report of `paint inspect` for people.

use std::fmt::Write as _;

use paint_nn::checkpoint::{Architecture, HeadsFrom, Preprocess};

use super::Report;
use super::look::{Look, Top};

/// What is printed for people.
pub(super) fn text(report: &Report) -> String {
    let mut rows = vec![
        ("file", report.file.display().to_string()),
        ("format", format!("{}, {} bytes", report.format, report.bytes)),
        ("sha256", report.sha256.clone()),
        ("names", report.naming.clone().unwrap_or("not understood, see below".to_owned())),
        ("architecture", architecture(report)),
    ];
    if let Some(backbone) = report.backbone {
        rows.push(("backbone", backbone.to_owned()));
    }
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
    for part in &report.unusual {
        rows.push(("unusual", part.clone()));
    }
    if let Some(command) = report.command.as_ref().filter(|_| report.problems.is_empty()) {
        rows.push(("to run it", command.clone()));
    }
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
    if let Some(look) = &report.look {
        out.push_str(&seen(look));
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

/// The first classes of each image, and what looks wrong about them.
fn seen(look: &Look) -> String {
    let mut out = String::from("\n");
    for image in &look.images {
        let class = |top: &Top| {
            let name = top.name.as_deref().map_or(format!("class {}", top.class), str::to_owned);
            format!("{} {:.2}", name.escape_debug(), top.probability)
        };
        let classes: Vec<String> = image.top.iter().map(class).collect();
        let file = image.file.to_string_lossy();
        let _ = writeln!(out, "{}: {}", file.escape_debug(), classes.join(", "));
    }
    let _ = writeln!(out, "mean probability of the first class: {:.2}", look.mean_probability);
    for warning in &look.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

fn architecture(report: &Report) -> String {
    let name =
        report.architecture_name.as_deref().map_or(String::new(), |name| format!("{name}: "));
    let sizes = match &report.architecture {
        None => "see below".to_owned(),
        Some(Architecture::Unknown) => "not recognised".to_owned(),
        Some(Architecture::Foreign { network }) => (*network).to_owned(),
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
        Some(Architecture::Convnext(sizes)) => {
            let classes =
                sizes.num_classes.map_or("no head".to_owned(), |n| format!("{n} classes"));
            format!("ConvNeXt, blocks {:?}, widths {:?}, {classes}", sizes.depths, sizes.dims)
        }
        Some(Architecture::Swin(sizes)) => {
            let classes =
                sizes.num_classes.map_or("no head".to_owned(), |n| format!("{n} classes"));
            format!(
                "Swin Transformer, blocks {:?}, width {}, heads {:?}, {w}x{w} windows, {classes}",
                sizes.depths,
                sizes.embed_dim,
                sizes.num_heads,
                w = sizes.window_size
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
