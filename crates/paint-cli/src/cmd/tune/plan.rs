//! A search that was resolved and not started, for `--dry-run`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use paint_bench::tune::{Request, Rung};
use serde::Serialize;

/// What would run.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    method: String,
    dataset: String,
    corruptions: Vec<String>,
    /// The ends of what is searched, by setting.
    search: BTreeMap<&'static str, [f64; 2]>,
    /// Every setting of the first candidate, which is the method as it is.
    settings: toml::Table,
    candidates: Vec<String>,
    stages: Vec<Rung>,
    /// Over all runs, without those beside the best candidate.
    images: usize,
    whole_grid_images: usize,
}

impl Plan {
    /// Opens model and images, so that what cannot run is refused.
    pub(super) fn new(request: &Request) -> anyhow::Result<Self> {
        let grid = request.first_grid()?;
        let settings = grid.cells.first().map(|cell| cell.config.method.settings.clone());
        let (stages, domains) = (request.rungs(), request.domains().len());
        Ok(Self {
            method: request.method.clone(),
            dataset: request.protocol.data.name.clone(),
            corruptions: request.domains().to_vec(),
            search: request.space.dimensions.iter().map(|d| (d.key, d.search.ends())).collect(),
            settings: settings.unwrap_or_default(),
            candidates: grid.variants.iter().map(|variant| variant.label.clone()).collect(),
            images: stages.iter().map(Rung::cost).sum::<usize>() * domains,
            whole_grid_images: request.whole_grid(),
            stages,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut out =
            format!("{} on {} of {}\n", self.method, self.corruptions.join(", "), self.dataset);
        for (key, [low, high]) in &self.search {
            let _ = writeln!(out, "search     {key} from {low} to {high}");
        }
        let fixed = self.settings.iter().filter(|(key, _)| !self.search.contains_key(key.as_str()));
        let fixed: Vec<String> = fixed.map(|(key, value)| format!("{key}={value}")).collect();
        if !fixed.is_empty() {
            let _ = writeln!(out, "fixed      {}", fixed.join(", "));
        }
        let _ = writeln!(out, "candidates {}", self.candidates.join("; "));
        for (stage, Rung { candidates, images, rounds, seeds }) in self.stages.iter().enumerate() {
            let _ = writeln!(
                out,
                "stage {}    {candidates} candidates, {images} images per visit, {rounds} rounds, seeds {seeds:?}",
                stage + 1
            );
        }
        let share = 100.0 * self.images as f64 / self.whole_grid_images.max(1) as f64;
        let _ = writeln!(
            out,
            "cost       {} images, {share:.0} % of all candidates with all images and seeds, without what lies beside the best",
            self.images
        );
        out + "nothing was run or written\n"
    }
}
