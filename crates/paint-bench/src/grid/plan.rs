//! The cells of a grid as lines of a file, for many machines: each line says all that one of them needs to run its
//! cell.
//!
//! Cells are independent and named by their hash. Whoever runs one leaves it in the folder of the results;
//! `paint bench`, asked for the grid, then finds it finished. No machine trusts that its images are those of the
//! plan: some of each domain are compared first.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use paint_run::config::{Config, Method};
use paint_run::experiment::Experiment;
use paint_run::fingerprint::glimpse;
use paint_run::{Error, Result};
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::layout::Grid;
use super::timing::CellTiming;

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// The hash of the cell.
    pub cell: String,
    /// The hash of the protocol.
    pub protocol: String,
    /// The row.
    pub label: String,
    /// The order of the stream, where the protocol has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Images of the stream.
    pub images: usize,
    /// What the run is expected to take, where times of its row are known.
    pub seconds: Option<f64>,
    /// Digits over some of the images.
    pub glimpse: String,
    /// Everything that decides the run.
    pub config: Config,
}

/// A part of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl Planned {
    /// A line for each cell, once where rows share it. `timings` of earlier runs say what a row takes per image.
    pub fn all(grid: &Grid, timings: &[CellTiming]) -> Result<Vec<Self>> {
        let mut streams = BTreeMap::new();
        let mut lines: Vec<Self> = Vec::new();
        for cell in &grid.cells {
            if lines.iter().any(|line| line.cell == cell.id) {
                continue;
            }
            let stream = (cell.order.clone(), cell.config.seed);
            let (images, glimpse) = match streams.get(&stream) {
                Some(known) => known,
                None => streams.entry(stream).or_insert(look(cell)?),
            };
            let known = timings.iter().find(|timing| timing.label == cell.label);
            lines.push(Self {
                cell: cell.id.clone(),
                protocol: grid.hash.clone(),
                label: cell.label.clone(),
                order: cell.order.clone(),
                images: *images,
                seconds: known.map(|timing| timing.ms_per_image * *images as f64 / 1e3),
                glimpse: glimpse.clone(),
                config: cell.config.clone(),
            });
        }
        Ok(lines)
    }

    /// The lines of a plan. One that cannot be read is named by its number; a plan is one of one protocol.
    pub fn read(path: &Path) -> Result<Vec<Self>> {
        let io = |source| Error::Io { action: "read", source, path: path.to_owned() };
        let text = paint_files::read_text(path).map_err(io)?;
        let refuse = |why| Error::Results { why, path: path.to_owned() };
        let mut lines: Vec<Self> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line: Self = serde_json::from_str(line)
                .map_err(|error| refuse(format!("line {}: {error}", at + 1)))?;
            let first = lines.first().map_or(&line.protocol, |first| &first.protocol);
            if line.protocol != *first {
                let why =
                    format!("line {}: expected protocol {first}, found {}", at + 1, line.protocol);
                return Err(refuse(why));
            }
            lines.push(line);
        }
        if lines.is_empty() {
            Err(refuse("expected a line for each run, found none".into()))
        } else {
            Ok(lines)
        }
    }

    /// Writes a plan, whole or not at all.
    pub fn write(lines: &[Self], path: &Path) -> Result<()> {
        let io = |source| Error::Io { action: "write", source, path: path.to_owned() };
        let mut text = String::new();
        for line in lines {
            let line = serde_json::to_string(line).map_err(|error| io(error.into()))?;
            text.push_str(&line);
            text.push('\n');
        }
        paint_files::write_atomically(path, |file| file.write_all(text.as_bytes())).map_err(io)
    }

    /// The cell of a line; `out` in place of the folder that the plan has.
    pub fn into_cell(self, out: Option<&Path>) -> Cell {
        let Self { cell: id, label, order, glimpse, mut config, .. } = self;
        if let Some(out) = out {
            config.out = out.join("cells").join(&id);
        }
        Cell { id, label, order, config, glimpse: Some(glimpse) }
    }

    /// What balances shards.
    fn weight(&self) -> f64 {
        self.seconds.unwrap_or(self.images as f64)
    }
}

impl Shard {
    /// Its lines. Each, the heaviest first, goes to the shard with the least to do, so every machine comes to the
    /// same parts.
    pub fn of(self, mut lines: Vec<Planned>) -> Vec<Planned> {
        lines.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then_with(|| a.cell.cmp(&b.cell)));
        let mut loads = vec![0.0; self.of];
        lines.retain(|line| {
            let least = (0..self.of).min_by(|&a, &b| f64::total_cmp(&loads[a], &loads[b]));
            let Some(least) = least else { return false };
            loads[least] += line.weight();
            least == self.index
        });
        lines
    }
}

/// How many images the stream of a cell has, and what it is known by.
fn look(cell: &Cell) -> Result<(usize, String)> {
    // No method is needed to see the images.
    let config = Config { method: Method::source(), source: None, ..cell.config.clone() };
    let experiment = Experiment::open(config.on_cpu())?;
    let images = experiment.stream.batches.iter().map(|batch| batch.samples.len()).sum();
    Ok((images, glimpse(&*experiment.dataset, &experiment.stream)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{place, protocol};
    use super::super::variant::Variant;
    use super::*;

    fn grid(out: &Path) -> Grid {
        let place = place(out);
        let variants = vec![Variant::plain("source"), Variant::plain("tent")];
        Grid::new(protocol().resolve(&place).unwrap(), variants, &place).unwrap()
    }

    #[test]
    fn a_plan_comes_back_as_written_and_has_every_cell_once() {
        let folder = tempfile::tempdir().unwrap();
        let grid = grid(folder.path());
        let timing = CellTiming {
            cell: String::new(),
            label: "tent".into(),
            device: "cpu".into(),
            ms_per_image: 2.0,
            peak_memory_mib: None,
        };
        let lines = Planned::all(&grid, &[timing]).unwrap();
        let path = folder.path().join("plan.jsonl");
        Planned::write(&lines, &path).unwrap();
        assert_eq!(Planned::read(&path).unwrap(), lines);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].images, 16);
        assert_eq!((lines[0].seconds, lines[2].seconds), (None, Some(0.032)));
        let cell = lines[3].clone().into_cell(Some(Path::new("elsewhere")));
        assert_eq!(cell.id, grid.cells[3].id);
        assert_eq!(cell.config.out, Path::new("elsewhere/cells").join(&cell.id));
    }

    #[test]
    fn a_damaged_line_and_a_second_protocol_are_named_by_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.jsonl");
        let lines = Planned::all(&grid(folder.path()), &[]).unwrap();
        let mut other = lines.clone();
        other[1].protocol = "000000000000".into();
        Planned::write(&other, &path).unwrap();
        let message = Planned::read(&path).unwrap_err().to_string();
        assert!(message.contains("line 2: expected protocol"), "{message}");
        std::fs::write(&path, "{}\n").unwrap();
        let message = Planned::read(&path).unwrap_err().to_string();
        assert!(message.contains("line 1: missing field"), "{message}");
        std::fs::write(&path, "").unwrap();
        let message = Planned::read(&path).unwrap_err().to_string();
        assert!(message.contains("found none"), "{message}");
    }

    #[test]
    fn shards_hold_every_line_once_and_weigh_about_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let line = Planned::all(&grid(folder.path()), &[]).unwrap().remove(0);
        let of = |seconds: f64| Planned {
            cell: format!("{seconds}"),
            seconds: Some(seconds),
            ..line.clone()
        };
        let lines: Vec<Planned> = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0].map(of).into();
        let shards: Vec<Vec<Planned>> =
            (0..3).map(|index| Shard { index, of: 3 }.of(lines.clone())).collect();
        let weights: Vec<f64> =
            shards.iter().map(|shard| shard.iter().map(Planned::weight).sum()).collect();
        assert_eq!(weights, [10.0, 10.0, 10.0]);
        assert_eq!(shards.iter().map(Vec::len).sum::<usize>(), 6);
        let many = Shard { index: 6, of: 7 }.of(lines);
        assert!(many.is_empty(), "{many:?}");
    }
}
