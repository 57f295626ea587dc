//! Lanes: work beside other work on one GPU.
//!
//! A GPU does what is queued on one stream in order, and the kernels of a small network leave most of it idle. Devices
//! that are opened in different lanes have streams and memory of their own, so their work runs at the same time.
//! Tensors of different lanes cannot be mixed.

use std::cell::Cell;

thread_local!(static LANE: Cell<usize> = const { Cell::new(0) });

/// Sets the lane back, however it is left.
struct Back(usize);

impl Drop for Back {
    fn drop(&mut self) {
        LANE.set(self.0);
    }
}

/// Runs `work` in a lane: every GPU that it opens on this thread is that of the lane; threads that it starts are in lane
/// 0, as other work is. A CPU has one lane. A lane keeps its stream, and as much memory as its largest work took, for
/// as long as the process lives, so few numbers should be used, and used again.
pub fn in_lane<R>(lane: usize, work: impl FnOnce() -> R) -> R {
    let _back = Back(LANE.replace(lane));
    work()
}

/// The lane of this thread.
#[cfg(feature = "cuda")]
pub(crate) fn current() -> usize {
    LANE.get()
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_lane_ends_with_its_work_and_belongs_to_one_thread() {
        let seen = in_lane(3, || {
            let other = std::thread::spawn(|| LANE.get()).join().unwrap();
            (LANE.get(), other, in_lane(5, || LANE.get()), LANE.get())
        });
        assert_eq!((seen, LANE.get()), ((3, 0, 5, 3), 0));
        assert!(catch_unwind(|| in_lane(7, || panic!("as it happens"))).is_err());
        assert_eq!(LANE.get(), 0);
    }
}
