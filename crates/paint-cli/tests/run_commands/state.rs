//! The state of `paint adapt`: one process at a time, killed at any moment, and never lost.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::adapt::{adapt, adapt_trained, array, stdout};
use crate::support::{stderr, text};

#[test]
fn a_state_has_one_process_at_a_time_and_a_place_that_can_be_written() {
    let temp = tempfile::tempdir().unwrap();
    let (images, states) = (array(temp.path(), 4), temp.path().join("states"));
    fs::create_dir(&states).unwrap();
    let state = states.join("state");
    let run =
        |state: &Path| adapt(&["--images", &images, "--state", &text(state)], 4).output().unwrap();
    let claim = paint_files::claim_file(&state).unwrap();
    let half = states.join(".state.7-0.tmp");
    fs::write(&half, "what the process that holds it is writing").unwrap();
    let busy = run(&state);
    assert_eq!((busy.status.code(), busy.stdout.len()), (Some(1), 0));
    assert!(stderr(&busy).contains("another process writes"), "{}", stderr(&busy));
    assert!(half.exists() && !state.exists());
    drop(claim);
    assert!(run(&state).status.success());
    assert_eq!(fs::read_dir(&states).unwrap().count(), 1, "neither lock nor leftovers stay");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let set = |mode| fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
        set(0o600);
        assert!(run(&state).status.success());
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
        set(0o400);
    }
    #[cfg(not(unix))]
    {
        let mut permissions = fs::metadata(&state).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&state, permissions).unwrap();
    }
    for place in [&state, &temp.path().join("no folder/state")] {
        let refused = run(place);
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
        assert!(stderr(&refused).contains(&text(place)), "{}", stderr(&refused));
    }
}

#[test]
fn a_killed_adaptation_goes_on_where_it_was_saved_and_ends_with_the_same_bits() {
    let temp = tempfile::tempdir().unwrap();
    let images = array(temp.path(), 16);
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let run = |state: &Path, extra: &[&str]| {
        let mut command = adapt_trained(&["--images", &images, "--state", &text(state)], 4);
        command.args(["--checkpoint-every", "2"]).args(extra);
        command
    };
    let expected = stdout(&run(&whole, &[]).output().unwrap());

    let mut child = run(&parts, &[]).spawn().unwrap();
    // The head, and the first image of the third batch: the state of the second is on the disk.
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(rows.by_ref().take(1 + 2 * 4 + 1).count(), 10);
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed too late");

    let rest = run(&parts, &[]).output().unwrap();
    let rows = stdout(&rest);
    let (head, rows) = rows.split_once('\n').unwrap();
    let first: usize = rows.split_once(',').unwrap().0.parse().unwrap();
    assert!(first > 0 && first.is_multiple_of(8), "after two batches: {first}");
    let told = format!("continues with image {} of 16", first + 1);
    assert!(stderr(&rest).contains(&told), "{}", stderr(&rest));
    assert!(expected.starts_with(head) && expected.ends_with(rows));
    assert!(fs::read(&parts).unwrap() == fs::read(&whole).unwrap(), "the states differ");

    // What was finished begins anew, and so does what is asked to.
    let again = stdout(&run(&parts, &[]).output().unwrap());
    assert_eq!(again.lines().count(), 17);
    let anew = stdout(&run(&parts, &["--from-start"]).output().unwrap());
    assert_eq!(anew.lines().count(), 17);
}

#[test]
#[cfg(unix)]
fn a_closed_output_is_no_success_and_loses_no_state() {
    let temp = tempfile::tempdir().unwrap();
    let (images, state) = (array(temp.path(), 40), temp.path().join("state"));
    let mut command = adapt_trained(&["--images", &images, "--state", &text(&state)], 4);
    let mut child = command.spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(rows.by_ref().take(2).count(), 2);
    drop(rows);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 13), "{}", stderr(&output));
    assert!(stderr(&output).contains("standard output was closed"), "{}", stderr(&output));
    assert!(state.exists());
    let rest = adapt_trained(&["--images", &images, "--state", &text(&state)], 4).output().unwrap();
    assert!(stderr(&rest).contains("continues with image"), "{}", stderr(&rest));
    assert!(stdout(&rest).lines().count() < 41);
}
