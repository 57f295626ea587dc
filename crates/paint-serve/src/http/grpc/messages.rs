//! The messages of the protocol that the six calls need, as Protocol Buffers number their fields.

use std::collections::HashMap;

use prost::bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServerLiveResponse {
    #[prost(bool, tag = "1")]
    pub(super) live: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServerReadyResponse {
    #[prost(bool, tag = "1")]
    pub(super) ready: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServerMetadataResponse {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) extensions: Vec<String>,
}

/// The request of `ModelReady` and of `ModelMetadata`; there is one version.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelName {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelReadyResponse {
    #[prost(bool, tag = "1")]
    pub(super) ready: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelMetadataResponse {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) versions: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) platform: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) inputs: Vec<TensorMetadata>,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<TensorMetadata>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TensorMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferParameter {
    #[prost(oneof = "Choice", tags = "1, 2, 3, 4, 5")]
    pub(super) choice: Option<Choice>,
}

/// A parameter's value.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Choice {
    #[prost(bool, tag = "1")]
    Flag(bool),
    #[prost(int64, tag = "2")]
    Whole(i64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(double, tag = "4")]
    Number(f64),
    #[prost(uint64, tag = "5")]
    Count(u64),
}

pub(super) type Parameters = HashMap<String, InferParameter>;

/// The values of a tensor that is not sent raw; those of types that are not read are left out.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferTensorContents {
    #[prost(uint32, repeated, tag = "4")]
    pub(super) uints: Vec<u32>,
    #[prost(float, repeated, tag = "6")]
    pub(super) floats: Vec<f32>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(super) files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelInferRequest {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: Parameters,
    #[prost(message, repeated, tag = "5")]
    pub(super) inputs: Vec<InferInputTensor>,
    #[prost(message, repeated, tag = "6")]
    pub(super) outputs: Vec<InferRequestedOutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(super) raw_input_contents: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferInputTensor {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    pub(super) contents: Option<InferTensorContents>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferRequestedOutputTensor {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(map = "string, message", tag = "2")]
    pub(super) parameters: Parameters,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModelInferResponse {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: Parameters,
    #[prost(message, repeated, tag = "5")]
    pub(super) outputs: Vec<TensorMetadata>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(super) raw_output_contents: Vec<Vec<u8>>,
}
