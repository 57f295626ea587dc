//! The loop: batches through a method. The only place, beside [`crate::probe`], where labels meet predictions.
//!
//! A [`Runner`] holds everything that changes during a run, and is fed one batch at a time, so that two methods can see
//! the same batches in turns and a run can stop after any batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use paint_data::{BatchPlan, Dataset, Stream};
use paint_methods::{Method, Step};
use paint_tensor::Tensor;

use crate::config::Prediction;
use crate::event::{BatchDone, Event, Intervention, Observer, Prompt};
use crate::metric::{Meter, Outcome, Score};
use crate::probe::Probe;
use crate::summary::{Cost, DomainResult, Setup, Summary, domain_label};
use crate::watch::{Passes, Watch};
use crate::{Error, Result, fit};

/// What a run is about: fixed while it goes.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The images and their labels.
    pub dataset: &'a dyn Dataset,
    /// Their order.
    pub stream: &'a Stream,
    /// What to say of it in the summary.
    pub setup: &'a Setup,
}

impl Task<'_> {
    /// Refuses an empty stream, and an image without a label.
    pub fn check(&self) -> Result<()> {
        if self.stream.batches.is_empty() {
            return Err(Error::EmptyStream);
        }
        for sample in self.stream.batches.iter().flat_map(|batch| &batch.samples) {
            if self.dataset.label(sample.domain, sample.index).is_none() {
                let domain = self.dataset.domains()[sample.domain].name.clone();
                return Err(Error::Unlabelled { domain, index: sample.index });
            }
        }
        Ok(())
    }

    /// Whether a run of this can stand at `position` with these counts; the error says what cannot be.
    pub(crate) fn accepts(
        &self,
        meter: &Meter,
        position: usize,
    ) -> std::result::Result<(), String> {
        let batches = self.stream.batches.len();
        if position > batches {
            return Err(format!("batch {position} of {batches}"));
        }
        if (position == 0) != meter.visits.is_empty() {
            return Err(format!("{} visits after {position} batches", meter.visits.len()));
        }
        let domains = self.dataset.domains().len();
        let visited = meter.visits.iter().filter_map(|visit| visit.domain);
        match visited.chain(meter.domains.iter().map(|(domain, _)| *domain)).max() {
            Some(domain) if domain >= domains => Err(format!("domain {domain} of {domains}")),
            _ => Ok(()),
        }
    }
}

/// One method on its way through a stream.
pub struct Runner<'a> {
    name: &'a str,
    task: Task<'a>,
    method: Box<dyn Method>,
    meter: Meter,
    scores: Vec<Score>,
    position: usize,
    prediction: Prediction,
    watch: Option<Arc<Watch>>,
    observers: Vec<Box<dyn Observer + 'a>>,
}

impl<'a> Runner<'a> {
    /// A run of `method`, called `name`, from the start of the stream, which must pass [`Task::check`].
    pub fn new(name: &'a str, method: Box<dyn Method>, task: Task<'a>) -> Result<Self> {
        task.check()?;
        Ok(Self {
            name,
            task,
            method,
            meter: Meter::default(),
            scores: Vec::new(),
            position: 0,
            prediction: Prediction::Own,
            watch: None,
            observers: Vec::new(),
        })
    }

    /// Tells `observer` of everything from now on.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer + 'a) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Counts another prediction than the method's own.
    #[must_use]
    pub fn with_prediction(self, prediction: Prediction) -> Self {
        Self { prediction, ..self }
    }

    /// Counts what the method asks of models that report to `watch`.
    #[must_use]
    pub fn with_watch(self, watch: Arc<Watch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// The number of batches done, and so the index of the next one.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next batch to feed; none at the end.
    pub fn next_batch(&self) -> Option<&'a BatchPlan> {
        self.task.stream.batches.get(self.position)
    }

    /// The counts so far.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The predictions of the batch before, image by image.
    pub fn scores(&self) -> &[Score] {
        &self.scores
    }

    /// The method in its present state.
    pub fn method(&self) -> &dyn Method {
        &*self.method
    }

    /// The method as the run left it.
    pub fn into_method(self) -> Box<dyn Method> {
        self.method
    }

    /// Puts the run where another one stood.
    pub(crate) fn restore(
        &mut self,
        state: &paint_methods::State,
        meter: Meter,
        position: usize,
    ) -> Result<()> {
        self.method.load(state)?;
        self.meter = meter;
        self.position = position;
        Ok(())
    }

    /// Tells the observers that the stream starts, or goes on from where it was.
    pub fn announce(&mut self) -> Result<()> {
        self.emit(&Event::RunStarted {
            method: self.name.into(),
            batches: self.task.stream.batches.len(),
            samples: self.task.stream.num_samples(),
            position: self.position,
        })
    }

    /// Adapts to the next batch, whose images are `[B, 3, H, W]` in `[0, 1]`, predicts it and counts. Nothing after the
    /// end of the stream.
    pub fn feed(&mut self, images: &Tensor) -> Result<()> {
        let Some(plan) = self.next_batch() else { return Ok(()) };
        let domains: Vec<usize> = plan.samples.iter().map(|sample| sample.domain).collect();
        let first = domains.first().copied();
        let domain = first.filter(|first| domains.iter().all(|domain| domain == first));
        let label = domain_label(self.task.dataset, domain);
        // One sum tells, and reads one number from the device.
        if !images.mean_all()?.item()?.is_finite() {
            return Err(self.not_finite("images", &label.0));
        }

        self.passes();
        let start = Instant::now();
        if plan.reset_before {
            self.method.reset()?;
        }
        self.method.set_domain(domain);
        let before = match self.prediction {
            Prediction::Before => Some(self.method.predict(images)?),
            Prediction::Own | Prediction::After => None,
        };
        let mut step = fit::step(&mut *self.method, images)?;
        if let Some(logits) = before {
            step.logits = logits;
        } else if self.prediction == Prediction::After {
            step.logits = self.method.predict(images)?;
        }
        let logits = step.logits.to_vec()?;
        let duration = start.elapsed();
        let passes = self.passes();
        self.meter.passes.forward += passes.forward;
        self.meter.passes.backward += passes.backward;

        if !logits.iter().all(|logit| logit.is_finite()) {
            return Err(self.not_finite("logits", &label.0));
        }
        let scores = self.score(plan, &step, &logits)?;
        self.meter.hash_logits(&logits);
        self.meter.record(&Outcome {
            segment: plan.segment,
            domains: &domains,
            scores: &scores,
            prompt: step.prompt.as_ref(),
            duration,
        });
        self.scores = scores;
        self.emit(&Event::BatchDone(self.batch_done(plan, label, &step, duration)))?;
        self.position += 1;
        if self.next_batch().is_none_or(|next| next.segment != plan.segment)
            && let Some(visit) = self.meter.visits.last()
        {
            let result = DomainResult::new(self.task.dataset, visit.domain, &visit.tally);
            self.emit(&Event::DomainDone(result))?;
        }
        Ok(())
    }

    /// What the method asked of its network since the last call.
    fn passes(&self) -> Passes {
        self.watch.as_ref().map_or_else(Passes::default, |watch| watch.take())
    }

    /// Looks at what else the present state knows, if a visit has just ended.
    pub fn probe(&mut self, probe: &Probe) -> Result<()> {
        let done = self.position.checked_sub(1).map(|last| &self.task.stream.batches[last]);
        let Some(plan) = done else { return Ok(()) };
        if self.next_batch().is_some_and(|next| next.segment == plan.segment) {
            return Ok(());
        }
        let seen: Vec<usize> = self.meter.domains.iter().map(|(domain, _)| *domain).collect();
        let after = self.meter.visits.len() - 1;
        self.meter.glances.push(probe.look(&mut *self.method, after, &seen)?);
        Ok(())
    }

    fn not_finite(&self, what: &'static str, domain: &str) -> Error {
        Error::NotFinite { what, batch: self.position, domain: domain.into() }
    }

    /// Each image's prediction against its label.
    fn score(&self, plan: &BatchPlan, step: &Step, logits: &[f32]) -> Result<Vec<Score>> {
        // A model may know more classes than happen to be in an array of images.
        let expected = [plan.samples.len(), self.task.dataset.info().num_classes];
        let classes = match *step.logits.shape() {
            [images, classes] if images == expected[0] && classes >= expected[1] => classes,
            ref found => return Err(Error::Logits { expected, found: found.to_vec() }),
        };
        let rows = logits.chunks_exact(classes).zip(&plan.samples);
        Ok(rows
            .map(|(row, at)| Score::of(row, self.task.dataset.label(at.domain, at.index)))
            .collect())
    }

    fn batch_done(
        &self,
        plan: &BatchPlan,
        (domain, severity): (String, Option<u8>),
        step: &Step,
        duration: Duration,
    ) -> BatchDone {
        BatchDone {
            index: self.position,
            of: self.task.stream.batches.len(),
            segment: plan.segment,
            domain,
            severity,
            samples: plan.samples.len(),
            domain_accuracy: self.meter.visits.last().and_then(|visit| visit.tally.accuracy()),
            running_accuracy: self.meter.overall.accuracy(),
            prompt: step.prompt.as_ref().map(Prompt::from),
            scalars: step.scalars.iter().map(|(name, value)| ((*name).into(), *value)).collect(),
            guard: Intervention::of(self.method.guard()),
            ms: duration.as_secs_f64() * 1e3,
        }
    }

    /// The result, told to the observers too.
    pub fn finish(&mut self) -> Result<Summary> {
        let cost =
            self.watch.is_some().then(|| Cost::new(&*self.method, &self.meter)).transpose()?;
        let mut summary = Summary::new(self.name, self.task.setup, self.task.dataset, &self.meter);
        summary.cost = cost;
        self.emit(&Event::RunDone(Box::new(summary.clone())))?;
        Ok(summary)
    }

    fn emit(&mut self, event: &Event) -> Result<()> {
        self.observers.iter_mut().try_for_each(|observer| observer.observe(event))
    }
}
