//! The page of a benchmark in a real browser. Needs Chromium; skips with a message where there is none.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Looks at the laid-out page and leaves what it found in an element that the browser prints.
const INSPECT: &str = r"<script>
addEventListener('load', () => {
  const wide = document.documentElement.scrollWidth - innerWidth;
  const images = [...document.images].filter(i => !i.complete || i.naturalWidth === 0).length;
  const outside = [...document.querySelectorAll('svg text')].filter(t => {
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1;
  }).map(t => t.textContent);
  const nan = [...document.querySelectorAll('svg *')].filter(e =>
    [...e.attributes].some(a => /NaN|inf/i.test(a.value) && a.name !== 'd' || /NaN/.test(a.value))).length;
  const luma = c => { const [r, g, b] = c.match(/[\d.]+/g).map(Number); return .2126 * r + .7152 * g + .0722 * b; };
  const style = getComputedStyle(document.body);
  const links = [...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.getAttribute('href'))).length;
  const before = luma(style.backgroundColor);
  const ink = luma(style.color);
  document.getElementById('theme').click();
  const after = luma(getComputedStyle(document.body).backgroundColor);
  const found = { wide, images, outside, nan, links, before, ink, after, svgs: document.querySelectorAll('svg').length,
    remote: performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length };
  const out = document.createElement('pre'); out.id = 'found'; out.textContent = JSON.stringify(found);
  document.body.append(out);
});
</script>";

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).collect::<Vec<_>>();
    names.iter().flat_map(|name| places.iter().map(move |p| p.join(name))).find(|p| p.exists())
}

/// What the browser says of a page, with the reader's dark or light setting.
fn inspect(browser: &Path, page: &Path, dark: bool) -> Value {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    command.args(["--window-size=1240,1600", "--virtual-time-budget=4000", "--dump-dom"]);
    let output = command.arg(format!("file://{}", page.display())).output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found =
        found.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(found).unwrap()
}

#[test]
fn the_page_of_a_benchmark_is_whole_in_dark_and_light() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on this machine");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_paint"))
        .args(["bench", "--protocol", "embedded", "--methods", "source,tent,paint", "--limit", "4"])
        .args(["--set", "scenario.batch_size=2", "--set", "probe.clean=4", "--seeds", "0..1"])
        .args(["--set", "scenario.domains=[\"gaussian_noise\",\"fog\",\"jpeg_compression\"]"])
        .args(["--set", "reference=table1", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = out.join("report.html");
    let html = fs::read_to_string(&page).unwrap();
    for section in [
        "domains",
        "rows",
        "stream",
        "prompts",
        "forgetting",
        "cost",
        "significance",
        "maps",
        "images",
        "protocol",
    ] {
        assert!(html.contains(&format!("<section id=\"{section}\">")), "{section}");
    }
    fs::write(&page, html.replace("</body>", &format!("{INSPECT}</body>"))).unwrap();
    let (light, dark) = (inspect(&browser, &page, false), inspect(&browser, &page, true));
    for found in [&light, &dark] {
        assert!(found["wide"].as_f64().unwrap() <= 0.0, "wider than the window: {found}");
        assert_eq!(found["outside"], serde_json::json!([]), "text outside its chart: {found}");
        for key in ["images", "nan", "links", "remote"] {
            assert_eq!(found[key], 0, "{key}: {found}");
        }
        assert!(found["svgs"].as_u64().unwrap() >= 5, "{found}");
        let contrast = found["before"].as_f64().unwrap() - found["ink"].as_f64().unwrap();
        assert!(contrast.abs() > 150.0, "{found}");
    }
    assert!(light["before"].as_f64().unwrap() > 200.0 && light["after"].as_f64().unwrap() < 60.0);
    assert!(dark["before"].as_f64().unwrap() < 60.0 && dark["after"].as_f64().unwrap() > 200.0);
}
