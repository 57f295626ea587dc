//! The samples of one component.

/// Rows of bytes, longer and more than the image needs where blocks reach over its edge.
pub(crate) struct Plane {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) stride: usize,
    pub(crate) data: Vec<u8>,
}

impl Plane {
    /// A plane of `(width, height)` samples in rows of `stride`, `rows` of them.
    pub(crate) fn with_stride((width, height): (usize, usize), stride: usize, rows: usize) -> Self {
        Self { width, height, stride, data: vec![0; stride * rows] }
    }

    /// The samples of a row.
    #[inline(always)]
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        &self.data[y * self.stride..][..self.width]
    }
}
