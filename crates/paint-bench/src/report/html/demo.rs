//! The page of the demo: several runs of one stream, side by side.

use std::fmt::Write as _;

use paint_run::escape::html as escape;
use paint_run::event::BatchDone;
use paint_run::metric::Rate;
use paint_run::{Summary, table};

use super::chart::{Group, Series, colour, groups, lines, on_page};
use super::embed::{Shot, key, shot_cards};
use super::page::Page;
use super::prompts;
use super::table::Table;
use super::visits::visits;

/// One run on the page.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its result.
    pub summary: &'a Summary,
    /// Its settings in a few words; empty if it has none.
    pub settings: &'a str,
    /// Its batches, in order.
    pub batches: &'a [BatchDone],
}

/// Everything the page shows.
#[derive(Debug, Clone, Copy)]
pub struct DemoPage<'a> {
    /// What the page is called.
    pub title: &'a str,
    /// What was done.
    pub intro: &'a str,
    /// Model, seed and whatever else is true of all runs.
    pub facts: &'a [String],
    /// The runs.
    pub runs: &'a [Run<'a>],
    /// One image for each domain.
    pub shots: &'a [Shot],
    /// What to try next: a sentence and a command.
    pub next: &'a [(&'a str, &'a str)],
    /// Whether accuracies or errors are shown.
    pub rate: Rate,
}

/// The page.
pub fn demo_page(demo: &DemoPage<'_>) -> String {
    let DemoPage { title, intro, facts, runs, shots, next, rate } = *demo;
    let mut page = Page::new(title, intro);
    facts.iter().for_each(|fact| page.fact(fact));
    let text = "In percent, over the images of each visit.";
    let html = heads(runs, rate) + &on_page(&by_domain(runs, rate));
    page.section("domains", &format!("{} by domain", rate.title()), text, &html);
    let text =
        "In percent, within the visit so far: each line starts anew where the next domain begins.";
    let title = format!("{} along the stream", rate.title());
    page.section("stream", &title, text, &on_page(&along_the_stream(runs, rate)));
    for (i, run) in runs.iter().enumerate() {
        if run.batches.iter().any(|batch| batch.prompt.is_some()) {
            let title = format!("Prompts of {}", run.summary.method);
            let strip = on_page(&prompts::strip(run.batches));
            page.section(&format!("prompts-{i}"), &title, prompts::TEXT, &strip);
        }
    }
    if !shots.is_empty() {
        let methods: Vec<&str> = runs.iter().map(|run| run.summary.method.as_str()).collect();
        let text = "An image of each domain with its class, and what each method took it for.";
        page.section("images", "Images", text, &shot_cards(shots, &methods));
    }
    let text = format!("{} in percent.", rate.title());
    page.section("numbers", "Numbers", &text, &numbers(runs, rate));
    if !next.is_empty() {
        let commands = next.iter().map(|(what, command)| {
            format!("<p>{}</p><pre>{}</pre>", escape(what), escape(command))
        });
        page.section("next", "What next", "", &commands.collect::<String>());
    }
    page.finish()
}

/// The mean of each run, large, and its settings.
fn heads(runs: &[Run<'_>], rate: Rate) -> String {
    let mut html = String::from("<div class=\"heads\">");
    for (i, run) in runs.iter().enumerate() {
        let mean = run.summary.mean_accuracy.map(|mean| rate.of(mean));
        let _ = write!(
            html,
            "<div>{}{}<br><b>{}</b><small>{}</small></div>",
            key(&colour(i)),
            escape(&run.summary.method),
            mean.map_or_else(|| "-".into(), |mean| format!("{mean:.1} %")),
            escape(run.settings)
        );
    }
    html + "</div>"
}

fn by_domain(runs: &[Run<'_>], rate: Rate) -> String {
    let names = runs.iter().enumerate().map(|(i, run)| (run.summary.method.as_str(), colour(i)));
    let domains = runs.first().map_or(&[][..], |run| &run.summary.domains);
    let group = |(d, domain): (usize, &paint_run::summary::DomainResult)| Group {
        name: domain.name.clone(),
        values: runs
            .iter()
            .map(|run| run.summary.domains.get(d)?.figures.accuracy.map(|value| rate.of(value)))
            .collect(),
    };
    let all: Vec<Group> = domains.iter().enumerate().map(group).collect();
    groups(&format!("{} by domain", rate.name()), &names.collect::<Vec<_>>(), &all)
}

fn along_the_stream(runs: &[Run<'_>], rate: Rate) -> String {
    let line = |(i, run): (usize, &Run<'_>)| {
        let mut one = Series::new(&run.summary.method, colour(i), Vec::new());
        one.runs = within_visits(run.batches, rate);
        one
    };
    let series: Vec<Series> = runs.iter().enumerate().map(line).collect();
    let marks = runs.first().map(|run| visits(run.batches)).unwrap_or_default();
    lines(&format!("{} along the stream", rate.name()), &series, &marks)
}

/// The rate batch by batch, one run of points for each visit. A visit of one batch is a level line across it.
fn within_visits(batches: &[BatchDone], rate: Rate) -> Vec<Vec<(f64, f64)>> {
    let mut visits: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut last = None;
    for (i, batch) in batches.iter().enumerate() {
        let Some(accuracy) = batch.domain_accuracy else { continue };
        if last != Some(batch.segment) {
            visits.push(Vec::new());
        }
        last = Some(batch.segment);
        visits
            .last_mut()
            .into_iter()
            .for_each(|visit| visit.push((i as f64 + 0.5, rate.of(accuracy))));
    }
    for visit in &mut visits {
        if let [(x, y)] = visit[..] {
            *visit = vec![(x - 0.35, y), (x + 0.35, y)];
        }
    }
    visits
}

fn numbers(runs: &[Run<'_>], rate: Rate) -> String {
    let summaries: Vec<&Summary> = runs.iter().map(|run| run.summary).collect();
    let mut lines = table::cells(&summaries, rate).into_iter();
    let mut table = Table::new(lines.next().unwrap_or_default());
    lines.for_each(|line| table.row(line));
    table.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use paint_data::Image;
    use paint_run::Setup;
    use paint_run::event::Prompt;
    use paint_run::summary::{DomainResult, Figures, RunTiming, Timing};

    use super::*;

    fn summary(method: &str, visits: &[(&str, f64)]) -> Summary {
        let timing = Timing { ms_per_batch: 1.5, images_per_s: 20.0 };
        let figures = |accuracy: f64| Figures {
            samples: 10,
            accuracy: Some(accuracy),
            error: Some(100.0 - accuracy),
            ece: Some(2.0),
            nll: Some(0.5),
        };
        let domain = |(name, accuracy): &(&str, f64)| DomainResult {
            name: (*name).into(),
            severity: Some(5),
            figures: figures(*accuracy),
            prompts_allocated: 1,
            timing: timing.clone(),
        };
        Summary {
            method: method.into(),
            setup: Setup {
                dataset: "memory".into(),
                scenario: "continual".into(),
                batch_size: 5,
                limit: None,
                backbone: "vit".into(),
                weights_sha256: None,
                seed: 0,
                device: "cpu".into(),
                version: "0".into(),
            },
            mean_accuracy: Some(55.0),
            mean_error: Some(45.0),
            overall: figures(55.0),
            domains: visits.iter().map(domain).collect(),
            by_domain: Vec::new(),
            matching: None,
            glances: Vec::new(),
            cost: None,
            ece_bins: 15,
            logits_hash: "0".into(),
            timing: RunTiming { speed: timing.clone(), peak_memory_mib: None },
        }
    }

    fn batch(index: usize, segment: usize, prompt: Option<usize>) -> BatchDone {
        BatchDone {
            index,
            of: 3,
            segment,
            domain: ["fog", "<snow>"][segment].into(),
            severity: Some(5),
            samples: 10,
            domain_accuracy: Some(50.0),
            running_accuracy: Some(50.0),
            prompt: prompt.map(|index| Prompt { index, allocated: true, reliability: None }),
            scalars: BTreeMap::new(),
            guard: None,
            ms: 1.0,
        }
    }

    #[test]
    fn a_page_shows_every_run_says_what_was_run_and_needs_nothing_from_outside() {
        let visits = [("fog", 50.0), ("<snow>", 60.0)];
        let (source, paint) = (summary("source", &visits), summary("paint", &visits));
        let plain = [batch(0, 0, None), batch(1, 0, None), batch(2, 1, None)];
        let prompted = [batch(0, 0, Some(0)), batch(1, 0, Some(0)), batch(2, 1, Some(7))];
        let shot = Shot {
            domain: "<snow>".into(),
            image: Image::new(2, 1, vec![9; 6]).unwrap(),
            truth: "cat".into(),
            predicted: vec!["dog".into(), "cat".into()],
        };
        let html = demo_page(&DemoPage {
            title: "Title",
            intro: "Intro",
            facts: &["model vit".into(), "seed 3".into()],
            runs: &[
                Run { summary: &source, settings: "", batches: &plain },
                Run { summary: &paint, settings: "paper_adam, eta=0.4", batches: &prompted },
            ],
            shots: &[shot],
            next: &[("Compare all methods:", "paint bench --reproduce table1")],
            rate: Rate::Accuracy,
        });
        assert!(!html.contains("http") && !html.contains("<snow>"), "{html}");
        assert!(html.contains("&lt;snow&gt;") && html.contains("data:image/png;base64,iVBOR"));
        for told in ["model vit", "seed 3", "paper_adam, eta=0.4", "paint bench --reproduce table1"]
        {
            assert!(html.contains(told), "{told}");
        }
        // Two lines of two visits each; the second visit has one batch.
        let paths: Vec<&str> = html
            .split("<path class=\"line\" d=\"")
            .skip(1)
            .filter_map(|p| p.split('"').next())
            .collect();
        assert_eq!(paths.len(), 2);
        assert!(paths.iter().all(|path| path.matches('M').count() == 2), "{paths:?}");
        assert_eq!(html.matches("class=\"ring\"").count(), 3);
        assert_eq!(html.matches("class=\"bad\"").count(), 1);
        assert_eq!(html.matches("<h2>Prompts of").count(), 1);
        for tag in ["svg", "div", "table", "tr", "span", "section"] {
            let count = |text: &str| html.matches(text).count();
            assert_eq!(count(&format!("<{tag}")), count(&format!("</{tag}>")), "{tag}");
        }
    }
}
