//! Several models in one server: a stream of one is no stream of the other.

use paint_run::deployment::Config;
use paint_serve::{Mode, Options, Server};
use serde_json::json;

use crate::support::{Running, config, get, infer_of, logits, parameter, post, start_all};
use crate::tiny::pixels;

fn step(server: &Running, model: &str, first: usize) -> Vec<f32> {
    let answer = infer_of(server, model, &pixels(first, 8), &json!({ "sequence_id": "cam" }), &[]);
    assert_eq!(answer.json()["model_name"], model);
    logits(&answer)
}

fn two(methods: [&str; 2]) -> (tempfile::TempDir, Vec<(String, Config)>) {
    let folder = tempfile::tempdir().unwrap();
    let models = ["day", "night"].map(str::to_owned).into_iter().zip(methods);
    let models = models.map(|(name, method)| (name, config(method, folder.path()))).collect();
    (folder, models)
}

#[test]
fn streams_of_two_models_have_nothing_in_common_but_the_memory() {
    let (folder, models) = two(["tent", "source"]);
    let state = folder.path().join("state");
    let server = start_all(models.clone(), &state, |options| options.mode = Mode::AdaptFirst);
    let first = step(&server, "day", 0);
    let other = step(&server, "night", 0);
    assert_eq!(step(&server, "night", 0), other, "the source model learns nothing");
    assert_ne!(step(&server, "day", 0), first);
    let unknown = infer_of(&server, "paint", &pixels(0, 1), &json!({}), &[]);
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.error(), r#"model: expected "day" or "night", found "paint""#);
    for model in ["day", "night"] {
        assert_eq!(get(server.inference, &format!("/v2/models/{model}")).json()["name"], model);
        let stats = get(server.inference, &format!("/v2/models/{model}/stats")).json();
        assert_eq!(stats["model_stats"][0]["inference_count"], 16, "{model}");
        let parts = &stats["model_stats"][0]["inference_stats"];
        for part in ["compute_input", "compute_infer", "compute_output"] {
            assert_eq!(parts[part]["count"], 2, "{part}");
        }
    }
    let streams = get(server.admin, "/admin/v1/streams").json();
    let told = streams["streams"].as_array().unwrap().iter();
    let names: Vec<_> = told.map(|it| (it["model"].clone(), it["id"].clone())).collect();
    assert_eq!(names, [(json!("day"), json!("cam")), (json!("night"), json!("cam"))]);

    let act = |path: &str| post(server.admin, &format!("/admin/v1/streams/{path}"), &json!({}));
    assert_eq!(act("cam/reset?model=night").json()["version"], "1.0");
    assert_eq!(act("cam/snapshot").json()["version"], "0.2", "of the first model");
    assert_eq!(act("cam/reset?model=dusk").status, 404);
    let audit = get(server.admin, "/admin/v1/streams/cam?model=night").json()["audit"].clone();
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["begin", "reset"]);
    server.stop();
    assert!(state.join("day/cam.safetensors.000000002").exists());
    let server = start_all(models, &state, |options| options.mode = Mode::AdaptFirst);
    let answer = infer_of(&server, "day", &pixels(0, 8), &json!({ "sequence_id": "cam" }), &[]);
    assert_eq!(parameter(&answer, "step"), 3);
}

#[test]
fn a_name_is_fit_for_addresses_and_folders_and_given_once() {
    let (folder, models) = two(["source", "source"]);
    for (names, why) in [
        (["day", "day"], "twice"),
        (["day", "a/b"], "letters"),
        ([".day", "b"], "letters"),
        (["", "b"], "letters"),
    ] {
        let mut options = Options::new(folder.path().join("state"));
        options.listen.set_port(0);
        options.admin.set_port(0);
        let named = names
            .iter()
            .zip(&models)
            .map(|(name, (_, config))| ((*name).to_owned(), config.clone()));
        let error = Server::open(named.collect(), options).err().unwrap();
        assert!(error.is_usage() && error.to_string().contains(why), "{error}");
    }
}
