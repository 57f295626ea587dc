//! One page that shows several runs of a stream: it needs no network, and follows the reader's dark or light setting.

mod analysis;
mod bench;
mod cam;
mod chart;
mod embed;
mod heat;
mod memory;
mod picture;
mod plot;
mod scatter;
mod sweep;

use std::fmt::Write as _;

use paint_data::Image;

pub use bench::{BenchPage, Trace, bench_page};
pub use cam::{CamMap, CamShot, cam_page};
pub use picture::picture;

use embed::{escape, png_uri};
use paint_run::event::BatchDone;
use paint_run::summary::Summary;

/// One run on the page.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its result.
    pub summary: &'a Summary,
    /// Its batches, in order.
    pub batches: &'a [BatchDone],
}

/// One image on the page.
#[derive(Debug, Clone)]
pub struct Shot {
    /// The domain it comes from.
    pub domain: String,
    /// As the model saw it.
    pub image: Image,
    /// Its true class.
    pub truth: String,
    /// What each run took it for, in their order.
    pub predicted: Vec<String>,
}

const STYLE: &str = "
:root{--bg:#fff;--fg:#1c2024;--dim:#667;--line:#d9dde3;--card:#f6f7f9;--c0:#8a94a6;--c1:#1f6feb;--c2:#c2410c;--c3:#15803d;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e8eb;--dim:#98a1ad;--line:#333a43;--card:#1d2127;--c0:#8a94a6;--c1:#6aa5ff;--c2:#fb923c;--c3:#4ade80;--bad:#ff8a7a}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{color:var(--dim);margin:.3rem 0}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.heads{display:flex;gap:1rem;flex-wrap:wrap;margin-top:1rem}.head{background:var(--card);border-radius:8px;padding:.6rem 1rem}
.head b{font-size:1.6rem}table{border-collapse:collapse}td,th{padding:.15rem .8rem;text-align:right}td:first-child,th:first-child{text-align:left}
tr:last-child td{border-top:1px solid var(--line);font-weight:600}.shots{display:flex;flex-wrap:wrap;gap:.8rem}
.shot{background:var(--card);border-radius:8px;padding:.5rem;width:128px;font-size:12px}.shot img{width:100%;image-rendering:pixelated;border-radius:4px}
.bad{color:var(--bad)}.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
";

/// The page.
pub fn page(title: &str, intro: &str, runs: &[Run<'_>], shots: &[Shot]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1><p>{1}</p>",
        escape(title),
        escape(intro)
    );
    html.push_str("<div class=\"heads\">");
    for (i, run) in runs.iter().enumerate() {
        let mean =
            run.summary.mean_accuracy.map_or_else(|| "-".into(), |mean| format!("{mean:.1} %"));
        let _ = write!(
            html,
            "<div class=\"head\">{}{}<br><b>{mean}</b></div>",
            key(i),
            escape(&run.summary.method)
        );
    }
    html.push_str("</div>");
    section(&mut html, "Accuracy by domain", "Mean over the images of each visit, in percent.");
    html.push_str(&chart::bars(runs));
    section(
        &mut html,
        "Accuracy along the stream",
        "Within the visit so far; it starts anew at each line.",
    );
    html.push_str(&chart::curves(runs));
    for run in runs.iter().filter(|run| run.batches.iter().any(|batch| batch.prompt.is_some())) {
        let title = format!("Prompts of {}", run.summary.method);
        section(
            &mut html,
            &title,
            "One cell a batch, one row a prompt; a ring marks the batch it was made for.",
        );
        html.push_str(&chart::prompts(run.batches));
    }
    if !shots.is_empty() {
        section(&mut html, "Images", "One of each domain, and what each method took it for.");
        html.push_str("<div class=\"shots\">");
        shots.iter().for_each(|shot| html.push_str(&card(shot, runs)));
        html.push_str("</div>");
    }
    html.push_str("<h2>Numbers</h2>");
    html.push_str(&table(runs));
    html.push_str("</body></html>\n");
    html
}

fn section(html: &mut String, title: &str, text: &str) {
    let _ = write!(html, "<h2>{}</h2><p>{}</p>", escape(title), escape(text));
}

fn key(i: usize) -> String {
    format!("<span class=\"key\" style=\"background:{}\"></span>", chart::colour(i))
}

fn card(shot: &Shot, runs: &[Run<'_>]) -> String {
    let mut html = format!(
        "<div class=\"shot\"><img alt=\"{0}\" src=\"{1}\"><b>{0}</b><br>{2}",
        escape(&shot.domain),
        png_uri(&shot.image),
        escape(&shot.truth)
    );
    for (i, (run, class)) in runs.iter().zip(&shot.predicted).enumerate() {
        let bad = if *class == shot.truth { "" } else { " class=\"bad\"" };
        let _ = write!(
            html,
            "<br>{}<span{bad} title=\"{}\">{}</span>",
            key(i),
            escape(&run.summary.method),
            escape(class)
        );
    }
    html + "</div>"
}

fn table(runs: &[Run<'_>]) -> String {
    let summaries: Vec<&Summary> = runs.iter().map(|run| run.summary).collect();
    let mut html = String::from("<table>");
    for (i, row) in paint_run::table::cells(&summaries).iter().enumerate() {
        let tag = if i == 0 { "th" } else { "td" };
        html.push_str("<tr>");
        row.iter().for_each(|cell| {
            let _ = write!(html, "<{tag}>{}</{tag}>", escape(cell));
        });
        html.push_str("</tr>");
    }
    html + "</table>"
}

#[cfg(test)]
mod tests {
    use paint_run::event::Prompt;

    use super::*;

    /// A run with one visit for each accuracy.
    fn summary(method: &str, visits: &[(&str, u8, f64)]) -> Summary {
        let timing = serde_json::json!({"ms_per_batch": 1.5, "images_per_s": 20.0});
        let visit = |(name, severity, accuracy): &(&str, u8, f64)| {
            serde_json::json!({
                "name": name, "severity": severity, "samples": 10, "accuracy": accuracy,
                "prompts_allocated": 1, "timing": timing,
            })
        };
        let summary = serde_json::json!({
            "method": method,
            "setup": {
                "dataset": "memory", "scenario": "continual", "batch_size": 5, "backbone": "vit", "seed": 0,
                "device": "cpu", "version": "0",
            },
            "mean_accuracy": 55.0,
            "overall": {"samples": 20},
            "domains": visits.iter().map(visit).collect::<Vec<_>>(),
            "ece_bins": 15,
            "logits_hash": "0",
            "timing": timing,
        });
        serde_json::from_value(summary).unwrap()
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
            prompt: prompt.map(|prompt| Prompt {
                index: prompt,
                allocated: true,
                reliability: None,
            }),
            scalars: std::collections::BTreeMap::new(),
            ms: 1.0,
        }
    }

    #[test]
    fn a_page_shows_every_run_and_needs_nothing_from_outside() {
        let visits = [("fog", 5, 50.0), ("<snow>", 5, 60.0)];
        let (source, paint) = (summary("source", &visits), summary("paint", &visits));
        let plain = [batch(0, 0, None), batch(1, 0, None), batch(2, 1, None)];
        let prompted = [batch(0, 0, Some(0)), batch(1, 0, Some(0)), batch(2, 1, Some(7))];
        let shot = Shot {
            domain: "<snow>".into(),
            image: Image::new(2, 1, vec![9; 6]).unwrap(),
            truth: "cat".into(),
            predicted: vec!["dog".into(), "cat".into()],
        };
        let runs = [
            Run { summary: &source, batches: &plain },
            Run { summary: &paint, batches: &prompted },
        ];
        let html = page("Title", "Intro", &runs, &[shot]);
        assert!(!html.contains("http") && !html.contains("<snow>"), "{html}");
        assert!(html.contains("&lt;snow&gt;") && html.contains("data:image/png;base64,iVBOR"));
        // Four bars, two curves of one move for each visit, three cells of which all were allocations.
        assert_eq!(html.matches("<rect").count(), 4 + 3);
        assert_eq!(html.matches("<path").count(), 2);
        // The second visit has one batch and is a level line in both curves.
        let paths = html.split("<path d=\"").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(paths.map(|path| path.matches('H').count()).sum::<usize>(), 2);
        assert_eq!(html.matches("rx=\"2\"").count(), 3);
        assert_eq!(html.matches("class=\"bad\"").count(), 1);
        assert_eq!(html.matches("Prompts of").count(), 1);
        for tag in ["svg", "div", "table", "tr", "span"] {
            let (opened, closed) = (
                html.matches(&format!("<{tag}")).count(),
                html.matches(&format!("</{tag}>")).count(),
            );
            assert_eq!(opened, closed, "{tag}");
        }
    }
}
