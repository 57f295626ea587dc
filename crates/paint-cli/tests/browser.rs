//! Pages in a real browser, on a desk and on a phone. Needs Chromium; skips with a message where there is none.

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
  // The size of letters as they are seen, and tables that nothing lets the reader scroll to the end of.
  const letters = [...document.querySelectorAll('svg text')].map(t => {
    const svg = t.ownerSVGElement, box = svg.viewBox.baseVal;
    return parseFloat(getComputedStyle(t).fontSize) * (box.width ? svg.getBoundingClientRect().width / box.width : 1);
  });
  const smallest = Math.min(...letters, 99);
  const cut = [...document.querySelectorAll('table, svg')].filter(t =>
    t.getBoundingClientRect().right > innerWidth + 1 && !t.closest('.wide, .chart')).length;
  const nan = [...document.querySelectorAll('svg *')].filter(e =>
    [...e.attributes].some(a => /NaN|inf/i.test(a.value) && a.name !== 'd' || /NaN/.test(a.value))).length;
  const luma = c => { const [r, g, b] = c.match(/[\d.]+/g).map(Number); return .2126 * r + .7152 * g + .0722 * b; };
  const style = getComputedStyle(document.body);
  const links = [...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.getAttribute('href'))).length;
  const before = luma(style.backgroundColor);
  const ink = luma(style.color);
  document.getElementById('theme').click();
  const after = luma(getComputedStyle(document.body).backgroundColor);
  const found = { wide, images, outside, smallest, cut, nan, links, before, ink, after, width: innerWidth, svgs: document.querySelectorAll('svg').length,
    remote: performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length };
  top.postMessage(JSON.stringify(found), '*');
});
</script>";

/// A window of any width: a browser's own cannot be as narrow as a phone.
const WINDOW: &str = r"<!doctype html><body style='margin:0'><script>
addEventListener('message', ({ data }) => {
  const out = document.createElement('pre'); out.id = 'found'; out.textContent = data;
  document.body.append(out);
});
</script><iframe src='PAGE' style='border:0;width:WIDTHpx;height:1500px'></iframe>";

const DESK: u16 = 1240;
const PHONE: u16 = 390;

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).collect::<Vec<_>>();
    names.iter().flat_map(|name| places.iter().map(move |p| p.join(name))).find(|p| p.exists())
}

/// What the browser says of a page on a screen of some width, with the reader's dark or light setting.
fn inspect(browser: &Path, page: &Path, width: u16, dark: bool) -> Value {
    let profile = tempfile::tempdir().unwrap();
    let name = page.file_name().unwrap().to_str().unwrap();
    let window = page.with_file_name("window.html");
    let text = WINDOW.replace("PAGE", name).replace("WIDTH", &width.to_string());
    fs::write(&window, text).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    command.args(["--window-size=1300,1600", "--virtual-time-budget=4000", "--dump-dom"]);
    let output = command.arg(format!("file://{}", window.display())).output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found =
        found.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(found).unwrap()
}

#[test]
fn pages_are_whole_and_readable_on_a_desk_and_on_a_phone_in_dark_and_light() {
    let Some(browser) = chromium() else {
        eprintln!("skipped: no Chromium on this machine");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let out = temp.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_paint"))
        .args(["bench", "--protocol", "embedded", "--methods", "source,tent,paint", "--limit", "4"])
        .args(["--set", "scenario.batch_size=2", "--set", "probe.clean=4", "--seeds", "0..2"])
        .args(["--set", "scenario.domains=[\"gaussian_noise\",\"fog\",\"jpeg_compression\"]"])
        .args(["--set", "reference=table1", "--out", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = out.join("report.html");
    let html = fs::read_to_string(&page).unwrap();
    for section in [
        "leaderboard",
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
    check(&browser, &page);
    let demo = temp.path().join("demo");
    let output = Command::new(env!("CARGO_BIN_EXE_paint"))
        .args(["demo", "--images", "2", "--out", demo.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    check(&browser, &demo.join("demo.html"));
}

/// Nothing outside its place, nothing unreadable, nothing from elsewhere, dark or light as the reader likes it.
fn check(browser: &Path, page: &Path) {
    let html = fs::read_to_string(page).unwrap();
    fs::write(page, html.replace("</body>", &format!("{INSPECT}</body>"))).unwrap();
    let (light, dark) = (inspect(browser, page, DESK, false), inspect(browser, page, DESK, true));
    let phone = inspect(browser, page, PHONE, false);
    assert_eq!((&light["width"], &phone["width"]), (&DESK.into(), &PHONE.into()));
    for found in [&light, &dark, &phone] {
        assert!(found["wide"].as_f64().unwrap() <= 0.0, "wider than the window: {found}");
        assert_eq!(found["outside"], serde_json::json!([]), "text outside its chart: {found}");
        assert!(found["smallest"].as_f64().unwrap() >= 10.0, "letters too small: {found}");
        for key in ["images", "nan", "links", "remote", "cut"] {
            assert_eq!(found[key], 0, "{key}: {found}");
        }
        assert!(found["svgs"].as_u64().unwrap() >= 3, "{found}");
        let contrast = found["before"].as_f64().unwrap() - found["ink"].as_f64().unwrap();
        assert!(contrast.abs() > 150.0, "{found}");
    }
    assert!(light["before"].as_f64().unwrap() > 200.0 && light["after"].as_f64().unwrap() < 60.0);
    assert!(dark["before"].as_f64().unwrap() < 60.0 && dark["after"].as_f64().unwrap() > 200.0);
}
