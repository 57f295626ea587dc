//! `paint corrupt`: corrupted copies of a set of images, in the layouts of the published benchmarks.
//!
//! A file appears when it is complete and not before, so a run that was stopped goes on where it was; a note of the
//! settings lies beside the files and refuses to mix two runs.

mod cifar10_c;
mod font;
mod imagenet_c;
mod settings;
mod sheet;

use std::{path::PathBuf, sync::atomic::AtomicUsize};

use anyhow::Context as _;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use paint_data::{
    Image,
    corruption::{self, CORRUPTIONS, Corruption, FrostTextures, Table},
    dataset,
};
use paint_rng::Seed;
use serde::Serialize;

use crate::{
    Usage,
    flags::{SeedFlag, ThreadsFlag},
    message,
    output::Output,
    place::resolved,
};
use settings::Settings;

/// Write corrupted copies of images in the layout of CIFAR-10-C or ImageNet-C
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of images, CIFAR-10 folder (binary layout), or .npy or .npz array
    input: PathBuf,
    /// Folder for the corrupted images
    #[arg(long, value_name = "DIR", required_unless_present = "sheet")]
    out: Option<PathBuf>,
    /// Corruptions, comma-separated; `all` for all nineteen [default: the fifteen of the benchmark]
    #[arg(long, value_delimiter = ',')]
    corruption: Vec<String>,
    /// Severities, comma-separated [default: 1,2,3,4,5]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=5))]
    severity: Vec<u8>,
    /// Published parameters to use
    #[arg(long, value_enum, default_value_t)]
    table: TableArg,
    #[command(flatten)]
    seed: SeedFlag,
    #[command(flatten)]
    threads: ThreadsFlag,
    /// Layout [default: imagenet-c for a folder of images, otherwise cifar-10-c]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Resize the short side to 256 and crop the middle 224x224 first, as ImageNet-C was made
    #[arg(long)]
    imagenet_crop: bool,
    /// Folder of frost textures to use in place of the built-in ones
    #[arg(long)]
    frost_textures: Option<PathBuf>,
    /// Write a PNG of one image under every corruption and severity to this file
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Number of the image on the sheet
    #[arg(long, default_value_t = 0, requires = "sheet")]
    sheet_image: usize,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  paint corrupt images/ --out ImageNet-C
  paint corrupt CIFAR/ --out CIFAR-10-C --corruption fog,snow
  paint corrupt images/ --sheet sheet.png --severity 1,3,5";

#[derive(Debug, Clone, Copy, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TableArg {
    /// CIFAR's for images up to 64 pixels, otherwise ImageNet's
    #[default]
    BySize,
    /// CIFAR-10-C's
    Cifar,
    /// ImageNet-C's
    Imagenet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    /// `<corruption>/<severity>/<path of the image>`, JPEG of quality 85
    #[value(name = "imagenet-c")]
    #[serde(rename = "imagenet-c")]
    ImagenetC,
    /// `<corruption>.npy` of five severity blocks, and labels.npy
    #[value(name = "cifar-10-c")]
    #[serde(rename = "cifar-10-c")]
    Cifar10C,
}

/// What the writers share.
struct Job {
    corruptions: Vec<&'static Corruption>,
    severities: Vec<u8>,
    table: TableArg,
    textures: Option<FrostTextures>,
    seed: Seed,
    written: AtomicUsize,
}

impl Job {
    fn corrupt(
        &self,
        image: &Image,
        corruption: &Corruption,
        severity: u8,
        index: usize,
    ) -> paint_data::Result<Image> {
        let table = match self.table {
            TableArg::BySize => Table::for_size(image.width(), image.height()),
            TableArg::Cifar => Table::Cifar,
            TableArg::Imagenet => Table::ImageNet,
        };
        let textures = self.textures.as_ref().unwrap_or_else(|| FrostTextures::built_in());
        let mut rng = corruption.stream(self.seed, severity, index as u64);
        corruption.apply_with(image, severity, table, textures, &mut rng)
    }
}

/// A bar on stderr, absent where that is no terminal.
fn progress(len: usize) -> ProgressBar {
    let template = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} eta {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(len as u64), message::bar_target()).with_style(style)
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Done {
    files_written: usize,
    files_kept: usize,
    sheet: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.threads.start()?;
    let job = job(args)?;
    let row = dataset::entry_at(&args.input);
    let mut done = Done::default();
    if let Some(out) = &args.out {
        let default = if row.is_files { Format::ImagenetC } else { Format::Cifar10C };
        let format = args.format.unwrap_or(default);
        if format == Format::ImagenetC && !row.is_files {
            return Err(
                Usage("the imagenet-c layout needs a folder of images as input".into()).into()
            );
        }
        if format == Format::Cifar10C && job.severities.len() != 5 {
            return Err(Usage(
                "the cifar-10-c layout holds all five severities; leave --severity out".into(),
            )
            .into());
        }
        if args.input.is_dir() && resolved(out)?.starts_with(resolved(&args.input)?) {
            let (out, input) = (out.display(), args.input.display());
            let why = format!(
                "--out: expected a folder outside the input, where its own images are not corrupted again; \
                 found {out} in {input}"
            );
            return Err(Usage(why).into());
        }
        let settings = Settings::new(args, format)?;
        paint_files::create_folder(out)
            .with_context(|| format!("cannot create {}", out.display()))?;
        let _claim = paint_files::claim(out)?;
        settings.agree(out)?;
        let files = match format {
            Format::ImagenetC => imagenet_c::write(&job, &args.input, out, args.imagenet_crop)?,
            Format::Cifar10C => cifar10_c::write(&job, row, &args.input, out)?,
        };
        done.files_written = job.written.into_inner();
        done.files_kept = files - done.files_written;
    }
    if let Some(path) = &args.sheet {
        let job = self::job(args)?;
        let data = (row.open)(&args.input, &dataset::Options::default())?;
        if args.sheet_image >= data.len(0) {
            return Err(
                Usage(format!("--sheet-image: the input has {} images", data.len(0))).into()
            );
        }
        let image =
            imagenet_c::cropped(data.sample(0, args.sheet_image)?.image, args.imagenet_crop)?;
        let sheet = sheet::draw(&job, &image, args.sheet_image)?;
        paint_data::write_atomically(path, |out| sheet.write_png(out))?;
        done.sheet = Some(path.clone());
    }
    args.output.print(&done, |done| {
        let sheet = done
            .sheet
            .as_ref()
            .map_or_else(String::new, |path| format!("sheet: {}\n", path.display()));
        format!("{} files written, {} kept\n{sheet}", done.files_written, done.files_kept)
    })
}

fn job(args: &Args) -> anyhow::Result<Job> {
    let corruptions = if args.corruption.is_empty() {
        CORRUPTIONS.iter().filter(|corruption| !corruption.held_out).collect()
    } else if args.corruption == ["all"] {
        CORRUPTIONS.iter().collect()
    } else {
        let named = args.corruption.iter().map(|name| corruption::by_name(name));
        named.collect::<paint_data::Result<Vec<_>>>().map_err(|error| Usage(error.to_string()))?
    };
    let mut severities =
        if args.severity.is_empty() { vec![1, 2, 3, 4, 5] } else { args.severity.clone() };
    severities.sort_unstable();
    severities.dedup();
    let textures = args.frost_textures.as_deref().map(dataset::read_textures).transpose()?;
    Ok(Job {
        corruptions,
        severities,
        table: args.table,
        textures,
        seed: Seed(args.seed.value()),
        written: AtomicUsize::new(0),
    })
}
