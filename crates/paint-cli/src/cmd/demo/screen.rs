//! What the demo shows while it runs, on stderr: one line for each finished domain, and below it the one in progress.

use indicatif::{ProgressBar, ProgressStyle};
use paint_run::Event;
use paint_run::event::BatchDone;
use paint_run::metric::Rate;

use crate::message;

/// The state of the screen. All methods see a batch before the next one comes.
pub(super) struct Screen {
    methods: Vec<&'static str>,
    bar: ProgressBar,
    /// The last batch of each method.
    last: Vec<Option<BatchDone>>,
    /// Every batch of each method, for the page.
    pub(super) batches: Vec<Vec<BatchDone>>,
    /// Whether accuracies or errors are shown.
    pub(super) rate: Rate,
}

impl Screen {
    pub(super) fn new(
        methods: Vec<&'static str>,
        batches: usize,
        rate: Rate,
    ) -> anyhow::Result<Self> {
        let bar = ProgressBar::with_draw_target(Some(batches as u64), message::bar_target());
        bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}")?);
        let count = methods.len();
        let (last, batches) = (vec![None; count], vec![Vec::new(); count]);
        let screen = Self { methods, bar, last, batches, rate };
        screen.line(&screen.head());
        Ok(screen)
    }

    /// Above the bar on a terminal, otherwise plainly.
    fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            note!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    fn head(&self) -> String {
        let methods: Vec<String> = self.methods.iter().map(|name| format!("{name:>7}")).collect();
        format!("{:18} {}  prompts", format!("{} in %", self.rate.name()), methods.join(" "))
    }

    /// Takes note of what happened to the method at `at`.
    pub(super) fn observe(&mut self, at: usize, event: &Event) {
        match event {
            Event::BatchDone(batch) => {
                self.batches[at].push(batch.clone());
                self.last[at] = Some(batch.clone());
                // The first numbers come as soon as there are any.
                if at + 1 == self.methods.len() {
                    self.batch_done();
                } else if batch.index == 0 {
                    let figure = self.percent(batch.domain_accuracy);
                    self.line(&format!("{:18} {figure:>7}  after the first batch", batch.domain));
                }
            }
            Event::RunDone(_) if at + 1 == self.methods.len() => self.bar.finish_and_clear(),
            _ => {}
        }
    }

    fn batch_done(&self) {
        let Some(batch) = self.last.iter().flatten().last() else { return };
        self.bar.set_position(batch.index as u64 + 1);
        let running: Vec<String> = self
            .methods
            .iter()
            .zip(&self.last)
            .map(|(name, last)| {
                format!("{name} {}", self.percent(last.as_ref().and_then(|b| b.running_accuracy)))
            })
            .collect();
        let domain = self.domain_line(&batch.domain);
        self.bar.set_message(format!("so far {} | {domain}", running.join(", ")));
        let prompt = self.last.iter().flatten().find_map(|batch| batch.prompt);
        if let Some(prompt) = prompt.filter(|prompt| prompt.allocated) {
            let likeness = prompt
                .reliability
                .map_or_else(|| "the first".into(), |r| format!("likeness {r:.2} to the nearest"));
            self.line(&format!(
                "  {}: prompt {} allocated ({likeness})",
                batch.domain, prompt.index
            ));
        }
    }

    /// Prints the finished domain.
    pub(super) fn domain_done(&self, name: &str) {
        self.line(&self.domain_line(name));
    }

    fn domain_line(&self, name: &str) -> String {
        let accuracies: Vec<String> = self
            .last
            .iter()
            .map(|last| {
                format!(
                    "{:>7}",
                    self.percent(last.as_ref().and_then(|batch| batch.domain_accuracy))
                )
            })
            .collect();
        let prompt = self.last.iter().flatten().find_map(|batch| batch.prompt);
        let prompt =
            prompt.map_or_else(String::new, |prompt| format!("  in use: {}", prompt.index));
        format!("{name:18} {}{prompt}", accuracies.join(" "))
    }

    fn percent(&self, accuracy: Option<f64>) -> String {
        accuracy.map_or_else(|| "-".into(), |value| format!("{:.1}", self.rate.of(value)))
    }
}
