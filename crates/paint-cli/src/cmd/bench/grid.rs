//! `paint bench --protocol P` and `--reproduce T`: a grid of methods, orders and seeds, resumable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use paint_bench::grid::{Grid, Results, Variant, execute};
use paint_bench::protocol::{MOST_SEEDS, Place, Protocol};
use paint_bench::report::{Publication, publish, references, results_terminal};
use paint_bench::reproduce::{Target, every_method};
use paint_methods::Registry;
use paint_run::Draft;
use paint_run::config::method_of;
use paint_run::model::embedded;

use super::progress::Progress;
use super::shell;
use crate::Usage;
use crate::flags::{EarlierFlags, NetworkFlags, SetFlag, warn_of_idle};
use crate::output::Output;
use crate::place::{dataset_row, refuse_foreign};
use crate::signals::Signals;
use crate::source::SourceArgs;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Protocol, built in (see `paint list protocols`) or a TOML file
    #[arg(long, value_name = "NAME", conflicts_with = "reproduce")]
    protocol: Option<String>,
    /// Table or figure of the paper (see `paint list tables`); on the embedded images unless --data is given
    #[arg(long, value_name = "NAME")]
    reproduce: Option<String>,
    /// Methods, separated by commas; `all` for every one (those that need source images, if there are some)
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    methods: Vec<String>,
    /// One setting at several values, such as paint.eta=0.2,0.5; each makes a row
    #[arg(long, value_name = "METHOD.KEY=V,..")]
    sweep: Vec<String>,
    #[command(flatten)]
    set: SetFlag,
    /// Seeds: 0..4 (both ends included) or 0,1,7 [default: those of the protocol]
    #[arg(long, value_name = "LIST", conflicts_with = "seed")]
    seeds: Option<String>,
    /// Use at most this many images per domain
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Folder or file of the dataset
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Dataset in place of the protocol's; see `paint list datasets`
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Corrupt the clean images on the fly
    #[arg(long)]
    corrupt: bool,
    /// Clean images for the accuracy on clean images, where the stream has none: CIFAR-10 in its official layout, a folder
    /// by class, or an array
    #[arg(long, value_name = "PATH")]
    clean_data: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Weights file, or `embedded`
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkFlags,
    /// Number of runs at the same time; timings are reported only with 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Save a checkpoint every N batches of a run
    #[arg(long, value_name = "N", default_value_t = 50)]
    checkpoint_every: usize,
    /// Folder for the results; finished runs in it are not run again [default: out/bench-NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierFlags,
    /// Leave timings out of the page, so that it depends on the results only
    #[arg(long)]
    no_timing: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.network.compute.threads.start()?;
    let target = args.reproduce.as_deref().map(Target::find).transpose()?;
    let named = named(args, target)?;
    let protocol = protocol(args, target, named.clone())?;
    let place = place(args, &protocol, target)?;
    refuse_foreign(&place.out, "bench")?;
    let variants = variants(args, target, &protocol)?;
    warn_of_idle_settings(&assignments(args, target)?, &variants);
    let protocol = protocol.resolve(&place)?;
    let grid = Grid::new(protocol, variants, &place)?;
    note!("protocol {} {}: {}", grid.protocol.name, grid.hash, grid.protocol.what);
    for difference in grid.protocol.departures(&named)? {
        note!("  {difference}");
    }
    for (variant, settings) in grid.rows() {
        let settings = settings.to_string();
        let settings = if settings.is_empty() { "no settings" } else { &settings };
        note!("  {}: {settings}", variant.label);
    }
    paint_files::create_folder(&place.out)
        .with_context(|| format!("cannot create {}", place.out.display()))?;
    let _claim = paint_files::claim(&place.out)?;
    if args.earlier.overwrite {
        forget(&place.out)?;
    }
    let progress = Progress::new(&grid)?;
    let signals = Signals::watch()?;
    let outcome = execute(&grid, args.jobs.max(1), signals.stop(), &|event| progress.tell(&event));
    progress.finish();
    if outcome.unfinished > 0 {
        let (left, all) = (outcome.unfinished, grid.cells.len());
        let what = format!("stopped with {left} of {all} runs left; the same command continues");
        return Err(signals.ended(what).into());
    }
    let results = Results {
        target: target.map(|target| target.name.to_owned()),
        ..Results::new(&grid, &outcome, &command(args))
    };
    let references = references(&results);
    publish(&Publication {
        grid: &grid,
        outcome: &outcome,
        results: &results,
        references: &references,
        timing: !args.no_timing,
    })?;
    note!("written: {}", place.out.join("report.html").display());
    args.output.print(&results, results_terminal)?;
    match results.failed() {
        Some(count) => bail!("{count}: see above"),
        None => Ok(()),
    }
}

/// Removes the runs of an earlier grid.
fn forget(out: &Path) -> anyhow::Result<()> {
    let cells = out.join("cells");
    match fs::remove_dir_all(&cells) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", cells.display()))
        }
        _ => Ok(()),
    }
}

/// The protocol that is asked for, as it is written.
fn named(args: &Args, target: Option<&Target>) -> anyhow::Result<Protocol> {
    Ok(match (target, &args.protocol) {
        (Some(target), _) if args.data.is_some() => Protocol::find(target.full)?,
        (Some(target), _) => {
            let mut small = Protocol::find(target.small)?;
            small.scenario.limit = Some(target.small_limit);
            small
        }
        (None, Some(name)) => Protocol::find(name)?,
        (None, None) => {
            return Err(Usage("give --protocol, --reproduce or a subcommand".into()).into());
        }
    })
}

/// The same with the flags in it.
fn protocol(
    args: &Args,
    target: Option<&Target>,
    mut protocol: Protocol,
) -> anyhow::Result<Protocol> {
    if let Some(seeds) = &args.seeds {
        protocol.seeds = parse_seeds(seeds)?;
    }
    protocol.seeds = args.network.seed.seed.map_or(protocol.seeds, |seed| vec![seed]);
    if let Some(size) = args.network.batch_size {
        protocol.scenario.batch_size = size as usize;
    }
    protocol.scenario.limit = args.limit.or(protocol.scenario.limit);
    if let Some(dataset) = &args.dataset {
        protocol.data.name.clone_from(dataset);
    }
    if args.corrupt {
        protocol.data.corrupt.get_or_insert_default();
    }
    let mut draft = Draft::parse(&protocol.to_toml()?, &protocol.name)?;
    args.source.apply(&mut draft)?;
    protocol = Protocol::parse(&draft.text()?, &protocol.name)?;
    for assignment in assignments(args, target)? {
        protocol.set(&assignment)?;
    }
    if let Some(path) = &args.clean_data {
        let data = paint_data::dataset::Config {
            name: dataset_row(path).into(),
            path: path.clone(),
            options: paint_data::dataset::Options::default(),
            corrupt: None,
        };
        protocol.probe.get_or_insert_default().data = Some(data);
    }
    if let Some(target) = target {
        target.adjust(&mut protocol);
    }
    protocol.check(&Registry::default())?;
    Ok(protocol)
}

fn place(args: &Args, protocol: &Protocol, target: Option<&Target>) -> anyhow::Result<Place> {
    let is_inside = paint_data::dataset::entry(&protocol.data.name)?.is_inside;
    let data = match &args.data {
        Some(data) => data.clone(),
        None if is_inside => PathBuf::new(),
        None => {
            return Err(Usage(format!("give --data, the place of {}", protocol.data.name)).into());
        }
    };
    let weights = match &args.weights {
        Some(weights) => weights.clone(),
        None if is_inside => embedded::NAME.into(),
        None => return Err(Usage("give --weights, or --weights embedded".into()).into()),
    };
    let name = target.map_or(protocol.name.as_str(), |target| target.name);
    let name = PathBuf::from(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = protocol.source.as_ref().map(|source| source.path.clone()).unwrap_or_default();
    let probed = protocol.probe.as_ref().and_then(|probe| probe.data.as_ref());
    Ok(Place {
        source,
        clean: probed.map(|data| data.path.clone()).unwrap_or_default(),
        out: args.out.clone().unwrap_or_else(|| format!("out/bench-{name}").into()),
        data,
        weights,
        device: args.network.compute.device().to_owned(),
        precision: args.network.compute.precision().to_owned(),
        threads: args.network.compute.threads.threads,
        checkpoint_every: args.checkpoint_every,
        methods: Registry::default(),
    })
}

fn variants(
    args: &Args,
    target: Option<&Target>,
    protocol: &Protocol,
) -> anyhow::Result<Vec<Variant>> {
    let mut variants = Vec::new();
    for name in &args.methods {
        match name.as_str() {
            "all" => variants.extend(every_method(protocol)),
            name => variants.push(Variant::plain(name)),
        }
    }
    for sweep in &args.sweep {
        variants.extend(swept(sweep)?);
    }
    match target {
        Some(target) if variants.is_empty() => Ok((target.variants)(protocol)),
        _ if variants.is_empty() => Err(Usage("give --methods or --sweep".into()).into()),
        _ => Ok(variants),
    }
}

/// The assignments of `--set`, each with the name of its method.
fn assignments(args: &Args, target: Option<&Target>) -> Result<Vec<String>, Usage> {
    let named = |list: &String| list != "all";
    let alone = target.is_none() && args.sweep.is_empty() && args.methods.iter().all(named);
    args.set.for_methods(if alone { &args.methods } else { &[] })
}

/// Says which settings belong to a method that has no row.
fn warn_of_idle_settings(assignments: &[String], variants: &[Variant]) {
    for assignment in assignments {
        if let Some(method) = method_of(assignment)
            && !variants.iter().any(|variant| variant.method == method)
        {
            warn_of_idle(assignment, method);
        }
    }
}

/// `paint.eta=0.2,0.5` as two rows.
fn swept(text: &str) -> anyhow::Result<Vec<Variant>> {
    let usage = || Usage(format!("expected METHOD.KEY=VALUE,VALUE.., got {text:?}"));
    let (place, values) = text.split_once('=').ok_or_else(usage)?;
    let (method, key) = place.split_once('.').ok_or_else(usage)?;
    let row = |value: &str| {
        let mut draft = Draft::default();
        draft.set_assignment(&format!("{key}={value}"))?;
        let settings = draft.text()?.parse().map_err(|_| usage())?;
        Ok(Variant::with(&format!("{method} {key}={value}"), method, settings))
    };
    values.split(',').map(row).collect()
}

/// `0..4` with both ends, or `0,1,7`.
fn parse_seeds(text: &str) -> anyhow::Result<Vec<u64>> {
    let usage = || Usage(format!("--seeds: expected 0..4 or 0,1,7, got {text:?}"));
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| usage());
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
            if last.saturating_sub(first) >= MOST_SEEDS as u64 {
                let why = format!("--seeds: expected at most {MOST_SEEDS}, got {text:?}");
                return Err(Usage(why).into());
            }
            (first..=last).collect()
        }
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    if seeds.is_empty() { Err(usage().into()) } else { Ok(seeds) }
}

/// The command line without what only this machine knows.
fn command(args: &Args) -> String {
    let mut words = vec!["paint bench".to_owned()];
    let mut flag = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name} {}", shell::word(value)),
        }));
    };
    // A user's protocol lies beside the results under this name.
    let own = |name: &String| Path::new(name).extension().is_some();
    let protocol = args.protocol.clone();
    flag("protocol", protocol.map(|name| if own(&name) { "protocol.toml".into() } else { name }));
    flag("reproduce", args.reproduce.clone());
    flag("methods", (!args.methods.is_empty()).then(|| args.methods.join(",")));
    args.sweep.iter().for_each(|sweep| flag("sweep", Some(sweep.clone())));
    args.set.assignments.iter().for_each(|set| flag("set", Some(set.clone())));
    flag("seeds", args.seeds.clone());
    flag("limit", args.limit.map(|limit| limit.to_string()));
    flag("dataset", args.dataset.clone());
    flag("data", args.data.as_ref().map(|_| "DATA".into()));
    flag("corrupt", args.corrupt.then(String::new));
    args.source.words().into_iter().for_each(|(name, value)| flag(name, Some(value)));
    flag("clean-data", args.clean_data.as_ref().map(|_| "CLEAN".into()));
    let weights = args.weights.as_ref();
    let named = |path: &PathBuf| path.as_os_str() == embedded::NAME;
    flag(
        "weights",
        weights.map(|path| if named(path) { embedded::NAME } else { "WEIGHTS" }.into()),
    );
    let NetworkFlags { batch_size, seed, compute } = &args.network;
    flag("batch-size", batch_size.map(|size| size.to_string()));
    flag("seed", seed.seed.map(|seed| seed.to_string()));
    flag("device", compute.device.clone().filter(|device| device != "cpu"));
    flag("precision", compute.precision.clone().filter(|precision| precision != "f32"));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_with_both_ends_or_a_list() {
        assert_eq!(parse_seeds("0..4").unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(parse_seeds("3,1").unwrap(), [3, 1]);
        for wrong in ["", "a", "4..0", "1,,2", "0..99999999999", "0..18446744073709551615"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sweep_makes_a_row_for_each_value() {
        let rows = swept("paint.eta=0.2,0.5").unwrap();
        assert_eq!(rows[1].label, "paint eta=0.5");
        assert_eq!(
            (rows[1].method.as_str(), rows[1].settings["eta"].as_float()),
            ("paint", Some(0.5))
        );
        assert!(swept("eta=0.2").is_err() && swept("paint.eta").is_err());
    }
}
