//! Who may write a stream that several servers can reach.
//!
//! The folder of such a stream has a numbered folder for each holder. The highest number is the present one:
//!
//! 1. A server that finds no number, or a lease that has run out, makes the folder of the next one. That is a rename,
//!    which succeeds for one of several.
//! 2. It takes over the files of the number before ([`super::Storage`]) and writes only to its own folder.
//! 3. It renews its lease. When a renewal is overdue, the next request must take the next number first.
//! 4. Before it answers what changed the state, it looks for a higher number; if there is one, nothing is answered.
//!    If the lease has run out meanwhile (a paused process, slow storage, a long opening) and nobody has come, the
//!    state is saved and the answer given: whoever comes now takes over the files with that step in them.
//!
//! So the number fences: what a server writes that was overtaken while it slept lies where nobody reads any more, and
//! was told to nobody. Clocks decide only how long a takeover takes. They may differ by half of a lease before a
//! server loses streams that it still serves.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::fault::Fault;

const CARD: &str = "lease.json";
/// Digits of a folder's name.
const DIGITS: usize = 9;

/// What all leases of a server have in common.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// No other process has this name: machine, process, and when it began.
    pub(crate) holder: String,
    pub(crate) time: Duration,
}

impl Terms {
    pub(crate) fn new(time: Duration) -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let host: String = host.trim().chars().map(plain).collect();
        let holder = format!("{host}.{}.{}", std::process::id(), (now() * 1e6) as u64);
        Self { holder, time }
    }

    /// Whether a holder was a process of this machine that is gone. Where that cannot be seen, its lease must run out.
    fn is_gone(&self, holder: &str) -> bool {
        let process = |name: &str| {
            let (rest, _) = name.rsplit_once('.')?;
            let (host, id) = rest.rsplit_once('.')?;
            Some((host.to_owned(), id.to_owned()))
        };
        let (Some((host, id)), Some((own_host, own_id))) = (process(holder), process(&self.holder))
        else {
            return false;
        };
        let process = |id: &str| Path::new("/proc").join(id).exists();
        !host.is_empty() && host == own_host && process(&own_id) && !process(&id)
    }
}

/// What a holder says to the others.
#[derive(Debug, Serialize, Deserialize)]
struct Card {
    holder: String,
    /// Seconds since 1970.
    until: f64,
    /// Its length.
    seconds: f64,
}

impl Card {
    fn read(place: &Path) -> io::Result<Self> {
        let bytes = fs::read(place.join(CARD))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    fn write(terms: &Terms, until: f64, place: &Path) -> io::Result<()> {
        let card = Self { holder: terms.holder.clone(), until, seconds: terms.time.as_secs_f64() };
        let text = serde_json::json!(card).to_string();
        paint_files::write_atomically(&place.join(CARD), |file| file.write_all(text.as_bytes()))
    }

    /// Whether the next number may be taken. An own lease is one that this process has let go of.
    fn is_over(&self, terms: &Terms) -> bool {
        self.holder == terms.holder
            || now() > self.until + self.seconds / 2.0
            || terms.is_gone(&self.holder)
    }
}

/// The numbered folders, the lowest first.
pub(crate) fn numbers(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_number =
            |name: &&str| name.len() == DIGITS && name.bytes().all(|b| b.is_ascii_digit());
        if let Some(number) = name.filter(is_number).and_then(|name| name.parse().ok()) {
            found.push((number, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The right to write a stream, until it is dropped or lost.
#[derive(Debug)]
pub(crate) struct Lease {
    terms: Terms,
    folder: PathBuf,
    number: u64,
    place: PathBuf,
    /// Until when; none once it is lost.
    until: Mutex<Option<Instant>>,
}

impl Lease {
    /// Takes the next number of a stream's folder, if nobody holds the present one.
    pub(crate) fn take(folder: &Path, terms: &Terms) -> Result<Self, Fault> {
        let failed = |error: io::Error| {
            Fault::Failed(format!("cannot lease a stream: {error}: {}", folder.display()))
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let newest = numbers(folder).map_err(failed)?.pop();
        if let Some((_, place)) = &newest {
            match Card::read(place) {
                Ok(card) if card.is_over(terms) => {}
                Ok(card) => return Err(held(&card.holder)),
                // The folder of a number that was overtaken is removed.
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(held("another")),
                Err(error) => return Err(failed(error)),
            }
        }
        let began = Instant::now();
        let number = newest.map_or(1, |(number, _)| number + 1);
        let place = folder.join(format!("{number:0DIGITS$}"));
        let draft = folder.join(format!(".{}", terms.holder));
        fs::create_dir_all(&draft).map_err(failed)?;
        Card::write(terms, now() + terms.time.as_secs_f64(), &draft).map_err(failed)?;
        if let Err(error) = fs::rename(&draft, &place) {
            let _ = fs::remove_dir_all(&draft);
            let is_taken =
                matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty);
            return Err(if is_taken { held("another") } else { failed(error) });
        }
        let until = Mutex::new(Some(began + terms.time));
        let lease = Self { terms: terms.clone(), folder: folder.to_owned(), number, place, until };
        // A number that was removed meanwhile can be made again, below a higher one.
        lease.confirm()?;
        Ok(lease)
    }

    /// The holder's own folder.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_newest(&self) -> io::Result<bool> {
        Ok(numbers(&self.folder)?.pop().is_some_and(|(number, _)| number == self.number))
    }

    /// Whether it has not run out, by this machine's clock alone.
    pub(crate) fn is_valid(&self) -> bool {
        self.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Makes it last for another while, unless it has run out or somebody has the next number. What cannot be written
    /// is tried again.
    pub(crate) fn renew(&self) {
        let mut until = self.lock();
        let Some(end) = *until else { return };
        let began = Instant::now();
        if began >= end {
            *until = None;
            return;
        }
        let written = Card::write(&self.terms, now() + self.terms.time.as_secs_f64(), &self.place);
        match self.is_newest() {
            Ok(true) if written.is_ok() => *until = Some(began + self.terms.time),
            Ok(false) => *until = None,
            _ => {}
        }
    }

    /// An error if somebody has the next number, whether or not it has run out.
    pub(crate) fn confirm(&self) -> Result<(), Fault> {
        if self.is_newest().unwrap_or(false) {
            return Ok(());
        }
        *self.lock() = None;
        Err(held("another"))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.confirm().is_ok() {
            // Who cannot be told waits until it has run out.
            let _ = Card::write(&self.terms, 0.0, &self.place);
        }
    }
}

fn held(holder: &str) -> Fault {
    Fault::Held(format!("stream: expected one that no other server has, found it with {holder}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server on another machine, as far as this one can see.
    fn terms(host: &str, ms: u64) -> Terms {
        Terms { holder: format!("{host}.1.1"), time: Duration::from_millis(ms) }
    }

    fn is_held(taken: &Result<Lease, Fault>) -> bool {
        matches!(taken, Err(Fault::Held(_)))
    }

    #[test]
    fn one_server_at_a_time_has_a_stream_and_numbers_grow() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (terms("a", 60_000), terms("b", 60_000));
        let first = Lease::take(folder.path(), &a).unwrap();
        assert_eq!((first.number, first.is_valid()), (1, true));
        assert!(is_held(&Lease::take(folder.path(), &b)));
        drop(first);
        assert_eq!(Lease::take(folder.path(), &b).unwrap().number, 2);
        assert_eq!(numbers(folder.path()).unwrap().len(), 2);
    }

    #[test]
    fn a_lease_that_is_renewed_lasts_and_one_that_is_not_is_lost_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (terms("a", 1500), terms("b", 60_000));
        let first = Lease::take(folder.path(), &a).unwrap();
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(250));
            first.renew();
            assert!(is_held(&Lease::take(folder.path(), &b)));
        }
        std::thread::sleep(Duration::from_millis(2300));
        assert!(!first.is_valid());
        let second = Lease::take(folder.path(), &b).unwrap();
        first.renew();
        assert!(first.confirm().is_err() && second.confirm().is_ok());
        drop(first);
        assert!(is_held(&Lease::take(folder.path(), &a)), "who lost it cannot give it away");
    }

    #[test]
    fn what_took_longer_than_the_lease_is_answered_unless_somebody_came() {
        let folder = tempfile::tempdir().unwrap();
        let slow = Lease::take(folder.path(), &terms("a", 1)).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        assert!(!slow.is_valid() && slow.confirm().is_ok());
        slow.renew();
        assert!(!slow.is_valid(), "the next request takes the next number");
        let _fast = Lease::take(folder.path(), &terms("b", 60_000)).unwrap();
        assert!(slow.confirm().is_err());
    }

    #[test]
    fn an_overtaken_server_notices_before_its_clock_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let slow = Lease::take(folder.path(), &terms("a", 60_000)).unwrap();
        Card::write(&slow.terms, 0.0, slow.place()).unwrap();
        let _fast = Lease::take(folder.path(), &terms("b", 60_000)).unwrap();
        assert!(slow.is_valid(), "it cannot know yet");
        assert!(slow.confirm().is_err() && !slow.is_valid());
    }

    #[test]
    fn of_many_who_take_a_stream_one_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let taken: Vec<_> = std::thread::scope(|scope| {
            let take = |at: usize| {
                let path = folder.path();
                scope.spawn(move || Lease::take(path, &terms(&format!("host{at}"), 60_000)).ok())
            };
            let all: Vec<_> = (0..8).map(take).collect();
            all.into_iter().filter_map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_dead_process_of_this_machine_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let own = Terms::new(Duration::from_mins(1));
        let host = own.holder.split('.').next().unwrap().to_owned();
        let lease = Lease::take(folder.path(), &own).unwrap();
        let dead = Terms { holder: format!("{host}.{}.1", u32::MAX), ..own.clone() };
        Card::write(&dead, now() + 60.0, lease.place()).unwrap();
        assert!(is_held(&Lease::take(folder.path(), &terms("elsewhere", 1))));
        assert_eq!(Lease::take(folder.path(), &own).unwrap().number, 2);
    }
}
