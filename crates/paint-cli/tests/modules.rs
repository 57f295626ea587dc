//! The modules of a crate lie in layers: none uses, through others, itself. Each method of `methods/` counts as one.

#![expect(clippy::unwrap_used, reason = "a source file that cannot be read fails its test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

/// `lib.rs` and the files of `src/`, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            found.push(path);
        }
    }
    found
}

/// The module of a path of names: the first, and the second too for a method. Nothing for what `lib.rs` itself holds.
fn module(names: &[&str], modules: &BTreeSet<String>) -> Option<String> {
    let method = names.get(..2).filter(|names| names[0] == "methods").map(|names| names.join("::"));
    let known = |name: &String| modules.contains(name);
    method.filter(known).or_else(|| names.first().map(|name| (*name).to_owned()).filter(known))
}

/// The paths of a `use`: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((start, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inside = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut parts) = (0_usize, vec![String::new()]);
    for c in inside.chars() {
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth = if c == '{' { depth + 1 } else { depth - usize::from(c == '}') };
                parts.last_mut().unwrap().push(c);
            }
        }
    }
    let start = start.trim();
    parts.iter().flat_map(|part| expand(part)).map(|path| format!("{start}{path}")).collect()
}

/// The modules that a file uses outside its tests. `home` are the names of its own module.
fn used(text: &str, home: &[&str], modules: &BTreeSet<String>) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| ["\n", line.strip_prefix("pub ").unwrap_or(line)])
        .collect();
    let code = code.split("#[cfg(test)]\nmod tests").next().unwrap();
    // Statements at the start of a line, from their word to the semicolon.
    let statements = |word: &str| -> Vec<String> {
        code.split(';').filter_map(|part| Some(part.rsplit_once(word)?.1.to_owned())).collect()
    };
    let children = statements("\nmod ").into_iter().map(|name| format!("self::{name}"));
    let paths = statements("\nuse ").into_iter().flat_map(|tree| expand(&tree));
    let inline = code.split("crate::").skip(1).map(|rest| {
        let path = rest.split(|c: char| c != ':' && c != '_' && !c.is_alphanumeric()).next();
        format!("crate::{}", path.unwrap_or_default())
    });
    let mut found = BTreeSet::new();
    for path in children.chain(paths).chain(inline) {
        let mut names = path.split("::").peekable();
        let mut at = match names.next() {
            Some("crate") => vec![],
            Some("self") => home.to_vec(),
            Some("super") => home[..home.len() - 1].to_vec(),
            _ => continue,
        };
        while names.next_if_eq(&"super").is_some() {
            at.pop();
        }
        at.extend(names);
        found.extend(module(&at, modules));
    }
    found
}

/// A module that leads back to itself.
fn cycle(edges: &Edges) -> Option<Vec<String>> {
    let mut left = edges.clone();
    // What uses nothing that is left is no part of a cycle.
    loop {
        let free = |(name, uses): (&String, &BTreeSet<String>)| {
            uses.iter().all(|used| !left.contains_key(used)).then(|| name.clone())
        };
        let free: Vec<String> = left.iter().filter_map(free).collect();
        if free.is_empty() {
            break;
        }
        free.iter().for_each(|name| drop(left.remove(name)));
    }
    let steps = |(name, uses): (&String, &BTreeSet<String>)| {
        let uses: Vec<&str> =
            uses.iter().map(String::as_str).filter(|used| left.contains_key(*used)).collect();
        format!("{name} uses {}", uses.join(", "))
    };
    (!left.is_empty()).then(|| left.iter().map(steps).collect())
}

/// Which module of a crate uses which.
fn edges(name: &str) -> Edges {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let files = sources(&root);
    let homes: Vec<Vec<String>> = files
        .iter()
        .map(|file| {
            let path = file.strip_prefix(&root).unwrap().with_extension("");
            let names = path.iter().map(|name| name.to_str().unwrap().to_owned());
            names.filter(|name| name != "mod" && name != "lib").collect()
        })
        .collect();
    let modules: BTreeSet<String> = homes
        .iter()
        .filter(|home| !home.is_empty())
        .map(|home| {
            let depth = if home[0] == "methods" { home.len().min(2) } else { 1 };
            home[..depth].join("::")
        })
        .collect();
    let mut edges = Edges::new();
    for (file, home) in files.iter().zip(&homes).filter(|(_, home)| !home.is_empty()) {
        let home: Vec<&str> = home.iter().map(String::as_str).collect();
        let own = module(&home, &modules).unwrap();
        let mut used = used(&fs::read_to_string(file).unwrap(), &home, &modules);
        used.remove(&own);
        edges.entry(own).or_default().extend(used);
    }
    edges
}

#[test]
fn no_module_uses_itself_through_others() {
    for name in [
        "paint-data",
        "paint-nn",
        "paint-methods",
        "paint-train",
        "paint-run",
        "paint-serve",
        "paint-bench",
    ] {
        assert_eq!(cycle(&edges(name)), None, "{name}");
    }
}

#[test]
fn a_cycle_is_found() {
    let mut edges = edges("paint-methods");
    assert!(edges["methods::paint"].contains("learner"));
    assert!(edges["methods::eata"].contains("methods::tent"));
    assert!(edges["methods"].contains("methods::tent"));
    edges.get_mut("learner").unwrap().insert("methods::tent".to_owned());
    assert!(cycle(&edges).is_some());
}
