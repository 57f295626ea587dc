//! Computations that are recorded once and replayed: a CUDA graph costs the host one call where its kernels and products
//! cost one each.
//!
//! A recording works at fixed addresses. Recordings share that memory where it is large enough, because inputs are copied
//! in and results out around every replay, and replays take turns on the one stream. How much is needed is found by
//! recording once over addresses where nothing is: while a thread records, nothing runs.
//!
//! A computation with a product that takes longer than its call ([`super::matmul::LARGE`]) is not recorded: there the host is ahead of
//! the GPU anyway.
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

/// The most memory of a recording.
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

/// A thread's recording, which ends however it is left.
struct Session {
    stream: sys::CUstream,
    ended: bool,
}

impl Session {
    fn begin(gpu: &Arc<Gpu>, arena: &Arc<Arena>) -> std::result::Result<Self, DriverError> {
        let stream = stream::create(stream::StreamKind::NonBlocking)?;
        let session = Self { stream, ended: false };
        // Nothing that is recorded allocates or waits, and other threads go on with whatever they do.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was made just now.
        unsafe { stream::begin_capture(stream, mode) }?;
        ACTIVE.set(Some(Active { gpu: Arc::as_ptr(gpu), stream, arena: Arc::clone(arena) }));
        Ok(session)
    }

    fn end(&mut self) -> std::result::Result<Captured, DriverError> {
        self.ended = true;
        ACTIVE.set(None);
        // SAFETY: the stream is this session's own; the graph is nobody else's.
        unsafe { stream::end_capture(self.stream) }.map(Captured)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            // What was recorded until an error or a panic is of no use, and neither is an error now.
            drop(self.end());
        }
        // SAFETY: as above, and it records no longer.
        let _ = unsafe { stream::destroy(self.stream) };
    }
}

/// What a session recorded.
struct Captured(sys::CUgraph);

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: made by a session, and what was instantiated of it has a copy of its own.
        let _ = unsafe { graph::destroy(self.0) };
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
        let given = compute(places.iter().cloned().map(Storage::Cuda).collect());
        let Some(given) = given else { return Ok(None) };
        let outputs: Vec<Buffer> =
            given.iter().map(|output| self.aligned(on_gpu(output))).collect::<Result<_>>()?;
        Ok(Some((session.end().map_err(failed)?, [places, outputs])))
    }

    pub(super) fn recorded(
        &self,
        inputs: &[&Storage],
        compute: Compute<'_>,
    ) -> Result<Option<Recorded>> {
        if stream(&self.gpu).is_some() {
            // Part of a recording already.
            return Ok(None);
        }
        let trial = Arena::over(Arc::clone(&self.gpu), NOWHERE, MOST);
        if self.captured(&trial, inputs, compute)?.is_none() {
            return Ok(None);
        }
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
        // SAFETY: the graph was recorded just now.
        let ready = unsafe { graph::instantiate(graph.0, sys::CUgraphInstantiate_flags(0)) }
            .map_err(failed("preparing a recorded computation"))?;
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
        // SAFETY: the graph's memory is its own, that of tensors which its maker keeps, and the workspace of products.
        let launched = self.products.undisturbed(|| unsafe { graph::launch(graph, stream) });
        launched.map_err(failed("replaying a recorded computation"))?;
        self.copy_all(&recorded.outputs, &outputs)?;
        drop(turn);
        Ok(Some(outputs.into_iter().map(Storage::Cuda).collect()))
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
