//! A configuration opened: dataset, stream, model and method, and the folder its results go to.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paint_data::dataset::Options;
use paint_data::{Dataset, Loader, ReadAhead, Stream, write_atomically};
use paint_methods::{Method, Registry};
use paint_nn::backbone::Backbone;
use paint_rng::Seed;
use paint_tensor::Device;

use crate::checkpoint::{self, Stopped, Subject};
use crate::config::Config;
use crate::deployment::{self, Deployment, Stage};
use crate::event::Observer;
use crate::event_log::EventLog;
use crate::fingerprint::glimpse;
use crate::model::Fitted;
use crate::probe::Probe;
use crate::runner::{Runner, Task};
use crate::summary::{Setup, Summary};
use crate::table::{csv, markdown};
use crate::upload::Uploads;
use crate::watch::Watch;
use crate::{Error, Result, classes};

/// Everything a run needs, open.
pub struct Experiment {
    /// The configuration with every default written out.
    pub config: Config,
    /// The images, at the model's size.
    pub dataset: Arc<dyn Dataset>,
    /// Their order.
    pub stream: Stream,
    deployment: Deployment,
    setup: Setup,
    pub(crate) probe: Option<Probe>,
    stop: Arc<AtomicBool>,
}

/// The file in the output folder that holds where a run stands.
pub const STATE_FILE: &str = "state.safetensors";

/// What to do with an earlier run in the output folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Earlier {
    /// Leave it alone and refuse to start.
    #[default]
    Keep,
    /// Continue it, if it is there.
    Resume,
    /// Begin anew in its place.
    Overwrite,
}

impl Experiment {
    /// Opens what `config` names. Nothing is written.
    pub fn open(config: Config) -> Result<Self> {
        Self::open_with(config, &Registry::default())
    }

    /// The same for a method that may be one of your own.
    pub fn open_with(mut config: Config, methods: &Registry) -> Result<Self> {
        let mut parts = deployment::Config::from(&config);
        let device = parts.check(methods)?;
        let seed = Seed(config.seed);
        let weights = config.model.weights.clone();
        classes::name(&weights, named_datasets(&mut config))?;
        parts.source.clone_from(&config.source);
        let dataset: Arc<dyn Dataset> = config.data.open(seed)?.into();
        let stream = config.scenario.stream(&*dataset, seed)?;
        let stage = Stage {
            methods,
            benchmark: paint_data::dataset::entry(&config.data.name)?.benchmark,
            classes: dataset.info().class_indices.as_deref(),
        };
        let deployment = Deployment::open_on(parts, device, stage)?;
        config.model.clone_from(&deployment.config.model);
        config.method.clone_from(&deployment.config.method);
        let spec = deployment.model().spec();
        let fit = |data: Arc<dyn Dataset>, options: &Options| -> Result<Arc<dyn Dataset>> {
            classes::check(options, data.info(), spec.num_classes)?;
            Ok(Arc::new(Fitted::new(data, &spec.preprocess, config.model.resize)?))
        };
        let dataset = fit(dataset, &config.data.options)?;
        let batch_size = config.scenario.batch_size;
        let open = |probe| Probe::open(probe, &dataset, batch_size, deployment.device(), fit);
        let probe = config.probe.as_ref().map(open).transpose()?;
        let setup = Setup {
            dataset: config.data.name.clone(),
            scenario: config.scenario.name.clone(),
            batch_size: config.scenario.batch_size,
            limit: config.scenario.limit,
            backbone: spec.name.clone(),
            weights_sha256: config.model.sha256.clone(),
            seed: config.seed,
            device: deployment.device().to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        Ok(Self { config, dataset, stream, deployment, setup, probe, stop: Arc::default() })
    }

    /// Once `stop` is true, a run ends after the present batch with [`Error::Stopped`]; everything so far is saved.
    #[must_use]
    pub fn stopping_on(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// The method, as it is deployed. Those that train on source images before that take their time here.
    pub fn method(&self) -> Result<Box<dyn Method>> {
        self.deployment.method()
    }

    /// The source model.
    pub fn model(&self) -> &dyn Backbone {
        self.deployment.model()
    }

    /// The method at the beginning of the stream, for those who feed it themselves, as when several run side by side.
    pub fn runner(&self) -> Result<Runner<'_>> {
        let runner = Runner::new(&self.config.method.name, self.method()?, self.task())?;
        let watch = Arc::clone(self.deployment.watch());
        Ok(runner.with_prediction(self.config.prediction).with_watch(watch))
    }

    fn task(&self) -> Task<'_> {
        Task { dataset: &*self.dataset, stream: &self.stream, setup: &self.setup }
    }

    /// How many source images the method looks at before it is deployed.
    pub fn source_images(&self) -> Option<usize> {
        self.deployment.source_images()
    }

    /// What the methods made here ask of their network.
    pub fn watch(&self) -> &Watch {
        self.deployment.watch()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.deployment.device()
    }

    /// The file that holds where the run stands.
    pub fn state_path(&self) -> PathBuf {
        self.config.out.join(STATE_FILE)
    }

    /// Runs the stream to its end and leaves `config.toml`, `events.jsonl`, `state.safetensors`, `summary.json`,
    /// `domains.csv` and `summary.md` in the output folder.
    pub fn run(&self, earlier: Earlier, observer: impl Observer) -> Result<Summary> {
        self.finish(earlier, observer).map(|(summary, _)| summary)
    }

    /// The same, for those who go on to ask the method something: it comes back as the stream left it.
    pub fn finish(
        &self,
        earlier: Earlier,
        observer: impl Observer,
    ) -> Result<(Summary, Box<dyn Method>)> {
        let (out, state) = (&self.config.out, self.state_path());
        let io = |source| Error::Io { action: "create", source, path: out.clone() };
        paint_files::create_folder(out).map_err(io)?;
        let _claim = paint_files::claim(out)?;
        // Whatever can refuse the run comes before the method, whose warm-up may take an hour.
        let task = self.task();
        task.check()?;
        let images = glimpse(&*self.dataset, &self.stream)?;
        let subject = Subject { config: &self.config, images: &images };
        let stopped = self.stopped(earlier, task, subject)?;
        self.device().reset_peak();
        let mut runner = self.runner()?;
        if let Some(stopped) = stopped {
            stopped.restore(&mut runner)?;
        }
        let half_done = |source| Error::Io { action: "clean", source, path: out.clone() };
        paint_files::remove_leftovers(&state).map_err(half_done)?;
        write_text(&out.join("config.toml"), &self.config.to_toml()?)?;
        if earlier == Earlier::Overwrite {
            remove(&state)?;
            for name in ["summary.json", "domains.csv", "summary.md"] {
                remove(&out.join(name))?;
            }
        }
        let log = EventLog::open(&out.join("events.jsonl"), runner.position())?;
        let mut runner = runner.with_observer(log).with_observer(observer);
        runner.announce()?;
        self.feed(&mut runner, &state, subject)?;
        checkpoint::save(&state, &runner, subject)?;
        let mut summary = runner.finish()?;
        if let Some(memory) = self.device().memory() {
            summary.timing.peak_memory_mib = Some(memory.peak as f64 / f64::from(1 << 20));
        }
        write_json(&out.join("summary.json"), &summary)?;
        write_text(&out.join("domains.csv"), &csv(&[&summary]))?;
        write_text(&out.join("summary.md"), &markdown(&[&summary]))?;
        Ok((summary, runner.into_method()))
    }

    /// The run in the output folder that is to be continued; one that must be kept is an error.
    fn stopped(
        &self,
        earlier: Earlier,
        task: Task<'_>,
        subject: Subject<'_>,
    ) -> Result<Option<Stopped>> {
        let state = self.state_path();
        match earlier {
            Earlier::Keep if state.exists() => Err(Error::config(format!(
                "{} holds an earlier run: continue it with --resume, or start anew with --overwrite",
                self.config.out.display()
            ))),
            Earlier::Resume if state.exists() => {
                checkpoint::read(&state, task, subject, self.device()).map(Some)
            }
            Earlier::Keep | Earlier::Resume | Earlier::Overwrite => Ok(None),
        }
    }

    fn feed(&self, runner: &mut Runner<'_>, state: &Path, subject: Subject<'_>) -> Result<()> {
        let rest = Stream { batches: self.stream.batches[runner.position()..].to_vec() };
        let threads = self.config.threads.unwrap_or_default();
        let ahead = ReadAhead { threads, ..ReadAhead::default() };
        let loader = Loader::new(Arc::clone(&self.dataset), rest, ahead);
        for batch in Uploads::new(loader, self.device()) {
            runner.feed(&batch?.images)?;
            if let Some(probe) = &self.probe {
                runner.probe(probe)?;
            }
            let (position, every) = (runner.position(), self.config.checkpoint_every);
            let batches = self.stream.batches.len();
            let stops = self.stop.load(Ordering::Relaxed) && position < batches;
            if stops || every > 0 && position.is_multiple_of(every) {
                checkpoint::save(state, runner, subject)?;
            }
            if stops {
                return Err(Error::Stopped { position, batches, path: self.config.out.clone() });
            }
        }
        Ok(())
    }
}

/// The datasets of a run, whose folders may be named as the model's classes.
fn named_datasets(config: &mut Config) -> impl Iterator<Item = (&String, &mut Options)> {
    let probed = config.probe.as_mut().and_then(|probe| probe.data.as_mut());
    let source = config.source.as_mut().map(|source| (&source.name, &mut source.options));
    [Some((&config.data.name, &mut config.data.options)), source]
        .into_iter()
        .chain([probed.map(|data| (&data.name, &mut data.options))])
        .flatten()
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { action: "remove", source, path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Writes a text file, whole or not at all.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    Ok(write_atomically(path, |file| file.write_all(text.as_bytes()))?)
}

/// Writes a JSON file, whole or not at all.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    Ok(write_atomically(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })?)
}
