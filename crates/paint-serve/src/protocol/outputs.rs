//! The outputs of an answer, as JSON numbers, raw tensors or the best classes.

use serde_json::{Value, json};

use super::VERSION;
use super::request::Request;
use crate::fault::Fault;
use crate::model::Model;

/// The outputs, in the order in which they are given to who asks for none.
const OUTPUTS: [(Kind, &str); 2] =
    [(Kind::Logits, "logits"), (Kind::Probabilities, "probabilities")];

/// What an output holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Logits,
    Probabilities,
}

/// An output that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    kind: Kind,
    name: &'static str,
    is_binary: bool,
    /// The best classes in place of all values.
    best: Option<usize>,
}

/// The names of the outputs.
pub(super) fn names() -> [&'static str; 2] {
    OUTPUTS.map(|(_, name)| name)
}

/// The outputs that a request wants; all where it names none. `binary` is what it says for all of them.
pub(crate) fn wanted(request: &Request, model: &Model, binary: bool) -> Result<Vec<Wanted>, Fault> {
    if request.outputs.is_empty() {
        let all = |(kind, name)| Wanted { kind, name, is_binary: binary, best: None };
        return Ok(OUTPUTS.map(all).to_vec());
    }
    if request.outputs.len() > OUTPUTS.len() {
        let found = format!("{} of them", request.outputs.len());
        return Err(Fault::expected("outputs", names().join(" and "), found));
    }
    let want = |asked: &super::request::OutputAsked| {
        let known = OUTPUTS.into_iter().find(|(_, name)| *name == asked.name);
        let (kind, name) = known.ok_or_else(|| {
            Fault::expected("output", names().join(" or "), format!("{:?}", asked.name))
        })?;
        let best = asked.classification()?.map(|best| model.classes.min(best as usize));
        Ok(Wanted { kind, name, is_binary: asked.binary(binary)?, best })
    };
    request.outputs.iter().map(want).collect()
}

/// An answer on its way to the client.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The JSON, and behind it the raw tensors.
    pub(crate) body: Vec<u8>,
    /// The length of the JSON where tensors follow.
    pub(crate) json_len: Option<usize>,
}

impl Reply {
    /// The answer of `logits` `[B, C]`. `parameters` are flat.
    pub(crate) fn new(
        model: &Model,
        id: Option<&str>,
        parameters: &Value,
        logits: &[f32],
        wanted: &[Wanted],
    ) -> Self {
        let mut raw = Vec::new();
        let outputs: Vec<Value> =
            wanted.iter().map(|wanted| output(*wanted, model, logits, &mut raw)).collect();
        let mut answer = json!({
            "model_name": model.name,
            "model_version": VERSION,
            "parameters": parameters,
            "outputs": outputs,
        });
        if let Some(id) = id {
            answer["id"] = id.into();
        }
        let mut body = answer.to_string().into_bytes();
        let json_len = wanted.iter().any(|wanted| wanted.is_binary).then_some(body.len());
        body.append(&mut raw);
        Self { body, json_len }
    }
}

fn output(wanted: Wanted, model: &Model, logits: &[f32], raw: &mut Vec<u8>) -> Value {
    let rows = logits.chunks_exact(model.classes);
    let b = rows.len();
    let values: Vec<f32> = match wanted.kind {
        Kind::Logits => logits.to_vec(),
        Kind::Probabilities => rows.flat_map(softmax).collect(),
    };
    let start = raw.len();
    let (shape, datatype, data) = if let Some(k) = wanted.best {
        let texts: Vec<String> =
            values.chunks_exact(model.classes).flat_map(|row| best(row, k, model)).collect();
        if wanted.is_binary {
            for text in &texts {
                raw.extend((text.len() as u32).to_le_bytes());
                raw.extend(text.as_bytes());
            }
        }
        (json!([b, k]), "BYTES", (!wanted.is_binary).then(|| json!(texts)))
    } else {
        if wanted.is_binary {
            raw.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        (json!([b, model.classes]), "FP32", (!wanted.is_binary).then(|| json!(values)))
    };
    let mut output = json!({ "name": wanted.name, "datatype": datatype, "shape": shape });
    match data {
        Some(data) => output["data"] = data,
        None => output["parameters"] = json!({ "binary_data_size": raw.len() - start }),
    }
    output
}

/// Probabilities of one row of logits.
fn softmax(row: &[f32]) -> Vec<f32> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = row.iter().map(|z| f64::from(z - top).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| (e / sum) as f32).collect()
}

/// `value:index:label` of the `k` largest values, the largest first.
fn best(row: &[f32], k: usize, model: &Model) -> Vec<String> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
    let text = |class: &usize| {
        let label = model.class_names.get(*class).map(|name| format!(":{name}"));
        format!("{:.6}:{class}{}", row[*class], label.unwrap_or_default())
    };
    order[..k].iter().map(text).collect()
}
