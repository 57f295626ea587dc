//! Computations that are recorded once and replayed: a CUDA graph costs the host one call, where its kernels and
//! products cost one each.
//!
//! A recording works at fixed addresses. Recordings share that memory where it is large enough, because inputs are
//! copied in and results out around every replay, and replays take turns on the lane's stream. A trial recording over
//! addresses without memory finds out how much is needed: nothing runs while a thread records.
//!
//! Whatever else a recording reads (the weights of a model) it keeps alive, so a replay never meets memory that was
//! given to another tensor. Once the owner of such a tensor drops it, the recording is stale: computing again
//! would read another tensor.
//!
//! A computation with a product that takes longer than its call ([`super::problem::LARGE`]) is not recorded: there the
//! host is ahead of the GPU anyway.
#![expect(unsafe_code, reason = "every call into the driver is a foreign function")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, PoisonError};

use cudarc::driver::result::{DriverError, graph, stream};
use cudarc::driver::sys;

use super::arena::{Arena, Block};
use super::buffer::{Buffer, Kind};
use super::driver::{Gpu, Grid, failed};
use super::elements::THREADS;
use super::{Cuda, on_gpu};
use crate::backend::{Compute, Storage};
use crate::{Error, Result};

/// The most memory of a recording, in bytes.
const MOST: usize = 512 << 20;
/// Where the addresses of a trial recording begin.
const NOWHERE: u64 = 1 << 45;
/// Blocks of threads that copy one input or result.
const BLOCKS: usize = 128;
/// So many inputs or results are copied by a call each: a table of them takes two calls.
const FEW: usize = 2;

/// Blocks outside a recording that it reads.
#[derive(Default)]
struct Reads(BTreeMap<u64, Arc<Block>>);

impl Reads {
    fn keep(&mut self, block: &Arc<Block>) {
        self.0.entry(block.address).or_insert_with(|| Arc::clone(block));
    }

    /// Whether one of the blocks has no other owner any more.
    fn abandoned(&self) -> bool {
        self.0.values().any(|block| Arc::strong_count(block) == 1)
    }
}

/// What a thread records.
struct Active {
    gpu: *const Gpu,
    stream: sys::CUstream,
    arena: Arc<Arena>,
    reads: Reads,
}

thread_local!(static ACTIVE: RefCell<Option<Active>> = const { RefCell::new(None) });

/// A property of what this thread records on a GPU; none if it records nothing.
fn active<T>(gpu: &Gpu, get: impl Fn(&Active) -> T) -> Option<T> {
    ACTIVE.with_borrow(|active| active.as_ref().filter(|it| ptr::eq(it.gpu, gpu)).map(get))
}

/// The stream that takes a recording's work.
pub(super) fn stream(gpu: &Gpu) -> Option<sys::CUstream> {
    active(gpu, |it| it.stream)
}

/// Where a recording's memory comes from.
pub(super) fn arena(gpu: &Gpu) -> Option<Arc<Arena>> {
    active(gpu, |it| Arc::clone(&it.arena))
}

/// Keeps a block that the recording of this thread reads, unless it is part of the recording itself.
pub(super) fn keep(block: &Arc<Block>) {
    ACTIVE.with_borrow_mut(|active| {
        if let Some(active) = active.as_mut().filter(|it| !it.arena.holds(block)) {
            active.reads.keep(block);
        }
    });
}

/// Whether something computed now may be kept beside a block: what a recording computes exists only in its replays.
pub(super) fn may_keep(gpu: &Gpu, block: &Block) -> bool {
    active(gpu, |it| it.arena.holds(block)).unwrap_or(true)
}

/// Fails while this thread records, because `what` involves the host.
pub(super) fn refuse(gpu: &Gpu, what: &str) -> Result<()> {
    let refused = || Error::Gpu {
        what: what.to_owned(),
        why: "a computation cannot wait for the host while it is recorded".to_owned(),
    };
    active(gpu, |_| ()).map_or(Ok(()), |()| Err(refused()))
}

/// A graph that is ready to run.
struct Graph(sys::CUgraphExec, Arc<Gpu>);

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Graph {}
// SAFETY: as above; replays take turns.
unsafe impl Sync for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // The graph's memory must outlive its last run. There is nobody to report an error to.
        let _ = self.1.synchronize();
        // SAFETY: made by `record`, and its last run has ended.
        let _ = unsafe { graph::exec_destroy(self.0) };
    }
}

/// A computation at fixed addresses.
pub(crate) struct Recorded {
    graph: Graph,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    /// The memory of inputs, outputs and everything between.
    _memory: Arc<Block>,
    reads: Reads,
}

impl Recorded {
    /// Whether a tensor that the computation reads besides its inputs was dropped by its owner.
    pub(super) fn is_stale(&self) -> bool {
        self.reads.abandoned()
    }
}

/// A thread's recording, which ends however it is left.
struct Session {
    stream: sys::CUstream,
    ended: bool,
}

impl Session {
    fn begin(gpu: &Arc<Gpu>, arena: &Arc<Arena>) -> std::result::Result<Self, DriverError> {
        let stream = stream::create(stream::StreamKind::NonBlocking)?;
        let session = Self { stream, ended: false };
        // Nothing that is recorded allocates or waits, and other threads are not held up.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was made just now.
        unsafe { stream::begin_capture(stream, mode) }?;
        let (gpu, arena) = (Arc::as_ptr(gpu), Arc::clone(arena));
        ACTIVE.set(Some(Active { gpu, stream, arena, reads: Reads::default() }));
        Ok(session)
    }

    fn end(&mut self) -> std::result::Result<Captured, DriverError> {
        self.ended = true;
        let reads = ACTIVE.take().map(|active| active.reads).unwrap_or_default();
        // SAFETY: the stream is this session's own; the graph is nobody else's.
        let graph = unsafe { stream::end_capture(self.stream) }?;
        Ok(Captured { graph, reads })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            // After an error or a panic, what was recorded is of no use; neither is another error.
            drop(self.end());
        }
        // SAFETY: as above, and it records no longer.
        let _ = unsafe { stream::destroy(self.stream) };
    }
}

/// What a session recorded.
struct Captured {
    graph: sys::CUgraph,
    reads: Reads,
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: made by a session, and what was instantiated of it has a copy of its own.
        let _ = unsafe { graph::destroy(self.graph) };
    }
}

impl Cuda {
    /// The graph of a computation in the memory of `arena`, with the places of its inputs and results; none where it
    /// needs the host.
    fn captured(
        &self,
        arena: &Arc<Arena>,
        inputs: &[&Storage],
        compute: Compute<'_>,
    ) -> Result<Option<(Captured, [Vec<Buffer>; 2])>> {
        self.gpu.enter()?;
        let failed = |error| failed("recording a computation")(error);
        let mut session = Session::begin(&self.gpu, arena).map_err(failed)?;
        let places = inputs.iter().map(|input| self.take(input.len(), on_gpu(input).kind));
        let places: Vec<Buffer> = places.collect::<Result<_>>()?;
        let computed = compute(places.iter().cloned().map(Storage::Cuda).collect());
        let Some(computed) = computed else { return Ok(None) };
        let outputs: Vec<Buffer> =
            computed.iter().map(|output| self.aligned(on_gpu(output))).collect::<Result<_>>()?;
        Ok(Some((session.end().map_err(failed)?, [places, outputs])))
    }

    pub(super) fn recorded(
        &self,
        inputs: &[&Storage],
        compute: Compute<'_>,
    ) -> Result<Option<Recorded>> {
        let trial = Arena::over(NOWHERE, MOST);
        if self.captured(&trial, inputs, compute)?.is_none() {
            return Ok(None);
        }
        let bytes = trial.extent(NOWHERE);
        let memory = self.shared_memory(bytes)?;
        // As long as the trial's, so that the same pieces are handed out.
        let arena = Arena::over(memory.address, MOST);
        let Some((mut captured, [inputs, outputs])) = self.captured(&arena, inputs, compute)?
        else {
            return Ok(None);
        };
        if arena.extent(memory.address) > bytes {
            let why = "it takes more memory the second time".to_owned();
            return Err(Error::Gpu { what: "recording a computation".to_owned(), why });
        }
        // SAFETY: the graph was recorded just now.
        let ready = unsafe { graph::instantiate(captured.graph, sys::CUgraphInstantiate_flags(0)) }
            .map_err(failed("preparing a recorded computation"))?;
        let graph = Graph(ready, Arc::clone(&self.gpu));
        let reads = std::mem::take(&mut captured.reads);
        Ok(Some(Recorded { graph, inputs, outputs, _memory: memory, reads }))
    }

    /// The memory of earlier recordings where it is large enough, or new memory.
    fn shared_memory(&self, bytes: usize) -> Result<Arc<Block>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = shared.upgrade().filter(|block| block.wanted >= bytes) {
            return Ok(block);
        }
        let block = Arc::new(self.arena.take(bytes)?);
        *shared = Arc::downgrade(&block);
        Ok(block)
    }

    pub(super) fn replayed(
        &self,
        recorded: &Recorded,
        inputs: &[&Storage],
    ) -> Result<Option<Vec<Storage>>> {
        let inputs: Vec<Buffer> =
            inputs.iter().map(|input| self.aligned(on_gpu(input))).collect::<Result<_>>()?;
        let form = |buffers: &[Buffer]| -> Vec<(usize, Kind)> {
            buffers.iter().map(|buffer| (buffer.len(), buffer.kind)).collect()
        };
        if form(&inputs) != form(&recorded.inputs) {
            return Ok(None);
        }
        let outputs: Vec<Buffer> = (recorded.outputs.iter())
            .map(|place| self.take(place.len(), place.kind))
            .collect::<Result<_>>()?;
        self.gpu.enter()?;
        // Until the results are on their way out, the memory belongs to this replay.
        let turn = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        self.copy_all(&inputs, &recorded.inputs)?;
        let (graph, stream) = (recorded.graph.0, self.gpu.stream());
        // SAFETY: the graph uses its own memory, blocks that the recording keeps, and the workspace of products.
        let launched = self.products.undisturbed(|| unsafe { graph::launch(graph, stream) });
        launched.map_err(failed("replaying a recorded computation"))?;
        self.copy_all(&recorded.outputs, &outputs)?;
        drop(turn);
        Ok(Some(outputs.into_iter().map(Storage::Cuda).collect()))
    }

    /// Copies each buffer to its place, many in one launch, by whole words: a block ends at a multiple of a word.
    fn copy_all(&self, from: &[Buffer], to: &[Buffer]) -> Result<()> {
        if from.len() <= FEW {
            let mut pairs = from.iter().zip(to);
            return pairs.try_for_each(|(from, to)| {
                self.gpu.copy(from.address(), to.address(), from.len() * from.kind.bytes())
            });
        }
        let row = |(from, to): (&Buffer, &Buffer)| {
            let words = (from.len() * from.kind.bytes()).div_ceil(Kind::F32.bytes());
            [from.address(), to.address(), words as u64]
        };
        let table: Vec<f32> = (from.iter().zip(to).flat_map(row))
            .flat_map(|word| [word as u32, (word >> 32) as u32])
            .map(f32::from_bits)
            .collect();
        let table = self.uploaded(&table)?;
        let grid = Grid::new([BLOCKS, from.len(), 1], [THREADS as u32, 1]);
        self.gpu.launch(&self.kernels.layout.copy_all, grid, (table.read(),))
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::Supply;
    use super::*;

    struct Endless;

    impl Supply for Endless {
        fn allocate(&self, _: usize) -> Result<Option<u64>> {
            Ok(Some(1 << 20))
        }

        fn total(&self) -> usize {
            1 << 40
        }
    }

    fn buffer(arena: &Arc<Arena>) -> Buffer {
        Buffer::new(arena.take(64).unwrap(), 16, Kind::F32)
    }

    #[test]
    fn a_recording_keeps_what_it_reads_and_is_stale_once_nobody_else_does() {
        let (weights, own) = (Arena::new(Arc::new(Endless)), Arena::over(NOWHERE, MOST));
        let [weight, unread, place] = [&weights, &weights, &own].map(buffer);
        let arena = Arc::clone(&own);
        let (gpu, stream) = (ptr::null(), ptr::null_mut());
        ACTIVE.set(Some(Active { gpu, stream, arena, reads: Reads::default() }));
        let address = weight.address();
        place.address();
        let reads = ACTIVE.take().expect("it is recording").reads;
        assert_eq!(reads.0.len(), 1, "the weight that was read, and nothing of its own");
        assert!(!reads.abandoned());
        drop(unread);
        assert!(!reads.abandoned());
        drop(weight);
        assert!(reads.abandoned());
        assert_ne!(buffer(&weights).address(), address, "the memory is not handed out again");
    }
}
