//! Products of few rows: tasks share the columns, so that each part of a weight is read, and packed, once, where tasks
//! that share the rows would each read all of it.

#![expect(unsafe_code, reason = "tasks write columns of one matrix, which no safe slice describes")]

use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::amx::{self, LANES, STEP, Side, Split};
use super::avx512::Tile;
use super::columns::Columns;
use super::finish::{Finish, padded, span};
use super::gemm::{Operand, Size};
use super::packs::FEW_ROWS;
use super::panels::kept_amx;
use super::parallel::vectorized;
use super::prefetch;
use super::slab::Block;

/// Floats of the packed left operand that stay in the second-level cache: half of 2 MiB.
const LEFT: usize = 1 << 18;
/// Multiplications below which a second thread costs more than it saves.
const SMALL: usize = 1 << 18;

/// True if a product has few rows, and columns for every thread.
pub(super) fn suits(Size { m, n, .. }: Size) -> bool {
    m <= FEW_ROWS && n.div_ceil(LANES) >= rayon::current_num_threads()
}

/// A product, and where it is read from and written to.
struct Product<'a> {
    split: Split,
    size: Size,
    left: Left<'a>,
    right: Operand<'a>,
    /// The right operand in packed form, where that is kept.
    kept: Option<Arc<Block>>,
    finish: Finish<'a>,
    out: Columns<'a>,
    slope: Option<Columns<'a>>,
    /// How many panels of each share of the columns are taken.
    taken: Vec<AtomicUsize>,
}

/// `C = finish(A B)`; `slope` as in [`super::gemm::parallel`].
pub(super) fn multiply(
    split: Split,
    size: Size,
    (a, b): (Operand, Operand),
    finish: Finish,
    c: &mut [f32],
    slope: &mut [f32],
) {
    let Size { m, n, k } = size;
    let tasks = if m * n * k < SMALL { 1 } else { rayon::current_num_threads() };
    let mut left = Block::take(m.div_ceil(LANES) * k.div_ceil(STEP) * split.step_len());
    let product = Product {
        split,
        size,
        left: Left::new(split, size, a, left.as_mut_slice()),
        right: b,
        kept: kept_amx(split, size, b, true),
        finish,
        out: Columns::new(c, n),
        slope: (!slope.is_empty()).then(|| Columns::new(slope, n)),
        taken: (0..tasks).map(|_| AtomicUsize::new(0)).collect(),
    };
    if tasks == 1 {
        product.work(0);
    } else {
        (0..tasks).into_par_iter().with_max_len(1).for_each(|task| product.work(task));
    }
}

impl Product<'_> {
    fn row_panels(&self) -> usize {
        self.size.m.div_ceil(LANES)
    }

    /// Steps of a block of depths, of which the left operand stays in the cache.
    fn block_steps(&self) -> usize {
        let step = self.row_panels() * self.split.step_len();
        (LEFT / step).clamp(1, self.size.k.div_ceil(STEP).max(1))
    }

    /// Takes the panels of one share, side by side so that each is fetched ahead, and then what others have left.
    fn work(&self, task: usize) {
        let panels = self.size.n.div_ceil(LANES);
        let share = panels.div_ceil(self.taken.len());
        // A left operand that does not stay in the cache is read again for every part.
        let stays = self.block_steps() * STEP >= self.size.k;
        let width = if stays { 1 } else { share };
        for share_of in (task..).take(self.taken.len()).map(|of| of % self.taken.len()) {
            let end = panels.min((share_of + 1) * share);
            let take =
                || share_of * share + self.taken[share_of].fetch_add(width, Ordering::Relaxed);
            let mut first = take();
            while first < end {
                self.columns(first..end.min(first + width));
                first = take();
            }
        }
    }

    /// All rows of some panels of columns.
    fn columns(&self, panels: Range<usize>) {
        let (step_len, block) = (self.split.step_len(), self.block_steps());
        let steps = self.size.k.div_ceil(STEP);
        let rows = self.row_panels() * LANES;
        let mut sums = Block::take(panels.len() * rows * LANES);
        let mut packed = Block::take(block * step_len);
        let registers = amx::Registers::take();
        let left = self.left.packed();
        let blocks = steps.div_ceil(block).max(1);
        for first in (0..blocks).map(|at| at * block) {
            let last = steps.min(first + block);
            let sums = sums.as_mut_slice().chunks_exact_mut(rows * LANES);
            for (panel, sums) in panels.clone().zip(sums) {
                let (right, ahead) = self.right(panel, first..last, packed.as_mut_slice());
                for (row, sums) in sums.chunks_exact_mut(LANES * LANES).enumerate() {
                    let at = [row * LANES, panel * LANES];
                    if last == steps {
                        self.fetch(at);
                    }
                    let left = &left[(row * steps + first) * step_len..];
                    // Each row panel brings its share of the next columns into the cache.
                    let ahead = ahead.get(row * (last - first) * self.split.ahead_len()..);
                    let ahead = ahead.filter(|ahead| !ahead.is_empty());
                    let mut tile = Tile {
                        out: &mut *sums,
                        stride: LANES,
                        rows: LANES,
                        cols: LANES,
                        add: first > 0,
                        margin: false,
                    };
                    let operands = (left, right, ahead);
                    amx::multiply(&registers, self.split, last - first, operands, &mut tile);
                    if last == steps {
                        self.store(at, sums);
                    }
                }
            }
        }
    }

    /// Some steps of a panel of columns in packed form, and what to fetch ahead.
    fn right<'a>(
        &'a self,
        panel: usize,
        steps: Range<usize>,
        packed: &'a mut [f32],
    ) -> (&'a [f32], &'a [f32]) {
        let Size { n, k, .. } = self.size;
        let panel_len = k.div_ceil(STEP) * self.split.step_len();
        if let Some(kept) = &self.kept {
            let at = panel * panel_len + steps.start * self.split.step_len();
            let kept = &kept.as_slice()[at..];
            return (kept, kept.get(panel_len..).unwrap_or(&[]));
        }
        let lanes = [panel * LANES, (n - panel * LANES).min(LANES)];
        let from = steps.start * STEP;
        let depths = [from, k.min(steps.end * STEP) - from];
        amx::pack(self.split, Side::Right, self.right.column_lanes(), lanes, depths, packed);
        (packed, &[])
    }

    /// Brings what a tile's store reads and writes into the cache.
    fn fetch(&self, [top, first]: [usize; 2]) {
        let Size { m, n, .. } = self.size;
        for row in top..m.min(top + LANES) {
            let at = row * n + first;
            prefetch::row::<_MM_HINT_ET0>(self.out.address(at));
            match self.finish {
                Finish::Times(other) | Finish::Residual { residual: other, .. } => {
                    prefetch::row::<_MM_HINT_T0>(other[at..].as_ptr());
                }
                _ => (),
            }
        }
    }

    /// Writes a tile of sums.
    fn store(&self, [top, first]: [usize; 2], sums: &[f32]) {
        let Size { m, n, .. } = self.size;
        let columns = first..n.min(first + LANES);
        vectorized(
            #[inline(always)]
            || {
                for (i, sums) in (top..m).zip(sums.chunks_exact(LANES)) {
                    // SAFETY: a task has its columns for itself, and writes one row after the other.
                    let row = unsafe { self.out.part(i, columns.clone()) };
                    let slope = match &self.slope {
                        // SAFETY: as above.
                        Some(slope) => unsafe { slope.part(i, columns.clone()) },
                        None => &mut [],
                    };
                    if row.len() == LANES {
                        span(self.finish, padded(sums), &mut row[..LANES], slope, [i, n, first]);
                    } else {
                        span(self.finish, padded(sums), row, slope, [i, n, first]);
                    }
                }
            },
        );
    }
}

/// Counts a panel when it is dropped, so that nobody waits for a thread that panicked.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// The left operand, packed by the tasks that need it: each takes the next panel until none is left.
struct Left<'a> {
    split: Split,
    size: Size,
    from: Operand<'a>,
    panels: Columns<'a>,
    /// Panels that a task has taken, and those that are done.
    taken: AtomicUsize,
    done: AtomicUsize,
}

impl<'a> Left<'a> {
    fn new(split: Split, size: Size, from: Operand<'a>, out: &'a mut [f32]) -> Self {
        let panel_len = size.k.div_ceil(STEP) * split.step_len();
        let (taken, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { split, size, from, panels: Columns::new(out, panel_len), taken, done }
    }

    /// All of it. Whoever has taken a panel packs it and waits for nobody, so the others wait no longer than that.
    fn packed(&self) -> &[f32] {
        let Size { m, k, .. } = self.size;
        let panels = m.div_ceil(LANES);
        while self.taken.load(Ordering::Relaxed) < panels {
            let panel = self.taken.fetch_add(1, Ordering::Relaxed);
            if panel < panels {
                let _done = Done(&self.done);
                // SAFETY: no other task has taken this panel.
                let out = unsafe { self.panels.row(panel) };
                let lanes = [panel * LANES, (m - panel * LANES).min(LANES)];
                amx::pack(self.split, Side::Left, self.from.row_lanes(), lanes, [0, k], out);
            }
        }
        while self.done.load(Ordering::Acquire) < panels {
            std::thread::yield_now();
        }
        // SAFETY: every panel is done, and nobody writes to one again.
        unsafe { self.panels.all() }
    }
}
