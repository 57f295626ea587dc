//! Batches on their way to the device: the next one is uploaded while the present one is worked on.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use paint_data::{Batch, BatchPlan, Damaged, Loader};
use paint_tensor::{Device, Tensor};

use crate::Result;

/// A batch on the device.
pub struct Uploaded {
    /// `[B, 3, H, W]` in `[0, 1]`.
    pub images: Tensor,
    /// The labels of its images, where they are known.
    pub labels: Vec<Option<usize>>,
    /// Which images they are.
    pub plan: BatchPlan,
    /// Images that were left out, if the loader skips damaged ones.
    pub damaged: Vec<Damaged>,
}

/// The batches of a loader, in their order. Whoever stops early drops it, and waits for the batch that is on its way.
pub struct Uploads {
    /// `None` while it is dropped.
    batches: Option<Receiver<Result<Uploaded>>>,
    thread: Option<JoinHandle<()>>,
}

impl Uploads {
    /// Begins to upload.
    pub fn new(loader: Loader, device: &Device) -> Self {
        let (sender, receiver) = sync_channel(0);
        let device = device.clone();
        let thread = std::thread::spawn(move || {
            for batch in loader {
                let uploaded = batch.map_err(Into::into).and_then(|batch| {
                    let Batch { images, shape, labels, plan, damaged } = batch;
                    let images = Tensor::from_vec(images, shape, &device)?;
                    Ok(Uploaded { images, labels, plan, damaged })
                });
                if sender.send(uploaded).is_err() {
                    return;
                }
            }
        });
        Self { batches: Some(receiver), thread: Some(thread) }
    }
}

impl Iterator for Uploads {
    type Item = Result<Uploaded>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Ok(batch) = self.batches.as_ref()?.recv() {
            return Some(batch);
        }
        // The end, or a defect below, which must not look like one.
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        None
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A panic below was either told by `next` or comes too late to matter.
            let _ = thread.join();
        }
    }
}
