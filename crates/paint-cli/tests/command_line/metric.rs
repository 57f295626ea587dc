//! `--metric error`: tables and pages show errors, files of data hold accuracies.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{paint, told};

fn printed(args: &[&str], out: &Path) -> String {
    let output = paint(args).args(["--out", out.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers of each line of a table, by its first word.
fn numbers(table: &str) -> Vec<(String, Vec<f64>)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        (!numbers.is_empty()).then_some((name, numbers))
    };
    table.lines().filter_map(line).collect()
}

fn summary(out: &Path) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("timing");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(&fs::read(out.join("summary.json")).unwrap()).unwrap();
    strip(&mut value);
    value
}

#[test]
fn errors_are_a_hundred_minus_accuracies_and_summaries_are_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let domains = "scenario.domains=[\"fog\",\"contrast\"]";
    let run = ["run", "--method", "source", "--dataset", "embedded", "--corrupt"];
    let run = [&run[..], &["--weights", "embedded", "--limit", "20", "--set", domains]].concat();
    let bench = ["bench", "--protocol", "embedded", "--methods", "source,tent", "--limit", "20"];
    let bench = [&bench[..], &["--seeds", "0", "--set", domains, "--no-timing"]].concat();
    for (name, args) in [("run", run), ("bench", bench), ("demo", vec!["demo", "--images", "1"])] {
        let [plain, error] = ["", "error"].map(|end| temp.path().join(format!("{name}{end}")));
        let accuracies = numbers(&printed(&args, &plain));
        let errors = numbers(&printed(&[&args[..], &["--metric", "error"]].concat(), &error));
        assert!(!accuracies.is_empty() && accuracies.len() == errors.len(), "{name}: {errors:?}");
        for ((domain, right), (_, wrong)) in accuracies.iter().zip(&errors) {
            assert!((right[0] + wrong[0] - 100.0).abs() < 1e-9, "{name} {domain}");
        }
        assert_eq!(summary(&plain), summary(&error), "{name}");
    }
    let page = |out: &str| fs::read_to_string(temp.path().join(out).join("report.html")).unwrap();
    assert!(page("bench").contains("<h2>Accuracy by domain</h2>"));
    assert!(page("bencherror").contains("<h2>Error by domain</h2>"));
    let shown = page("bencherror");
    assert!(!shown.contains("ccuracy"), "{}", shown.split("ccuracy").next().unwrap_or_default());
    let report = |flags: &[&str]| {
        let folder = temp.path().join("bench");
        let output = paint(&["report", folder.to_str().unwrap()]).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let kept = fs::read_to_string(temp.path().join("bencherror/results.md")).unwrap();
    assert_eq!(report(&["--metric", "error"]), kept);
    assert_eq!(report(&["--metric", "error", "--json"]), report(&["--json"]));
}
