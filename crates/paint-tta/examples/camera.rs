//! A camera sends one image at a time: each is answered at once, and the model adapts when enough of them have been
//! collected.
//!
//! Adapting to single images would do harm, because most methods compare the images of a batch with each other. So an
//! image is predicted with the present state, and waits; every 25 images make one step.
//!
//! ```sh
//! cargo run --release -p paint-tta --example camera
//! ```

use std::error::Error;
use std::sync::mpsc;

use paint_tta::{Adapter, Event, Image, corrupt, embedded_images};

const WINDOW: usize = 25;

/// The class of every image that `camera` sends, and the time of every step in milliseconds.
pub(crate) fn watch(
    mut adapter: Adapter,
    camera: impl Iterator<Item = Image>,
) -> paint_tta::Result<(Vec<usize>, Vec<f64>)> {
    let (times, measured) = mpsc::channel();
    adapter.observe(move |event| {
        if let Event::Stepped(batch) = event {
            // It fails only if nobody listens any more.
            let _ = times.send(batch.ms);
        }
    });
    let (mut classes, mut waiting) = (Vec::new(), Vec::with_capacity(WINDOW));
    for image in camera {
        let answer = adapter.predict(std::slice::from_ref(&image))?;
        classes.extend(answer.iter().map(|prediction| prediction.class));
        waiting.push(image);
        if waiting.len() == WINDOW {
            adapter.step(&waiting)?;
            waiting.clear();
        }
    }
    Ok((classes, measured.try_iter().collect()))
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let adapter = Adapter::builder("embedded").method("tent").open()?;
    let foggy = embedded_images(100)?.into_iter().map(|image| corrupt(&image, "fog", 5, 0));
    let camera = foggy.collect::<Result<Vec<_>, _>>()?;
    let (classes, times) = watch(adapter, camera.into_iter())?;
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    println!("{} images, {} steps of {mean:.0} ms", classes.len(), times.len());
    Ok(())
}
