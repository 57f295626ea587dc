//! A request for inference as it comes: JSON, with or without raw tensors behind it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::data::Data;
use crate::fault::Fault;
use crate::options::Mode;
use crate::storage::{Bounds, StreamId};

/// The JSON of a request. What is not known here is ignored, as the protocol asks.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    #[serde(default)]
    pub(crate) id: Option<String>,
    #[serde(default)]
    parameters: Parameters,
    pub(super) inputs: Vec<Input>,
    #[serde(default)]
    pub(super) outputs: Vec<OutputAsked>,
}

/// Parameters are flat.
type Parameters = BTreeMap<String, Parameter>;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Parameter {
    Flag(bool),
    Count(u64),
    Number(f64),
    Text(String),
}

/// A tensor of the request.
#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) datatype: String,
    #[serde(default)]
    parameters: Parameters,
    #[serde(default)]
    pub(super) data: Option<Data>,
}

/// An output that the client asks for.
#[derive(Debug, Deserialize)]
pub(super) struct OutputAsked {
    pub(super) name: String,
    #[serde(default)]
    parameters: Parameters,
}

/// What the parameters of a request say.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ask {
    /// The stream, if the request names one.
    pub(crate) stream: Option<StreamId>,
    /// Where the request stands in its sequence.
    pub(crate) bounds: Bounds,
    /// Whether the images may be learnt from.
    pub(crate) adapt: bool,
    /// When, if the request says so.
    pub(crate) mode: Option<Mode>,
    /// How long the client waits.
    pub(crate) timeout: Option<Duration>,
    /// Whether outputs are raw unless they say otherwise.
    pub(crate) binary: bool,
}

impl Request {
    /// The JSON of a body, and what lies behind it. `json_len` is `Inference-Header-Content-Length`.
    pub(crate) fn parse(body: &[u8], json_len: Option<usize>) -> Result<(Self, &[u8]), Fault> {
        let len = json_len.unwrap_or(body.len());
        let Some((json, raw)) = body.split_at_checked(len) else {
            let found = format!("{len} in a body of {} bytes", body.len());
            let what = "Inference-Header-Content-Length";
            return Err(Fault::expected(what, "at most the length of the body", found));
        };
        let request = serde_json::from_slice(json).map_err(|error| {
            Fault::expected("request", "an inference request as JSON", error.to_string())
        })?;
        Ok((request, raw))
    }

    /// What its parameters say.
    pub(crate) fn ask(&self) -> Result<Ask, Fault> {
        let parameters = &self.parameters;
        let stream = match parameters.get("sequence_id") {
            None => None,
            Some(Parameter::Count(number)) => StreamId::number(*number),
            Some(Parameter::Text(text)) => StreamId::new(text)?,
            Some(other) => {
                let expected = "a string or a non-negative whole number";
                return Err(Fault::expected("sequence_id", expected, format!("{other:?}")));
            }
        };
        let mode = match parameters.get("mode") {
            None => None,
            Some(Parameter::Text(name)) if Mode::from_name(name).is_some() => Mode::from_name(name),
            Some(other) => {
                let expected = Mode::ALL.map(Mode::name).join(" or ");
                return Err(Fault::expected("mode", expected, format!("{other:?}")));
            }
        };
        Ok(Ask {
            stream,
            bounds: Bounds {
                start: flag(parameters, "sequence_start", false)?,
                end: flag(parameters, "sequence_end", false)?,
            },
            adapt: flag(parameters, "adapt", true)?,
            mode,
            timeout: count(parameters, "timeout")?.filter(|us| *us > 0).map(Duration::from_micros),
            binary: flag(parameters, "binary_data_output", false)?,
        })
    }
}

impl Input {
    /// Bytes of this input behind the JSON, if they lie there.
    pub(super) fn binary_size(&self) -> Result<Option<u64>, Fault> {
        count(&self.parameters, "binary_data_size")
    }
}

impl OutputAsked {
    /// Whether it is wanted raw.
    pub(super) fn binary(&self, usual: bool) -> Result<bool, Fault> {
        flag(&self.parameters, "binary_data", usual)
    }

    /// How many of the best classes are wanted in place of the tensor.
    pub(super) fn classification(&self) -> Result<Option<u64>, Fault> {
        Ok(count(&self.parameters, "classification")?.filter(|count| *count > 0))
    }
}

fn flag(parameters: &Parameters, name: &str, usual: bool) -> Result<bool, Fault> {
    match parameters.get(name) {
        None => Ok(usual),
        Some(Parameter::Flag(flag)) => Ok(*flag),
        Some(other) => Err(Fault::expected(name, "true or false", format!("{other:?}"))),
    }
}

fn count(parameters: &Parameters, name: &str) -> Result<Option<u64>, Fault> {
    match parameters.get(name) {
        None => Ok(None),
        Some(Parameter::Count(count)) => Ok(Some(*count)),
        Some(other) => {
            Err(Fault::expected(name, "a non-negative whole number", format!("{other:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(parameters: &str) -> Result<Ask, Fault> {
        let text = format!(r#"{{"inputs": [], "parameters": {parameters}}}"#);
        Request::parse(text.as_bytes(), None)?.0.ask()
    }

    #[test]
    fn parameters_say_stream_mode_and_deadline() {
        let said =
            ask(r#"{"sequence_id": "cam", "mode": "adapt-first", "timeout": 5000, "other": 1.5}"#);
        let said = said.unwrap();
        assert_eq!(said.stream.map(|id| id.to_string()).as_deref(), Some("cam"));
        assert_eq!((said.mode, said.adapt), (Some(Mode::AdaptFirst), true));
        assert_eq!(said.timeout, Some(Duration::from_millis(5)));
        assert_eq!(ask(r#"{"sequence_id": 0}"#).unwrap().stream, None);
        assert_eq!(ask(r#"{"sequence_id": 9}"#).unwrap().stream, StreamId::number(9));
    }

    #[test]
    fn a_parameter_of_another_kind_is_refused_by_name() {
        for (bad, name) in [
            (r#"{"sequence_id": -1}"#, "sequence_id"),
            (r#"{"mode": "later"}"#, "mode"),
            (r#"{"adapt": "no"}"#, "adapt"),
            (r#"{"timeout": true}"#, "timeout"),
        ] {
            let Err(Fault::Request(message)) = ask(bad) else { panic!("{bad} was taken") };
            assert!(message.starts_with(name), "{message}");
        }
        assert!(ask(r#"{"nested": {"a": 1}}"#).is_err());
        assert!(Request::parse(b"{}", Some(3)).is_err());
    }
}
