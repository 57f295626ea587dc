//! Every method on streams that no laboratory has: single images, classes in order, pure noise, one class, one image,
//! darkness. Prints accuracy on the stream and on clean images afterwards, beside the frozen model.
//!
//! `cargo run -p paint-run --example streams -- tent,paint batch1,sorted 200 DUMP`

use std::fmt::Write as _;

use paint_data::{Dataset, SampleRef};
use paint_methods::Method;
use paint_nn::backbone::Request;
use paint_rng::Seed;
use paint_run::config::Draft;
use paint_run::{Deployment, deployment};
use paint_tensor::{Device, Tensor};

const HELD_OUT: [&str; 4] = ["speckle_noise", "gaussian_blur", "spatter", "saturate"];
type Error = Box<dyn std::error::Error>;

struct Batch {
    domain: usize,
    images: Tensor,
    labels: Vec<Option<usize>>,
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [methods, streams, images, rest @ ..] = &args[..] else {
        return Err("give METHODS STREAMS IMAGES [DUMP]".into());
    };
    let images: usize = images.parse()?;
    let data: paint_data::dataset::Config =
        toml::from_str("name = 'embedded'\ncorrupt = { table = 'cifar' }")?;
    let data = data.open(Seed(0))?;
    for method in methods.split(',') {
        let mut draft = Draft::default();
        draft.set("model.weights", "embedded")?;
        draft.set("method.name", method)?;
        draft.set_assignment("source={name='embedded', options={split='train'}, images=200}")?;
        if method == "paint" {
            draft.set_assignment("method.preset=paper_adam")?;
            draft.set_assignment("method.lr_blocks=2e-4")?;
            draft.set_assignment("method.eta=0.4")?;
        }
        if method == "rmt" {
            draft.set_assignment("method.warmup_images=500")?;
            draft.set_assignment("method.source_batch=50")?;
        }
        for assignment in rest.iter().filter(|word| word.contains('=')) {
            draft.set_assignment(assignment)?;
        }
        let deployment = Deployment::open(draft.resolve_as::<deployment::Config>()?)?;
        for stream in streams.split(',') {
            let batches = stream_of(stream, &*data, images)?;
            let mut method_ = deployment.method()?;
            let mut dump =
                rest.iter().find(|word| !word.contains('=')).map(|file| (file, String::new()));
            let (mut ours, mut frozen, mut count) = (0, 0, 0);
            for (index, batch) in batches.iter().enumerate() {
                let step = method_.step(&batch.images);
                let logits = match step {
                    Ok(step) => step.logits,
                    Err(error) => {
                        println!("{method} {stream}: {error}");
                        break;
                    }
                };
                let f = deployment.model().forward(&batch.images, &Request::default())?;
                let (a, b) = (logits.argmax()?, f.logits.argmax()?);
                for ((a, b), label) in a.iter().zip(&b).zip(&batch.labels) {
                    if let Some(label) = label {
                        count += 1;
                        ours += usize::from(a == label);
                        frozen += usize::from(b == label);
                    }
                }
                if let Some((_, text)) = &mut dump {
                    let (a, b) = (logits.to_vec()?, f.logits.to_vec()?);
                    let drop = dropped(&deployment, &f.pooled)?;
                    for (i, label) in batch.labels.iter().enumerate() {
                        write!(
                            text,
                            "{method} {stream} {index} {} {}",
                            batch.domain,
                            label.map_or(-1, |l| l as i64)
                        )?;
                        for z in [&b[i * 10..][..10], &a[i * 10..][..10]] {
                            z.iter().try_for_each(|z| write!(text, " {z:.3}"))?;
                        }
                        for pass in &drop {
                            pass[i * 10..][..10]
                                .iter()
                                .try_for_each(|z| write!(text, " {z:.3}"))?;
                        }
                        writeln!(text)?;
                    }
                }
            }
            if let Some((file, text)) = dump {
                use std::io::Write as _;
                std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(file)?
                    .write_all(text.as_bytes())?;
            }
            let clean = clean(&*method_, &*data)?;
            let percent = |n: usize| 100.0 * n as f64 / count.max(1) as f64;
            println!(
                "{method:8} {stream:10} frozen {:5.1} ours {:5.1}  clean after {clean:5.1}",
                percent(frozen),
                percent(ours)
            );
        }
    }
    Ok(())
}

/// What ten masks on the features change in the logits (rate 0.5).
fn dropped(deployment: &Deployment, pooled: &Tensor) -> Result<Vec<Vec<f32>>, Error> {
    let params = deployment.model().params();
    let weight = &params[params.id("head.weight")?];
    let (mut rng, h) = (Seed(1).derive("drop", &[]), pooled.to_vec()?);
    (0..10)
        .map(|_| {
            let noise = h.iter().map(|h| if rng.uniform() < 0.5 { -h } else { *h }).collect();
            let noise = Tensor::from_vec(noise, pooled.shape(), &Device::cpu())?;
            Ok(noise.linear(weight, None)?.to_vec()?)
        })
        .collect()
}

fn clean(method: &dyn Method, data: &dyn Dataset) -> Result<f64, Error> {
    let domain = data.domains().iter().position(|d| d.name == "clean").ok_or("clean")?;
    let mut right = 0;
    for start in (500..1000).step_by(50) {
        let samples: Vec<_> =
            (start..start + 50).map(|index| SampleRef { domain, index }).collect();
        let batch = batch(data, 0, &samples)?;
        let predicted = method.probe(&batch.images)?.argmax()?;
        right += predicted.iter().zip(&batch.labels).filter(|(p, l)| Some(**p) == **l).count();
    }
    Ok(right as f64 / 5.0)
}

fn batch(data: &dyn Dataset, domain: usize, samples: &[SampleRef]) -> Result<Batch, Error> {
    let (mut pixels, mut labels) = (vec![0.0; samples.len() * 3072], Vec::new());
    for (at, out) in samples.iter().zip(pixels.chunks_exact_mut(3072)) {
        let sample = data.sample(at.domain, at.index)?;
        sample.image.to_chw(out);
        labels.push(sample.label);
    }
    Ok(Batch {
        domain,
        images: Tensor::from_vec(pixels, [samples.len(), 3, 32, 32], &Device::cpu())?,
        labels,
    })
}

fn stream_of(name: &str, data: &dyn Dataset, images: usize) -> Result<Vec<Batch>, Error> {
    let place = |name: &str| {
        data.domains().iter().position(|d| d.name == name && d.severity.is_none_or(|s| s == 5))
    };
    let mut batches = Vec::new();
    let (kind, size) = match name {
        "batch1" => ("iid", 1),
        "batch10" => ("iid", 10),
        "sorted1" => ("sorted", 1),
        "dirichlet1" => ("dirichlet", 1),
        kind => (kind, 50),
    };
    match kind {
        "iid" | "sorted" | "dirichlet" => {
            for (number, domain) in HELD_OUT.iter().enumerate() {
                let domain = place(domain).ok_or("domain")?;
                let mut samples: Vec<_> =
                    (0..images).map(|index| SampleRef { domain, index }).collect();
                let label = |at: &SampleRef| data.label(0, at.index).unwrap_or(0);
                if kind == "sorted" {
                    samples.sort_by_key(label);
                } else if kind == "dirichlet" {
                    let mut config = paint_data::scenario::Config {
                        name: "correlated".into(),
                        ..Default::default()
                    };
                    config.domains = Some(vec![HELD_OUT[number].into()]);
                    config.limit = Some(images);
                    let stream = config.stream(data, Seed(number as u64 + 3))?;
                    samples = stream.batches.into_iter().flat_map(|b| b.samples).collect();
                }
                for samples in samples.chunks(size) {
                    batches.push(batch(data, number, samples)?);
                }
            }
        }
        "noise" | "black" | "one_image" | "one_class" => {
            let domain = place("clean").ok_or("clean")?;
            let one: Vec<_> = (0..500)
                .filter(|&i| data.label(0, i) == Some(3))
                .map(|index| SampleRef { domain, index })
                .collect();
            let mut rng = Seed(5).derive("noise", &[]);
            for index in 0..images {
                let at = |i: usize| {
                    one[if kind == "one_image" { 0 } else { (index * 50 + i) % one.len() }]
                };
                let samples: Vec<_> = (0..50).map(at).collect();
                let mut batch = batch(data, 0, &samples)?;
                if kind == "noise" || kind == "black" {
                    let mut pixel = || if kind == "black" { 0.0 } else { rng.uniform() as f32 };
                    let pixels = (0..50 * 3072).map(|_| pixel()).collect();
                    batch.images = Tensor::from_vec(pixels, [50, 3, 32, 32], &Device::cpu())?;
                    batch.labels = vec![None; 50];
                }
                batches.push(batch);
            }
        }
        other => return Err(format!("no stream {other}").into()),
    }
    Ok(batches)
}
