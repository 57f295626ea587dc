//! Shapes as the kernels take them.

use super::driver::Arg;
use crate::backend::Window;
use crate::shape::elem_count;
use crate::{Error, Result};

/// Most axes an elementwise kernel walks over.
const RANK: usize = 8;

/// Axes as the kernels take them: the rank, the sizes, and each list of strides in `RANK` places. Neighbouring axes that
/// lie behind one another in every list are walked as one.
pub(super) fn axes<const N: usize>(
    what: &'static str,
    shape: &[usize],
    strides: [&[usize]; N],
) -> Result<Arg> {
    let mut joined: Vec<(usize, [usize; N])> = Vec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        let steps = strides.map(|list| list[axis]);
        match joined.last_mut() {
            Some((length, outer)) if (0..N).all(|i| outer[i] == steps[i] * size) => {
                (*length, *outer) = (*length * size, steps);
            }
            _ => joined.push((size, steps)),
        }
    }
    if joined.len() > RANK || elem_count(shape) > u32::MAX as usize {
        return Err(Error::Shape {
            what,
            expected: format!("at most {RANK} axes and 2^32 elements on a GPU"),
            got: shape.to_vec(),
        });
    }
    let mut words = [0; 1 + 3 * RANK];
    words[0] = joined.len();
    for (axis, (size, steps)) in joined.iter().enumerate() {
        words[1 + axis] = *size;
        for (list, step) in steps.iter().enumerate() {
            words[1 + (1 + list) * RANK + axis] = *step;
        }
    }
    Ok(Arg::words(words))
}

pub(super) fn window_arg(window: &Window) -> Arg {
    let Window { input, side, stride, padding, output } = *window;
    Arg::words([input[0], input[1], side, stride, padding, output[0], output[1]])
}
