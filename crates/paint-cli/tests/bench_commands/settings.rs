//! Which settings a number is of: named wherever the number is.

use std::fs;
use std::process::Command;

use crate::support::{json, paint, stderr};

#[test]
fn the_settings_of_a_row_are_named_on_the_screen_in_the_tables_and_on_the_page() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let args =
        ["bench", "--protocol", "embedded", "--methods", "source,tent,paint", "--limit", "4"];
    let set = ["--set", "scenario.domains=[\"fog\"]", "--set", "paint.eta=0.3"];
    let output = paint(&[&args[..], &set].concat(), &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let (tent, name) = ("vit_cifar10", "paper_adam, eta=0.3, lr_blocks=0.0002");
    let screen = stderr(&output);
    assert!(screen.contains(&format!("  paint: {name}\n")), "{screen}");
    assert!(screen.contains(&format!("  tent: {tent}\n")), "{screen}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains(&format!("\npaint: {name}\n")), "{printed}");
    let row = &json(&out.join("summary.json"))["rows"][2];
    assert_eq!((&row["preset"], &row["changed"]["eta"]), (&"paper_adam".into(), &0.3.into()));
    let read = |file: &str| fs::read_to_string(out.join(file)).unwrap();
    assert!(read("results.md").contains(&format!("| paint | {name} |")));
    assert!(read("results.csv").contains("paint,paint,paper_adam,\"eta=0.3, lr_blocks=0.0002\","));
    assert!(read("results.tex").contains(&format!("% paint: {name}\n")));
    let page = read("report.html");
    assert!(page.contains(&format!("</span>paint<small>{name}</small>")));
    assert!(page.contains(&format!("</span>tent<small>{tent}</small>")));

    // Written before rows named their settings.
    let summary = read("summary.json")
        .replace("\"preset\": \"paper_adam\",\n      \"changed\"", "\"earlier\"");
    fs::write(out.join("summary.json"), summary).unwrap();
    let report =
        Command::new(env!("CARGO_BIN_EXE_paint")).arg("report").arg(&out).output().unwrap();
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains(&format!("| paint | {name} |")), "{text}");
}

/// The README's command on the embedded model and images, with fewer of them.
#[test]
fn the_protocol_of_the_readme_puts_paint_above_source() {
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let args = ["bench", "--protocol", "cifar10-c", "--methods", "source,paint", "--limit", "50"];
    let data = ["--dataset", "embedded", "--corrupt", "--weights", "embedded"];
    let domains = ["--set", "scenario.domains=[\"gaussian_noise\",\"shot_noise\"]"];
    let output = paint(&[&args[..], &data, &domains].concat(), &out).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = &json(&out.join("summary.json"))["rows"];
    let [source, adapted] = [0, 1].map(|row| rows[row]["accuracy"]["mean"].as_f64().unwrap());
    // 50 and 60; with the constants of the authors' own network, 46.
    assert!(adapted > source + 4.0, "source {source}, paint {adapted}");
    assert_eq!(rows[1]["preset"], "paper_adam");
}
