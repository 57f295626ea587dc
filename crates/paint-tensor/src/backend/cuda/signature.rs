//! The declarations of kernels in Rust against the text of the `.cu` files: the same names in both, the same
//! parameters, and the same members of every structure that is passed by value. Every kernel begins with the wait that
//! lets it start early.

use std::collections::BTreeMap;

use super::compile::Source;
use super::kernel::Signatures;
use super::modules::Kernels;
use super::{attention, distort, gelu_product, training};
use crate::{BLUR_TAPS, ColorOp, Distortion};

/// A function-like macro.
struct Macro<'a> {
    params: Vec<&'a str>,
    body: &'a str,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Pieces of a text: names and numbers whole, everything else one character at a time.
fn tokens(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some(first) = text.chars().next() {
        let end = if is_word(first) {
            text.find(|c| !is_word(c)).unwrap_or(text.len())
        } else {
            first.len_utf8()
        };
        found.push(&text[..end]);
        text = &text[end..];
    }
    found
}

/// What stands between the parenthesis that `text` begins with and its partner, and what follows.
fn parenthesised(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    panic!("no closing parenthesis in {text:?}");
}

/// Parts at the commas outside any parenthesis.
fn arguments(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            parts.push(text[start..at].trim());
            start = at + 1;
        }
    }
    parts.push(text[start..].trim());
    parts
}

impl Macro<'_> {
    fn expand(&self, arguments: &[&str]) -> String {
        let value = |token| match self.params.iter().position(|param| *param == token) {
            Some(at) => arguments[at],
            None => token,
        };
        let text: String = tokens(self.body).into_iter().map(value).collect();
        text.replace(" ##", "##").replace("## ", "##").replace("##", "")
    }
}

/// The text with comments and directives taken out and function-like macros expanded.
fn preprocessed(text: &str) -> String {
    let joined = text.replace("\\\n", " ");
    let lines: Vec<&str> =
        joined.lines().map(|line| line.split("//").next().unwrap_or("").trim()).collect();
    let mut macros = BTreeMap::new();
    for line in &lines {
        let Some(rest) = line.strip_prefix("#define ") else { continue };
        let name = tokens(rest)[0];
        if rest[name.len()..].starts_with('(') {
            let (params, body) = parenthesised(&rest[name.len()..]);
            macros.insert(name, Macro { params: arguments(params), body });
        }
    }
    let mut text: String =
        lines.iter().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    while let Some((at, name)) = first_call(&text, &macros) {
        let (given, rest) = parenthesised(text[at + name.len()..].trim_start());
        let expanded = macros[name].expand(&arguments(given));
        text = format!("{}{expanded}{rest}", &text[..at]);
    }
    text
}

/// Where a macro is first used.
fn first_call<'a>(text: &str, macros: &BTreeMap<&'a str, Macro>) -> Option<(usize, &'a str)> {
    let mut at = 0;
    for token in tokens(text) {
        if let Some((name, _)) = macros.get_key_value(token)
            && text[at + token.len()..].trim_start().starts_with('(')
        {
            return Some((at, *name));
        }
        at += token.len();
    }
    None
}

/// Whether a word of a declaration says how and not what: where a parameter is kept, how a member is aligned.
fn is_attribute(word: &str) -> bool {
    word == "__grid_constant__" || word.starts_with("alignas")
}

/// The type and the name of `const float *x`; a pointer's type is `const *` or `*`.
fn typed(declaration: &str) -> (String, String) {
    let words = declaration.replace('*', " * ");
    let words: Vec<&str> = words.split_whitespace().filter(|word| !is_attribute(word)).collect();
    let name = words.last().expect("a declaration has a name").to_string();
    let kind = match (words[0], words.contains(&"*")) {
        ("const", true) => "const *",
        (_, true) => "*",
        ("const", false) => words[1],
        (plain, false) => plain,
    };
    (kind.to_owned(), name)
}

/// Every kernel of a text, with the types of its parameters.
fn kernels_of(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut kernels = BTreeMap::new();
    for rest in text.split("extern \"C\" __global__ void").skip(1) {
        let mut rest = rest.trim_start();
        for attribute in ["__cluster_dims__", "__launch_bounds__"] {
            if let Some(values) = rest.strip_prefix(attribute) {
                rest = parenthesised(values).1.trim_start();
            }
        }
        let name = tokens(rest)[0];
        let (params, body) = parenthesised(&rest[name.len()..]);
        let body: String = body.split_whitespace().collect();
        assert!(body.starts_with("{after_earlier_work();"), "{name} waits for nothing");
        let types = arguments(params).into_iter().map(|param| typed(param).0).collect();
        assert_eq!(kernels.insert(name.to_owned(), types), None, "{name} is defined twice");
    }
    kernels
}

/// The members of `struct name`: type, name, and number of elements.
fn members(text: &str, name: &str) -> Vec<(String, String, usize)> {
    let start =
        text.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("no struct {name}"));
    let body = &text[start..][..text[start..].find("};").expect("a structure ends")];
    let body = &body[body.find('{').expect("a structure begins") + 1..];
    let mut members = Vec::new();
    // A method ends the list of members.
    for line in body.split("__device__").next().unwrap_or("").split(';') {
        let mut declared = arguments(line).into_iter().filter(|part| !part.is_empty());
        let Some(first) = declared.next() else { continue };
        let base = typed(first).0;
        let pointee = first.split('*').next().unwrap_or("").trim();
        for part in std::iter::once(first.to_owned()).chain(declared.map(|part| {
            if base.ends_with('*') { format!("{pointee} {part}") } else { format!("{base} {part}") }
        })) {
            let (kind, name) = typed(&part);
            let (name, len) = match name.split_once('[') {
                Some((name, len)) => (name.to_owned(), len.trim_end_matches(']').to_owned()),
                None => (name, "1".to_owned()),
            };
            let len = len
                .parse()
                .unwrap_or_else(|_| if len == "TAPS" { BLUR_TAPS } else { panic!("{len}") });
            members.push((kind, name, len));
        }
    }
    members
}

/// How many words of four bytes a structure has in memory.
fn words(text: &str, name: &str) -> usize {
    let word = |(kind, _, len): &(String, String, usize)| {
        len * match kind.as_str() {
            "int" | "u32" | "float" => 1,
            "i64" | "const *" | "*" => 2,
            other => words(text, other),
        }
    };
    members(text, name).iter().map(word).sum()
}

fn check(source: &Source, declared: Signatures) {
    let text = preprocessed(&source.text());
    let found = kernels_of(&text);
    let names = |signatures: &Signatures| -> BTreeMap<String, Vec<String>> {
        let types = |shapes: &Vec<super::param::Shape>| {
            shapes.iter().map(|(name, _)| (*name).to_owned()).collect()
        };
        signatures.iter().map(|(name, shapes)| (name.clone(), types(shapes))).collect()
    };
    assert_eq!(names(&declared), found, "{}", source.name);
    for (name, expected) in declared.into_iter().flat_map(|(_, shapes)| shapes) {
        if !expected.is_empty() {
            let expected: Vec<_> = expected
                .iter()
                .map(|&(kind, name, len)| (kind.to_owned(), name.to_owned(), len))
                .collect();
            assert_eq!(members(&text, name), expected, "struct {name} of {}", source.name);
        }
    }
}

#[test]
fn every_kernel_is_declared_as_it_is_written() {
    let all = [Kernels::signatures(), attention::signatures(), gelu_product::signatures()];
    for (source, declared) in all.into_iter().flatten() {
        check(&source, declared);
    }
}

#[test]
fn rows_of_uploaded_tables_are_as_long_as_the_kernels_read_them() {
    let text = |name: &str| {
        let (source, _) = Kernels::signatures()
            .into_iter()
            .find(|(source, _)| source.name == name)
            .expect("the file is loaded");
        preprocessed(&source.text())
    };
    let training = text("training");
    assert_eq!(words(&training, "Draw"), training::DRAW);
    assert_eq!(words(&training, "Slot"), training::SLOT);
    let look = Distortion {
        colors: ColorOp::ALL.map(|op| (op, 1.0)),
        pad: [0; 2],
        matrix: [0.0; 6],
        blur: [0.0; BLUR_TAPS],
        flip: false,
        seed: 0,
    };
    assert_eq!(words(&text("distort"), "Look"), distort::words(&look).len());
}

#[test]
fn macros_parameters_and_members_are_read() {
    const TEXT: &str = "
        struct Two { int a, b[2]; };
        #define MAKE(name, T) \\
            extern \"C\" __global__ void make_##name(Two two, const T *x, T *out, i64 n) { after_earlier_work(); }
        MAKE(f32, float) MAKE(bf16, bf16)
    ";
    let text = preprocessed(TEXT);
    let types = ["Two", "const *", "*", "i64"].map(str::to_owned).to_vec();
    let expected: BTreeMap<_, _> =
        ["make_f32", "make_bf16"].map(|name| (name.to_owned(), types.clone())).into();
    assert_eq!(kernels_of(&text), expected);
    let int = |name: &str, len| ("int".to_owned(), name.to_owned(), len);
    assert_eq!(members(&text, "Two"), [int("a", 1), int("b", 2)]);
    assert_eq!(words(&text, "Two"), 3);
}
