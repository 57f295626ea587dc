use std::collections::BTreeMap;

use paint_data::dataset::Options;
use paint_data::scenario::Selection;
use paint_run::config::{Prediction, Source};
use paint_run::probe;

use super::difference::without_noise;
use super::*;

fn place() -> Place {
    Place::new("out", paint_run::model::embedded::NAME)
}

#[test]
fn every_shipped_protocol_reads_and_is_called_as_its_file() {
    for (name, _) in PROTOCOLS {
        let protocol = Protocol::find(name).unwrap();
        assert_eq!(protocol.name, *name);
        assert!(!protocol.seeds.is_empty() && !protocol.what.is_empty(), "{name}");
        for (method, settings) in &protocol.settings {
            paint_methods::by_name(method).unwrap().resolve(settings).unwrap();
        }
        let again = Protocol::parse(&protocol.to_toml().unwrap(), name).unwrap();
        assert_eq!(again, protocol);
    }
}

type Change = fn(&mut Protocol);

#[test]
fn every_key_that_decides_changes_the_hash_and_no_other_does() {
    let shipped = Protocol::find("embedded").unwrap();
    let changed = |change: Change| {
        let mut other = shipped.clone();
        change(&mut other);
        (other.hash().unwrap() != shipped.hash().unwrap(), other.differences(&shipped).unwrap())
    };
    let decisive: [(Change, &str); 9] = [
        (|p| p.scenario.limit = Some(7), "scenario.limit"),
        (|p| p.scenario.batch_size = 1, "scenario.batch_size"),
        (|p| p.scenario.severity = Some(3), "scenario.severity"),
        (|p| p.seeds = vec![1], "seeds"),
        (|p| p.prediction = Prediction::Before, "prediction"),
        (|p| p.metric = Metric::Overall, "metric"),
        (|p| p.model.sha256 = None, "model.sha256"),
        (|p| p.model.mean = Some([0.1; 3]), "model.mean"),
        (|p| p.data.corrupt = None, "data.corrupt.table"),
    ];
    for (change, key) in decisive {
        let (differs, found) = changed(change);
        assert!(differs, "{key}");
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].key, key);
    }
    let idle: [Change; 4] = [
        |p| p.what.clear(),
        |p| p.name.clear(),
        |p| p.settings.clear(),
        // What the file holds is part of `model.sha256`.
        |p| p.model.text_features = Some("text.npy".into()),
    ];
    assert!(idle.into_iter().all(|change| changed(change) == (false, Vec::new())));
}

#[test]
fn a_resolved_protocol_names_weights_preprocessing_and_images() {
    let mut shipped = Protocol::find("embedded").unwrap();
    shipped.scenario.limit = Some(3);
    let resolved = shipped.resolve(&place()).unwrap();
    assert_eq!(resolved.model.tag, shipped.model.tag);
    assert_eq!(resolved.model.mean, Some([0.5; 3]));
    assert_eq!(resolved.model.backbone.as_deref(), Some("vit_tiny_patch4_32"));
    assert_eq!(resolved, resolved.resolve(&place()).unwrap());
    assert_eq!(resolved.settings, shipped.settings);
    let open = Protocol { settings: BTreeMap::new(), ..shipped.clone() };
    let settings = open.resolve(&place()).unwrap().settings;
    assert_eq!(settings["cotta"]["preset"].as_str(), Some("vit_cifar10"));
    assert!(!settings.contains_key("paint"));

    shipped.scenario.limit = Some(4);
    let more = shipped.resolve(&place()).unwrap();
    let keys: Vec<String> =
        more.differences(&resolved).unwrap().into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["data.fingerprint", "scenario.limit"]);
    let shipped = Protocol::find("embedded").unwrap();
    let keys: Vec<String> = more.departures(&shipped).unwrap().into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["scenario.limit"]);
}

#[test]
fn source_images_that_are_test_images_are_warned_of() {
    let warnings = |split: &str, corrupted: bool| {
        let mut protocol = Protocol::find("embedded").unwrap();
        protocol.scenario.limit = Some(2);
        if corrupted {
            protocol.scenario.domains = Some(vec!["fog".into()]);
        } else {
            (protocol.data.corrupt, protocol.scenario.domains) = (None, None);
            protocol.scenario.severity = None;
        }
        let source = format!("name = 'embedded'\nimages = 20\noptions = {{ split = '{split}' }}");
        protocol.source = Some(toml::from_str(&source).unwrap());
        let heard = std::cell::RefCell::new(Vec::new());
        protocol.resolve_warning(&place(), &|why| heard.borrow_mut().push(why.to_owned())).unwrap();
        heard.into_inner()
    };
    for corrupted in [false, true] {
        assert!(warnings("train", corrupted).is_empty());
        let told = warnings("test", corrupted);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("source images come from the test images"), "{told:?}");
        assert_eq!(told[0].contains("\"fog\""), corrupted, "{told:?}");
    }
}

#[test]
fn what_differs_from_the_paper_is_named() {
    let shipped = Protocol::find("cifar10-c").unwrap();
    let mut ours = shipped.clone();
    ours.model.input_size = Some([32, 32]);
    ours.scenario.limit = Some(2000);
    let found = ours.differences_from_paper(&shipped).unwrap();
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(told.contains(&"model.input_size: [32, 32] in place of [224, 224]".into()), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("model.tag:")), "{told:?}");
    assert!(found.iter().any(|d| d.key == "scenario.limit"), "{told:?}");
}

#[test]
fn other_weights_than_the_pinned_are_refused_and_an_unknown_name_lists_the_known() {
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.model.sha256 = Some("0".repeat(64));
    assert!(protocol.resolve(&place()).unwrap_err().to_string().contains("SHA-256"));
    let message = Protocol::find("cifar11-c").unwrap_err().to_string();
    assert!(message.contains("cifar10-c-gradual"), "{message}");
    let unknown = PROTOCOLS[0].1.replace("seeds = [0]", "seeds = [0]\nlimt = 3");
    assert!(Protocol::parse(&unknown, "mine").unwrap_err().to_string().contains("limt"));
}

#[test]
fn keys_and_settings_of_methods_are_set_alike() {
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.set("scenario.severity=3").unwrap();
    protocol.set("paint.eta=0.25").unwrap();
    protocol.set("prediction=before").unwrap();
    assert_eq!(protocol.scenario.severity, Some(3));
    assert_eq!(protocol.settings["paint"]["eta"].as_float(), Some(0.25));
    assert_eq!(protocol.settings["paint"]["lr_blocks"].as_float(), Some(2e-4));
    assert_eq!(protocol.prediction, Prediction::Before);
    assert!(protocol.set("scenario.limt=3").unwrap_err().to_string().contains("limt"));
}

#[test]
fn clean_images_can_follow_every_domain() {
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.scenario.limit = Some(2);
    protocol.interleave_clean();
    let visits = protocol.scenario.visits.as_ref().unwrap();
    assert_eq!((visits.len(), visits[0].severity), (30, Some(5)));
    assert!(visits.iter().skip(1).step_by(2).all(|visit| visit.domain == "clean"));
    protocol.resolve(&place()).unwrap();
}

#[test]
fn differences_are_told_in_the_digits_that_were_given() {
    let value = "[0.48500001430511475, 0.2290000021457672]";
    assert_eq!(without_noise(value), "[0.485, 0.229]");
    for plain in ["\"vit_tiny_patch4_32 (embedded, 92.4 % clean)\"", "[32, 32]", "0.875", "50"] {
        assert_eq!(without_noise(plain), plain);
    }
}

/// Eight images of one colour each, and their labels; `changed` has another one.
fn images(folder: &std::path::Path, changed: Option<usize>) -> std::path::PathBuf {
    use paint_data::{NpyWriter, write_atomically};
    let colour = |image: usize| 10 * image as u8 + u8::from(changed == Some(image));
    let pixels: Vec<u8> = (0..8).flat_map(|image| vec![colour(image); 32 * 32 * 3]).collect();
    let (path, labels) = (folder.join("images.npy"), folder.join("labels.npy"));
    write_atomically(&path, |out| NpyWriter::new(out, &[8, 32, 32, 3])?.write(&pixels)).unwrap();
    write_atomically(&labels, |out| NpyWriter::new(out, &[8])?.write(&[0, 1, 2, 3, 4, 5, 6, 7]))
        .unwrap();
    path
}

#[test]
fn every_image_decides_the_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.data.name = "npy".into();
    protocol.scenario.domains = Some(vec!["fog".into()]);
    protocol.probe = Some(probe::Config { clean: 2, previous: 3, ..probe::Config::default() });
    let mut resolve = |changed, limit, selection| {
        (protocol.scenario.limit, protocol.scenario.selection) = (limit, selection);
        let place = Place { data: images(folder.path(), changed), ..place() };
        let resolved = protocol.resolve(&place).unwrap();
        (resolved.data.fingerprint.unwrap(), resolved.fingerprints.probe.unwrap())
    };
    let first = Selection::First;
    let (all, few) = (resolve(None, None, first), resolve(None, Some(4), first));
    assert_ne!(all.0, few.0);
    for image in 0..8 {
        let (stream, probe) = resolve(Some(image), None, first);
        assert_ne!(stream, all.0, "{image}");
        assert_eq!(probe != all.1, image < 3, "{image}");
        assert_eq!(resolve(Some(image), Some(4), first).0 != few.0, image < 4, "{image}");
    }
    // Another seed may draw any of them.
    for selection in [Selection::Random, Selection::Fresh] {
        let drawn = resolve(None, Some(4), selection);
        for image in 0..8 {
            assert_ne!(
                resolve(Some(image), Some(4), selection).0,
                drawn.0,
                "{selection:?} {image}"
            );
        }
    }
}

#[test]
fn source_images_decide_the_hash_for_the_seeds_that_draw_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut protocol = Protocol::find("embedded").unwrap();
    protocol.scenario.limit = Some(2);
    protocol.seeds = vec![0, 1];
    let source = Source {
        name: "npy".into(),
        path: std::path::PathBuf::new(),
        options: Options::default(),
        images: Some(4),
        seed: None,
    };
    protocol.source = Some(source);
    let resolve = |changed| {
        let place = Place { source: images(folder.path(), changed), ..place() };
        protocol.resolve(&place).unwrap()
    };
    let before = resolve(None);
    assert_ne!(before.fingerprints.source[0], before.fingerprints.source[1]);
    let mut changes = [0, 0];
    for image in 0..8 {
        let after = resolve(Some(image));
        assert_eq!(after.hash().unwrap() == before.hash().unwrap(), after == before);
        for (seed, count) in changes.iter_mut().enumerate() {
            *count +=
                usize::from(after.fingerprints.source[seed] != before.fingerprints.source[seed]);
        }
    }
    assert_eq!(changes, [4, 4]);
}

#[test]
fn a_protocol_extends_another_by_whole_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let find = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Protocol::find(path.to_str().unwrap()).map_err(|error| error.to_string())
    };
    let base = Protocol::find("cifar10-c").unwrap();
    let text = "extends = \"cifar10-c\"\nname = \"mine\"\nwhat = \"mine\"\n[scenario]\nlimit = 7\n";
    let mine = find(text).unwrap();
    assert_eq!(
        (&mine.settings, &mine.model, mine.metric),
        (&base.settings, &base.model, base.metric)
    );
    assert_eq!((mine.scenario.limit, mine.scenario.severity), (Some(7), None));
    assert!(base.reference.is_some() && mine.reference.is_none());
    for (text, why) in [
        ("extends = \"cifar11-c\"", "extends: expected one of cifar10-c"),
        ("extends = 3", "got 3"),
        ("extends = \"mixed\"", "extends another protocol itself"),
    ] {
        let error = find(text).unwrap_err();
        assert!(error.contains(why) && error.contains("mine.toml"), "{error}");
    }
}
