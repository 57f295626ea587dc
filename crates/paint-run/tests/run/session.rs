//! Sessions: what a program that adapts for months relies on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use paint_data::dataset::Exif;
use paint_data::{Dataset as _, Image, dataset};
use paint_files::ClaimError;
use paint_methods::{BuildArgs, Method, MethodEntry, Registry, State, Step, by_name, settings};
use paint_run::config::{self, Model};
use paint_run::session::{End, Event, Images, OnDamage, Reading, history};
use paint_run::{Deployment, Error, Session, deployment};
use paint_tensor::Tensor;

/// TENT until its fourth step, whose prediction is no number.
struct Breaks(Box<dyn Method>, u64);

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

const BREAKS: MethodEntry = MethodEntry::new(
    "breaks",
    |args: &BuildArgs<'_>, _| {
        Ok(Box::new(Breaks(by_name("tent")?.build(args, &toml::Table::new())?, 0)))
    },
    |given| settings::table("breaks", &settings::parse::<NoSettings>("breaks", given)?),
);

impl Method for Breaks {
    fn step(&mut self, images: &Tensor) -> paint_methods::Result<Step> {
        self.1 += 1;
        let step = self.0.step(images)?;
        let logits = if self.1 == 4 { step.logits.scale(f32::NAN)? } else { step.logits };
        Ok(Step { logits, ..step })
    }

    fn predict(&self, images: &Tensor) -> paint_methods::Result<Tensor> {
        self.0.predict(images)
    }

    fn reset(&mut self) -> paint_methods::Result<()> {
        self.0.reset()
    }

    fn save(&self) -> paint_methods::Result<State> {
        self.0.save()
    }

    fn load(&mut self, state: &State) -> paint_methods::Result<()> {
        self.0.load(state)
    }

    fn trainable(&self) -> Vec<String> {
        self.0.trainable()
    }
}

fn deployment(method: &str) -> Deployment {
    let model = Model::new(paint_run::model::embedded::NAME);
    let config = deployment::Config::new(model, config::Method::named(method));
    Deployment::open_with(config, &Registry::default().with(BREAKS).unwrap()).unwrap()
}

fn photos(count: usize) -> Vec<Image> {
    let data = dataset::embedded().unwrap();
    (0..count).map(|index| data.sample(0, index).unwrap().image).collect()
}

/// The photographs as files.
fn write(folder: &Path, count: usize) -> Vec<PathBuf> {
    let write = |(index, image): (usize, Image)| {
        let path = folder.join(format!("{index}.png"));
        image.write_png(std::fs::File::create(&path).unwrap()).unwrap();
        path
    };
    photos(count).into_iter().enumerate().map(write).collect()
}

#[test]
fn single_images_of_any_size_are_predicted_and_what_they_teach_outlasts_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut session = Session::with_state(deployment("tent"), &path, 2).unwrap();
    let busy = Session::with_state(deployment("tent"), &path, 2).err().unwrap();
    assert!(matches!(busy, Error::Claim(ClaimError::InUse { .. })), "{busy}");
    let photos = photos(3);
    let large = photos[0].resize(50, 40, paint_data::image::Filter::Bilinear).unwrap();
    let cat = session.adapt(&[large]).unwrap()[0];
    assert_eq!(session.class_name(cat.class), Some("cat"));
    assert!(!path.exists());
    session.adapt(&photos[1..2]).unwrap();
    assert!(path.exists(), "two batches");
    session.adapt(&photos[2..]).unwrap();
    let before = session.predict(&photos).unwrap();
    assert_eq!(session.predict(&photos).unwrap(), before, "predicting changes nothing");
    assert!(session.save().unwrap() && !session.save().unwrap());
    drop(session);

    let mut session = Session::with_state(deployment("tent"), &path, 0).unwrap();
    assert_eq!((session.images_seen(), session.summary().images), (3, 0));
    assert_eq!(session.predict(&photos).unwrap(), before);
    session.reset().unwrap();
    assert_ne!(session.predict(&photos).unwrap(), before);
}

#[test]
fn a_session_goes_back_to_a_snapshot_of_its_own_and_its_file_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let photos = photos(4);
    let shared = std::sync::Arc::new(deployment("tent"));
    let mut session = Session::with_state(std::sync::Arc::clone(&shared), &path, 0).unwrap();
    session.adapt(&photos[..2]).unwrap();
    assert!(session.roll_back(None).unwrap_err().to_string().contains("none kept"));
    assert_eq!(session.snapshot(2).unwrap(), Some(1));
    let then = session.predict(&photos).unwrap();
    session.adapt(&photos[2..]).unwrap();
    let now = session.predict(&photos).unwrap();
    assert_ne!(now, then);
    assert!(session.roll_back(Some(7)).is_err());
    assert_eq!(session.predict(&photos).unwrap(), now, "an error changes nothing");
    assert_eq!((session.roll_back(None).unwrap(), session.batches_seen()), (1, 1));
    assert_eq!(session.predict(&photos).unwrap(), then);
    drop(session);
    let session = Session::with_state(shared, &path, 0).unwrap();
    assert_eq!(session.predict(&photos).unwrap(), then);
    assert_eq!(Session::new(deployment("tent")).unwrap().snapshot(1).unwrap(), None);
}

#[test]
fn a_state_is_predicted_with_where_it_cannot_be_written_and_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let frozen = || Session::with_frozen_state(deployment("tent"), &path);
    assert!(frozen().err().unwrap().to_string().contains("found no such file"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
    let photos = photos(2);
    let mut adapting = Session::with_state(deployment("tent"), &path, 1).unwrap();
    adapting.adapt(&photos).unwrap();
    // `adapting` still holds the file.
    let mut session = frozen().unwrap();
    assert_eq!(session.predict(&photos).unwrap(), adapting.predict(&photos).unwrap());
    session.adapt(&photos).unwrap();
    assert!(!session.save().unwrap() && !session.learns());
}

#[test]
fn the_state_that_a_session_began_with_is_kept_and_replaces_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let photos = photos(2);
    for keep in [0, 5] {
        let session = Session::with_state(deployment("tent"), &path, 1).unwrap();
        session.keeping(keep).adapt(&photos).unwrap();
    }
    let kept: Vec<u64> = history::kept(&path).unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(kept, [1, 2]);
    assert_eq!(history::roll_back(&path, None).unwrap().batches, 1);
    std::fs::write(&path, b"damaged").unwrap();
    assert_eq!(history::roll_back(&path, None).unwrap().batches, 2);
    assert_eq!(history::show(&path).unwrap().batches, 2);
}

#[test]
fn a_pinned_snapshot_is_neither_removed_nor_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let photos = photos(2);
    let mut session = Session::with_state(deployment("tent"), &path, 0).unwrap();
    let steps = || -> Vec<u64> {
        history::kept(&path).unwrap().iter().map(|(batches, _)| *batches).collect()
    };
    assert!(history::pin(&path, 1).is_err(), "there is none");
    for _ in 0..3 {
        session.adapt(&photos).unwrap();
        session.snapshot(1).unwrap();
        if session.batches_seen() == 1 {
            history::pin(&path, 1).unwrap();
        }
    }
    assert_eq!(steps(), [1, 3]);
    let pinned = std::fs::read(folder.path().join("state.000000001")).unwrap();
    session.reset().unwrap();
    session.adapt(&photos[..1]).unwrap();
    session.snapshot(1).unwrap();
    assert_eq!(std::fs::read(folder.path().join("state.000000001")).unwrap(), pinned);
    history::unpin(&path, 1).unwrap();
    session.adapt(&photos).unwrap();
    session.snapshot(1).unwrap();
    assert_eq!(steps(), [2], "the newest, not the one of the most batches");
}

#[test]
fn what_a_method_learnt_before_it_broke_down_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = (folder.path().join("state"), write(folder.path(), 6));
    let mut session = Session::with_state(deployment("breaks"), &path, 2).unwrap();
    let images = Images::files(files, Exif::Apply);
    let error = session.read(&images, Reading::new(1), &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("3.png: the model gave NaN"), "{error}");
    assert!(!session.save().unwrap());
    let elsewhere = folder.path().join("elsewhere");
    let error = session.save_to(&elsewhere).unwrap_err().to_string();
    assert!(error.contains("the model gave NaN") && !elsewhere.exists(), "{error}");
    drop(session);
    let session = Session::with_state(deployment("breaks"), &path, 0).unwrap();
    assert_eq!(session.images_seen(), 2, "the last save");
}

#[test]
fn a_list_goes_on_where_it_was_stopped_and_another_one_begins_with_its_first_image() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = (folder.path().join("state"), write(folder.path(), 7));
    let read = |files: &[PathBuf], stops: bool| {
        let mut session = Session::with_state(deployment("tent"), &path, 0).unwrap();
        let images = Images::files(files.to_vec(), Exif::Apply).resumable();
        let (stop, mut first) = (AtomicBool::new(false), None);
        let reading = Reading { stop: Some(&stop), ..Reading::new(2) };
        let end = session.read(&images, reading, &mut |event| {
            match event {
                Event::Started { position, is_repeated, .. } => {
                    first = Some((*position, *is_repeated));
                }
                Event::BatchDone(_) => stop.store(stops, Ordering::Relaxed),
                Event::Saved => {}
            }
            Ok(())
        });
        (first.unwrap(), end.unwrap())
    };
    let (begins, repeats) = ((0, false), (0, true));
    assert_eq!(read(&files, true), (begins, End::Stopped));
    assert_eq!(read(&files, true), ((2, false), End::Stopped));
    assert_eq!(read(&files[1..], true), (begins, End::Stopped), "another list");
    assert_eq!(read(&files[1..], false), ((2, false), End::Finished));
    assert_eq!(read(&files[1..], true), (repeats, End::Stopped), "a list that was finished");
    // The same names, other images.
    std::fs::copy(&files[1], &files[3]).unwrap();
    assert_eq!(read(&files[1..], false), (begins, End::Finished));
}

#[test]
fn a_batch_that_could_not_be_passed_on_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, files) = (folder.path().join("state"), write(folder.path(), 5));
    let images = || Images::files(files.clone(), Exif::Apply).resumable();
    let mut batches = 0;
    let mut session = Session::with_state(deployment("tent"), &path, 0).unwrap();
    let error = session.read(&images(), Reading::new(2), &mut |event| {
        batches += usize::from(matches!(event, Event::BatchDone(_)));
        match batches {
            2 => Err(Error::EmptyStream),
            _ => Ok(()),
        }
    });
    assert!(matches!(error, Err(Error::EmptyStream)));
    drop(session);
    let mut session = Session::with_state(deployment("tent"), &path, 0).unwrap();
    let mut names = Vec::new();
    let read = session.read(&images(), Reading::new(2), &mut |event| {
        if let Event::BatchDone(batch) = event {
            names.extend(batch.predictions.iter().map(|image| image.file.clone()));
        }
        Ok(())
    });
    assert_eq!(read.unwrap(), End::Finished);
    assert_eq!(names.len(), 3);
    assert!(names[0].ends_with("2.png"), "{names:?}");
}

#[test]
fn damaged_and_missing_images_are_left_out_of_their_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = write(folder.path(), 6);
    std::fs::write(&files[2], "no image").unwrap();
    std::fs::remove_file(&files[3]).unwrap();
    files.push(folder.path().join("0.png"));
    let images = Images::files(files, Exif::Apply);
    let mut session = Session::new(deployment("source")).unwrap();
    let mut seen = Vec::new();
    let read = session.read(&images, Reading::new(2), &mut |event| {
        if let Event::BatchDone(batch) = event {
            seen.push((batch.predictions.len(), batch.skipped.len()));
        }
        Ok(())
    });
    assert_eq!(read.unwrap(), End::Finished);
    assert_eq!(seen, [(2, 0), (0, 2), (2, 0), (1, 0)], "the second batch has nothing to adapt to");
    assert_eq!((session.summary().images, session.summary().skipped), (5, 2));
    let strict = Reading { on_damage: OnDamage::Stop, ..Reading::new(2) };
    let error = session.read(&images, strict, &mut |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("2.png"), "{error}");
}
