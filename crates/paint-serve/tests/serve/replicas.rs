//! Two servers on one folder of states, with leases: a stream goes from one to the other and never apart.

use std::time::Duration;

use paint_serve::{Mode, Options, Server};
use serde_json::json;

use crate::support::{Response, Running, config, get, infer, parameter, post, start_with};
use crate::tiny::pixels;

fn ask(server: &Running, stream: &str, first: usize) -> Response {
    infer(server, &pixels(first, 8), &json!({ "sequence_id": stream }))
}

fn shared(options: &mut Options) {
    options.mode = Mode::AdaptFirst;
    // Nothing is saved but what must be.
    options.checkpoint_every = 1000;
    // Room for one stream: another one sends it to the disk, where it is anybody's.
    options.stream_memory = 1;
    options.lease = Some(Duration::from_mins(1));
}

#[test]
fn a_stream_moves_between_servers_with_the_bits_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = config("tent", folder.path());
    let alone = start_with(config.clone(), &folder.path().join("alone"), shared);
    let expected: Vec<Vec<u8>> =
        (0..5).map(|at| ask(&alone, "cam", 8 * at).raw().to_vec()).collect();

    let state = folder.path().join("state");
    let [one, two] = [0, 1].map(|_| start_with(config.clone(), &state, shared));
    let mut found = Vec::new();
    for at in 0..4 {
        let (server, other) = if at % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let answer = ask(server, "cam", 8 * at);
        assert_eq!(parameter(&answer, "step"), at + 1);
        found.push(answer.raw().to_vec());
        let refused = ask(other, "cam", 0);
        assert_eq!(refused.status, 409, "{}", refused.error());
        assert_eq!(refused.headers["retry-after"], "1");
        let act = post(other.admin, "/admin/v1/streams/cam/reset", &json!({}));
        assert_eq!(act.status, 409, "{}", act.error());
        assert_eq!(ask(server, &format!("other-{at}"), 0).status, 200);
    }
    one.stop();
    found.push(ask(&two, "cam", 32).raw().to_vec());
    assert_eq!(found, expected);
    assert_eq!(get(two.admin, "/admin/v1/streams/cam").json()["facts"]["step"], 5);
}

#[test]
fn shared_streams_are_not_for_a_server_without_a_lease() {
    let folder = tempfile::tempdir().unwrap();
    let config = config("tent", folder.path());
    let state = folder.path().join("state");
    let server = start_with(config.clone(), &state, shared);
    assert_eq!(ask(&server, "cam", 0).status, 200);
    server.stop();
    let mut options = Options::new(&state);
    options.listen.set_port(0);
    options.admin.set_port(0);
    let error = Server::open(vec![("paint".to_owned(), config)], options).err().unwrap();
    assert!(error.is_usage() && error.to_string().contains("--lease"), "{error}");
}
