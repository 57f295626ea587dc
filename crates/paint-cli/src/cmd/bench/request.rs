//! What a benchmark was asked for: flags become a protocol, places of files, and rows.

use std::path::PathBuf;

use paint_bench::grid::Variant;
use paint_bench::protocol::{MOST_SEEDS, Place, Protocol};
use paint_bench::reproduce::{Target, every_method};
use paint_data::dataset::entry_at;
use paint_methods::Registry;
use paint_run::Draft;
use paint_run::config::method_of;
use paint_run::model::embedded;

use super::grid::Args;
use crate::Usage;
use crate::flags::warn_of_idle;

/// The protocol that is asked for, as it is written.
pub(super) fn named(args: &Args, target: Option<&Target>) -> anyhow::Result<Protocol> {
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
pub(super) fn protocol(
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
    args.wrap.apply(&mut draft, false)?;
    protocol = Protocol::parse(&draft.text()?, &protocol.name)?;
    args.preset.apply_to_protocol(&mut protocol)?;
    for assignment in assignments(args, target)? {
        protocol.set(&assignment)?;
    }
    if let Some(path) = &args.clean_data {
        let data = paint_data::dataset::Config {
            name: entry_at(path).name.into(),
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

pub(super) fn place(
    args: &Args,
    protocol: &Protocol,
    target: Option<&Target>,
) -> anyhow::Result<Place> {
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

pub(super) fn variants(
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
    if variants.is_empty() {
        variants = target.map(|target| (target.variants)(protocol)).unwrap_or_default();
    }
    args.tuned.add_rows(&mut variants)?;
    if variants.is_empty() {
        return Err(Usage("give --methods or --sweep".into()).into());
    }
    Ok(variants)
}

/// The assignments of `--set`, each with the name of its method.
pub(super) fn assignments(args: &Args, target: Option<&Target>) -> Result<Vec<String>, Usage> {
    let named = |list: &String| list != "all";
    let alone = target.is_none() && args.sweep.is_empty() && args.methods.iter().all(named);
    args.set.for_methods(if alone { &args.methods } else { &[] })
}

/// Says which settings belong to a method that has no row.
pub(super) fn warn_of_idle_settings(assignments: &[String], variants: &[Variant]) {
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
    let rows = values.split(',').map(row).collect::<anyhow::Result<Vec<Variant>>>()?;
    for (i, row) in rows.iter().enumerate() {
        if let Some(earlier) = rows[..i].iter().find(|earlier| earlier.settings == row.settings) {
            let why = format!("--sweep: {} and {} are one and the same", earlier.label, row.label);
            return Err(Usage(why).into());
        }
    }
    Ok(rows)
}

/// `0..4` with both ends, or `0,1,7`.
pub(crate) fn parse_seeds(text: &str) -> anyhow::Result<Vec<u64>> {
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

    #[test]
    fn a_sweep_over_the_same_value_twice_is_refused() {
        let error = swept("tent.lr=0.001,1e-3").unwrap_err();
        assert!(error.is::<Usage>());
        let expected = "--sweep: tent lr=0.001 and tent lr=1e-3 are one and the same";
        assert_eq!(error.to_string(), expected);
    }
}
