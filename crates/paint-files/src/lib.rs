//! Files: written [whole or not at all](write_atomically), in folders that [one process at a time](claim()) works in, and
//! named in messages that are [safe to print](printable).
//!
//! Datasets and networks both read and write files and do not see each other, so what they share is here.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let _claim = paint_files::claim(folder.path()).expect("nobody else works here");
//! let path = folder.path().join("notes.txt");
//! paint_files::write_atomically(&path, |out| std::io::Write::write_all(out, b"whole"))?;
//! assert_eq!(std::fs::read(&path)?, b"whole");
//! # Ok::<(), std::io::Error>(())
//! ```

mod claim;
mod printable;
mod whole;

pub use claim::{Claim, ClaimError, claim};
pub use printable::printable;
pub use whole::{create_folder, remove_leftovers, write_atomically, write_unflushed};
