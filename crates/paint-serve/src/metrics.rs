//! Counters, gauges and histograms in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::now;

/// Upper ends of the buckets, in seconds.
const BUCKETS: [f64; 12] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by the values of labels.
#[derive(Debug, Default)]
pub(crate) struct Labelled(Mutex<BTreeMap<String, u64>>);

impl Labelled {
    /// Counts one under labels, which are written as Prometheus does: `code="200"`.
    pub(crate) fn count(&self, labels: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default() += 1;
    }
}

/// Times.
#[derive(Debug, Default)]
pub(crate) struct Times(Mutex<([u64; BUCKETS.len()], u64, f64)>);

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (buckets, count, sum) = &mut *held;
        for (bucket, end) in buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= end);
        }
        *count += 1;
        *sum += seconds;
    }

    /// How many, and their sum in seconds.
    pub(crate) fn total(&self) -> (u64, f64) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (held.1, held.2)
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Labelled,
    pub(crate) images: Counter,
    /// Images that were not learnt from because the steps were too slow for the stream.
    pub(crate) unlearnt: Counter,
    pub(crate) request: Times,
    pub(crate) queue: Times,
    pub(crate) predict: Times,
    pub(crate) step: Times,
    pub(crate) steps: Labelled,
    pub(crate) guard: Labelled,
    pub(crate) evictions: Counter,
    last_inference: AtomicU64,
    failures: Counter,
}

/// What is measured at the moment of asking.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gauges {
    pub(crate) streams: usize,
    pub(crate) state_bytes: usize,
    pub(crate) prompts: usize,
    /// The mean over streams in memory.
    pub(crate) estimated_accuracy: Option<f64>,
    /// The share of streams in memory whose last step the frozen model answered.
    pub(crate) frozen_answers: Option<f64>,
}

impl Metrics {
    /// Counts an inference request that ended with a status.
    pub(crate) fn answered(&self, code: u16, time: Duration) {
        self.requests.count(format!("code=\"{code}\""));
        if code == 200 {
            self.request.add(time);
            self.last_inference.store((now() * 1e3) as u64, Ordering::Relaxed);
        } else {
            self.failures.add(1);
        }
    }

    pub(crate) fn last_inference_ms(&self) -> u64 {
        self.last_inference.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failures.get()
    }
}

/// A model and what is measured of it.
pub(crate) struct Source<'a> {
    pub(crate) model: &'a str,
    pub(crate) metrics: &'a Metrics,
    pub(crate) gauges: Gauges,
}

/// `GET /metrics`.
pub(crate) fn text(sources: &[Source<'_>], queued_images: usize) -> String {
    let mut text = Text { text: String::new(), sources };
    text.labelled("paint_requests_total", "Inference requests by status.", |it| &it.requests);
    text.counter("paint_images_total", "Images answered.", |it| &it.images);
    let help = "Images not learnt from because steps were slower than the stream.";
    text.counter("paint_images_unlearnt_total", help, |it| &it.unlearnt);
    text.counter("paint_evictions_total", "Streams moved from memory to disk.", |it| &it.evictions);
    text.labelled("paint_steps_total", "Adaptation steps by outcome.", |it| &it.steps);
    text.labelled("paint_guard_total", "What the guard did, by action and reason.", |it| &it.guard);
    text.times("paint_request_seconds", "Time of answered requests.", |it| &it.request);
    text.times("paint_queue_seconds", "Time that requests waited.", |it| &it.queue);
    text.times("paint_predict_seconds", "Time of predictions.", |it| &it.predict);
    text.times("paint_step_seconds", "Time of adaptation steps.", |it| &it.step);
    let whole = |value: usize| Some(value as f64);
    text.gauge("paint_streams", "Streams in memory.", |it| whole(it.streams));
    text.gauge("paint_state_bytes", "Bytes of states in memory.", |it| whole(it.state_bytes));
    text.gauge("paint_prompts", "Prompts of streams in memory.", |it| whole(it.prompts));
    let help = "Estimated accuracy of adapted models, mean over streams in memory.";
    text.gauge("paint_estimated_accuracy_ratio", help, |it| it.estimated_accuracy);
    let help = "Share of streams in memory whose last step the frozen model answered.";
    text.gauge("paint_frozen_answers_ratio", help, |it| it.frozen_answers);
    text.head("paint_queue_images", "Images waiting or in work, of all models.", "gauge");
    let _ = writeln!(text.text, "paint_queue_images {queued_images}");
    text.text
}

struct Text<'a> {
    text: String,
    sources: &'a [Source<'a>],
}

impl Text<'_> {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A line of a model; `labels` are written as Prometheus does, with a comma before them.
    fn line(&mut self, name: &str, model: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{{model=\"{model}\"{labels}}} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, of: fn(&Metrics) -> &Counter) {
        self.head(name, help, "counter");
        for Source { model, metrics, .. } in self.sources {
            self.line(name, model, "", of(metrics).get() as f64);
        }
    }

    fn labelled(&mut self, name: &str, help: &str, of: fn(&Metrics) -> &Labelled) {
        self.head(name, help, "counter");
        for Source { model, metrics, .. } in self.sources {
            let counts = of(metrics).0.lock().unwrap_or_else(PoisonError::into_inner);
            for (labels, count) in counts.iter() {
                self.line(name, model, &format!(",{labels}"), *count as f64);
            }
        }
    }

    fn gauge(&mut self, name: &str, help: &str, of: impl Fn(&Gauges) -> Option<f64>) {
        self.head(name, help, "gauge");
        for Source { model, gauges, .. } in self.sources {
            if let Some(value) = of(gauges) {
                self.line(name, model, "", value);
            }
        }
    }

    fn times(&mut self, name: &str, help: &str, of: fn(&Metrics) -> &Times) {
        self.head(name, help, "histogram");
        for Source { model, metrics, .. } in self.sources {
            let held = of(metrics).0.lock().unwrap_or_else(PoisonError::into_inner);
            let (buckets, count, sum) = *held;
            let bucket = format!("{name}_bucket");
            for (below, end) in buckets.iter().zip(BUCKETS) {
                self.line(&bucket, model, &format!(",le=\"{end}\""), *below as f64);
            }
            self.line(&bucket, model, ",le=\"+Inf\"", count as f64);
            self.line(&format!("{name}_sum"), model, "", sum);
            self.line(&format!("{name}_count"), model, "", count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_every_bucket_above_it() {
        let metrics = Metrics::default();
        metrics.answered(200, Duration::from_millis(30));
        metrics.answered(429, Duration::ZERO);
        let gauges = Gauges { streams: 3, ..Gauges::default() };
        let text = text(&[Source { model: "m", metrics: &metrics, gauges }], 7);
        for line in [
            "paint_request_seconds_bucket{model=\"m\",le=\"0.025\"} 0",
            "paint_request_seconds_bucket{model=\"m\",le=\"0.05\"} 1",
            "paint_request_seconds_bucket{model=\"m\",le=\"+Inf\"} 1",
            "paint_request_seconds_sum{model=\"m\"} 0.03",
            "paint_requests_total{model=\"m\",code=\"429\"} 1",
            "paint_streams{model=\"m\"} 3",
            "paint_queue_images 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(metrics.failed(), 1);
    }
}
