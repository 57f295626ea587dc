//! Messages to and from the JSON with raw tensors behind it that HTTP has, so that everything is read and checked once.

use serde_json::{Map, Value, json};

use super::messages::{
    Choice, InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse,
    ModelMetadataResponse, Parameters, ServerMetadataResponse, TensorMetadata,
};
use crate::fault::Fault;
use crate::model::Model;
use crate::protocol::{self, Reply};

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

pub(super) fn server() -> ServerMetadataResponse {
    let told = protocol::server();
    let extensions = texts(&told["extensions"]);
    ServerMetadataResponse {
        name: text(&told["name"]),
        version: text(&told["version"]),
        extensions,
    }
}

pub(super) fn metadata(model: &Model) -> ModelMetadataResponse {
    let told = protocol::metadata(model);
    let tensors = |value: &Value| value.as_array().into_iter().flatten().map(tensor).collect();
    ModelMetadataResponse {
        name: text(&told["name"]),
        versions: texts(&told["versions"]),
        platform: text(&told["platform"]),
        inputs: tensors(&told["inputs"]),
        outputs: tensors(&told["outputs"]),
    }
}

fn tensor(told: &Value) -> TensorMetadata {
    let shape = told["shape"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    TensorMetadata { name: text(&told["name"]), datatype: text(&told["datatype"]), shape }
}

/// The body that HTTP would have, and the length of its JSON. `timeout` is the call's own, in microseconds.
pub(super) fn request(
    request: &ModelInferRequest,
    timeout: Option<u64>,
) -> Result<(Vec<u8>, usize), Fault> {
    let mut raw = Vec::new();
    let mut given = request.raw_input_contents.iter();
    let is_raw = !request.raw_input_contents.is_empty();
    let mut inputs = Vec::new();
    for input in &request.inputs {
        let start = raw.len();
        match (given.next(), &input.contents) {
            (Some(bytes), None) => raw.extend_from_slice(bytes),
            (None, Some(contents)) if !is_raw => append(contents, &input.datatype, &mut raw),
            _ => {
                let expected = "all in raw_input_contents, or each in its contents";
                return Err(Fault::expected("inputs", expected, "something else"));
            }
        }
        inputs.push(json!({
            "name": input.name,
            "datatype": input.datatype,
            "shape": input.shape,
            "parameters": { "binary_data_size": raw.len() - start },
        }));
    }
    if given.next().is_some() {
        return Err(Fault::expected("raw_input_contents", "one for each input", "more"));
    }
    let output = |output: &super::messages::InferRequestedOutputTensor| {
        let mut parameters = flat(&output.parameters);
        parameters.insert("binary_data".to_owned(), true.into());
        json!({ "name": output.name, "parameters": parameters })
    };
    let mut parameters = flat(&request.parameters);
    parameters.insert("binary_data_output".to_owned(), true.into());
    if let Some(timeout) = timeout {
        parameters.entry("timeout").or_insert_with(|| timeout.into());
    }
    let json = json!({
        "id": Some(&request.id).filter(|id| !id.is_empty()),
        "parameters": parameters,
        "inputs": inputs,
        "outputs": request.outputs.iter().map(output).collect::<Vec<_>>(),
    });
    let mut body = json.to_string().into_bytes();
    let json_len = body.len();
    body.append(&mut raw);
    Ok((body, json_len))
}

/// Values as they would be raw; the wrong number of them is noticed like any other.
fn append(contents: &InferTensorContents, datatype: &str, raw: &mut Vec<u8>) {
    match datatype {
        // Numbers above 255 have no byte: one missing makes the length wrong.
        "UINT8" => {
            raw.extend(contents.uints.iter().filter_map(|it| u8::try_from(*it).ok()));
        }
        "FP32" => raw.extend(contents.floats.iter().flat_map(|it| it.to_le_bytes())),
        "BYTES" => {
            for bytes in &contents.files {
                raw.extend((bytes.len() as u32).to_le_bytes());
                raw.extend_from_slice(bytes);
            }
        }
        // Refused by its name later on.
        _ => {}
    }
}

fn flat(parameters: &Parameters) -> Map<String, Value> {
    let value = |choice: &Choice| match choice {
        Choice::Flag(flag) => json!(flag),
        Choice::Whole(number) => json!(number),
        Choice::Text(text) => json!(text),
        Choice::Number(number) => json!(number),
        Choice::Count(number) => json!(number),
    };
    let known = parameters.iter().filter_map(|(name, it)| Some((name, it.choice.as_ref()?)));
    known.map(|(name, choice)| (name.clone(), value(choice))).collect()
}

/// The message of an answer.
pub(super) fn response(reply: &Reply) -> Result<ModelInferResponse, Fault> {
    let broken =
        || Fault::Failed("answer: expected JSON and tensors, found something else".to_owned());
    let (json, mut raw) = reply
        .body
        .split_at_checked(reply.json_len.unwrap_or(reply.body.len()))
        .ok_or_else(broken)?;
    let told: Value = serde_json::from_slice(json).map_err(|_| broken())?;
    let (mut outputs, mut contents) = (Vec::new(), Vec::new());
    for output in told["outputs"].as_array().into_iter().flatten() {
        let size = output["parameters"]["binary_data_size"].as_u64().ok_or_else(broken)?;
        let (bytes, rest) = raw.split_at_checked(size as usize).ok_or_else(broken)?;
        raw = rest;
        outputs.push(tensor(output));
        contents.push(bytes.to_vec());
    }
    let parameter = |value: &Value| {
        let choice = match value {
            Value::Bool(flag) => Choice::Flag(*flag),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| Choice::Number(number.as_f64().unwrap_or(f64::NAN)), Choice::Whole),
            other => Choice::Text(text(other)),
        };
        InferParameter { choice: Some(choice) }
    };
    let parameters = told["parameters"].as_object().into_iter().flatten();
    Ok(ModelInferResponse {
        model_name: text(&told["model_name"]),
        model_version: text(&told["model_version"]),
        id: text(&told["id"]),
        parameters: parameters.map(|(name, value)| (name.clone(), parameter(value))).collect(),
        outputs,
        raw_output_contents: contents,
    })
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::super::messages::InferInputTensor;
    use super::*;

    fn asked() -> ModelInferRequest {
        let parameter = |choice| InferParameter { choice: Some(choice) };
        ModelInferRequest {
            model_name: "paint".to_owned(),
            parameters: [("sequence_id".to_owned(), parameter(Choice::Whole(7)))].into(),
            inputs: vec![InferInputTensor {
                name: "images".to_owned(),
                datatype: "UINT8".to_owned(),
                shape: vec![1, 1, 1, 3],
                contents: None,
            }],
            raw_input_contents: vec![vec![1, 2, 3].into()],
            ..ModelInferRequest::default()
        }
    }

    #[test]
    fn a_raw_request_is_json_and_the_same_bytes() {
        let sent = ModelInferRequest::decode(&asked().encode_to_vec()[..]).unwrap();
        let (body, json_len) = request(&sent, Some(5)).unwrap();
        let (json, raw) = body.split_at(json_len);
        let json: Value = serde_json::from_slice(json).unwrap();
        assert_eq!(raw, [1, 2, 3]);
        assert_eq!(json["inputs"][0]["parameters"]["binary_data_size"], 3);
        assert_eq!(json["parameters"]["sequence_id"], 7);
        assert_eq!(json["parameters"]["timeout"], 5);
    }

    #[test]
    fn values_in_contents_are_those_that_are_raw() {
        let mut typed = asked();
        typed.raw_input_contents.clear();
        let contents = InferTensorContents { uints: vec![1, 2, 3], ..Default::default() };
        typed.inputs[0].contents = Some(contents);
        assert_eq!(request(&typed, None).unwrap(), request(&asked(), None).unwrap());
        typed.raw_input_contents.push(vec![1].into());
        assert!(request(&typed, None).is_err(), "both");
        let mut none = asked();
        none.raw_input_contents.clear();
        assert!(request(&none, None).is_err());
        let mut more = asked();
        more.raw_input_contents.push(vec![1].into());
        assert!(request(&more, None).is_err());
    }

    #[test]
    fn an_answer_has_its_tensors_in_order() {
        let json = json!({
            "model_name": "paint", "model_version": "1", "parameters": { "step": 3, "entropy": 0.5, "adapted": true },
            "outputs": [
                { "name": "a", "datatype": "FP32", "shape": [1, 1], "parameters": { "binary_data_size": 4 } },
                { "name": "b", "datatype": "BYTES", "shape": [1], "parameters": { "binary_data_size": 1 } },
            ],
        });
        let json = json.to_string().into_bytes();
        let reply = Reply { json_len: Some(json.len()), body: [&json[..], b"wxyz!"].concat() };
        let told = response(&reply).unwrap();
        assert_eq!(told.raw_output_contents, [b"wxyz".to_vec(), b"!".to_vec()]);
        assert_eq!(told.parameters["step"].choice, Some(Choice::Whole(3)));
        assert_eq!(told.outputs[1].name, "b");
        let torn =
            Reply { json_len: reply.json_len, body: reply.body[..reply.body.len() - 1].to_vec() };
        assert!(response(&torn).is_err());
    }
}
