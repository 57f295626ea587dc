//! What makes a stream readable again whose files are damaged.

use std::io::ErrorKind;
use std::path::Path;

use paint_run::session::history;

use super::Shared;
use super::held::{Held, Meta, io, missing, read_meta, unreadable, write_meta};
use super::task::Command;
use crate::fault::Fault;
use crate::stream::Key;

/// Keeps a damaged file beside itself: somebody may want to know what happened to it. Files are replaced, never
/// changed, so that a link is as good as a copy.
fn keep_damaged(path: &Path) -> Result<(), Fault> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    match std::fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(io("replace", path, &error));
        }
        _ => {}
    }
    std::fs::hard_link(path, &aside)
        .or_else(|_| std::fs::copy(path, &aside).map(drop))
        .map_err(|error| io("copy", path, &error))
}

impl Held {
    /// Makes a stream readable again whose `damage` was found when it was opened. A rollback and a reset give up what was
    /// learnt last; `freeze` and `resume` say what damaged settings no longer do, and the state must be sound. Says what
    /// remains to be done. What is sound stays as it is.
    pub(super) fn heal(
        key: &Key,
        command: Command,
        damage: Fault,
        shared: &Shared,
    ) -> Result<Command, Fault> {
        let gives_up = matches!(command, Command::RollBack(_) | Command::Reset);
        if !(gives_up || matches!(command, Command::Freeze | Command::Resume)) {
            return Err(damage);
        }
        let (path, _lease) = key.model.storage.open(&key.id)?;
        // Another server may have it in memory, and know nothing of the damage.
        let claim = paint_files::claim_file(&path).map_err(paint_run::Error::from)?;
        let present = match history::show(&path) {
            Err(error) if !gives_up && path.exists() => return Err(unreadable(error)),
            present => present,
        };
        let is_damaged = present.as_ref().is_err_and(paint_run::Error::is_damaged_file);
        let remaining = match command {
            Command::RollBack(step) => {
                let present = present.ok().map(|present| present.batches);
                let told = |error| match missing(error) {
                    Fault::NotFound(why) => Fault::NotFound(format!("{why}; {}", damage.message())),
                    other => other,
                };
                let snapshot = history::earlier(&path, present, step).map_err(told)?;
                Command::RollBack(Some(history::show(&snapshot).map_err(missing)?.batches))
            }
            command => command,
        };
        let meta_path = path.with_extension("json");
        if matches!(read_meta(&meta_path), Err(Fault::Damaged(_))) {
            keep_damaged(&meta_path)?;
            // Whoever froze it does not expect it to learn again by itself.
            write_meta(&meta_path, Meta { is_frozen: true, ..Meta::default() })?;
            shared.journal.audit(key, Command::Freeze.name(), "the settings were damaged", 0);
        }
        if is_damaged {
            keep_damaged(&path)?;
            if let Command::RollBack(step) = remaining {
                drop(claim);
                history::roll_back(&path, step).map_err(missing)?;
            } else {
                std::fs::remove_file(&path).map_err(|error| io("remove", &path, &error))?;
            }
        }
        Ok(remaining)
    }
}
