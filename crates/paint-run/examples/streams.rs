//! Methods on streams that no laboratory has: single images, classes in order, pure noise, one class, one image,
//! darkness. Prints accuracy on the stream and on clean images afterwards, beside the frozen model's, and what a
//! guard estimated.
//!
//! The embedded model and images; four corruptions that no benchmark uses, severity 5.
//!
//! `cargo run -p paint-run --example streams -- tent,paint iid1,sorted 200 guard={} stream={}`
//!
//! The number is that of images per corruption, or of batches of fifty for `noise`, `black`, `one_image` and
//! `one_class`.

use paint_data::{Dataset, SampleRef, scenario};
use paint_methods::Method;
use paint_nn::backbone::Request;
use paint_rng::Seed;
use paint_run::{Deployment, Draft, deployment};
use paint_tensor::{Device, Tensor};

const HELD_OUT: [&str; 4] = ["speckle_noise", "gaussian_blur", "spatter", "saturate"];
/// Settings of the protocol `embedded`.
const SETTINGS: [(&str, &str); 5] = [
    ("paint", "method.preset=paper_adam"),
    ("paint", "method.lr_blocks=2e-4"),
    ("paint", "method.eta=0.4"),
    ("rmt", "method.warmup_images=500"),
    ("rmt", "method.source_batch=50"),
];
const BATCH: usize = 50;
const PIXELS: usize = 3 * 32 * 32;

type Error = Box<dyn std::error::Error>;

/// Where images come from, and where they are used.
type Images<'a> = (&'a dyn Dataset, &'a Device);

struct Batch {
    images: Tensor,
    labels: Vec<Option<usize>>,
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [methods, streams, count, assignments @ ..] = &args[..] else {
        return Err("give METHODS STREAMS COUNT [KEY=VALUE..]".into());
    };
    let count: usize = count.parse()?;
    let mut draft = Draft::default();
    draft.set_assignment("data={name='embedded', corrupt={table='cifar'}}")?;
    let data = draft.resolve_data()?.open(Seed(0))?;
    for name in methods.split(',') {
        let mut draft = Draft::default();
        draft.set("model.weights", "embedded")?;
        draft.set("method.name", name)?;
        draft.set_assignment("source={name='embedded', options={split='train'}, images=200}")?;
        let own =
            SETTINGS.iter().filter(|(method, _)| *method == name).map(|(_, setting)| *setting);
        for assignment in own.chain(assignments.iter().map(String::as_str)) {
            draft.set_assignment(assignment)?;
        }
        let deployment = Deployment::open(draft.resolve_as::<deployment::Config>()?)?;
        let images = (&*data, deployment.device());
        for stream in streams.split(',') {
            measure(&deployment, images, (name, stream), &batches(stream, images, count)?)?;
        }
    }
    Ok(())
}

fn measure(
    deployment: &Deployment,
    images: Images<'_>,
    (name, stream): (&str, &str),
    batches: &[Batch],
) -> Result<(), Error> {
    let mut method = deployment.method()?;
    let (mut right, mut seen) = ([0; 2], 0);
    for batch in batches {
        let ours = method.step(&batch.images)?.logits.argmax()?;
        let frozen = deployment.model().forward(&batch.images, &Request::default())?;
        let known = batch.labels.iter().flatten().count();
        right[0] += correct(&frozen.logits.argmax()?, batch);
        right[1] += correct(&ours, batch);
        seen += known;
    }
    let percent = |right: usize| 100.0 * right as f64 / seen.max(1) as f64;
    let [frozen, ours] = right.map(percent);
    let clean = clean(&*method, images)?;
    let account = method.guard().map(|report| {
        let account = &report.account;
        let told = account.estimates().map_or_else(String::new, |[frozen, _, given]| {
            format!(", estimated {:.1} and {:.1}", 100.0 * frozen, 100.0 * given)
        });
        let acted: Vec<String> =
            account.acted.iter().map(|(acted, count)| format!("{count} x {acted}")).collect();
        let share = 100.0 * account.frozen_images as f64 / account.images.max(1) as f64;
        format!("{told}, frozen answers {share:.0} %; {}", acted.join(", "))
    });
    let account = account.unwrap_or_default();
    #[expect(clippy::print_stdout, reason = "what an example is for")]
    {
        println!(
            "{name:8} {stream:10} frozen {frozen:5.1} ours {ours:5.1} clean after {clean:5.1}{account}"
        );
    }
    Ok(())
}

fn correct(predicted: &[usize], batch: &Batch) -> usize {
    predicted.iter().zip(&batch.labels).filter(|(class, label)| Some(**class) == **label).count()
}

/// Accuracy on clean images that no stream here has.
fn clean(method: &dyn Method, images: Images<'_>) -> Result<f64, Error> {
    let domain = domain(images.0, "clean")?;
    let (mut right, range) = (0, 500..1000);
    for start in range.clone().step_by(BATCH) {
        let at = |index| SampleRef { domain, index };
        let batch = batch(images, &(start..start + BATCH).map(at).collect::<Vec<_>>())?;
        right += correct(&method.probe(&batch.images)?.argmax()?, &batch);
    }
    Ok(100.0 * right as f64 / range.len() as f64)
}

fn domain(data: &dyn Dataset, name: &str) -> Result<usize, Error> {
    let mut domains = data.domains().iter();
    let place = domains.position(|it| it.name == name && it.severity.is_none_or(|it| it == 5));
    place.ok_or_else(|| format!("no domain {name}").into())
}

fn batch((data, device): Images<'_>, samples: &[SampleRef]) -> Result<Batch, Error> {
    let (mut pixels, mut labels) = (vec![0.0; samples.len() * PIXELS], Vec::new());
    for (at, out) in samples.iter().zip(pixels.chunks_exact_mut(PIXELS)) {
        let sample = data.sample(at.domain, at.index)?;
        sample.image.to_chw(out);
        labels.push(sample.label);
    }
    let images = Tensor::from_vec(pixels, [samples.len(), 3, 32, 32], device)?;
    Ok(Batch { images, labels })
}

/// The batches of a stream: `KIND`, or `KIND1` for single images.
fn batches(name: &str, images: Images<'_>, count: usize) -> Result<Vec<Batch>, Error> {
    let kind = name.trim_end_matches('1');
    let size = if kind == name { BATCH } else { 1 };
    if ["noise", "black", "one_image", "one_class"].contains(&kind) {
        return (0..count).map(|index| odd(kind, images, index)).collect();
    }
    let data = images.0;
    let mut batches = Vec::new();
    for (number, corruption) in HELD_OUT.iter().enumerate() {
        let domain = domain(data, corruption)?;
        let mut samples: Vec<_> = (0..count).map(|index| SampleRef { domain, index }).collect();
        match kind {
            "iid" => {}
            "sorted" => samples.sort_by_key(|at| data.label(domain, at.index)),
            "dirichlet" => {
                let config = scenario::Config {
                    name: "correlated".into(),
                    domains: Some(vec![(*corruption).into()]),
                    limit: Some(count),
                    ..scenario::Config::default()
                };
                let stream = config.stream(data, Seed(number as u64 + 3))?;
                samples = stream.batches.into_iter().flat_map(|batch| batch.samples).collect();
            }
            other => return Err(format!("no stream {other}").into()),
        }
        for samples in samples.chunks(size) {
            batches.push(batch(images, samples)?);
        }
    }
    Ok(batches)
}

/// A batch of images that teach nothing.
fn odd(kind: &str, images: Images<'_>, index: usize) -> Result<Batch, Error> {
    const CLASS: usize = 3;
    let (data, device) = images;
    let domain = domain(data, "clean")?;
    let of_class = |&index: &usize| data.label(domain, index) == Some(CLASS);
    let one: Vec<usize> = (0..500).filter(of_class).collect();
    let at =
        |i: usize| if kind == "one_image" { one[0] } else { one[(index * BATCH + i) % one.len()] };
    let samples: Vec<_> = (0..BATCH).map(|i| SampleRef { domain, index: at(i) }).collect();
    let real = batch(images, &samples)?;
    if kind == "one_image" || kind == "one_class" {
        return Ok(real);
    }
    let mut rng = Seed(5).derive("streams/noise", &[index as u64]);
    let mut pixel = || if kind == "black" { 0.0 } else { rng.uniform() as f32 };
    let pixels = (0..BATCH * PIXELS).map(|_| pixel()).collect();
    let images = Tensor::from_vec(pixels, [BATCH, 3, 32, 32], device)?;
    Ok(Batch { images, labels: vec![None; BATCH] })
}
