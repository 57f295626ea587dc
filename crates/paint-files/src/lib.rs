//! Files: written [whole or not at all](write_atomically), in folders that [one process at a time](claim()) works in;
//! arrays and archives [read](Source) at an offset ([`npy`], [`zip`]); names made [safe to print](printable), text read
//! [up to a size](read_text).
//!
//! Datasets and networks both read and write files and do not see each other, so what they share is here. Files come
//! from strangers: no reader allocates on a header's word or panics, and a [`Fault`] says what is wrong.
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! let _claim = paint_files::claim(folder.path()).expect("nobody else works here");
//! let path = folder.path().join("notes.txt");
//! paint_files::write_atomically(&path, |out| std::io::Write::write_all(out, b"whole"))?;
//! assert_eq!(std::fs::read(&path)?, b"whole");
//! # Ok::<(), std::io::Error>(())
//! ```

mod budget;
mod claim;
mod cursor;
mod element;
mod fault;
pub mod npy;
mod printable;
mod source;
mod text;
mod whole;
pub mod zip;

pub use budget::Budget;
pub use claim::{Claim, ClaimError, FileClaim, claim, claim_file};
pub use cursor::{Cursor, utf8};
pub use element::{Dtype, element_count};
pub use fault::{Fault, abridged};
pub use printable::printable;
pub use source::Source;
pub use text::{LONGEST_TEXT, read_text};
pub use whole::{create_folder, remove_leftovers, write_atomically, write_unflushed};
