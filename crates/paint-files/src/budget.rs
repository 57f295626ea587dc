//! What reading one file may allocate.

use crate::Fault;

/// The memory that one file may ask for.
///
/// Half floats double, deflate and shared storages multiply, so the limit is a multiple of the file's size. A header
/// that claims more is refused before anything is allocated for it.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    spent: u64,
}

impl Budget {
    const FACTOR: u64 = 16;
    const SLACK: u64 = 1 << 20;

    /// The budget of a file of this length: sixteen times its size, and a mebibyte.
    pub fn for_file(bytes: u64) -> Self {
        Self::of(bytes.saturating_mul(Self::FACTOR).saturating_add(Self::SLACK))
    }

    /// A budget of this many bytes.
    pub fn of(limit: u64) -> Self {
        Self { limit, spent: 0 }
    }

    /// Takes `bytes` out of the budget for `what`.
    pub fn charge(&mut self, what: &str, bytes: u64) -> Result<(), Fault> {
        let left = self.limit - self.spent;
        if bytes > left {
            return Err(Fault::TooLarge { what: what.to_owned(), claimed: bytes, limit: left });
        }
        self.spent += bytes;
        Ok(())
    }
}
