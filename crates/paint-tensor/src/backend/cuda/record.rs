//! Computations that are recorded once and replayed: a CUDA graph costs the host one call where its kernels and products
//! cost one each.
//!
//! A recording works at fixed addresses. All recordings of a GPU share that memory, because inputs are copied in and
//! results out around every replay, and replays take turns on the one stream. How much is needed is found by recording
//! once over addresses where nothing is: while a thread records, nothing runs.
#![expect(unsafe_code, reason = "every call into the driver is a foreign function")]

use std::cell::RefCell;
use std::ptr;
use std::sync::{Arc, PoisonError};

use cudarc::driver::result::{DriverError, graph, stream};
use cudarc::driver::sys;

use super::arena::{Arena, Block};
use super::buffer::{Buffer, Kind};
use super::driver::{Arg, Gpu, Grid, failed};
use super::elements::THREADS;
use super::{Cuda, on_gpu};
use crate::backend::{Compute, Storage};
use crate::{Error, Result};

/// The most memory that recordings share. What needs more keeps the GPU so busy that the host's calls do not matter.
const MOST: usize = 512 << 20;
/// Where the addresses of a trial recording begin.
const NOWHERE: u64 = 1 << 45;
/// Blocks that copy one input or result.
const BLOCKS: usize = 128;

/// What a thread records.
struct Active {
    gpu: *const Gpu,
    stream: sys::CUstream,
    arena: Arc<Arena>,
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

/// Whether something computed now may be kept beside a block: a recording computes nothing for others.
pub(super) fn may_keep(gpu: &Gpu, block: &Block) -> bool {
    active(gpu, |it| it.arena.holds(block)).unwrap_or(true)
}

/// An error while this thread records: the host is part of `what`.
pub(super) fn refuse(gpu: &Gpu, what: &str) -> Result<()> {
    let refused = || Error::Gpu {
        what: what.to_owned(),
        why: "a computation that is recorded cannot wait for the host".to_owned(),
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
        // A graph that still runs when it is destroyed would lose its memory; an error here has nobody to go to.
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
    /// Where all of it lies.
    _memory: Arc<Block>,
}

/// Ends this thread's recording, however it is left.
struct Session;

impl Drop for Session {
    fn drop(&mut self) {
        ACTIVE.set(None);
    }
}

/// The graph of what `work` queues, and what it gives; none where it fails.
fn capture<T>(
    gpu: &Arc<Gpu>,
    arena: &Arc<Arena>,
    work: impl FnOnce() -> Option<T>,
) -> std::result::Result<Option<(sys::CUgraph, T)>, DriverError> {
    let stream = stream::create(stream::StreamKind::NonBlocking)?;
    // Nothing in `work` allocates or waits, and other threads go on with whatever they do.
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream was made just now.
    unsafe { stream::begin_capture(stream, mode) }?;
    ACTIVE.set(Some(Active { gpu: Arc::as_ptr(gpu), stream, arena: Arc::clone(arena) }));
    let done = {
        let _session = Session;
        work()
    };
    // SAFETY: the stream is the one that records; it is destroyed once it does not.
    let graph = unsafe {
        let graph = stream::end_capture(stream);
        stream::destroy(stream)?;
        graph
    };
    match done {
        None => {
            if let Ok(graph) = graph {
                // SAFETY: the graph is nobody else's.
                unsafe { graph::destroy(graph) }?;
            }
            Ok(None)
        }
        Some(done) => Ok(Some((graph?, done))),
    }
}

impl Cuda {
    /// The graph of a computation in the memory of `arena`, with the places of its inputs and results.
    fn captured(
        &self,
        arena: &Arc<Arena>,
        inputs: &[&Storage],
        compute: Compute<'_>,
    ) -> Result<Option<(sys::CUgraph, [Vec<Buffer>; 2])>> {
        self.gpu.enter()?;
        let work = || {
            let take = |input: &&Storage| self.take(input.len(), on_gpu(input).kind).ok();
            let places: Vec<Buffer> = inputs.iter().map(take).collect::<Option<_>>()?;
            let given = compute(places.iter().cloned().map(Storage::Cuda).collect())?;
            let outputs = given.iter().map(|x| self.aligned(on_gpu(x)).ok()).collect::<Option<_>>();
            Some([places, outputs?])
        };
        capture(&self.gpu, arena, work).map_err(failed("recording a computation"))
    }

    pub(super) fn recorded(
        &self,
        inputs: &[&Storage],
        compute: Compute<'_>,
    ) -> Result<Option<Recorded>> {
        let trial = Arena::over(Arc::clone(&self.gpu), NOWHERE, MOST);
        let Some((graph, _)) = self.captured(&trial, inputs, compute)? else { return Ok(None) };
        // SAFETY: the graph is nobody else's.
        unsafe { graph::destroy(graph) }.map_err(failed("forgetting a trial recording"))?;
        let bytes = trial.extent(NOWHERE);
        let memory = self.shared_memory(bytes)?;
        // As long as the trial's, so that the same pieces are chosen.
        let arena = Arena::over(Arc::clone(&self.gpu), memory.address, MOST);
        let Some((graph, [inputs, outputs])) = self.captured(&arena, inputs, compute)? else {
            return Ok(None);
        };
        if arena.extent(memory.address) > bytes {
            let why = "it takes more memory the second time".to_owned();
            return Err(Error::Gpu { what: "recording a computation".to_owned(), why });
        }
        // SAFETY: the graph was recorded just now, and lives on in what is made of it.
        let ready = unsafe {
            let ready = graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            graph::destroy(graph).and(ready)
        };
        let ready = ready.map_err(failed("preparing a recorded computation"))?;
        let graph = Graph(ready, Arc::clone(&self.gpu));
        Ok(Some(Recorded { graph, inputs, outputs, _memory: memory }))
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
    ) -> Result<Vec<Storage>> {
        let inputs: Vec<Buffer> =
            inputs.iter().map(|input| self.aligned(on_gpu(input))).collect::<Result<_>>()?;
        let outputs: Vec<Buffer> = (recorded.outputs.iter())
            .map(|place| self.take(place.len(), place.kind))
            .collect::<Result<_>>()?;
        self.gpu.enter()?;
        // Until the results are on their way out, the memory belongs to this replay.
        let turn = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        self.copy_all(&inputs, &recorded.inputs)?;
        // SAFETY: the graph's memory is its own and that of tensors which its maker keeps.
        unsafe { graph::launch(recorded.graph.0, self.gpu.stream()) }
            .map_err(failed("replaying a recorded computation"))?;
        self.copy_all(&recorded.outputs, &outputs)?;
        drop(turn);
        Ok(outputs.into_iter().map(Storage::Cuda).collect())
    }

    /// Copies each buffer to its place, all in one launch. Blocks end at multiples of a word, so whole words are copied.
    fn copy_all(&self, from: &[Buffer], to: &[Buffer]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
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
        self.launch("copy_all", grid, &[Arg::Address(table.address())])
    }
}
